//! Access to a workspace: open to every member of the organisation, or private.
//!
//! The record of the organisation lists its private workspaces. Every operation reads that record
//! and its commit checks it, so that opening or closing a workspace takes effect for everything at
//! once. It publishes no events: like a change of a role or of a team, it changes for whom memories
//! exist and not the memories.

use crate::access::RoleRef;
use crate::error::{EntityKind, Error, ProblemCode};
use crate::keys;
use crate::limits::PRIVATE_WORKSPACES_MAX;
use crate::model::{
    AuditAction, OrgId, Organization, ResourceKind, Workspace, WorkspaceAccess, WorkspaceId,
};
use crate::operation::Operation;
use crate::request::request;
use crate::request::rules::Parsed;
use crate::service::access::principal::Denial;
use crate::service::audit::write::{Actor, AuditedOperation};
use crate::service::operation::{Authorized, Prefetch};
use crate::service::{Caller, Provisioning, Workspaces};
use crate::store::Transaction;

request! {
    /// New access to a workspace.
    #[derive(Copy)]
    pub struct NewWorkspaceAccess {
        /// Access: its people are all members (`open`), or those with a role in it (`private`).
        access: WorkspaceAccess as Parsed<WorkspaceAccess>,
    }
}

/// # Access
impl Workspaces<'_> {
    /// Opens a workspace to every member of the organisation, or makes it private.
    ///
    /// The people of a private workspace are those who hold a role in it, and owners. For everybody
    /// else it does not exist, with everything in it, from the commit on. A workspace that has the
    /// access already is unchanged.
    ///
    /// # Errors
    /// Those of [`Operation::SetWorkspaceAccess`]; [`Error::InvalidRequest`] for an organisation
    /// with the maximum number of private workspaces; [`Error::Forbidden`] for a credential with a
    /// list of audience labels, and for a caller that would not be one of the people of the private
    /// workspace.
    pub async fn set_access(
        self,
        caller: &Caller,
        workspace: WorkspaceId,
        new: &NewWorkspaceAccess,
    ) -> Result<Workspace, Error> {
        self.service.checks().check(new)?;
        let access = new.access;
        self.service
            .perform(Operation::SetWorkspaceAccess, caller, |caller| async move {
                let mut op = caller.in_workspace(workspace, Prefetch::none()).await?;
                // It decides for whom memories exist that the list may not name.
                if op.principal.has_audience_list() {
                    return Err(Denial::OutOfScope.into());
                }
                let before = op.workspace().clone();
                if before.access == access {
                    return op.done(before);
                }
                if access == WorkspaceAccess::Private && !op.would_remain(workspace).await? {
                    return Err(Error::forbidden(
                        "only an owner, or a member with a role in the workspace, can make it \
                         private; others would no longer see it",
                    ));
                }
                let (org, key) = (
                    op.principal.org.clone(),
                    keys::workspace(op.org(), workspace),
                );
                put_private(&mut op.transaction, org, workspace, access)?;
                let after = Workspace {
                    access,
                    ..before.clone()
                };
                op.transaction.put(key, &after);
                let resource = (ResourceKind::Workspace, workspace.0);
                op.changed(AuditAction::WorkspaceUpdate, resource, &before, &after);
                op.done(after)
            })
            .await
    }
}

impl Authorized<'_> {
    /// Returns true if the caller is one of the people of a workspace that is, or becomes, private.
    async fn would_remain(&mut self, workspace: WorkspaceId) -> Result<bool, Error> {
        if self.principal.is_owner() {
            return Ok(true);
        }
        let role = keys::workspace_role(self.org(), self.principal.member_id(), workspace);
        Ok(self.transaction.get::<RoleRef>(&role).await?.is_some())
    }
}

impl Provisioning<'_> {
    /// Opens a workspace to every member of the organisation, or makes it private, as
    /// [`Workspaces::set_access`] does.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::InvalidRequest`] for an organisation with the maximum number
    /// of private workspaces.
    pub async fn set_workspace_access(
        &self,
        org: OrgId,
        workspace: WorkspaceId,
        new: &NewWorkspaceAccess,
    ) -> Result<Workspace, Error> {
        self.service.checks().check(new)?;
        let (access, env) = (new.access, self.service.env());
        self.service
            .transact(|mut transaction| async move {
                let (place, key) = (keys::org(org), keys::workspace(org, workspace));
                let owner = transaction.get::<Organization>(&place).await?;
                let owner = owner.ok_or(Error::not_found(EntityKind::Organization))?;
                let before = transaction.get::<Workspace>(&key).await?;
                let before = before.ok_or(Error::not_found(EntityKind::Workspace))?;
                if before.access == access {
                    return Ok(transaction.done(before));
                }
                put_private(&mut transaction, owner, workspace, access)?;
                let after = Workspace {
                    access,
                    ..before.clone()
                };
                transaction.put(key, &after);
                let (actor, action) = (Actor::operator(org), AuditAction::WorkspaceUpdate);
                let resource = (ResourceKind::Workspace, workspace.0);
                let operation = AuditedOperation::begin(&transaction, env, env.now());
                operation.changed(&mut transaction, actor, action, resource, &before, &after);
                Ok(transaction.done(after))
            })
            .await
    }
}

/// Lists a workspace among the private ones of its organisation, or no longer.
///
/// # Errors
/// [`Error::InvalidRequest`] if the organisation has the maximum number of them.
pub(in crate::service) fn put_private(
    transaction: &mut Transaction,
    mut org: Organization,
    workspace: WorkspaceId,
    access: WorkspaceAccess,
) -> Result<(), Error> {
    let is_changed = match access {
        WorkspaceAccess::Open => org.private.remove(&workspace),
        WorkspaceAccess::Private => org.private.insert(workspace),
    };
    if org.private.len() > PRIVATE_WORKSPACES_MAX {
        let message = format!(
            "must be open: an organisation has at most {PRIVATE_WORKSPACES_MAX} private workspaces"
        );
        return Err(Error::invalid("access", ProblemCode::TooLarge, message));
    }
    if is_changed {
        transaction.put(keys::org(org.id), &org);
    }
    Ok(())
}
