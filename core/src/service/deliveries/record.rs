//! A delivery as it is stored, and how one is made.

use serde::{Deserialize, Serialize};

use super::queue::{EndpointQueue, Waiting};
use crate::model::{
    Delivery, DeliveryAttempt, DeliveryId, DeliveryStatus, EndpointId, EventId, OrgId, Timestamp,
};
use crate::service::Event;
use crate::keys;
use crate::store::Transaction;

/// How many attempts of a delivery are kept: more than one schedule has.
const ATTEMPTS_KEPT_MAX: usize = 20;

/// A delivery with what its attempts are governed by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::service) struct StoredDelivery {
    pub(in crate::service) delivery: Delivery,
    /// Where it stands in the queue of its endpoint; `None` unless it is pending.
    pub(in crate::service) due: Option<Timestamp>,
    /// How many attempts of the present schedule were made.
    pub(in crate::service) tries: u32,
    /// How often it was claimed: a lease is of one epoch.
    pub(in crate::service) epoch: u64,
    /// Whether a lease of this epoch runs: then `due` is when it lapses.
    pub(in crate::service) is_leased: bool,
    /// Whether it tries the endpoint out: with one attempt, also where the service switched the endpoint off.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(in crate::service) is_trial: bool,
}

/// What a `delivery_id` leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::service) struct DeliveryPlace {
    pub(in crate::service) endpoint: EndpointId,
    pub(in crate::service) event: EventId,
}

impl StoredDelivery {
    /// A delivery that was not attempted yet.
    pub(in crate::service) fn new(event: &Event, endpoint: EndpointId) -> Self {
        Self {
            delivery: Delivery {
                id: DeliveryId::of(event.id, endpoint),
                event_id: event.id,
                event_type: event.event_type,
                status: DeliveryStatus::Pending,
                created_at: event.timestamp,
                next_attempt_at: None,
                attempts: Vec::new(),
            },
            due: None,
            tries: 0,
            epoch: 0,
            is_leased: false,
            is_trial: false,
        }
    }

    /// Writes a new delivery, which waits for an attempt at this time.
    pub(in crate::service) fn create_pending(
        self,
        transaction: &mut Transaction,
        queue: &mut EndpointQueue,
        at: Timestamp,
    ) -> Delivery {
        queue.add(transaction, at, self.delivery.event_id);
        self.create_waiting(transaction, queue, at)
    }

    /// Writes a new delivery whose place in the queue, at this time, is before everything else that waits there.
    pub(in crate::service) fn create_first(
        self,
        transaction: &mut Transaction,
        queue: &mut EndpointQueue,
        at: Timestamp,
        now: Timestamp,
    ) -> Delivery {
        queue.add_first(transaction, at, self.delivery.event_id, now);
        self.create_waiting(transaction, queue, at)
    }

    fn create_waiting(
        mut self,
        transaction: &mut Transaction,
        queue: &EndpointQueue,
        at: Timestamp,
    ) -> Delivery {
        self.mark(transaction, queue);
        self.due = Some(at);
        self.delivery.next_attempt_at = Some(at);
        self.create(transaction, queue)
    }

    /// Writes a new delivery that is given up before it is attempted.
    pub(in crate::service) fn create_dead(
        mut self,
        transaction: &mut Transaction,
        queue: &EndpointQueue,
    ) {
        self.delivery.status = DeliveryStatus::Dead;
        self.mark(transaction, queue);
        self.create(transaction, queue);
    }

    fn create(self, transaction: &mut Transaction, queue: &EndpointQueue) -> Delivery {
        let (org, endpoint, event) = (queue.org, queue.endpoint, self.delivery.event_id);
        let place = DeliveryPlace { endpoint, event };
        transaction.create(keys::delivery_id(org, self.delivery.id), &place);
        transaction.create(keys::delivery(org, endpoint, event), &self);
        self.delivery
    }

    /// Moves it to another time of the queue: it is pending, or becomes so again. Written by [`Self::put`].
    pub(in crate::service) fn enqueue(
        &mut self,
        transaction: &mut Transaction,
        queue: &mut EndpointQueue,
        at: Timestamp,
    ) {
        self.is_leased = false;
        if self.delivery.status != DeliveryStatus::Pending {
            self.unmark(transaction, queue.org, queue.endpoint);
            self.delivery.status = DeliveryStatus::Pending;
            self.mark(transaction, queue);
        }
        self.move_to(transaction, queue, at);
        queue.wake(at);
        self.delivery.next_attempt_at = Some(at);
    }

    /// Leases it for a new attempt: in the queue it stands where that lapses. Written by [`Self::put`].
    pub(in crate::service) fn lease(
        &mut self,
        transaction: &mut Transaction,
        queue: &EndpointQueue,
        until: Timestamp,
    ) {
        self.move_to(transaction, queue, until);
        self.epoch += 1;
        self.is_leased = true;
    }

    /// Has its lease lapse at another time. Written by [`Self::put`].
    pub(in crate::service) fn renew(
        &mut self,
        transaction: &mut Transaction,
        queue: &EndpointQueue,
        until: Timestamp,
    ) {
        self.move_to(transaction, queue, until);
    }

    /// Notes an attempt; of very many the last ones are kept.
    pub(in crate::service) fn note(&mut self, attempt: DeliveryAttempt) {
        let attempts = &mut self.delivery.attempts;
        if attempts.len() >= ATTEMPTS_KEPT_MAX {
            attempts.drain(..=attempts.len() - ATTEMPTS_KEPT_MAX);
        }
        attempts.push(attempt);
    }

    /// Ends what was pending, one way or the other. Written by [`Self::put`].
    pub(in crate::service) fn end(
        &mut self,
        transaction: &mut Transaction,
        queue: &EndpointQueue,
        status: DeliveryStatus,
    ) {
        self.leave_queue(transaction, queue.org, queue.endpoint);
        self.unmark(transaction, queue.org, queue.endpoint);
        self.delivery.status = status;
        self.mark(transaction, queue);
    }

    /// Writes it.
    pub(in crate::service) fn put(&self, transaction: &mut Transaction, queue: &EndpointQueue) {
        let key = keys::delivery(queue.org, queue.endpoint, self.delivery.event_id);
        transaction.put(key, self);
    }

    /// Whether it waits for an attempt.
    pub(in crate::service) fn is_pending(&self) -> bool {
        self.delivery.status == DeliveryStatus::Pending
    }

    /// Deletes it with everything that leads to it.
    pub(in crate::service) fn delete(
        &mut self,
        transaction: &mut Transaction,
        org: OrgId,
        endpoint: EndpointId,
    ) {
        let event = self.delivery.event_id;
        self.leave_queue(transaction, org, endpoint);
        self.unmark(transaction, org, endpoint);
        transaction.delete(keys::delivery_id(org, self.delivery.id));
        transaction.delete(keys::delivery(org, endpoint, event));
    }

    /// Moves its place in the queue; the turn of the endpoint stays.
    fn move_to(&mut self, transaction: &mut Transaction, queue: &EndpointQueue, at: Timestamp) {
        let event = self.delivery.event_id;
        let place = |at| queue.place(Waiting { at, event });
        if self.due == Some(at) {
            return;
        }
        if let Some(before) = self.due {
            transaction.delete(place(before));
        }
        transaction.put(place(at), &());
        self.due = Some(at);
    }

    /// The turn of the endpoint stays: it may come in vain.
    fn leave_queue(&mut self, transaction: &mut Transaction, org: OrgId, endpoint: EndpointId) {
        if let Some(at) = self.due.take() {
            let event = self.delivery.event_id;
            transaction.delete(keys::delivery_due(org, endpoint, at, event));
        }
        self.is_leased = false;
        self.delivery.next_attempt_at = None;
    }

    /// Writes the marks of its status.
    fn mark(&self, transaction: &mut Transaction, queue: &EndpointQueue) {
        let (event, endpoint) = (self.delivery.event_id, queue.endpoint);
        match self.delivery.status {
            DeliveryStatus::Pending => {
                transaction.put(keys::undelivered(event, endpoint), &queue.org);
                transaction.add(keys::undelivered_count(queue.org), 1);
            }
            DeliveryStatus::Dead => {
                transaction.put(keys::dead_letter(queue.org, endpoint, event), &());
            }
            DeliveryStatus::Delivered => {}
        }
    }

    fn unmark(&self, transaction: &mut Transaction, org: OrgId, endpoint: EndpointId) {
        let event = self.delivery.event_id;
        match self.delivery.status {
            DeliveryStatus::Pending => {
                transaction.delete(keys::undelivered(event, endpoint));
                transaction.add(keys::undelivered_count(org), -1);
            }
            DeliveryStatus::Dead => {
                transaction.delete(keys::dead_letter(org, endpoint, event));
            }
            DeliveryStatus::Delivered => {}
        }
    }
}
