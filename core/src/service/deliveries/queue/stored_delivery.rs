//! Stored deliveries and their transitions.

use serde::{Deserialize, Serialize};

use super::endpoint_queue::EndpointQueue;
use super::queued_delivery::QueuedDelivery;
use crate::access::ActionSet;
use crate::error::{EntityKind, Error};
use crate::keys;
use crate::model::{
    Delivery, DeliveryAttempt, DeliveryFailure, DeliveryId, DeliveryStatus, EndpointId, EventData,
    EventId, OrgId, Timestamp,
};
use crate::service::Event;
use crate::service::access::monitor::Monitor;
use crate::service::access::principal::{Delegator, Principal};
use crate::service::endpoints::EndpointRecord;
use crate::store::{Key, KeyEntry, Transaction};

/// Maximum number of stored attempts of a delivery: more than one retry schedule has.
const ATTEMPTS_KEPT_MAX: usize = 20;
const NO_SUCH_DELIVERY: Error = Error::not_found(EntityKind::Delivery);

/// A delivery with the state that governs its attempts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::service) struct StoredDelivery {
    pub(in crate::service) delivery: Delivery,
    /// Time of its entry in the endpoint's queue; `None` unless it is pending.
    pub(in crate::service) due: Option<Timestamp>,
    /// Number of attempts in the current retry schedule.
    pub(in crate::service) attempt_count: u32,
    /// Epoch of the lease under which the last attempt was recorded.
    pub(in crate::service) epoch: u64,
    /// True if it has been pending since its creation and no attempt has failed.
    ///
    /// Only other pending deliveries have an entry under `undelivered`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(in crate::service) is_fresh: bool,
    /// True for a test event: it has a single attempt, even if the service disabled the endpoint.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(in crate::service) is_ping: bool,
    /// On whose behalf the endpoint received the event.
    pub(in crate::service) made_for: Delegator,
}

/// Value of a `delivery_id` entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::service) struct DeliveryRef {
    pub(in crate::service) endpoint: EndpointId,
    pub(in crate::service) event: EventId,
}

impl StoredDelivery {
    /// Creates a delivery that has not been attempted yet.
    pub(in crate::service) fn new(event: &Event, record: &EndpointRecord) -> Self {
        let endpoint = record.endpoint();
        Self {
            delivery: Delivery {
                id: DeliveryId::of(event.id, endpoint),
                event_id: event.id,
                event_type: event.event_type(),
                status: DeliveryStatus::Pending,
                created_at: event.timestamp,
                next_attempt_at: None,
                attempts: Vec::new(),
            },
            due: None,
            attempt_count: 0,
            epoch: 0,
            is_fresh: true,
            is_ping: false,
            made_for: record.requirement().0,
        }
    }

    /// Writes a new delivery that is due at this time.
    pub(in crate::service) fn create_pending(
        self,
        transaction: &mut Transaction,
        queue: &mut EndpointQueue,
        at: Timestamp,
    ) -> Delivery {
        queue.push(transaction, at, self.delivery.event_id);
        self.create_queued(transaction, queue, at)
    }

    /// Writes a new delivery with an entry at this time, before all other entries of the queue.
    pub(in crate::service) fn create_at_front(
        self,
        transaction: &mut Transaction,
        queue: &mut EndpointQueue,
        at: Timestamp,
        now: Timestamp,
    ) -> Delivery {
        queue.push_front(transaction, at, self.delivery.event_id, now);
        self.create_queued(transaction, queue, at)
    }

    fn create_queued(
        mut self,
        transaction: &mut Transaction,
        queue: &EndpointQueue,
        at: Timestamp,
    ) -> Delivery {
        self.index_status(transaction, queue);
        self.due = Some(at);
        self.delivery.next_attempt_at = Some(at);
        self.create(transaction, queue)
    }

    /// Writes a new delivery that is dead-lettered before any attempt.
    pub(in crate::service) fn create_dead(
        mut self,
        transaction: &mut Transaction,
        queue: &EndpointQueue,
    ) {
        self.is_fresh = false;
        self.delivery.status = DeliveryStatus::Dead;
        self.index_status(transaction, queue);
        self.create(transaction, queue);
    }

    fn create(self, transaction: &mut Transaction, queue: &EndpointQueue) -> Delivery {
        self.create_reference(transaction, queue);
        let event = self.delivery.event_id;
        transaction.create(keys::delivery(queue.org, queue.endpoint, event), &self);
        self.delivery
    }

    fn create_reference(&self, transaction: &mut Transaction, queue: &EndpointQueue) {
        let (endpoint, event) = (queue.endpoint, self.delivery.event_id);
        let reference = DeliveryRef { endpoint, event };
        transaction.create(keys::delivery_id(queue.org, self.delivery.id), &reference);
    }

    /// Writes a new delivery that is to be leased at once, without a change of the queue's state.
    pub(in crate::service) fn create_due(
        &mut self,
        transaction: &mut Transaction,
        queue: &EndpointQueue,
        now: Timestamp,
    ) {
        self.index_status(transaction, queue);
        self.create_reference(transaction, queue);
        self.move_to(transaction, queue, now);
        self.delivery.next_attempt_at = Some(now);
        self.put(transaction, queue);
    }

    /// Queues the delivery for this time, as pending. [`Self::put`] writes it.
    pub(in crate::service) fn enqueue(
        &mut self,
        transaction: &mut Transaction,
        queue: &mut EndpointQueue,
        at: Timestamp,
    ) {
        queue.state.leases.remove(self.delivery.event_id);
        if self.delivery.status != DeliveryStatus::Pending {
            self.unindex_status(transaction, queue.org, queue.endpoint);
            self.delivery.status = DeliveryStatus::Pending;
            self.index_status(transaction, queue);
        } else if self.is_fresh {
            self.is_fresh = false;
            self.index_again(transaction, queue);
        }
        self.move_to(transaction, queue, at);
        queue.schedule_by(at);
        self.delivery.next_attempt_at = Some(at);
    }

    /// Records an attempt under a lease.
    pub(in crate::service) fn record_leased(&mut self, epoch: u64, attempt: DeliveryAttempt) {
        self.epoch = epoch;
        self.record_attempt(attempt);
    }

    /// Records an attempt; of very many, only the last ones are kept.
    pub(in crate::service) fn record_attempt(&mut self, attempt: DeliveryAttempt) {
        let attempts = &mut self.delivery.attempts;
        if attempts.len() >= ATTEMPTS_KEPT_MAX {
            attempts.drain(..=attempts.len() - ATTEMPTS_KEPT_MAX);
        }
        attempts.push(attempt);
    }

    /// Ends a pending delivery with this status. [`Self::put`] writes it.
    pub(in crate::service) fn end(
        &mut self,
        transaction: &mut Transaction,
        queue: &EndpointQueue,
        status: DeliveryStatus,
    ) {
        self.leave_queue(transaction, queue.org, queue.endpoint);
        self.unindex_status(transaction, queue.org, queue.endpoint);
        self.is_fresh = false;
        self.delivery.status = status;
        self.index_status(transaction, queue);
    }

    /// Dead-letters the delivery without an attempt, for this reason, and writes it.
    pub(in crate::service) fn dead_letter(
        mut self,
        transaction: &mut Transaction,
        queue: &EndpointQueue,
        reason: DeliveryFailure,
        now: Timestamp,
    ) {
        self.record_attempt(DeliveryAttempt {
            at: now,
            duration_ms: 0,
            status: None,
            error: Some(reason),
        });
        self.end(transaction, queue, DeliveryStatus::Dead);
        self.put(transaction, queue);
    }

    /// Writes the delivery.
    pub(in crate::service) fn put(&self, transaction: &mut Transaction, queue: &EndpointQueue) {
        let key = keys::delivery(queue.org, queue.endpoint, self.delivery.event_id);
        transaction.put(key, self);
    }

    /// Returns true if the event was made for a former owner of the endpoint, and may name what does
    /// not exist for the present one, who holds these actions in its workspace.
    ///
    /// The member itself, without a scope, knows all that one of its credentials does.
    pub(in crate::service) fn is_superseded(
        &self,
        record: &EndpointRecord,
        receiver: Option<&(Principal, ActionSet)>,
        data: &EventData,
    ) -> bool {
        let Some((caller, held)) = receiver else {
            return false;
        };
        let former = self.made_for;
        let is_same_member = former.member == caller.member_id() && !caller.is_narrowed();
        if former == record.requirement().0 || is_same_member {
            return false;
        }
        match data {
            // A recall exists for those who may read all that it cites.
            EventData::CitationChanged(_) => true,
            EventData::IngestCompleted(_) => !Monitor::knows_all(caller, *held),
            data => !data.memories().is_empty() && !Monitor::knows_all(caller, *held),
        }
    }

    /// Returns true if the delivery waits for an attempt.
    pub(in crate::service) fn is_pending(&self) -> bool {
        self.delivery.status == DeliveryStatus::Pending
    }

    /// Deletes the delivery and its index entries.
    pub(in crate::service) fn delete(
        &mut self,
        transaction: &mut Transaction,
        org: OrgId,
        endpoint: EndpointId,
    ) {
        let event = self.delivery.event_id;
        self.leave_queue(transaction, org, endpoint);
        self.unindex_status(transaction, org, endpoint);
        transaction.delete(keys::delivery_id(org, self.delivery.id));
        transaction.delete(keys::delivery(org, endpoint, event));
    }

    /// Moves the queue entry. The due time of the endpoint is unchanged.
    fn move_to(&mut self, transaction: &mut Transaction, queue: &EndpointQueue, at: Timestamp) {
        let event = self.delivery.event_id;
        let entry_key = |at| queue.entry_key(QueuedDelivery { at, event });
        if self.due == Some(at) {
            return;
        }
        if let Some(before) = self.due {
            transaction.delete(entry_key(before));
        }
        transaction.put(entry_key(at), &());
        self.due = Some(at);
    }

    /// Removes the queue entry.
    ///
    /// The due time of the endpoint is unchanged; its next wake-up may be a no-op.
    fn leave_queue(&mut self, transaction: &mut Transaction, org: OrgId, endpoint: EndpointId) {
        if let Some(at) = self.due.take() {
            let event = self.delivery.event_id;
            transaction.delete(keys::delivery_due(org, endpoint, at, event));
        }
        self.delivery.next_attempt_at = None;
    }

    /// Writes the index entries of the status.
    fn index_status(&self, transaction: &mut Transaction, queue: &EndpointQueue) {
        let (event, endpoint) = (self.delivery.event_id, queue.endpoint);
        match self.delivery.status {
            DeliveryStatus::Pending => {
                if !self.is_fresh {
                    self.index_again(transaction, queue);
                }
                transaction.add(keys::undelivered_count(queue.org), 1);
            }
            DeliveryStatus::Dead => {
                transaction.put(keys::dead_letter(queue.org, endpoint, event), &());
            }
            DeliveryStatus::Delivered => {}
        }
    }

    /// Writes the index entry of a pending delivery that is not fresh.
    fn index_again(&self, transaction: &mut Transaction, queue: &EndpointQueue) {
        let key = keys::undelivered(self.delivery.event_id, queue.endpoint);
        transaction.put(key, &queue.org);
    }

    fn unindex_status(&self, transaction: &mut Transaction, org: OrgId, endpoint: EndpointId) {
        let event = self.delivery.event_id;
        match self.delivery.status {
            DeliveryStatus::Pending => {
                if !self.is_fresh {
                    transaction.delete(keys::undelivered(event, endpoint));
                }
                transaction.add(keys::undelivered_count(org), -1);
            }
            DeliveryStatus::Dead => {
                transaction.delete(keys::dead_letter(org, endpoint, event));
            }
            DeliveryStatus::Delivered => {}
        }
    }
}

/// Returns the keys of the deliveries that these entries of the dead-letter index name.
pub(in crate::service) fn delivery_keys(
    org: OrgId,
    endpoint: EndpointId,
    entries: &[KeyEntry],
) -> Vec<Key> {
    let events = entries.iter().map(|entry| keys::last_id(&entry.key));
    events
        .map(|event| keys::delivery(org, endpoint, EventId(event.unwrap_or_default())))
        .collect()
}

/// Finds a delivery to this endpoint, without checking permissions.
///
/// # Errors
/// [`Error::NotFound`]; those of the store.
pub(in crate::service) async fn find_delivery(
    transaction: &mut Transaction,
    org: OrgId,
    endpoint: EndpointId,
    id: DeliveryId,
) -> Result<StoredDelivery, Error> {
    let reference = transaction
        .get::<DeliveryRef>(&keys::delivery_id(org, id))
        .await?
        .filter(|reference| reference.endpoint == endpoint)
        .ok_or(NO_SUCH_DELIVERY)?;
    let found = transaction
        .get(&keys::delivery(org, endpoint, reference.event))
        .await?;
    found.ok_or(NO_SUCH_DELIVERY)
}
