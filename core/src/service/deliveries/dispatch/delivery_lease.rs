//! Leases: exclusive, temporary rights to attempt a delivery.

use std::collections::BTreeMap;

use crate::error::Error;
use crate::keys;
use crate::model::{EndpointId, EventId, OrgId, Timestamp};
use crate::service::deliveries::queue::{
    DELIVERY_LEASE, EndpointQueue, EndpointState, StoredDelivery,
};
use crate::service::{Dispatcher, KnowledgeService};
use crate::store::{Entry, Key, StoreExt, Transaction, decode};

/// Maximum number of leases that one commit renews.
const RENEWED_PER_COMMIT: usize = 64;

/// Right to make one attempt of a delivery and to report its result.
///
/// Its epoch is a fencing token: after another claim, a late result changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryLease {
    pub(super) org: OrgId,
    pub(super) endpoint: EndpointId,
    pub(super) event: EventId,
    pub(super) epoch: u64,
    /// Start of the attempt.
    pub(super) at: Timestamp,
    /// SHA-256 of the URL of the attempt, whose result says nothing about another URL.
    pub(super) url: [u8; 32],
}

impl DeliveryLease {
    /// Returns the endpoint that the delivery is for.
    #[must_use]
    pub fn endpoint(&self) -> EndpointId {
        self.endpoint
    }

    /// Returns the event that is delivered.
    #[must_use]
    pub fn event(&self) -> EventId {
        self.event
    }

    pub(super) fn endpoint_key(&self) -> Key {
        keys::endpoint(self.org, self.endpoint)
    }

    pub(super) fn delivery_key(&self) -> Key {
        keys::delivery(self.org, self.endpoint, self.event)
    }

    /// Returns the expiry, if the last claim of the delivery is that of this lease and no result is
    /// recorded.
    pub(super) fn held_until(
        &self,
        queue: &EndpointQueue,
        delivery: &StoredDelivery,
    ) -> Option<Timestamp> {
        let lease = queue.state.leases.of(self.event)?;
        (delivery.is_pending() && lease.epoch == self.epoch).then_some(lease.until)
    }
}

/// Leases of one endpoint that are renewed together.
struct Renewal {
    queue: EndpointQueue,
    /// True if the endpoint was due at the expiry of one of the leases.
    is_due_at_lapse: bool,
    /// True if a lease expires earlier than before, because the clock was set back.
    is_earlier: bool,
}

impl Renewal {
    fn of(queue: EndpointQueue) -> Self {
        Self {
            queue,
            is_due_at_lapse: false,
            is_earlier: false,
        }
    }

    fn renew(&mut self, event: EventId, before: Timestamp, until: Timestamp) {
        self.queue.state.leases.renew(event, until);
        self.is_due_at_lapse |= Some(before) == self.queue.state.due;
        self.is_earlier |= until < before;
    }

    /// Reschedules an endpoint that was due at the old expiry of a lease.
    ///
    /// It is due for its other deliveries, or at the new expiry.
    async fn reschedule(
        &mut self,
        transaction: &mut Transaction,
        until: Timestamp,
    ) -> Result<(), Error> {
        if self.is_due_at_lapse {
            let first = self.queue.earliest(transaction, 0, |_| false).await?;
            let earliest = first.map_or(until, |first| first.min(until));
            // While the endpoint fails, the others wait for the end of its only attempt.
            let is_failing = self.queue.state.failing_since.is_some();
            let not_before = if is_failing { until } else { earliest };
            self.queue.schedule(Some(earliest), not_before);
        }
        if self.is_earlier {
            self.queue.schedule_by(until);
        }
        Ok(())
    }
}

/// # Leases
impl Dispatcher<'_> {
    /// Renews leases until [`DELIVERY_LEASE`] after `now`; returns those that are still held.
    ///
    /// While a move holds the writes of an organisation, its leases are returned unchanged: no
    /// claim of its deliveries succeeds meanwhile.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn renew_leases(
        self,
        now: Timestamp,
        leases: &[DeliveryLease],
    ) -> Result<Vec<DeliveryLease>, Error> {
        let mut sorted = leases.to_vec();
        sorted.sort_unstable();
        let mut held = Vec::with_capacity(leases.len());
        for leases in sorted.chunks(RENEWED_PER_COMMIT) {
            held.extend(self.service.renew_chunk(now, leases.to_vec()).await?);
        }
        Ok(held)
    }

    /// Returns true if a move to another partition holds the writes of the lease's organisation.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn is_on_hold(self, lease: &DeliveryLease) -> Result<bool, Error> {
        Ok(self.service.store().get(&[keys::hold(lease.org)]).await?[0].is_some())
    }
}

impl KnowledgeService {
    /// Renews leases, without those of organisations whose writes are held.
    async fn renew_chunk(
        &self,
        now: Timestamp,
        mut leases: Vec<DeliveryLease>,
    ) -> Result<Vec<DeliveryLease>, Error> {
        let mut kept = Vec::new();
        while !leases.is_empty() {
            match self.renew_together(now, &leases).await {
                Ok(held) => {
                    kept.extend(held);
                    break;
                }
                Err(error) => {
                    let orgs = leases.iter().map(|lease| lease.org).collect();
                    let orgs = self.fenced_orgs(error, orgs).await?;
                    kept.extend(leases.extract_if(.., |lease| orgs.contains(&lease.org)));
                }
            }
        }
        Ok(kept)
    }

    async fn renew_together(
        &self,
        now: Timestamp,
        leases: &[DeliveryLease],
    ) -> Result<Vec<DeliveryLease>, Error> {
        let until = now.plus(DELIVERY_LEASE);
        let endpoints = leases.iter().map(DeliveryLease::endpoint_key);
        let deliveries = leases.iter().map(DeliveryLease::delivery_key);
        let read = &endpoints.chain(deliveries).collect::<Vec<_>>();
        self.transact(|mut transaction| async move {
            let found = transaction.get_many::<Entry>(read).await?;
            let (states, deliveries) = found.split_at(leases.len());
            let mut queues = BTreeMap::new();
            let mut held = Vec::with_capacity(leases.len());
            for ((lease, state), delivery) in leases.iter().zip(states).zip(deliveries) {
                let (Some(state), Some(delivery)) = (state, delivery) else {
                    continue;
                };
                let (state_key, delivery_key) = (lease.endpoint_key(), lease.delivery_key());
                let state = decode::<EndpointState>(&state_key, state);
                let delivery = decode::<StoredDelivery>(&delivery_key, delivery);
                // A corrupt delivery loses its lease too; the others are renewed.
                let (Ok(state), Ok(delivery)) = (state, delivery) else {
                    continue;
                };
                let renewal = queues.entry(lease.endpoint).or_insert_with(|| {
                    Renewal::of(EndpointQueue::of(lease.org, lease.endpoint, state.value))
                });
                let Some(before) = lease.held_until(&renewal.queue, &delivery.value) else {
                    continue;
                };
                held.push(*lease);
                if before != until {
                    renewal.renew(lease.event, before, until);
                }
            }
            for mut renewal in queues.into_values() {
                if renewal.queue.is_changed() {
                    renewal.reschedule(&mut transaction, until).await?;
                    renewal.queue.save(&mut transaction);
                }
            }
            Ok(transaction.done(held))
        })
        .await
    }
}
