//! Removal of organisations and workspaces.

use super::Provisioning;
use crate::error::{EntityKind, Error};
use crate::keys;
use crate::limits::REMOVALS_RUNNING_MAX;
use crate::model::{AuditAction, OrgId, Organization, ResourceKind, Workspace, WorkspaceId};
use crate::service::audit::write::{Actor, AuditedOperation, state};
use crate::service::tasks::ScheduledTask;

impl Provisioning<'_> {
    /// Removes a workspace with everything in it.
    ///
    /// From the commit on, nobody can use anything of it, and its webhooks and subscriptions receive
    /// nothing. [`KnowledgeService::maintain`](crate::service::KnowledgeService::maintain) deletes
    /// its data. The slug stays taken, as labels `workspace:SLUG` may remain, which cover nobody any
    /// more. The audit log keeps what was done there.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Conflict`] while 100 removed workspaces of the organisation
    /// wait for maintenance.
    pub async fn delete_workspace(&self, org: OrgId, workspace: WorkspaceId) -> Result<(), Error> {
        let env = self.service.env();
        self.service
            .transact(|mut transaction| async move {
                let (place, key) = (keys::org(org), keys::workspace(org, workspace));
                let found = transaction.get::<Organization>(&place).await?;
                let mut owner = found.ok_or(Error::not_found(EntityKind::Organization))?;
                let found = transaction.get::<Workspace>(&key).await?;
                let found = found.ok_or(Error::not_found(EntityKind::Workspace))?;
                if owner.removing.len() >= REMOVALS_RUNNING_MAX {
                    return Err(Error::Conflict);
                }
                let now = env.now();
                transaction.delete(key);
                transaction.delete(keys::workspace_slug(org, &found.slug));
                transaction.put(keys::former_workspace(org, &found.slug), &workspace);
                owner.removing.push(workspace);
                transaction.put(place, &owner);
                let key = None;
                let task = ScheduledTask::FormerWorkspace {
                    org,
                    workspace,
                    key,
                };
                task.schedule(&mut transaction, now, env);
                let (actor, action) = (Actor::operator(org), AuditAction::WorkspaceDelete);
                let resource = (ResourceKind::Workspace, workspace.0);
                let operation = AuditedOperation::begin(&transaction, env, now);
                let before = Some(state(&found));
                operation.record(&mut transaction, actor, action, resource, before, None);
                Ok(transaction.done(()))
            })
            .await
    }

    /// Removes an organisation with everything in it.
    ///
    /// From the commit on, its credentials are invalid, its endpoints receive nothing, and its slug
    /// is free. [`KnowledgeService::maintain`](crate::service::KnowledgeService::maintain) deletes
    /// its data, the audit log included, and finally the record of the removal. The beginning and
    /// the end of the removal are logged, as nothing else remains of it.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub async fn delete_organization(&self, org: OrgId) -> Result<(), Error> {
        let env = self.service.env();
        let removed = self
            .service
            .transact(|mut transaction| async move {
                let place = keys::org(org);
                let found = transaction.get::<Organization>(&place).await?;
                let found = found.ok_or(Error::not_found(EntityKind::Organization))?;
                let now = env.now();
                transaction.delete(place);
                transaction.delete(keys::org_slug(&found.slug));
                transaction.put(keys::former_org(org), &now);
                let key = None;
                ScheduledTask::FormerOrg { org, key }.schedule(&mut transaction, now, env);
                Ok(transaction.done(found.slug))
            })
            .await?;
        let request_id = self.client.request_id.map(tracing::field::display);
        tracing::info!(slug = %removed, %org, request_id, "removal of an organisation began");
        Ok(())
    }
}
