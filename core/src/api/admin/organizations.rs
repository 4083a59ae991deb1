//! Organisations and workspaces.

use serde::Serialize;

use super::Call;
use super::members::MemberView;
use crate::access::{BuiltInRole, RoleRef};
use crate::api::HandlerResult;
use crate::api::body::Body;
use crate::api::query::Query;
use crate::error::{Error, ProblemCode};
use crate::model::{MemberKind, OrgId, Organization, Workspace};
use crate::service::{NewMember, NewWorkspace};

/// An organisation that was just created.
#[derive(Serialize)]
struct CreatedOrganization {
    organization: Organization,
    owner: MemberView,
}

impl Call<'_> {
    pub(super) async fn list_organizations(&self) -> HandlerResult {
        let mut query = Query::parse(self.request.uri());
        let page = query.page();
        let page = query.finish(page)?;
        Ok(self.ok(&self.provisioning().list_organizations(&page).await?))
    }

    pub(super) async fn create_organization(&self) -> HandlerResult {
        let mut body = Body::parse(self.request.body())?;
        let (slug, name) = (body.slug("slug"), body.name("name", self.service.limits()));
        body.require("owner");
        let owner = body.object("owner", |owner| {
            let (handle, name) = (
                owner.slug("handle"),
                owner.name("name", self.service.limits()),
            );
            Some(NewMember {
                kind: MemberKind::User,
                handle: handle?,
                name: name?,
                role: RoleRef::BuiltIn(BuiltInRole::Owner),
                teams: Vec::new(),
            })
        });
        let whole = slug.zip(name).zip(owner.flatten());
        let ((slug, name), owner) = body.finish(whole)?;
        let (organization, owner) = self
            .provisioning()
            .create_organization(&name, &slug, &owner)
            .await?;
        let owner = self.view_of(organization.id, owner).await?;
        Ok(self.created(&CreatedOrganization {
            organization,
            owner,
        }))
    }

    pub(super) async fn list_workspaces(&self) -> HandlerResult {
        let mut query = Query::parse(self.request.uri());
        let page = query.page();
        let page = query.finish(page)?;
        let org = self.org().await?;
        Ok(self.ok(&self.provisioning().list_workspaces(org.id, &page).await?))
    }

    pub(super) async fn create_workspace(&self) -> HandlerResult {
        let mut body = Body::parse(self.request.body())?;
        let (slug, name) = (body.slug("slug"), body.name("name", self.service.limits()));
        let audience = body.parsed("audience");
        let (slug, name) = body.finish(slug.zip(name))?;
        let new = NewWorkspace {
            name,
            slug,
            audience,
        };
        let org = self.org().await?;
        Ok(self.created(&self.provisioning().create_workspace(org.id, &new).await?))
    }

    pub(super) async fn workspace(&self) -> HandlerResult {
        let org = self.org().await?;
        let found = self
            .workspace_named(org.id, self.parameter("workspace"))
            .await?;
        Ok(self.ok(&found.ok_or(Error::NotFound { what: "workspace" })?))
    }

    /// Finds the workspace with this identifier or slug. The identifier takes precedence.
    pub(super) async fn workspace_named(
        &self,
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
        &self,
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
