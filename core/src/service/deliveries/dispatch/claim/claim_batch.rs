//! Results of claims.

use super::claimed_delivery::ClaimedDelivery;
use crate::model::Timestamp;

/// Deliveries that one call claimed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimBatch {
    /// Deliveries to send.
    pub deliveries: Vec<ClaimedDelivery>,
    /// Number of deliveries dead-lettered: their endpoint is inactive or their event unreadable.
    pub dead_lettered: u64,
    /// Time at which the next endpoint is due, if nothing more can be claimed now.
    pub next_due: Option<Timestamp>,
    /// True if more is due now than was claimed, for endpoints with capacity.
    pub has_more: bool,
}

impl ClaimBatch {
    /// Adds the result of the claim from one endpoint.
    pub(super) fn add(&mut self, claim: EndpointClaimResult) {
        self.deliveries.extend(claim.deliveries);
        self.dead_lettered += claim.dead_lettered;
        self.note_due(claim.next_due);
    }

    /// Notes the due time of an endpoint.
    pub(super) fn note_due(&mut self, due: Option<Timestamp>) {
        self.next_due = self.next_due.into_iter().chain(due).min();
    }
}

/// Result of the claim from one endpoint.
#[derive(Debug, Default)]
pub(super) struct EndpointClaimResult {
    pub(super) deliveries: Vec<ClaimedDelivery>,
    pub(super) dead_lettered: u64,
    /// Time at which the endpoint is due again.
    pub(super) next_due: Option<Timestamp>,
}

impl EndpointClaimResult {
    /// Creates the result of a claim that claimed nothing.
    pub(super) fn nothing(next_due: Option<Timestamp>) -> Self {
        Self {
            next_due,
            ..Self::default()
        }
    }
}
