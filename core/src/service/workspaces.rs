//! Workspaces, as their callers see them. Making them is provisioning's.

use super::KnowledgeService;
use super::page::{Listing, Page, PageRequest};
use crate::access::{Credential, CredentialKind, Principal};
use crate::error::Error;
use crate::model::{Workspace, WorkspaceId};
use crate::keys;
use crate::store::{Direction, Key};

impl KnowledgeService {
    /// The workspaces that the credential works in, in the order they were made: all of the organisation, or those it
    /// is narrowed to.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a wrong page; [`Error::Unauthenticated`].
    pub async fn list_workspaces(
        &self,
        credential: &Credential,
        page: &PageRequest,
    ) -> Result<Page<Workspace>, Error> {
        self.transact(|mut reading| async move {
            let now = self.env().now();
            let caller =
                Principal::recognise(&mut reading, credential, CredentialKind::Bearer, now).await?;
            let range = keys::workspaces(caller.org_id());
            let listing = Listing::new("workspaces", &(), range, Direction::Forward);
            let show = |_: &Key, workspace: Workspace| {
                Ok(Some(workspace).filter(|workspace| caller.works_in(workspace.id)))
            };
            reading.done(listing.page(self.store(), page, show).await?)
        })
        .await
    }

    /// One workspace.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::NotFound`]; [`Error::Forbidden`] for a credential that is narrowed to
    /// others.
    pub async fn workspace(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
    ) -> Result<Workspace, Error> {
        self.transact(|mut reading| async move {
            let now = self.env().now();
            let caller =
                Principal::recognise(&mut reading, credential, CredentialKind::Bearer, now).await?;
            let (found, _) = caller.enter_for_any(&mut reading, workspace, &[]).await?;
            reading.done(found)
        })
        .await
    }
}
