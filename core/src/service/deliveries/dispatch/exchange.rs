//! HTTP exchange with an endpoint: request and response. The host makes it.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::model::{DeliveryFailure, DeliveryId, Timestamp, WebhookUrl};
use crate::store::MaybeSendSync;

/// Timeout of a whole exchange, from name resolution to the end of the response.
pub const DELIVERY_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum number of bytes read of a response body, which is ignored and not stored.
pub const RESPONSE_BYTES_MAX: usize = 16 * 1024;

const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// Request of one delivery attempt: a POST, signed according to Standard Webhooks 1.0.0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryRequest {
    /// URL of the endpoint.
    pub url: WebhookUrl,
    /// Header `webhook-id`, the same for every attempt.
    pub id: DeliveryId,
    /// Header `webhook-timestamp`: time of this attempt.
    pub timestamp: Timestamp,
    /// Header `webhook-signature`: a signature by each valid secret, separated by spaces.
    pub signature: String,
    /// Body, JSON.
    pub body: Bytes,
}

impl DeliveryRequest {
    /// Returns the headers of the request, except those of the connection.
    #[must_use]
    pub fn headers(&self) -> HeaderMap {
        let ascii = |text: &str| HeaderValue::from_str(text).expect("header values are ASCII");
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

/// Response of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryResponse {
    /// Status. Only 2xx is a success, and redirects are not followed.
    pub status: u16,
    /// Minimum delay of the next attempt, from `Retry-After` (RFC 9110, 10.2.3).
    pub retry_after: Option<Duration>,
}

/// Result of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Duration of the exchange.
    pub duration: Duration,
    /// Complete response, or the reason for which there is none.
    pub outcome: Result<DeliveryResponse, DeliveryFailure>,
}

/// Client that makes the exchanges, implemented by the host.
///
/// It connects only to permitted addresses, follows no redirects, gives up after
/// [`DELIVERY_TIMEOUT`], and reads at most [`RESPONSE_BYTES_MAX`] of the response body. A response
/// that ends early is a failure, whatever its status.
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
pub trait DeliverySender: MaybeSendSync {
    /// Makes one attempt.
    async fn send(&self, request: &DeliveryRequest) -> Attempt;
}
