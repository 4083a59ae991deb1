//! Workspaces.

use http::StatusCode;

use super::Call;
use crate::access::Credential;
use crate::api::HandlerResult;
use crate::api::query::Query;
use crate::api::response::ApiResponse;

impl Call<'_> {
    pub(super) async fn list_workspaces(&self, credential: &Credential) -> HandlerResult {
        let mut query = Query::parse(self.request.uri());
        let page = query.page();
        let page = query.finish(page)?;
        let found = self.service.list_workspaces(credential, &page).await?;
        Ok(ApiResponse::json(StatusCode::OK, &found))
    }

    pub(super) async fn read_workspace(&self, credential: &Credential) -> HandlerResult {
        let workspace = self.workspace();
        let found = self.service.workspace(credential, workspace).await?;
        Ok(ApiResponse::json(StatusCode::OK, &found))
    }
}
