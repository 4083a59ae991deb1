//! Workspaces as callers see them. Provisioning creates them.

use crate::error::Error;
use crate::keys;
use crate::model::{Workspace, WorkspaceId};
use crate::operation::Operation;
use crate::service::operation::Prefetch;
use crate::service::page::{Listing, Page, PageRecord, PageRequest};
use crate::service::{Caller, Workspaces};
use crate::store::{Direction, Key};

impl Workspaces<'_> {
    /// Lists the workspaces in the scope of the credential, in order of creation.
    ///
    /// These are all workspaces of the organisation, or those that the credential is scoped to.
    ///
    /// # Errors
    /// Those of [`Operation::ListWorkspaces`].
    pub async fn list(self, caller: &Caller, page: &PageRequest) -> Result<Page<Workspace>, Error> {
        self.service
            .perform(Operation::ListWorkspaces, caller, |caller| async move {
                let range = keys::workspaces(caller.org());
                let listing = Listing::new("workspaces", &(), range, Direction::Forward);
                let prefetch = Prefetch::page(&listing, page);
                let mut op = caller.in_organization(None, prefetch).await?;
                let caller = &op.principal;
                let show = |_: &Key, workspace: Workspace| {
                    let known = Some(workspace).filter(|workspace| caller.works_in(workspace.id));
                    Ok(PageRecord::visible(known))
                };
                let found = listing.page(&mut op.transaction, page, show).await?;
                op.done(found)
            })
            .await
    }

    /// Reads one workspace.
    ///
    /// # Errors
    /// Those of [`Operation::GetWorkspace`]; [`Error::Forbidden`] for a credential that is scoped
    /// to other workspaces.
    pub async fn get(self, caller: &Caller, workspace: WorkspaceId) -> Result<Workspace, Error> {
        self.service
            .perform(Operation::GetWorkspace, caller, |caller| async move {
                let op = caller.in_workspace(workspace, Prefetch::none()).await?;
                let found = op.workspace().clone();
                op.done(found)
            })
            .await
    }
}
