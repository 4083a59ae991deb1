//! Retention of workspaces.

use super::Provisioning;
use crate::error::Error;
use crate::keys;
use crate::model::{AuditAction, OrgId, ResourceKind, Workspace, WorkspaceId};
use crate::service::kit::audit::{Actor, AuditedOperation, state};
use crate::service::tasks::ScheduledTask;
use crate::service::workspace::retention::{NewRetention, Retention, StoredRetention};

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
    /// [`KnowledgeService::set_retention`](crate::service::KnowledgeService::set_retention) does.
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
                if transaction.read::<Workspace>(&key).await?.is_none() {
                    return Err(Error::NotFound { what: "workspace" });
                }
                let key = keys::retention(org, workspace);
                let before = transaction.read::<StoredRetention>(&key).await?;
                let before = before.unwrap_or_default();
                let new = new.filter(|new| **new != before.retention);
                let Some(new) = new else {
                    return transaction.done(before.retention);
                };
                let now = env.now();
                let resource = (ResourceKind::Workspace, workspace.0);
                AuditedOperation::begin(&transaction, env, now).record(
                    &mut transaction,
                    Actor::operator(org),
                    AuditAction::RetentionUpdate,
                    resource,
                    Some(state(&before.retention)),
                    Some(state(new)),
                );
                let task = ScheduledTask::Retention { org, workspace };
                let after = before.changed_to(new, now);
                after.schedule(&mut transaction, task, Some(now));
                transaction.done(new.clone())
            })
            .await
    }
}
