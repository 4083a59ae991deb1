//! Leases: who may make an attempt of a delivery, and until when.

use std::collections::BTreeMap;
use std::time::Duration;

use super::queue::{EndpointQueue, EndpointState, Waiting};
use super::record::StoredDelivery;
use crate::error::Error;
use crate::model::{EndpointId, EventId, OrgId, Timestamp};
use crate::service::KnowledgeService;
use crate::keys;
use crate::store::{Key, Transaction, decode};

/// How long a claim holds without being renewed: after a crash what was in flight is due again within this time.
pub const DELIVERY_LEASE: Duration = Duration::from_secs(4);
/// How many leases one commit renews.
const RENEWED_PER_COMMIT: usize = 64;

/// The right to make one attempt of a delivery and to say what came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryLease {
    pub(super) org: OrgId,
    pub(super) endpoint: EndpointId,
    pub(super) event: EventId,
    pub(super) epoch: u64,
    /// When the attempt was begun.
    pub(super) at: Timestamp,
    /// The SHA-256 of the URL that the attempt goes to: what it comes to says nothing of another one.
    pub(super) url: [u8; 32],
}

impl DeliveryLease {
    /// The endpoint that the delivery goes to.
    #[must_use]
    pub fn endpoint(&self) -> EndpointId {
        self.endpoint
    }

    /// The event that is delivered.
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

    /// Whether it is of the epoch that the delivery is in, and no end of the attempt was recorded.
    pub(super) fn is_held(&self, delivery: &StoredDelivery) -> bool {
        delivery.is_pending() && delivery.is_leased && delivery.epoch == self.epoch
    }
}

/// The leases of one endpoint that are renewed together.
struct Renewal {
    queue: EndpointQueue,
    /// What they are leases of.
    events: Vec<EventId>,
    /// Whether the turn was to come when one of them lapses.
    is_turn: bool,
    /// Whether one lapses earlier than it did: the clock was set back.
    is_earlier: bool,
}

impl Renewal {
    fn of(queue: EndpointQueue) -> Self {
        Self {
            queue,
            events: Vec::new(),
            is_turn: false,
            is_earlier: false,
        }
    }

    fn moved(&mut self, event: EventId, before: Option<Timestamp>, until: Timestamp) {
        self.events.push(event);
        self.is_turn |= before == self.queue.state.due;
        self.is_earlier |= before.is_none_or(|before| until < before);
    }

    /// A turn at the lapse of one of them would come in vain: it comes for what else waits, or when they lapse now.
    async fn next_turn(
        &mut self,
        transaction: &Transaction,
        until: Timestamp,
    ) -> Result<(), Error> {
        if self.is_turn {
            let head = self.queue.head(transaction, self.events.len() + 1).await?;
            let is_other = |waiting: &&Waiting| !self.events.contains(&waiting.event);
            let first = head.iter().find(is_other).map(|other| other.at);
            let earliest = first.map_or(until, |first| first.min(until));
            // While it fails, the others wait for the end of its one attempt.
            let is_failing = self.queue.state.failing_since.is_some();
            let not_before = if is_failing { until } else { earliest };
            self.queue.wait_until(Some(earliest), not_before);
        }
        if self.is_earlier {
            self.queue.wake(until);
        }
        Ok(())
    }
}

impl KnowledgeService {
    /// Renews leases, so that they hold for [`DELIVERY_LEASE`] from `now`. Those that are lost are left out of the answer.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn renew_leases(
        &self,
        now: Timestamp,
        leases: &[DeliveryLease],
    ) -> Result<Vec<DeliveryLease>, Error> {
        let mut sorted = leases.to_vec();
        sorted.sort_unstable();
        let mut held = Vec::with_capacity(leases.len());
        for leases in sorted.chunks(RENEWED_PER_COMMIT) {
            held.extend(self.renew_together(now, leases).await?);
        }
        Ok(held)
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
            let found = transaction.entries(read).await?;
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
                // What is damaged is lost to its claim as well; the others hold.
                let (Ok(state), Ok(delivery)) = (state, delivery) else {
                    continue;
                };
                let mut delivery = delivery.value;
                if !lease.is_held(&delivery) {
                    continue;
                }
                held.push(*lease);
                let renewal = queues.entry(lease.endpoint).or_insert_with(|| {
                    Renewal::of(EndpointQueue::of(lease.org, lease.endpoint, state.value))
                });
                if delivery.due == Some(until) {
                    continue;
                }
                let before = delivery.due;
                delivery.renew(&mut transaction, &renewal.queue, until);
                delivery.put(&mut transaction, &renewal.queue);
                renewal.moved(lease.event, before, until);
            }
            for mut renewal in queues.into_values() {
                renewal.next_turn(&transaction, until).await?;
                if renewal.is_earlier || renewal.queue.is_changed() {
                    renewal.queue.settle(&mut transaction);
                }
            }
            transaction.done(held)
        })
        .await
    }
}
