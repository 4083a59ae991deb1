//! Custom roles.

use http::StatusCode;

use super::{Call, Data};
use crate::access::Credential;
use crate::api::HandlerResult;
use crate::api::body::Body;
use crate::api::headers;
use crate::api::response::ApiResponse;
use crate::model::{CustomRoleUpdate, NewCustomRole, RoleActions, RoleActionsUpdate};
use crate::service::{DeleteRole, WithEtag, check_actions};

/// Reads the lists of a role's actions, each of which may be omitted.
fn actions(body: &mut Body) -> Option<RoleActionsUpdate> {
    body.object("actions", |actions| RoleActionsUpdate {
        allow: actions.actions("allow"),
        deny: actions.actions("deny"),
    })
}

impl Call<'_> {
    pub(super) async fn create_custom_role(&self, credential: &Credential) -> HandlerResult {
        let mut body = Body::parse(self.request.body())?;
        body.require("base_role");
        let (name, slug) = (body.name("name", self.service.limits()), body.slug("slug"));
        let base_role = body.parsed("base_role");
        let description = body.description("description");
        let workspace_id = body.id("workspace_id");
        let lists = actions(&mut body).unwrap_or_default();
        let actions = lists.applied_to(RoleActions::default());
        check_actions(body.problems(), &actions);
        let new = name.zip(slug).zip(base_role);
        let ((name, slug), base_role) = body.finish(new)?;
        let new = NewCustomRole {
            name,
            slug,
            base_role,
            description: description.unwrap_or_default(),
            workspace_id,
            actions,
        };
        let role = self
            .service
            .create_custom_role(credential, self.org_slug(), &new)
            .await?;
        let WithEtag { value, etag } = WithEtag::strong(role);
        Ok(ApiResponse::json(StatusCode::CREATED, &Data { data: value }).etag(&etag))
    }

    pub(super) async fn custom_role(&self, credential: &Credential) -> HandlerResult {
        let WithEtag { value, etag } = self
            .service
            .custom_role(credential, self.org_slug(), self.role())
            .await?;
        Ok(ApiResponse::json(StatusCode::OK, &Data { data: value }).etag(&etag))
    }

    pub(super) async fn delete_custom_role(&self, credential: &Credential) -> HandlerResult {
        let mut body = Body::parse_optional(self.request.body())?;
        let request = DeleteRole {
            reassign_to: body.parsed("reassign_to"),
        };
        let request = body.finish(Some(request))?;
        self.service
            .delete_custom_role(credential, self.org_slug(), self.role(), &request)
            .await?;
        Ok(ApiResponse::empty(StatusCode::NO_CONTENT))
    }

    pub(super) async fn update_custom_role(&self, credential: &Credential) -> HandlerResult {
        let mut body = Body::parse_optional(self.request.body())?;
        let update = CustomRoleUpdate {
            name: body.text("name"),
            slug: body.text("slug"),
            description: body.text("description"),
            base_role: body.parsed("base_role"),
            is_active: body.boolean("is_active"),
            actions: actions(&mut body),
        };
        body.problems()
            .note(update.validate(self.service.limits()))?;
        let update = body.finish(Some(update))?;
        let if_match = headers::if_match(self.request.headers());
        let (org, role) = (self.org_slug(), self.role());
        let WithEtag { value, etag } = self
            .service
            .update_custom_role(credential, org, role, &update, if_match.as_ref())
            .await?;
        Ok(ApiResponse::json(StatusCode::OK, &Data { data: value }).etag(&etag))
    }

    pub(super) async fn list_custom_roles(&self, credential: &Credential) -> HandlerResult {
        let roles = self
            .service
            .list_custom_roles(credential, self.org_slug())
            .await?;
        Ok(ApiResponse::json(StatusCode::OK, &Data { data: roles }))
    }
}
