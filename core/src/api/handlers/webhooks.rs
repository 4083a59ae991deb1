//! Webhooks, outbound and inbound.

use http::StatusCode;

use super::Call;
use super::memories::new_memories;
use crate::access::Credential;
use crate::api::HandlerResult;
use crate::api::body::Body;
use crate::api::headers;
use crate::api::query::Query;
use crate::api::response::ApiResponse;
use crate::error::Error;
use crate::model::{InboundWebhookUpdate, NewInboundWebhook, NewWebhook, WebhookUpdate};
use crate::service::{NewMemory, WithEtag};

impl Call<'_> {
    pub(super) async fn create_webhook(&self, credential: &Credential) -> HandlerResult {
        let mut body = Body::parse(self.request.body())?;
        body.require("event_type");
        body.require("url");
        let (event_type, url) = (body.parsed("event_type"), body.parsed("url"));
        self.check_url(&mut body, "url", url.as_ref())?;
        let (event_type, url) = body.finish(event_type.zip(url))?;
        let request = NewWebhook { event_type, url };
        let created = self
            .service
            .create_webhook(credential, self.workspace(), &request)
            .await?;
        Ok(ApiResponse::json(StatusCode::CREATED, &created))
    }

    pub(super) async fn create_inbound_webhook(&self, credential: &Credential) -> HandlerResult {
        let mut body = Body::parse(self.request.body())?;
        let name = body.name("name", self.service.limits());
        let request = NewInboundWebhook {
            name: body.finish(name)?,
        };
        let created = self
            .service
            .create_inbound_webhook(credential, self.workspace(), &request)
            .await?;
        Ok(ApiResponse::json(StatusCode::CREATED, &created))
    }

    pub(super) async fn list_webhooks(&self, credential: &Credential) -> HandlerResult {
        let mut query = Query::parse(self.request.uri());
        let page = query.page();
        let page = query.finish(page)?;
        let found = self
            .service
            .list_webhooks(credential, self.workspace(), &page)
            .await?;
        Ok(ApiResponse::json(StatusCode::OK, &found))
    }

    pub(super) async fn webhook(&self, credential: &Credential) -> HandlerResult {
        let WithEtag { value, etag } = self
            .service
            .webhook(credential, self.workspace(), self.id("webhookId"))
            .await?;
        Ok(ApiResponse::json(StatusCode::OK, &value).etag(&etag))
    }

    pub(super) async fn update_webhook(&self, credential: &Credential) -> HandlerResult {
        let mut body = Body::parse_optional(self.request.body())?;
        let update = WebhookUpdate {
            event_type: body.parsed("event_type"),
            url: body.parsed("url"),
            is_active: body.boolean("is_active"),
        };
        self.check_url(&mut body, "url", update.url.as_ref())?;
        let update = body.finish(Some(update))?;
        let if_match = headers::if_match(self.request.headers());
        let (workspace, id) = (self.workspace(), self.id("webhookId"));
        let WithEtag { value, etag } = self
            .service
            .update_webhook(credential, workspace, id, &update, if_match.as_ref())
            .await?;
        Ok(ApiResponse::json(StatusCode::OK, &value).etag(&etag))
    }

    pub(super) async fn delete_webhook(&self, credential: &Credential) -> HandlerResult {
        self.service
            .delete_webhook(credential, self.workspace(), self.id("webhookId"))
            .await?;
        Ok(ApiResponse::empty(StatusCode::NO_CONTENT))
    }

    pub(super) async fn rotate_webhook_secret(&self, credential: &Credential) -> HandlerResult {
        Body::parse_optional(self.request.body())?.finish(Some(()))?;
        let rotated = self
            .service
            .rotate_webhook_secret(credential, self.workspace(), self.id("webhookId"))
            .await?;
        Ok(ApiResponse::json(StatusCode::OK, &rotated))
    }

    pub(super) async fn list_inbound_webhooks(&self, credential: &Credential) -> HandlerResult {
        let mut query = Query::parse(self.request.uri());
        let page = query.page();
        let page = query.finish(page)?;
        let found = self
            .service
            .list_inbound_webhooks(credential, self.workspace(), &page)
            .await?;
        Ok(ApiResponse::json(StatusCode::OK, &found))
    }

    pub(super) async fn inbound_webhook(&self, credential: &Credential) -> HandlerResult {
        let WithEtag { value, etag } = self
            .service
            .inbound_webhook(credential, self.workspace(), self.id("webhookId"))
            .await?;
        Ok(ApiResponse::json(StatusCode::OK, &value).etag(&etag))
    }

    pub(super) async fn update_inbound_webhook(&self, credential: &Credential) -> HandlerResult {
        let mut body = Body::parse_optional(self.request.body())?;
        let update = InboundWebhookUpdate {
            name: body.text("name"),
        };
        if let Some(name) = &update.name {
            body.problems().name("name", name, self.service.limits());
        }
        let update = body.finish(Some(update))?;
        let if_match = headers::if_match(self.request.headers());
        let (workspace, id) = (self.workspace(), self.id("webhookId"));
        let WithEtag { value, etag } = self
            .service
            .update_inbound_webhook(credential, workspace, id, &update, if_match.as_ref())
            .await?;
        Ok(ApiResponse::json(StatusCode::OK, &value).etag(&etag))
    }

    pub(super) async fn delete_inbound_webhook(&self, credential: &Credential) -> HandlerResult {
        self.service
            .delete_inbound_webhook(credential, self.workspace(), self.id("webhookId"))
            .await?;
        Ok(ApiResponse::empty(StatusCode::NO_CONTENT))
    }

    pub(super) async fn rotate_inbound_webhook_secret(
        &self,
        credential: &Credential,
    ) -> HandlerResult {
        Body::parse_optional(self.request.body())?.finish(Some(()))?;
        let rotated = self
            .service
            .rotate_inbound_webhook_secret(credential, self.workspace(), self.id("webhookId"))
            .await?;
        Ok(ApiResponse::json(StatusCode::OK, &rotated))
    }

    pub(super) async fn post_to_inbound_webhook(&self) -> HandlerResult {
        let (headers, body) = (self.request.headers(), self.request.body());
        let message = headers::signed_message(headers, body)?;
        let (org, webhook) = (self.id("org"), self.id("id"));
        let message = self.service.verify_message(org, webhook, &message).await?;
        headers::require_json(headers, !body.is_empty())?;
        let memories = match self.inbound_batch() {
            Ok(memories) => memories,
            Err(refusal) => {
                self.service.reject_message(&message, &refusal).await?;
                return Err(refusal);
            }
        };
        self.service.ingest_message(&message, &memories).await?;
        Ok(ApiResponse::empty(StatusCode::NO_CONTENT))
    }

    fn inbound_batch(&self) -> Result<Vec<NewMemory>, Error> {
        let mut body = Body::parse(self.request.body())?;
        let memories = new_memories(&mut body, self.service.limits());
        body.finish(memories)
    }
}
