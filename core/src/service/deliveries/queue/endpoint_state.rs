//! Stored state of an endpoint, apart from its record.

use serde::{Deserialize, Serialize};

use super::endpoint_leases::EndpointLeases;
use crate::model::{EventId, RecallId, Timestamp, WorkspaceId};

/// Parent of an endpoint, which determines the key of its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::service) enum EndpointParent {
    /// Workspace of a webhook.
    Webhook(WorkspaceId),
    /// Recall of a citation subscription.
    Subscription(RecallId),
}

/// State of an endpoint, apart from its record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::service) struct EndpointState {
    pub(in crate::service) parent: EndpointParent,
    /// Creation order of the endpoint within its workspace.
    ///
    /// An event is delivered only to endpoints that existed at its commit.
    pub(in crate::service) sequence: i64,
    /// Due time: that of its entry in the ready queue.
    pub(in crate::service) due: Option<Timestamp>,
    /// Time before which the endpoint was not to be due when it was last scheduled.
    ///
    /// The reason is that other endpoints are due too, that an attempt to a failing endpoint is in
    /// flight, or that corrupt data has to be repaired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::service) not_before: Option<Timestamp>,
    /// Time since which every attempt has failed, or an unconfirmed endpoint has waited for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::service) failing_since: Option<Timestamp>,
    /// Pings of an unconfirmed endpoint, which are the only deliveries that it receives.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(in crate::service) pings: Vec<EventId>,
    /// Number of claims that leased deliveries: the epoch of the last one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(in crate::service) claims: u64,
    /// Leases of its deliveries.
    #[serde(default, skip_serializing_if = "EndpointLeases::is_empty")]
    pub(in crate::service) leases: EndpointLeases,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde requires a reference"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}
