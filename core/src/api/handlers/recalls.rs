//! Recalls.

use http::StatusCode;

use super::Call;
use crate::access::Credential;
use crate::api::HandlerResult;
use crate::api::body::Body;
use crate::api::query::Query;
use crate::api::response::ApiResponse;
use crate::service::NewRecall;

impl Call<'_> {
    pub(super) async fn create_recall(&self, credential: &Credential) -> HandlerResult {
        let mut body = Body::parse(self.request.body())?;
        body.require("query");
        body.require("memory_ids");
        let (query, memory_ids) = (body.text("query"), body.ids("memory_ids"));
        if let (Some(query), Some(memory_ids)) = (&query, &memory_ids) {
            let new = NewRecall {
                query: query.clone(),
                memory_ids: memory_ids.clone(),
            };
            body.problems().note(new.validate())?;
        }
        let (query, memory_ids) = body.finish(query.zip(memory_ids))?;
        let new = NewRecall { query, memory_ids };
        let made = self
            .service
            .create_recall(credential, self.workspace(), &new)
            .await?;
        Ok(ApiResponse::json(StatusCode::CREATED, &made))
    }

    pub(super) async fn list_recalls(&self, credential: &Credential) -> HandlerResult {
        let mut query = Query::parse(self.request.uri());
        let page = query.page();
        let page = query.finish(page)?;
        let found = self
            .service
            .list_recalls(credential, self.workspace(), &page)
            .await?;
        Ok(ApiResponse::json(StatusCode::OK, &found))
    }

    pub(super) async fn recall(&self, credential: &Credential) -> HandlerResult {
        let found = self.service.recall(credential, self.id("id")).await?;
        Ok(ApiResponse::json(StatusCode::OK, &found))
    }
}
