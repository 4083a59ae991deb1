//! Webhooks, outbound and inbound.

use http::StatusCode;

use super::Call;
use crate::access::Credential;
use crate::api::Handled;
use crate::api::body::Body;
use crate::api::response::Answer;
use crate::model::{NewInboundWebhook, NewWebhook};

impl Call<'_> {
    pub(super) async fn create_webhook(&self, credential: &Credential) -> Handled {
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
        Ok(Answer::json(StatusCode::CREATED, &created))
    }

    pub(super) async fn create_inbound_webhook(&self, credential: &Credential) -> Handled {
        let mut body = Body::parse(self.request.body())?;
        let name = body.name("name", self.service.limits());
        let request = NewInboundWebhook {
            name: body.finish(name)?,
        };
        let created = self
            .service
            .create_inbound_webhook(credential, self.workspace(), &request)
            .await?;
        Ok(Answer::json(StatusCode::CREATED, &created))
    }
}
