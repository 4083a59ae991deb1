//! Sources.

use http::StatusCode;

use super::Call;
use crate::access::Credential;
use crate::api::HandlerResult;
use crate::api::body::Body;
use crate::api::query::Query;
use crate::api::response::ApiResponse;
use crate::service::NewSource;

impl Call<'_> {
    pub(super) async fn create_source(&self, credential: &Credential) -> HandlerResult {
        let mut body = Body::parse(self.request.body())?;
        let limits = self.service.limits();
        let (name, kind) = (body.name("name", limits), body.name("kind", limits));
        let (name, kind) = body.finish(name.zip(kind))?;
        let new = NewSource { name, kind };
        let made = self.service.create_source(credential, &new).await?;
        Ok(ApiResponse::json(StatusCode::CREATED, &made))
    }

    pub(super) async fn list_sources(&self, credential: &Credential) -> HandlerResult {
        let mut query = Query::parse(self.request.uri());
        let page = query.page();
        let page = query.finish(page)?;
        let found = self.service.list_sources(credential, &page).await?;
        Ok(ApiResponse::json(StatusCode::OK, &found))
    }

    pub(super) async fn source(&self, credential: &Credential) -> HandlerResult {
        let found = self.service.source(credential, self.id("id")).await?;
        Ok(ApiResponse::json(StatusCode::OK, &found))
    }
}
