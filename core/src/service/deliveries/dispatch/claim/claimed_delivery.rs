//! Claimed deliveries, with their signed requests.

use bytes::Bytes;
use serde::Serialize;

use crate::model::{DeliveryId, EventContent, EventType, Timestamp, WebhookUrl};
use crate::service::deliveries::dispatch::{DeliveryLease, DeliveryRequest};
use crate::service::{Event, SigningSecret};

/// A claimed delivery, to be sent now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimedDelivery {
    /// Lease, which [`Dispatcher::finish`](crate::service::Dispatcher::finish) ends.
    pub lease: DeliveryLease,
    /// Type of the event.
    pub event_type: EventType,
    /// Request to send, signed for this attempt.
    pub request: DeliveryRequest,
}

/// Body of a request: the same bytes for each attempt.
#[derive(Serialize)]
struct Body<'e> {
    #[serde(rename = "type")]
    event_type: EventType,
    timestamp: Timestamp,
    data: EventContent<'e>,
}

impl ClaimedDelivery {
    /// Creates the request of an attempt under a lease, signed with each of these secrets.
    pub(super) fn signed(
        lease: DeliveryLease,
        id: DeliveryId,
        event: &Event,
        url: WebhookUrl,
        secrets: &[SigningSecret],
    ) -> Self {
        let body = Body {
            event_type: event.event_type(),
            timestamp: event.timestamp,
            data: EventContent(&event.data),
        };
        let body = serde_json::to_vec(&body)
            .expect("records serialise: string keys, no fallible implementations");
        let signed_id = id.to_string();
        let sign = |secret: &SigningSecret| secret.sign(&signed_id, lease.at, &body);
        let signatures: Vec<_> = secrets.iter().map(sign).collect();
        Self {
            lease,
            event_type: event.event_type(),
            request: DeliveryRequest {
                url,
                id,
                timestamp: lease.at,
                signature: signatures.join(" "),
                body: Bytes::from(body),
            },
        }
    }
}
