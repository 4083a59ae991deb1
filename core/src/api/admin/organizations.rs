//! Organisations and workspaces.

use serde::Serialize;

use super::Operator;
use super::members::MemberView;
use crate::error::{EntityKind, Error, ProblemCode};
use crate::model::{OrgId, Organization, Workspace};
use crate::service::{
    NewOrganization, NewRetention, NewWorkspace, NewWorkspaceAccess, Page, PageRequest, Retention,
};

/// An organisation that was just created.
#[derive(Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub(super) struct CreatedOrganization {
    organization: Organization,
    /// First member, an owner.
    owner: MemberView,
}

of_organization! {
    delete_organization() -> () = delete_organization;
    list_workspaces(page: &PageRequest) -> Page<Workspace> = list_workspaces;
    create_workspace(new: &NewWorkspace) -> Workspace = create_workspace;
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

    pub(super) async fn delete_workspace(self, org: &str, workspace: &str) -> Result<(), Error> {
        let (org, workspace) = self.in_path(org, workspace).await?;
        self.provisioning()
            .delete_workspace(org, workspace.id)
            .await
    }

    pub(super) async fn set_workspace_access(
        self,
        org: &str,
        workspace: &str,
        new: &NewWorkspaceAccess,
    ) -> Result<Workspace, Error> {
        let (org, workspace) = self.in_path(org, workspace).await?;
        self.provisioning()
            .set_workspace_access(org, workspace.id, new)
            .await
    }

    pub(super) async fn get_retention(
        self,
        org: &str,
        workspace: &str,
    ) -> Result<Retention, Error> {
        let (org, workspace) = self.in_path(org, workspace).await?;
        self.provisioning().get_retention(org, workspace.id).await
    }

    pub(super) async fn set_retention(
        self,
        org: &str,
        workspace: &str,
        new: &NewRetention,
    ) -> Result<Retention, Error> {
        let (org, workspace) = self.in_path(org, workspace).await?;
        self.provisioning()
            .set_retention(org, workspace.id, new)
            .await
    }

    pub(super) async fn get_workspace(
        self,
        org: &str,
        workspace: &str,
    ) -> Result<Workspace, Error> {
        Ok(self.in_path(org, workspace).await?.1)
    }

    /// Finds the organisation and the workspace that a path names.
    async fn in_path(self, org: &str, workspace: &str) -> Result<(OrgId, Workspace), Error> {
        let org = self.org(org).await?.id;
        Ok((org, self.workspace_in_path(org, workspace).await?))
    }

    /// Finds the workspace that a path names.
    pub(super) async fn workspace_in_path(
        self,
        org: OrgId,
        name: &str,
    ) -> Result<Workspace, Error> {
        let workspace = self.workspace_named(org, name).await?;
        workspace.ok_or(Error::not_found(EntityKind::Workspace))
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
