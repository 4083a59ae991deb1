//! Members and their roles.

use http::StatusCode;

use super::{Call, Data};
use crate::access::Credential;
use crate::api::HandlerResult;
use crate::api::body::Body;
use crate::api::headers;
use crate::api::query::Query;
use crate::api::response::ApiResponse;
use crate::model::{MemberId, MemberKind, WorkspaceId};
use crate::service::{
    MemberAssignment, MemberDetails, MemberUpdate, NewMember, WithEtag, check_teams,
};

fn with_etag(status: StatusCode, found: WithEtag<MemberDetails>) -> ApiResponse {
    ApiResponse::json(status, &Data { data: found.value }).etag(&found.etag)
}

impl Call<'_> {
    pub(super) async fn list_members(&self, credential: &Credential) -> HandlerResult {
        let mut query = Query::parse(self.request.uri());
        let page = query.page();
        let page = query.finish(page)?;
        let found = self
            .service
            .list_members(credential, self.org_slug(), &page)
            .await?;
        Ok(ApiResponse::json(StatusCode::OK, &found))
    }

    pub(super) async fn member(&self, credential: &Credential) -> HandlerResult {
        let found = self
            .service
            .member(credential, self.org_slug(), self.member_id())
            .await?;
        Ok(with_etag(StatusCode::OK, found))
    }

    pub(super) async fn add_member(&self, credential: &Credential) -> HandlerResult {
        let mut body = Body::parse(self.request.body())?;
        body.require("role");
        let kind = body.parsed("kind").unwrap_or(MemberKind::User);
        let (handle, name) = (
            body.slug("handle"),
            body.name("name", self.service.limits()),
        );
        let role = body.parsed("role");
        let teams: Vec<String> = body.texts("teams").unwrap_or_default();
        check_teams(body.problems(), &teams);
        let (handle, (name, role)) = body.finish(handle.zip(name.zip(role)))?;
        let new = NewMember {
            kind,
            handle,
            name,
            role,
            teams,
        };
        let added = self
            .service
            .add_member(credential, self.org_slug(), &new)
            .await?;
        Ok(with_etag(StatusCode::CREATED, added))
    }

    pub(super) async fn update_member(&self, credential: &Credential) -> HandlerResult {
        let mut body = Body::parse_optional(self.request.body())?;
        let update = MemberUpdate {
            name: body.text("name"),
            role: body.parsed("role"),
            teams: body.texts("teams"),
        };
        update.check(body.problems(), self.service.limits());
        let update = body.finish(Some(update))?;
        let if_match = headers::if_match(self.request.headers());
        let (org, member) = (self.org_slug(), self.member_id());
        let changed = self
            .service
            .update_member(credential, org, member, &update, if_match.as_ref())
            .await?;
        Ok(with_etag(StatusCode::OK, changed))
    }

    pub(super) async fn remove_member(&self, credential: &Credential) -> HandlerResult {
        self.service
            .remove_member(credential, self.org_slug(), self.member_id())
            .await?;
        Ok(ApiResponse::empty(StatusCode::NO_CONTENT))
    }

    pub(super) async fn assign_workspace_role(&self, credential: &Credential) -> HandlerResult {
        let mut body = Body::parse(self.request.body())?;
        body.require("role");
        let role = body.parsed("role");
        let role = body.finish(role)?;
        let assignment = MemberAssignment::Workspace(self.workspace_of_role(), Some(role));
        self.service
            .assign_role(credential, self.org_slug(), self.member_id(), assignment)
            .await?;
        Ok(ApiResponse::empty(StatusCode::NO_CONTENT))
    }

    pub(super) async fn end_workspace_role(&self, credential: &Credential) -> HandlerResult {
        let (member, workspace) = (self.member_id(), self.workspace_of_role());
        self.service
            .end_workspace_role(credential, self.org_slug(), member, workspace)
            .await?;
        Ok(ApiResponse::empty(StatusCode::NO_CONTENT))
    }

    fn member_id(&self) -> MemberId {
        self.id("memberId")
    }

    fn workspace_of_role(&self) -> WorkspaceId {
        self.id("workspaceId")
    }
}
