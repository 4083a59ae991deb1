//! Retention of workspaces, for the operator.

use super::new_retention::{NewRetention, Retention};
use super::retention_state::RetentionState;
use crate::error::{EntityKind, Error};
use crate::keys;
use crate::model::{AuditAction, OrgId, ResourceKind, Workspace, WorkspaceId};
use crate::service::Provisioning;
use crate::service::audit::write::{self, Actor, AuditedOperation};

impl Provisioning<'_> {
    /// Reads the retention of a workspace.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub async fn get_retention(
        &self,
        org: OrgId,
        workspace: WorkspaceId,
    ) -> Result<Retention, Error> {
        self.retention(org, workspace, None).await
    }

    /// Sets the retention of a workspace, as
    /// [`Workspaces::set_retention`](crate::service::Workspaces::set_retention) does.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a number of days outside its range; [`Error::NotFound`].
    pub async fn set_retention(
        &self,
        org: OrgId,
        workspace: WorkspaceId,
        new: &NewRetention,
    ) -> Result<Retention, Error> {
        self.service.checks().check(new)?;
        let new = Retention::from(new);
        self.retention(org, workspace, Some(&new)).await
    }

    /// Sets the retention of a workspace, if there is a new one, and returns it.
    async fn retention(
        &self,
        org: OrgId,
        workspace: WorkspaceId,
        new: Option<&Retention>,
    ) -> Result<Retention, Error> {
        let env = self.service.env();
        self.service
            .transact(|mut transaction| async move {
                let key = keys::workspace(org, workspace);
                if transaction.get::<Workspace>(&key).await?.is_none() {
                    return Err(Error::not_found(EntityKind::Workspace));
                }
                let state = RetentionState::read(&mut transaction, org, workspace).await?;
                let before = &state.stored.retention;
                let Some(new) = new.filter(|new| *new != before) else {
                    return Ok(transaction.done(before.clone()));
                };
                let now = env.now();
                let resource = (ResourceKind::Workspace, workspace.0);
                AuditedOperation::begin(&transaction, env, now).record(
                    &mut transaction,
                    Actor::operator(org),
                    AuditAction::RetentionUpdate,
                    resource,
                    Some(write::state(before)),
                    Some(write::state(new)),
                );
                let after = state.changed_to(new, now);
                after.schedule(&mut transaction, Some(now));
                Ok(transaction.done(new.clone()))
            })
            .await
    }
}
