//! A sender of signed messages to an inbound webhook.

use knowledge_testing::fixture::{MemberFixture, OrgFixture};
use serde_json::{Value, json};
use standardwebhooks::Webhook as Signer;

use super::{Answer, Call, create_inbound_webhook, new_key, post};

/// A client with the URL and the secret of an inbound webhook.
pub struct Sender {
    /// Path of the webhook.
    pub url: String,
    /// Secret that signs the messages.
    pub secret: String,
    /// The webhook, as its creation returned it.
    pub record: Value,
}

impl Sender {
    pub(crate) async fn registered(org: &OrgFixture, by: &MemberFixture) -> Self {
        let new = json!({ "name": "Tickets" });
        let made = create_inbound_webhook(&by.token, org.main.id, &new);
        Self::of(made.await.json())
    }

    /// Creates the sender to an inbound webhook that was just created.
    ///
    /// # Panics
    /// If it is not the response to a creation.
    pub fn of(record: Value) -> Self {
        let text = |name: &str| record[name].as_str().expect("a text").to_owned();
        Self {
            url: text("url"),
            secret: text("signing_secret"),
            record,
        }
    }

    /// Returns the path of the webhook's own resource.
    ///
    /// # Panics
    /// If the record is not that of a webhook.
    pub fn path(&self) -> String {
        let text = |name: &str| self.record[name].as_str().expect("a text");
        let (workspace, id) = (text("workspace_id"), text("id"));
        format!("/v1/workspaces/{workspace}/inbound-webhooks/{id}")
    }

    /// Returns a signed message with an identifier and a time in seconds.
    ///
    /// # Panics
    /// If the secret is none.
    pub fn message_at(&self, id: &str, seconds: i64, body: &[u8]) -> Call {
        let signer = Signer::new(&self.secret).expect("a secret");
        let signature = signer.sign(id, seconds, body).expect("a signature");
        post(&self.url)
            .header("content-type", "application/json")
            .header("webhook-id", id)
            .header("webhook-timestamp", seconds.to_string())
            .header("webhook-signature", signature)
            .body(body.to_vec())
    }

    /// Returns a message with the present time.
    pub fn message(&self, id: &str, body: &Value) -> Call {
        self.message_at(id, now_seconds(), body.to_string().as_bytes())
    }

    pub(crate) async fn send(&self, body: &Value) -> Answer {
        self.message(&new_key(), body).await
    }
}

/// Returns the present time in seconds.
pub fn now_seconds() -> i64 {
    knowledge_core::env::Env::system().now().as_millis() / 1_000
}
