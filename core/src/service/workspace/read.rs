//! Workspaces as callers see them. Provisioning creates them.

use crate::error::Error;
use crate::keys;
use crate::model::{Workspace, WorkspaceId};
use crate::operation::Operation;
use crate::service::operation::Prefetch;
use crate::service::page::{Listing, Page, PageRecord, PageRequest};
use crate::service::{Caller, KnowledgeService};
use crate::store::{Direction, Key};

/// # Workspaces
impl KnowledgeService {
    /// Lists the workspaces in the scope of the credential, in order of creation.
    ///
    /// These are all workspaces of the organisation, or those that the credential is scoped to.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an invalid page; [`Error::Unauthenticated`].
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("../example.txt")]
    /// use knowledge_core::service::PageRequest;
    ///
    /// let found = service.list_workspaces(&viewer, &PageRequest::default()).await?.data;
    /// let slugs: Vec<&str> = found.iter().map(|workspace| workspace.slug.as_str()).collect();
    /// assert_eq!(slugs, ["support"]);
    /// // By default, new memories are for the members of their workspace.
    /// let support = service.get_workspace(&viewer, found[0].id).await?;
    /// assert_eq!(support.audience.to_string(), "workspace:support");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn list_workspaces(
        &self,
        caller: &Caller,
        page: &PageRequest,
    ) -> Result<Page<Workspace>, Error> {
        self.perform(Operation::ListWorkspaces, caller, |caller| async move {
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
    /// [`Error::Unauthenticated`]; [`Error::NotFound`]; [`Error::Forbidden`] for a credential that
    /// is scoped to other workspaces.
    pub async fn get_workspace(
        &self,
        caller: &Caller,
        workspace: WorkspaceId,
    ) -> Result<Workspace, Error> {
        self.perform(Operation::GetWorkspace, caller, |caller| async move {
            let op = caller.in_workspace(workspace, Prefetch::none()).await?;
            let found = op.workspace().clone();
            op.done(found)
        })
        .await
    }
}
