//! Claims in progress: the requests of the claimed deliveries, and what cannot be sent.

use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;

use super::dead_letters::{dead_letter, is_elsewhere};
use super::endpoint_record::EndpointRecord;
use super::exchange::DeliveryRequest;
use super::history::RetainedEvent;
use super::lease::DeliveryLease;
use super::queue::EndpointQueue;
use super::queued_delivery::QueuedDelivery;
use super::record::StoredDelivery;
use super::schedule::{CORRUPT_RETRY_DELAY, RETRY_DELAY_MAX};
use crate::access::ActionSet;
use crate::keys;
use crate::model::{
    DeliveryFailureCode, DeliveryId, EndpointId, EventContent, EventType, OrgId, Timestamp,
};
use crate::service::kit::principal::Principal;
use crate::service::{Event, SigningSecret};
use crate::store::{Entry, Key, RangeRead, StoreError, Transaction, decode};

/// A claimed delivery, to be sent now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimedDelivery {
    /// Lease, which
    /// [`KnowledgeService::finish_delivery`](crate::service::KnowledgeService::finish_delivery) ends.
    pub lease: DeliveryLease,
    /// Type of the event.
    pub event_type: EventType,
    /// Request to send, signed for this attempt.
    pub request: DeliveryRequest,
}

/// Claim of an endpoint's entry in the ready queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryClaim {
    pub(super) org: OrgId,
    pub(super) endpoint: EndpointId,
    /// Due time of the entry.
    pub(super) at: Timestamp,
    pub(super) now: Timestamp,
    /// Number of deliveries to the endpoint that the caller has in flight.
    pub(super) in_flight: usize,
    /// Maximum number of further deliveries.
    pub(super) capacity: usize,
    /// Duration of the leases.
    pub(super) lease: Duration,
}

/// Result of a claim.
#[derive(Debug, Default)]
pub(super) struct ClaimResult {
    pub(super) deliveries: Vec<ClaimedDelivery>,
    pub(super) dead_lettered: u64,
    pub(super) next_due: Option<Timestamp>,
}

/// Body of a request: the same bytes for each attempt.
#[derive(Serialize)]
struct Body<'e> {
    #[serde(rename = "type")]
    event_type: EventType,
    timestamp: Timestamp,
    data: EventContent<'e>,
}

impl EntryClaim {
    pub(super) fn entry_key(&self) -> Key {
        keys::endpoint_due(self.at, self.org, self.endpoint)
    }

    pub(super) fn until(&self) -> Timestamp {
        self.now.plus(self.lease)
    }

    /// Returns the read of the deliveries that the caller has in flight, of those that may be
    /// claimed, and of the one after them.
    pub(super) fn front(&self) -> RangeRead {
        let limit = self.in_flight + self.capacity + 1;
        EndpointQueue::front(self.org, self.endpoint, limit)
    }

    /// Returns the keys of each candidate's delivery and event.
    pub(super) fn keys(&self, candidates: &[QueuedDelivery]) -> Vec<Key> {
        let keys = candidates.iter().flat_map(|queued| {
            let delivery = keys::delivery(self.org, self.endpoint, queued.event);
            [delivery, keys::event(self.org, queued.event)]
        });
        keys.collect()
    }
}

/// An entry that was read, or `None` if it is missing.
#[derive(Clone, Copy)]
pub(super) struct Fetched<'e>(pub(super) &'e Key, pub(super) Option<&'e Entry>);

/// A claim in progress.
pub(super) struct ClaimBuilder {
    pub(super) claim: EntryClaim,
    pub(super) record: EndpointRecord,
    /// SHA-256 of the endpoint's URL.
    pub(super) url: [u8; 32],
    /// On whose behalf the endpoint receives events, with the actions held in its workspace.
    pub(super) receiver: Option<(Principal, ActionSet)>,
    /// Epoch of the leases.
    pub(super) epoch: u64,
    /// Queue entries of the leased deliveries.
    pub(super) leased: Vec<QueuedDelivery>,
    pub(super) secrets: Vec<SigningSecret>,
    pub(super) result: ClaimResult,
    /// Earliest time for which the endpoint waits after the claim.
    pub(super) next: Option<Timestamp>,
}

impl ClaimBuilder {
    pub(super) fn note_next(&mut self, at: Option<Timestamp>) {
        let earlier = |at: Timestamp| self.next.map_or(at, |next| next.min(at));
        self.next = at.map(earlier).or(self.next);
    }

    /// Claims a queued delivery if it is wanted; returns true if its queue entry is handled.
    pub(super) fn claim_queued(
        &mut self,
        transaction: &mut Transaction,
        queue: &EndpointQueue,
        queued: QueuedDelivery,
        delivery: Fetched<'_>,
        event: Fetched<'_>,
        is_wanted: impl Fn(&StoredDelivery) -> bool,
    ) -> bool {
        let now = self.claim.now;
        let Fetched(key, entry) = delivery;
        let mut delivery = match entry.map(|entry| decode::<StoredDelivery>(key, entry)) {
            Some(Ok(delivery)) => delivery.value,
            Some(Err(error)) => {
                self.quarantine(transaction, queue, queued, &error);
                return true;
            }
            None => {
                transaction.delete(queue.entry_key(queued));
                return true;
            }
        };
        if !delivery.is_pending() || is_elsewhere(&delivery, queued) {
            transaction.delete(queue.entry_key(queued));
            self.note_next(delivery.due);
            return true;
        }
        let ahead = queued.at.since(now);
        let was_leased = delivery.is_leased || queue.state.leases.of(queued.event).is_some();
        let is_due = ahead.is_zero() || was_leased || ahead > RETRY_DELAY_MAX;
        if !is_due || !is_wanted(&delivery) {
            return false;
        }
        let is_moved = delivery.due.replace(queued.at) != Some(queued.at);
        let Fetched(key, entry) = event;
        match entry.map(|entry| decode::<RetainedEvent>(key, entry)) {
            Some(Ok(retained)) => {
                let event = &retained.value.event;
                if delivery.is_superseded(&self.record, self.receiver.as_ref(), &event.data) {
                    let code = DeliveryFailureCode::Superseded;
                    let message = "the endpoint was taken over after the event";
                    dead_letter(transaction, queue, delivery, (code, message), now);
                    self.result.dead_lettered += 1;
                } else {
                    if is_moved {
                        delivery.put(transaction, queue);
                    }
                    self.push_claimed(delivery.delivery.id, queued, event);
                }
            }
            unreadable => {
                let error = unreadable.and_then(Result::err);
                tracing::error!(%key, ?error, "unreadable event; dead-lettering its delivery");
                let code = DeliveryFailureCode::EventUnreadable;
                let message = "the stored event is unreadable";
                dead_letter(transaction, queue, delivery, (code, message), now);
                self.result.dead_lettered += 1;
            }
        }
        true
    }

    /// Postpones an unreadable delivery, which is kept for repair.
    pub(super) fn quarantine(
        &mut self,
        transaction: &mut Transaction,
        queue: &EndpointQueue,
        queued: QueuedDelivery,
        error: &StoreError,
    ) {
        let now = self.claim.now;
        if queued.at > now && queued.at.since(now) <= RETRY_DELAY_MAX {
            self.note_next(Some(queued.at));
            return;
        }
        let event = queued.event;
        tracing::error!(
            endpoint = %queue.endpoint,
            %event,
            %error,
            "unreadable delivery; postponing it"
        );
        let at = now.plus(CORRUPT_RETRY_DELAY);
        transaction.delete(queue.entry_key(queued));
        transaction.put(queue.entry_key(QueuedDelivery { at, ..queued }), &());
        self.note_next(Some(at));
    }

    /// Signs the request of a delivery, which [`EndpointQueue::lease`] leases.
    pub(super) fn push_claimed(&mut self, id: DeliveryId, queued: QueuedDelivery, event: &Event) {
        let (claim, url) = (self.claim, self.record.url().clone());
        let body = Body {
            event_type: event.event_type(),
            timestamp: event.timestamp,
            data: EventContent(&event.data),
        };
        let body = serde_json::to_vec(&body);
        let body = body.expect("records serialise: string keys, no fallible implementations");
        let signed_id = id.to_string();
        let sign = |secret: &SigningSecret| secret.sign(&signed_id, claim.now, &body);
        let signatures: Vec<_> = self.secrets.iter().map(sign).collect();
        self.leased.push(queued);
        self.result.deliveries.push(ClaimedDelivery {
            lease: DeliveryLease {
                org: claim.org,
                endpoint: claim.endpoint,
                event: queued.event,
                epoch: self.epoch,
                at: claim.now,
                url: self.url,
            },
            event_type: event.event_type(),
            request: DeliveryRequest {
                url,
                id,
                timestamp: claim.now,
                signature: signatures.join(" "),
                body: Bytes::from(body),
            },
        });
    }
}
