//! Citation subscriptions.

use http::StatusCode;

use super::Call;
use crate::access::Credential;
use crate::api::HandlerResult;
use crate::api::body::Body;
use crate::api::query::Query;
use crate::api::response::ApiResponse;
use crate::model::NewCitationSubscription;

impl Call<'_> {
    pub(super) async fn create_citation_subscription(
        &self,
        credential: &Credential,
    ) -> HandlerResult {
        let mut body = Body::parse(self.request.body())?;
        body.require("recall_id");
        body.require("webhook_url");
        let (recall_id, webhook_url) = (body.id("recall_id"), body.parsed("webhook_url"));
        self.check_url(&mut body, "webhook_url", webhook_url.as_ref())?;
        let request = recall_id.zip(webhook_url);
        let (recall_id, webhook_url) = body.finish(request)?;
        let request = NewCitationSubscription {
            recall_id,
            webhook_url,
        };
        let created = self
            .service
            .create_citation_subscription(credential, &request)
            .await?;
        Ok(ApiResponse::json(StatusCode::CREATED, &created))
    }

    pub(super) async fn list_citation_subscriptions(
        &self,
        credential: &Credential,
    ) -> HandlerResult {
        let mut query = Query::parse(self.request.uri());
        let recall = query.required_id("recall_id");
        let page = query.page();
        let (recall, page) = query.finish_with(recall.map(|recall| (recall, page)))?;
        let found = self
            .service
            .list_citation_subscriptions(credential, recall, &page)
            .await?;
        Ok(ApiResponse::json(StatusCode::OK, &found))
    }

    pub(super) async fn citation_subscription(&self, credential: &Credential) -> HandlerResult {
        let id = self.id("id");
        let found = self.service.citation_subscription(credential, id).await?;
        Ok(ApiResponse::json(StatusCode::OK, &found))
    }

    pub(super) async fn delete_citation_subscription(
        &self,
        credential: &Credential,
    ) -> HandlerResult {
        self.service
            .delete_citation_subscription(credential, self.id("id"))
            .await?;
        Ok(ApiResponse::empty(StatusCode::NO_CONTENT))
    }

    pub(super) async fn rotate_citation_subscription_secret(
        &self,
        credential: &Credential,
    ) -> HandlerResult {
        Body::parse_optional(self.request.body())?.finish(Some(()))?;
        let rotated = self
            .service
            .rotate_citation_subscription_secret(credential, self.id("id"))
            .await?;
        Ok(ApiResponse::json(StatusCode::OK, &rotated))
    }
}
