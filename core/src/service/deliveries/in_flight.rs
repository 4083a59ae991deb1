//! Deliveries that a dispatcher has in flight.

use std::collections::BTreeMap;

use super::lease::DeliveryLease;
use crate::model::{EndpointId, OrgId};

/// Numbers of deliveries that a dispatcher has in flight, by endpoint and organisation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InFlight {
    by_endpoint: BTreeMap<EndpointId, usize>,
    by_org: BTreeMap<OrgId, usize>,
    all: usize,
}

impl InFlight {
    /// Counts a delivery whose attempt begins under this lease.
    pub fn begin(&mut self, lease: &DeliveryLease) {
        *self.by_endpoint.entry(lease.endpoint).or_default() += 1;
        *self.by_org.entry(lease.org).or_default() += 1;
        self.all += 1;
    }

    /// Stops counting a delivery. One that is not counted changes nothing.
    pub fn end(&mut self, lease: &DeliveryLease) {
        if take_one(&mut self.by_endpoint, lease.endpoint) {
            take_one(&mut self.by_org, lease.org);
            self.all -= 1;
        }
    }

    /// Returns the number of deliveries to this endpoint.
    #[must_use]
    pub fn with_endpoint(&self, endpoint: EndpointId) -> usize {
        self.by_endpoint.get(&endpoint).copied().unwrap_or(0)
    }

    /// Returns the number of deliveries to endpoints of this organisation.
    #[must_use]
    pub fn of_organization(&self, org: OrgId) -> usize {
        self.by_org.get(&org).copied().unwrap_or(0)
    }

    /// Returns the number of all deliveries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.all
    }

    /// Returns true if nothing is in flight.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all == 0
    }
}

fn take_one<K: Ord>(counts: &mut BTreeMap<K, usize>, of: K) -> bool {
    let Some(count) = counts.get_mut(&of) else {
        return false;
    };
    *count -= 1;
    if *count == 0 {
        counts.remove(&of);
    }
    true
}

impl<'l> FromIterator<&'l DeliveryLease> for InFlight {
    fn from_iter<I: IntoIterator<Item = &'l DeliveryLease>>(leases: I) -> Self {
        let mut in_flight = Self::default();
        for lease in leases {
            in_flight.begin(lease);
        }
        in_flight
    }
}
