//! Claims from the queue of one endpoint.
//!
//! A claim leases due deliveries, dead-letters those to an inactive endpoint and those that may name
//! what does not exist for the endpoint's present owner, and sets the time at which the endpoint is
//! due next.

use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;

use super::dead_letters::{dead_letter, dead_letter_queue, is_elsewhere};
use super::endpoint_leases::LEASE_AHEAD_MAX;
use super::endpoint_record::EndpointRecord;
use super::exchange::DeliveryRequest;
use super::history::RetainedEvent;
use super::lease::{DELIVERY_LEASE, DeliveryLease};
use super::queue::{EndpointQueue, QueuedDelivery};
use super::record::StoredDelivery;
use super::schedule::{CORRUPT_RETRY_DELAY, REQUEUE_DELAY, RETRY_DELAY_MAX};
use crate::access::ActionSet;
use crate::digest::sha256_bytes;
use crate::error::Error;
use crate::keys;
use crate::model::{
    DeliveryFailureCode, DeliveryId, EndpointId, EventContent, EventType, OrgId, Timestamp,
};
use crate::service::kit::act::Wants;
use crate::service::kit::principal::Principal;
use crate::service::{Event, KnowledgeService, SigningSecret};
use crate::store::{Entry, Key, RangeRead, StoreError, Transaction, decode};

/// A claimed delivery, to be sent now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimedDelivery {
    /// Lease, which [`KnowledgeService::finish_delivery`] ends.
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

    fn until(&self) -> Timestamp {
        self.now.plus(self.lease)
    }

    /// Returns the read of the deliveries that the caller has in flight, of those that may be
    /// claimed, and of the one after them.
    pub(super) fn front(&self) -> RangeRead {
        let limit = self.in_flight + self.capacity + 1;
        EndpointQueue::front(self.org, self.endpoint, limit)
    }

    /// Returns the keys of each candidate's delivery and event.
    fn keys(&self, candidates: &[QueuedDelivery]) -> Vec<Key> {
        let keys = candidates.iter().flat_map(|queued| {
            let delivery = keys::delivery(self.org, self.endpoint, queued.event);
            [delivery, keys::event(self.org, queued.event)]
        });
        keys.collect()
    }
}

impl KnowledgeService {
    /// Claims what is due in a queue and schedules the endpoint again.
    ///
    /// The state of the queue and [`EntryClaim::front`] were read ahead.
    pub(super) async fn claim_from(
        &self,
        transaction: &mut Transaction,
        mut queue: EndpointQueue,
        claim: EntryClaim,
    ) -> Result<ClaimResult, Error> {
        let is_failing = queue.state.failing_since.is_some();
        if is_failing && claim.in_flight > 0 {
            // It is due again when its attempt in flight has ended or the lease has expired.
            return Ok(postpone(transaction, queue, claim.now.plus(DELIVERY_LEASE)));
        }
        let capacity = if is_failing { 1 } else { claim.capacity };
        let front = front(transaction, &mut queue, claim, capacity).await?;
        let capacity = capacity.min(queue.state.leases.room(claim.now));
        let (org, endpoint, parent) = (claim.org, claim.endpoint, queue.state.parent);
        let record = EndpointRecord::read(transaction, org, endpoint, parent).await?;
        let is_confirmed = record.is_confirmed();
        let front = match is_confirmed {
            true => front,
            false => queue.pending_pings(transaction).await?,
        };
        let leases = &queue.state.leases;
        let waiting = front
            .iter()
            .filter(|queued| !leases.has_running(queued.event, claim.now));
        let waiting: Vec<_> = waiting.copied().collect();
        let mut candidates = candidates(&waiting[..waiting.len().min(capacity)], claim.now);
        let keys = claim.keys(&candidates);
        let wants = Wants::keys(keys.iter().cloned());
        let receiver = self.receiver(transaction, &record, wants, claim.now);
        let receiver = receiver.await?;
        let is_authorized = receiver.is_some();
        let found = transaction.entries(&keys).await?;
        let found: Vec<_> = keys.iter().zip(found).collect();

        let is_active = record.is_active() && is_authorized;
        let may_be_pinged = is_authorized && !record.is_disabled_by_owner();
        let begins_confirmation = !is_confirmed && is_active && front.is_empty();
        let sends_ping = begins_confirmation || (may_be_pinged && !candidates.is_empty());
        let mut room = None;
        if !is_confirmed && sends_ping {
            let found = self.host_room(transaction, &record, claim.now).await?;
            if found.left == 0 {
                return Ok(self.wait_for_room(transaction, queue, record, found.next, claim.now));
            }
            candidates.truncate(found.left);
            room = Some(found);
        }
        let mut builder = ClaimBuilder {
            secrets: match room.is_some() || !candidates.is_empty() && (is_active || may_be_pinged)
            {
                true => self.secrets(&record, claim.now)?,
                false => Vec::new(),
            },
            url: sha256_bytes(record.url().as_str().as_bytes()),
            record,
            receiver,
            claim,
            epoch: queue.state.claims + 1,
            leased: Vec::new(),
            result: ClaimResult::default(),
            next: None,
        };
        let mut handled = Vec::with_capacity(candidates.len());
        for (queued, found) in candidates.iter().zip(found.chunks(2)) {
            let [(delivery_key, delivery), (event_key, event)] = found else {
                continue;
            };
            let delivery = Fetched(delivery_key, delivery.as_ref());
            let event = Fetched(event_key, event.as_ref());
            let is_wanted =
                |delivery: &StoredDelivery| is_active || (delivery.is_ping && may_be_pinged);
            if builder.claim_queued(transaction, &queue, *queued, delivery, event, is_wanted) {
                handled.push(*queued);
            }
        }
        if begins_confirmation {
            let event = self.ping_event(&builder.record, claim.now);
            queue.note_ping(event.id);
            let mut delivery = StoredDelivery::new(&event, &builder.record);
            delivery.create_due(transaction, &queue, claim.now);
            let queued = QueuedDelivery {
                at: claim.now,
                event: event.id,
            };
            builder.push_claimed(delivery.delivery.id, queued, &event);
            RetainedEvent::new(event, vec![endpoint], self.limits())
                .create(transaction, self.env());
        }
        let pings = builder.result.deliveries.len();
        if let Some(room) = room.filter(|_| pings > 0) {
            self.take_room(transaction, room, pings, claim.now);
        }
        for queued in &handled {
            queue.state.leases.remove(queued.event);
        }
        queue.lease(&builder.leased, claim.until());
        queue.state.leases.forget_expired(claim.now);
        let left = if is_active {
            let mut waiting = waiting.into_iter();
            waiting.find(|queued| !handled.contains(queued))
        } else {
            dead_letter_queue(
                transaction,
                &mut queue,
                &mut builder,
                &handled,
                may_be_pinged,
            )
            .await?
        };
        builder.note_next(left.map(|left| left.at));
        // Expired leases are among the deliveries that wait.
        let lease_end = queue.state.leases.first_running_end(claim.now);
        builder.note_next(lease_end);
        let earliest = claim.now.plus(REQUEUE_DELAY);
        let is_probed = is_failing && !builder.result.deliveries.is_empty();
        let is_full = capacity == 0 && claim.capacity > 0;
        let not_before = match lease_end {
            _ if is_probed => claim.until(),
            Some(lease_end) if is_full => earliest.max(lease_end),
            _ => earliest,
        };
        if is_active && !is_confirmed {
            // Its pings have ended without a result if none is left: another one begins.
            builder.next = builder.next.or(Some(earliest));
        }
        queue.schedule(builder.next, not_before);
        if !is_confirmed {
            // The events that wait are due earlier.
            queue.state.not_before = queue.state.due;
        }
        builder.result.next_due = queue.state.due;
        queue.save(transaction);
        Ok(builder.result)
    }
}

/// Postpones an endpoint without claiming anything.
pub(super) fn postpone(
    transaction: &mut Transaction,
    mut queue: EndpointQueue,
    to: Timestamp,
) -> ClaimResult {
    queue.state.due = Some(to);
    queue.state.not_before = Some(to);
    queue.save(transaction);
    ClaimResult {
        next_due: Some(to),
        ..ClaimResult::default()
    }
}

/// Returns the front of a queue: what is leased there, the deliveries that may be claimed, and the
/// one after them.
///
/// Leases of deliveries that have ended are removed.
async fn front(
    transaction: &mut Transaction,
    queue: &mut EndpointQueue,
    claim: EntryClaim,
    capacity: usize,
) -> Result<Vec<QueuedDelivery>, Error> {
    let read = claim.front();
    let found = transaction.scan(&read).await?;
    let found = found.iter().map(QueuedDelivery::parse);
    let mut front = found.collect::<Result<Vec<_>, _>>()?;
    let mut is_whole = front.len() < read.limit;
    queue.state.leases.retain_queued(&front, is_whole);
    let limit = queue.state.leases.len() + capacity + 1;
    if front.len() < limit && !is_whole {
        // Another dispatcher has deliveries in flight.
        front = queue.peek(transaction, limit).await?;
        is_whole = front.len() < limit;
        queue.state.leases.retain_queued(&front, is_whole);
    }
    Ok(front)
}

/// Returns the deliveries at the front of a queue that may be due.
///
/// A delivery further in the future than any lease is included, because the clock may have been set
/// back since it was queued.
fn candidates(front: &[QueuedDelivery], now: Timestamp) -> Vec<QueuedDelivery> {
    let mut found: Vec<QueuedDelivery> = Vec::with_capacity(front.len());
    for queued in front {
        let is_candidate = queued.at <= now || queued.at > now.plus(LEASE_AHEAD_MAX);
        // Only a corrupt queue lists a delivery twice.
        let is_new = found.iter().all(|other| other.event != queued.event);
        if is_candidate && is_new {
            found.push(*queued);
        }
    }
    found
}

/// An entry that was read, or `None` if it is missing.
#[derive(Clone, Copy)]
struct Fetched<'e>(&'e Key, Option<&'e Entry>);

/// A claim in progress.
pub(super) struct ClaimBuilder {
    pub(super) claim: EntryClaim,
    pub(super) record: EndpointRecord,
    /// SHA-256 of the endpoint's URL.
    url: [u8; 32],
    /// On whose behalf the endpoint receives events, with the actions held in its workspace.
    receiver: Option<(Principal, ActionSet)>,
    /// Epoch of the leases.
    epoch: u64,
    /// Queue entries of the leased deliveries.
    leased: Vec<QueuedDelivery>,
    secrets: Vec<SigningSecret>,
    pub(super) result: ClaimResult,
    /// Earliest time for which the endpoint waits after the claim.
    next: Option<Timestamp>,
}

impl ClaimBuilder {
    pub(super) fn note_next(&mut self, at: Option<Timestamp>) {
        let earlier = |at: Timestamp| self.next.map_or(at, |next| next.min(at));
        self.next = at.map(earlier).or(self.next);
    }

    /// Claims a queued delivery if it is wanted; returns true if its queue entry is handled.
    fn claim_queued(
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
    fn push_claimed(&mut self, id: DeliveryId, queued: QueuedDelivery, event: &Event) {
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
