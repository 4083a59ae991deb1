//! Deliveries: the progress of events to endpoints.

use serde::{Deserialize, Serialize};

use super::names::string_enum;
use super::{DeliveryId, EventId, EventType, Timestamp};

string_enum! {
    /// State of a delivery.
    DeliveryStatus {
        /// Waits for its first attempt or for a retry.
        Pending = "pending",
        /// The endpoint responded with a 2xx status.
        Delivered = "delivered",
        /// Dead-lettered. It can be redelivered.
        Dead = "dead",
    }
}

string_enum! {
    /// Reason for which the service disabled an endpoint.
    DisabledReason {
        /// The endpoint responded with 410: it wants no further deliveries.
        Gone = "gone",
        /// Every attempt failed for five days, or the endpoint was not confirmed in time.
        Failing = "failing",
    }
}

string_enum! {
    /// Reason for which an attempt received no response with a status, or was not made.
    #[non_exhaustive]
    DeliveryFailureCode {
        /// The host is unknown, or its address is not allowed for deliveries.
        AddressRefused = "address_refused",
        /// The name could not be resolved. Deliveries show it as `address_refused`.
        DnsFailed = "dns_failed",
        /// No connection could be established.
        ConnectionFailed = "connection_failed",
        /// The TLS handshake failed, or the certificate does not match the host of the URL.
        TlsFailed = "tls_failed",
        /// The exchange timed out.
        TimedOut = "timed_out",
        /// The response was not valid HTTP, or ended early.
        AnswerBroken = "answer_broken",
        /// The endpoint is inactive.
        EndpointInactive = "endpoint_off",
        /// The stored event is unreadable. The operator of the service has to investigate.
        EventUnreadable = "event_unreadable",
        /// The event was made for a former owner of the endpoint, and may name what does not exist
        /// for the present one.
        Superseded = "superseded",
    }
}

impl DeliveryFailureCode {
    /// Returns true if nothing was sent: an exchange never ends with this code.
    #[must_use]
    pub const fn is_unsent(self) -> bool {
        matches!(
            self,
            Self::EndpointInactive | Self::EventUnreadable | Self::Superseded
        )
    }
}

/// Failure of an attempt without a status that explains it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct DeliveryFailure {
    /// Kind of the failure.
    pub code: DeliveryFailureCode,
    /// Explanation for people. It contains nothing that the endpoint sent.
    pub message: String,
}

/// One attempt of a delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct DeliveryAttempt {
    /// Time of the attempt.
    pub at: Timestamp,
    /// Duration of the exchange, in milliseconds.
    pub duration_ms: u64,
    /// HTTP status of the response, if there was one.
    pub status: Option<u16>,
    /// Failure of the attempt, if there was no status.
    pub error: Option<DeliveryFailure>,
}

/// The delivery of one event to one endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Delivery {
    /// Identifier of the delivery, sent as `webhook-id` with every attempt.
    pub id: DeliveryId,
    /// Identifier of the event.
    pub event_id: EventId,
    /// Type of the event.
    pub event_type: EventType,
    /// State of the delivery.
    pub status: DeliveryStatus,
    /// Time of the event.
    pub created_at: Timestamp,
    /// Time of the next attempt; `null` if none is due.
    pub next_attempt_at: Option<Timestamp>,
    /// Attempts, oldest first; only the last ones if there are very many.
    pub attempts: Vec<DeliveryAttempt>,
}
