//! Citation subscriptions.

use http::StatusCode;

use super::Call;
use crate::access::Credential;
use crate::api::Handled;
use crate::api::body::Body;
use crate::api::response::Answer;
use crate::model::NewCitationSubscription;

impl Call<'_> {
    pub(super) async fn create_citation_subscription(&self, credential: &Credential) -> Handled {
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
        Ok(Answer::json(StatusCode::CREATED, &created))
    }
}
