//! The exchange with an endpoint: what is sent, and what came of it. Who sends is the host.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::model::{DeliveryFailure, DeliveryId, Timestamp, WebhookUrl};
use crate::store::MaybeSendSync;

/// How long the whole exchange may take, from the look-up of the name to the end of the answer.
pub const DELIVERY_TIMEOUT: Duration = Duration::from_secs(15);
/// How much of an answer's body is read, in bytes; it means nothing and is not kept.
pub const ANSWER_BYTES_MAX: usize = 16 * 1024;

const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// One attempt of a delivery as it is sent: a POST, signed as Standard Webhooks 1.0.0 says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryRequest {
    /// Where it goes.
    pub url: WebhookUrl,
    /// `webhook-id`: the same for every attempt.
    pub id: DeliveryId,
    /// `webhook-timestamp`: when this attempt is made.
    pub timestamp: Timestamp,
    /// `webhook-signature`: one for each secret that counts, divided by spaces.
    pub signature: String,
    /// The body: JSON.
    pub body: Bytes,
}

impl DeliveryRequest {
    /// The headers of the request, but for those of the connection.
    #[must_use]
    pub fn headers(&self) -> HeaderMap {
        let ascii = |text: &str| HeaderValue::from_str(text).expect("digits, letters and base64");
        HeaderMap::from_iter([
            (
                header::CONTENT_TYPE,
                HeaderValue::from_static("application/json"),
            ),
            (WEBHOOK_ID, ascii(&self.id.to_string())),
            (
                WEBHOOK_TIMESTAMP,
                HeaderValue::from(self.timestamp.as_seconds()),
            ),
            (WEBHOOK_SIGNATURE, ascii(&self.signature)),
        ])
    }
}

/// What an endpoint answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryAnswer {
    /// The status. 2xx alone is success; a redirect is not followed.
    pub status: u16,
    /// `Retry-After` (RFC 9110, 10.2.3): how long to wait at least.
    pub retry_after: Option<Duration>,
}

/// What came of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// How long the exchange took.
    pub duration: Duration,
    /// The whole answer, or why there was none.
    pub outcome: Result<DeliveryAnswer, DeliveryFailure>,
}

/// Makes the exchanges: the host's HTTP client.
///
/// It sends to permitted addresses alone, follows no redirect, gives up after [`DELIVERY_TIMEOUT`], and reads at most
/// [`ANSWER_BYTES_MAX`] of the answer's body. An answer that breaks off before its end is a failure, whatever its status.
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
pub trait DeliverySender: MaybeSendSync {
    /// One attempt.
    async fn send(&self, request: &DeliveryRequest) -> Attempt;
}
