//! Deliveries that a dispatcher has in flight.

use std::collections::BTreeMap;
use std::time::Duration;

use super::delivery_lease::DeliveryLease;
use super::exchange::Attempt;
use crate::model::{EndpointId, OrgId};

/// Maximum number of deliveries to one endpoint that are in flight at once, unless it answers
/// quickly.
pub const IN_FLIGHT_PER_ENDPOINT_MAX: usize = 8;
/// Maximum number of deliveries in flight at once to an endpoint that answers quickly.
///
/// [`IN_FLIGHT_PER_ENDPOINT_MAX`] applies to the others.
pub const IN_FLIGHT_PER_QUICK_ENDPOINT_MAX: usize = 64;
/// Longest exchange of an endpoint that answers quickly.
pub const QUICK_RESPONSE_MAX: Duration = Duration::from_millis(250);
/// Number of windows that are kept for endpoints with nothing in flight.
const IDLE_WINDOWS_MAX: usize = 1_024;

/// Numbers of deliveries that a dispatcher has in flight, by endpoint and organisation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InFlight {
    /// Maximum of deliveries in flight to each endpoint that answers quickly.
    ///
    /// Each quick success adds one; anything else removes the window.
    windows: BTreeMap<EndpointId, usize>,
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
        if self.windows.len() > IDLE_WINDOWS_MAX && self.with_endpoint(lease.endpoint) == 0 {
            self.windows.remove(&lease.endpoint);
        }
    }

    /// Notes how an endpoint has answered.
    ///
    /// With each success within [`QUICK_RESPONSE_MAX`], one more delivery to the endpoint may be in
    /// flight, up to [`IN_FLIGHT_PER_QUICK_ENDPOINT_MAX`]; with anything else, as many as at first.
    pub fn note_attempt(&mut self, lease: &DeliveryLease, attempt: &Attempt) {
        if !attempt.is_success() || attempt.duration > QUICK_RESPONSE_MAX {
            self.windows.remove(&lease.endpoint);
            return;
        }
        let window = self.windows.entry(lease.endpoint);
        let window = window.or_insert(IN_FLIGHT_PER_ENDPOINT_MAX);
        *window = (*window + 1).min(IN_FLIGHT_PER_QUICK_ENDPOINT_MAX);
    }

    /// Returns the maximum of deliveries to this endpoint, [`IN_FLIGHT_PER_ENDPOINT_MAX`] unless it
    /// answers quickly.
    #[must_use]
    pub fn max_with_endpoint(&self, endpoint: EndpointId) -> usize {
        let window = self.windows.get(&endpoint).copied();
        window.unwrap_or(IN_FLIGHT_PER_ENDPOINT_MAX)
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
