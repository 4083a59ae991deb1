//! Workspaces as callers see them. Provisioning creates them.

use crate::access::{Credential, CredentialKind};
use crate::error::Error;
use crate::keys;
use crate::model::{Workspace, WorkspaceId};
use crate::service::KnowledgeService;
use crate::service::kit::page::{Listing, Page, PageRequest};
use crate::service::kit::principal::Principal;
use crate::store::{Direction, Key};

impl KnowledgeService {
    /// Lists the workspaces in the scope of the credential, in order of creation.
    ///
    /// These are all workspaces of the organisation, or those that the credential is scoped to.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an invalid page; [`Error::Unauthenticated`].
    pub async fn list_workspaces(
        &self,
        credential: &Credential,
        page: &PageRequest,
    ) -> Result<Page<Workspace>, Error> {
        self.transact(|mut reading| async move {
            let now = self.env().now();
            let caller =
                Principal::authenticate(&mut reading, credential, CredentialKind::Bearer, now)
                    .await?;
            let range = keys::workspaces(caller.org_id());
            let listing = Listing::new("workspaces", &(), range, Direction::Forward);
            let show = |_: &Key, workspace: Workspace| {
                Ok(Some(workspace).filter(|workspace| caller.works_in(workspace.id)))
            };
            reading.done(listing.page(self.store(), page, show).await?)
        })
        .await
    }

    /// Reads one workspace.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::NotFound`]; [`Error::Forbidden`] for a credential that
    /// is scoped to other workspaces.
    pub async fn workspace(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
    ) -> Result<Workspace, Error> {
        self.transact(|mut reading| async move {
            let now = self.env().now();
            let caller =
                Principal::authenticate(&mut reading, credential, CredentialKind::Bearer, now)
                    .await?;
            let (found, _) = caller
                .authorize_in_for_any(&mut reading, workspace, &[])
                .await?;
            reading.done(found)
        })
        .await
    }
}
