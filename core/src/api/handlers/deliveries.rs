//! Deliveries to endpoints: outbound webhooks and citation subscriptions.

use http::StatusCode;

use super::Call;
use crate::access::Credential;
use crate::api::HandlerResult;
use crate::api::body::Body;
use crate::api::query::Query;
use crate::api::response::ApiResponse;
use crate::service::Endpoint;

impl Call<'_> {
    /// Returns the outbound webhook of the path.
    pub(super) fn webhook_endpoint(&self) -> Endpoint {
        Endpoint::Webhook(self.workspace(), self.id("webhookId"))
    }

    /// Returns the citation subscription of the path.
    pub(super) fn subscription_endpoint(&self) -> Endpoint {
        Endpoint::Subscription(self.id("id"))
    }

    pub(super) async fn list_deliveries(
        &self,
        credential: &Credential,
        endpoint: Endpoint,
    ) -> HandlerResult {
        let mut query = Query::parse(self.request.uri());
        let (status, page) = (query.parsed("status"), query.page());
        let (status, page) = query.finish((status, page))?;
        let found = self
            .service
            .list_deliveries(credential, endpoint, status, &page)
            .await?;
        Ok(ApiResponse::json(StatusCode::OK, &found))
    }

    pub(super) async fn delivery(
        &self,
        credential: &Credential,
        endpoint: Endpoint,
    ) -> HandlerResult {
        let id = self.id("deliveryId");
        let found = self.service.delivery(credential, endpoint, id).await?;
        Ok(ApiResponse::json(StatusCode::OK, &found))
    }

    pub(super) async fn redeliver(
        &self,
        credential: &Credential,
        endpoint: Endpoint,
    ) -> HandlerResult {
        Body::parse_optional(self.request.body())?.finish(Some(()))?;
        let id = self.id("deliveryId");
        let waiting = self.service.redeliver(credential, endpoint, id).await?;
        Ok(ApiResponse::json(StatusCode::ACCEPTED, &waiting))
    }

    pub(super) async fn redeliver_dead(
        &self,
        credential: &Credential,
        endpoint: Endpoint,
    ) -> HandlerResult {
        Body::parse_optional(self.request.body())?.finish(Some(()))?;
        let redelivered = self.service.redeliver_dead(credential, endpoint).await?;
        Ok(ApiResponse::json(StatusCode::ACCEPTED, &redelivered))
    }

    pub(super) async fn ping(&self, credential: &Credential, endpoint: Endpoint) -> HandlerResult {
        Body::parse_optional(self.request.body())?.finish(Some(()))?;
        let waiting = self.service.ping(credential, endpoint).await?;
        Ok(ApiResponse::json(StatusCode::ACCEPTED, &waiting))
    }
}
