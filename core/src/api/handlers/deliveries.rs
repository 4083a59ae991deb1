//! Deliveries to endpoints: outbound webhooks and citation subscriptions.

use http::StatusCode;

use super::Call;
use crate::access::Credential;
use crate::api::Handled;
use crate::api::body::Body;
use crate::api::query::Query;
use crate::api::response::Answer;
use crate::service::Endpoint;

impl Call<'_> {
    /// The outbound webhook of the path.
    pub(super) fn webhook_endpoint(&self) -> Endpoint {
        Endpoint::Webhook(self.workspace(), self.id("webhookId"))
    }

    /// The citation subscription of the path.
    pub(super) fn subscription_endpoint(&self) -> Endpoint {
        Endpoint::Subscription(self.id("id"))
    }

    pub(super) async fn list_deliveries(
        &self,
        credential: &Credential,
        endpoint: Endpoint,
    ) -> Handled {
        let mut query = Query::parse(self.request.uri());
        let (status, page) = (query.parsed("status"), query.page());
        let (status, page) = query.finish((status, page))?;
        let found = self
            .service
            .list_deliveries(credential, endpoint, status, &page)
            .await?;
        Ok(Answer::json(StatusCode::OK, &found))
    }

    pub(super) async fn delivery(&self, credential: &Credential, endpoint: Endpoint) -> Handled {
        let id = self.id("deliveryId");
        let found = self.service.delivery(credential, endpoint, id).await?;
        Ok(Answer::json(StatusCode::OK, &found))
    }

    pub(super) async fn redeliver(&self, credential: &Credential, endpoint: Endpoint) -> Handled {
        Body::parse_optional(self.request.body())?.finish(Some(()))?;
        let id = self.id("deliveryId");
        let waiting = self.service.redeliver(credential, endpoint, id).await?;
        Ok(Answer::json(StatusCode::ACCEPTED, &waiting))
    }

    pub(super) async fn redeliver_dead(
        &self,
        credential: &Credential,
        endpoint: Endpoint,
    ) -> Handled {
        Body::parse_optional(self.request.body())?.finish(Some(()))?;
        let redelivered = self.service.redeliver_dead(credential, endpoint).await?;
        Ok(Answer::json(StatusCode::ACCEPTED, &redelivered))
    }

    pub(super) async fn ping(&self, credential: &Credential, endpoint: Endpoint) -> Handled {
        Body::parse_optional(self.request.body())?.finish(Some(()))?;
        let waiting = self.service.ping(credential, endpoint).await?;
        Ok(Answer::json(StatusCode::ACCEPTED, &waiting))
    }
}
