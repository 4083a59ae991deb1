//! Leases of an endpoint's deliveries, as its state stores them.
//!
//! A claim writes them with the state, in one entry for all its deliveries. The deliveries and their
//! queue entries stay as they are, so a lease that expires needs no clean-up either. The lease of a
//! delivery that has ended may remain until the next claim: it has no effect, because the delivery
//! is no longer pending.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::queued_delivery::QueuedDelivery;
use crate::model::{EventId, Timestamp};
use crate::service::deliveries::dispatch::DELIVERY_TIMEOUT;

/// Duration of a lease that is not renewed.
///
/// After a crash, deliveries in flight are due again within this time.
pub const DELIVERY_LEASE: Duration = Duration::from_secs(4);
/// Maximum number of leases of one endpoint, over all dispatchers.
///
/// They fit into one value, each in a group of its own.
pub(in crate::service) const LEASES_MAX: usize = 256;
/// Maximum distance of a lease's expiry from the present.
///
/// A lease that expires later dates from before the clock was set back, and is treated as expired.
pub(in crate::service) const LEASE_AHEAD_MAX: Duration =
    Duration::from_secs(2 * (DELIVERY_LEASE.as_secs() + DELIVERY_TIMEOUT.as_secs()));

/// Leases of an endpoint's deliveries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(in crate::service) struct EndpointLeases(Vec<LeaseGroup>);

/// Leases of one claim that expire together, of deliveries that are queued for the same time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct LeaseGroup {
    epoch: u64,
    until: Timestamp,
    /// Time of the queue entries.
    at: Timestamp,
    events: Vec<EventId>,
}

/// A stored lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::service) struct StoredLease {
    /// Number of the claim among those of the endpoint.
    pub(in crate::service) epoch: u64,
    /// Expiry.
    pub(in crate::service) until: Timestamp,
}

impl LeaseGroup {
    /// Returns true if the leases have not expired.
    fn is_running(&self, now: Timestamp) -> bool {
        self.until > now && self.until <= now.plus(LEASE_AHEAD_MAX)
    }
}

impl EndpointLeases {
    pub(in crate::service) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(in crate::service) fn len(&self) -> usize {
        self.0.iter().map(|group| group.events.len()).sum()
    }

    /// Returns the lease of a delivery.
    pub(in crate::service) fn of(&self, event: EventId) -> Option<StoredLease> {
        let group = self.group_of(event)?;
        Some(StoredLease {
            epoch: group.epoch,
            until: group.until,
        })
    }

    /// Returns true if the delivery has a lease that has not expired.
    pub(in crate::service) fn has_running(&self, event: EventId, now: Timestamp) -> bool {
        self.group_of(event)
            .is_some_and(|group| group.is_running(now))
    }

    /// Returns the first expiry.
    pub(in crate::service) fn first_end(&self) -> Option<Timestamp> {
        self.0.iter().map(|group| group.until).min()
    }

    /// Returns the first expiry of a lease that has not expired.
    pub(in crate::service) fn first_running_end(&self, now: Timestamp) -> Option<Timestamp> {
        let running = self.0.iter().filter(|group| group.is_running(now));
        running.map(|group| group.until).min()
    }

    /// Returns the number of further leases that the limit permits.
    ///
    /// Expired ones do not count: see [`Self::forget_expired`].
    pub(in crate::service) fn room(&self, now: Timestamp) -> usize {
        let running = self.0.iter().filter(|group| group.is_running(now));
        let running: usize = running.map(|group| group.events.len()).sum();
        LEASES_MAX.saturating_sub(running)
    }

    /// Removes the expired leases if there are more leases than the limit.
    ///
    /// Until another claim, the late result of an expired lease is still valid, so they remain
    /// otherwise.
    pub(in crate::service) fn forget_expired(&mut self, now: Timestamp) {
        if self.len() > LEASES_MAX {
            self.0.retain(|group| group.is_running(now));
        }
    }

    /// Adds the lease of a delivery, or replaces it.
    pub(in crate::service) fn insert(&mut self, queued: QueuedDelivery, lease: StoredLease) {
        self.remove(queued.event);
        let StoredLease { epoch, until } = lease;
        let of_group = |group: &&mut LeaseGroup| {
            (group.epoch, group.until, group.at) == (epoch, until, queued.at)
        };
        match self.0.iter_mut().find(of_group) {
            Some(group) => group.events.push(queued.event),
            None => self.0.push(LeaseGroup {
                epoch,
                until,
                at: queued.at,
                events: vec![queued.event],
            }),
        }
    }

    /// Removes the lease of a delivery.
    pub(in crate::service) fn remove(&mut self, event: EventId) {
        for group in &mut self.0 {
            group.events.retain(|leased| *leased != event);
        }
        self.remove_empty();
    }

    /// Moves the expiry of a delivery's lease.
    pub(in crate::service) fn renew(&mut self, event: EventId, until: Timestamp) {
        if let Some(LeaseGroup { epoch, at, .. }) = self.group_of(event) {
            let (epoch, at) = (*epoch, *at);
            let queued = QueuedDelivery { at, event };
            self.insert(queued, StoredLease { epoch, until });
        }
    }

    /// Removes the leases of deliveries that have left the queue, of which `front` are the first
    /// entries, or all if it `is_whole`.
    ///
    /// Those behind the last entry of the front remain.
    pub(in crate::service) fn retain_queued(&mut self, front: &[QueuedDelivery], is_whole: bool) {
        let last = front.last().map(|last| (last.at, last.event));
        for group in &mut self.0 {
            let at = group.at;
            group.events.retain(|event| {
                let is_behind = Some((at, *event)) > last && !is_whole;
                is_behind || front.contains(&QueuedDelivery { at, event: *event })
            });
        }
        self.remove_empty();
    }

    fn group_of(&self, event: EventId) -> Option<&LeaseGroup> {
        self.0.iter().find(|group| group.events.contains(&event))
    }

    fn remove_empty(&mut self) {
        self.0.retain(|group| !group.events.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::store::VALUE_BYTES_MAX;

    fn queued(at: i64, event: u128) -> QueuedDelivery {
        let (at, event) = (Timestamp::from_millis(at), EventId(Uuid::from_u128(event)));
        QueuedDelivery { at, event }
    }

    fn lease(epoch: u64, until: i64) -> StoredLease {
        let until = Timestamp::from_millis(until);
        StoredLease { epoch, until }
    }

    #[test]
    fn second_claim_replaces_lease() {
        let mut leases = EndpointLeases::default();
        for event in 1..=3 {
            leases.insert(queued(5, event), lease(1, 10));
        }
        leases.insert(queued(5, 2), lease(2, 20));
        assert_eq!(leases.len(), 3);
        assert_eq!(leases.of(queued(5, 2).event), Some(lease(2, 20)));
        assert_eq!(leases.of(queued(5, 3).event), Some(lease(1, 10)));
        leases.renew(queued(5, 3).event, Timestamp::from_millis(30));
        assert_eq!(leases.of(queued(5, 3).event), Some(lease(1, 30)));
        leases.renew(queued(5, 4).event, Timestamp::from_millis(30));
        assert_eq!(leases.of(queued(5, 4).event), None);
        assert_eq!(leases.first_end(), Some(Timestamp::from_millis(10)));
        for event in 1..=3 {
            leases.remove(queued(5, event).event);
        }
        assert_eq!(leases, EndpointLeases::default());
    }

    #[test]
    fn leases_behind_the_front_are_retained() {
        let mut leases = EndpointLeases::default();
        for (at, event) in [(5, 1), (5, 3), (6, 2), (7, 1)] {
            leases.insert(
                queued(at, event + 10 * u128::from(at.unsigned_abs())),
                lease(1, 10),
            );
        }
        let front = [queued(5, 53), queued(6, 61)];
        let mut of_whole = leases.clone();
        leases.retain_queued(&front, false);
        assert_eq!(leases.len(), 3);
        assert_eq!(leases.of(queued(5, 51).event), None);
        of_whole.retain_queued(&front, true);
        assert_eq!(of_whole.len(), 1);
        assert!(of_whole.of(queued(5, 53).event).is_some());
        of_whole.retain_queued(&[], false);
        assert_eq!(of_whole.len(), 1);
        of_whole.retain_queued(&[], true);
        assert!(of_whole.is_empty());
    }

    #[test]
    fn all_leases_fit_into_one_value() {
        let mut leases = EndpointLeases::default();
        for number in 0..LEASES_MAX as u64 {
            let queued = QueuedDelivery {
                at: Timestamp::from_millis(253_402_300_799_999)
                    .minus(Duration::from_millis(number)),
                event: EventId(Uuid::from_u128(u128::MAX - u128::from(number))),
            };
            leases.insert(queued, lease(u64::MAX - number, 253_402_300_799_999));
        }
        assert_eq!(leases.len(), LEASES_MAX);
        let stored = serde_json::to_vec(&leases).unwrap();
        assert!(
            stored.len() <= VALUE_BYTES_MAX - 4 * 1024,
            "{} bytes",
            stored.len()
        );
    }

    #[test]
    fn expired_leases_take_no_room() {
        let now = Timestamp::from_millis(1_000);
        let mut leases = EndpointLeases::default();
        let mut number = 0;
        let mut fill = |leases: &mut EndpointLeases, count: usize, until: i64| {
            for _ in 0..count {
                number += 1;
                leases.insert(queued(5, number), lease(1, until));
            }
        };
        fill(&mut leases, LEASES_MAX - 2, 1_000);
        fill(&mut leases, 2, 1_001);
        assert_eq!(leases.room(now), LEASES_MAX - 2);
        assert_eq!(
            leases.first_running_end(now),
            Some(Timestamp::from_millis(1_001))
        );
        leases.forget_expired(now);
        assert_eq!(leases.len(), LEASES_MAX);
        fill(&mut leases, 1, 2_000);
        leases.forget_expired(now);
        assert_eq!((leases.len(), leases.room(now)), (3, LEASES_MAX - 3));
    }
}
