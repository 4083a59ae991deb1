//! Deliveries: what became of an event on its way to an endpoint.

use serde::{Deserialize, Serialize};

use super::names::string_enum;
use super::{DeliveryId, EventId, EventType, Timestamp};

string_enum! {
    /// Where a delivery stands.
    DeliveryStatus {
        /// It waits for its first attempt or for the next one.
        Pending = "pending",
        /// The endpoint answered with a 2xx status.
        Delivered = "delivered",
        /// It was given up: a dead letter, which can be redelivered.
        Dead = "dead",
    }
}

string_enum! {
    /// Why the service switched an endpoint off.
    DisabledReason {
        /// It answered 410: it does not want to be told any more.
        Gone = "gone",
        /// Nothing but failures for five days.
        Failing = "failing",
    }
}

string_enum! {
    /// Why an attempt came to no answer with a status, or was not made.
    #[non_exhaustive]
    DeliveryFailureCode {
        /// Deliveries may not go to the address, or to any that the name resolves to.
        AddressRefused = "address_refused",
        /// The name could not be resolved.
        DnsFailed = "dns_failed",
        /// No connection came about.
        ConnectionFailed = "connection_failed",
        /// Who answered could not prove to be the host of the URL, or spoke no TLS.
        TlsFailed = "tls_failed",
        /// The whole exchange took longer than it may.
        TimedOut = "timed_out",
        /// The answer was no HTTP, or broke off before its end.
        AnswerBroken = "answer_broken",
        /// The endpoint is switched off.
        EndpointOff = "endpoint_off",
        /// What was to be sent cannot be read any more. The operator of the service has to look into it.
        EventUnreadable = "event_unreadable",
    }
}

impl DeliveryFailureCode {
    /// Whether it is of what was not sent at all. No exchange ends so.
    #[must_use]
    pub const fn is_unsent(self) -> bool {
        matches!(self, Self::EndpointOff | Self::EventUnreadable)
    }
}

/// Why an attempt failed without a status that says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct DeliveryFailure {
    /// Which kind of failure.
    pub code: DeliveryFailureCode,
    /// The same in words, for people. Nothing that the endpoint answered is in it.
    pub message: String,
}

/// One attempt of a delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct DeliveryAttempt {
    /// When it was made.
    pub at: Timestamp,
    /// How long the exchange took, in milliseconds.
    pub duration_ms: u64,
    /// The status of the answer, where there was one.
    pub status: Option<u16>,
    /// What went wrong, where it was not the status.
    pub error: Option<DeliveryFailure>,
}

/// The delivery of one event to one endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Delivery {
    /// The identifier: the `webhook-id` of all attempts.
    pub id: DeliveryId,
    /// The event.
    pub event_id: EventId,
    /// What happened.
    pub event_type: EventType,
    /// Where it stands.
    pub status: DeliveryStatus,
    /// When the event happened.
    pub created_at: Timestamp,
    /// When the next attempt is due; `null` where none is.
    pub next_attempt_at: Option<Timestamp>,
    /// The attempts, the oldest first; of very many the last ones.
    pub attempts: Vec<DeliveryAttempt>,
}
