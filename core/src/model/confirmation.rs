//! Confirmation of the URLs that receive deliveries.

use serde::{Deserialize, Serialize};

use super::Timestamp;

super::names::string_enum! {
    /// State of the confirmation of an endpoint's URL.
    ConfirmationState {
        /// The URL has answered a `webhook.ping` with 2xx.
        Confirmed = "confirmed",
        /// The URL is asked by pings. Until it answers one with 2xx, events wait.
        Pending = "pending",
        /// The URL is not asked, because the endpoint is inactive, suspended or has ended.
        Stopped = "stopped",
    }
}

super::names::string_enum! {
    /// Reason for which the next ping to an unconfirmed URL is made later.
    ConfirmationReason {
        /// The last ping was not answered with 2xx.
        NoAnswer = "no_answer",
        /// The host has received the maximum number of pings in an hour.
        HostLimit = "host_limit",
        /// The organisation has sent its share of the pings that the host may receive in an hour.
        OrganizationLimit = "organization_limit",
    }
}

/// How far the confirmation of an endpoint's URL is.
///
/// An organisation confirms a URL once for all its endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Confirmation {
    /// State of the confirmation.
    pub state: ConfirmationState,
    /// Time of the next ping to the URL; `null` if none is planned, or if one is due or in flight.
    pub next_attempt_at: Option<Timestamp>,
    /// Reason for which the next ping is not made now; `null` without a `next_attempt_at`.
    pub reason: Option<ConfirmationReason>,
}
