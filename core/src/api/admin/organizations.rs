//! Organisations and workspaces.

use serde::Serialize;

use super::Operator;
use super::members::MemberView;
use crate::error::{EntityKind, Error, ProblemCode};
use crate::model::{OrgId, Organization, Workspace};
use crate::service::{NewOrganization, NewRetention, NewWorkspace, Page, PageRequest, Retention};

/// An organisation that was just created.
#[derive(Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub(super) struct CreatedOrganization {
    organization: Organization,
    /// First member, an owner.
    owner: MemberView,
}

impl Operator<'_> {
    pub(super) async fn list_organizations(
        self,
        page: &PageRequest,
    ) -> Result<Page<Organization>, Error> {
        self.provisioning().list_organizations(page).await
    }

    pub(super) async fn create_organization(
        self,
        new: &NewOrganization,
    ) -> Result<CreatedOrganization, Error> {
        let (organization, owner) = self.provisioning().create_organization(new).await?;
        let owner = self.view_of(organization.id, owner).await?;
        Ok(CreatedOrganization {
            organization,
            owner,
        })
    }

    pub(super) async fn get_organization(self, org: &str) -> Result<Organization, Error> {
        self.org(org).await
    }

    pub(super) async fn delete_organization(self, org: &str) -> Result<(), Error> {
        let org = self.org(org).await?;
        self.provisioning().delete_organization(org.id).await
    }

    pub(super) async fn delete_workspace(self, org: &str, workspace: &str) -> Result<(), Error> {
        let (org, found) = self.place(org, workspace).await?;
        self.provisioning().delete_workspace(org, found.id).await
    }

    pub(super) async fn get_retention(
        self,
        org: &str,
        workspace: &str,
    ) -> Result<Retention, Error> {
        let (org, found) = self.place(org, workspace).await?;
        self.provisioning().get_retention(org, found.id).await
    }

    pub(super) async fn set_retention(
        self,
        org: &str,
        workspace: &str,
        new: &NewRetention,
    ) -> Result<Retention, Error> {
        let (org, found) = self.place(org, workspace).await?;
        self.provisioning().set_retention(org, found.id, new).await
    }

    pub(super) async fn list_workspaces(
        self,
        org: &str,
        page: &PageRequest,
    ) -> Result<Page<Workspace>, Error> {
        let org = self.org(org).await?;
        self.provisioning().list_workspaces(org.id, page).await
    }

    pub(super) async fn create_workspace(
        self,
        org: &str,
        new: &NewWorkspace,
    ) -> Result<Workspace, Error> {
        let org = self.org(org).await?;
        self.provisioning().create_workspace(org.id, new).await
    }

    pub(super) async fn get_workspace(
        self,
        org: &str,
        workspace: &str,
    ) -> Result<Workspace, Error> {
        let (_, found) = self.place(org, workspace).await?;
        Ok(found)
    }

    /// Finds the organisation and the workspace that a path names.
    async fn place(self, org: &str, workspace: &str) -> Result<(OrgId, Workspace), Error> {
        let org = self.org(org).await?.id;
        let found = self.workspace_named(org, workspace).await?;
        Ok((org, found.ok_or(Error::not_found(EntityKind::Workspace))?))
    }

    /// Finds the workspace with this identifier or slug. The identifier takes precedence.
    pub(super) async fn workspace_named(
        self,
        org: OrgId,
        name: &str,
    ) -> Result<Option<Workspace>, Error> {
        let provisioning = self.provisioning();
        if let Ok(id) = name.parse()
            && let Some(found) = provisioning.workspace_by_id(org, id).await?
        {
            return Ok(Some(found));
        }
        provisioning.workspace(org, name).await
    }

    /// Finds the workspace that a request names outside its path.
    pub(super) async fn require_workspace(
        self,
        org: &Organization,
        path: &str,
        name: &str,
    ) -> Result<Workspace, Error> {
        match self.workspace_named(org.id, name).await? {
            Some(workspace) => Ok(workspace),
            None => {
                let message = format!(
                    "must be the slug or the identifier of a workspace of {}",
                    org.slug
                );
                Err(Error::invalid(path, ProblemCode::NotFound, message))
            }
        }
    }
}
