//! Claims from endpoints, as a pass plans them.

use std::time::Duration;

use crate::keys;
use crate::model::{EndpointId, OrgId, Timestamp};
use crate::service::deliveries::queue::EndpointQueue;
use crate::store::{Key, RangeRead};

/// Claim from an endpoint that is due.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndpointClaim {
    pub(super) org: OrgId,
    pub(super) endpoint: EndpointId,
    /// Due time of the entry in the ready queue.
    pub(super) at: Timestamp,
    pub(super) now: Timestamp,
    /// Number of deliveries to the endpoint that the caller has in flight.
    pub(super) in_flight: usize,
    /// Maximum number of further deliveries.
    pub(super) capacity: usize,
    /// Duration of the leases.
    pub(super) lease: Duration,
}

impl EndpointClaim {
    pub(super) fn entry_key(&self) -> Key {
        keys::endpoint_due(self.at, self.org, self.endpoint)
    }

    /// Returns the expiry of the leases.
    pub(super) fn until(&self) -> Timestamp {
        self.now.plus(self.lease)
    }

    /// Returns the read of the deliveries that the caller has in flight, of those that may be
    /// claimed, and of the one after them.
    pub(super) fn front(&self) -> RangeRead {
        let limit = self.in_flight + self.capacity + 1;
        EndpointQueue::front(self.org, self.endpoint, limit)
    }
}
