//! Claims from the queue of one endpoint, step by step.
//!
//! A claim leases due deliveries, dead-letters those to an inactive endpoint and those that may name
//! what does not exist for the endpoint's present owner, and sets the time at which the endpoint is
//! due next.

mod url_confirmation;

use serde::de::DeserializeOwned;

use super::checked_record::CheckedRecord;
use super::claim_batch::EndpointClaimResult;
use super::claimed_delivery::ClaimedDelivery;
use super::endpoint_claim::EndpointClaim;
use crate::access::ActionSet;
use crate::digest::sha256_bytes;
use crate::error::Error;
use crate::keys;
use crate::model::{
    DeliveryFailure, DeliveryFailureCode, DeliveryId, DisabledReason, EventId, Timestamp,
};
use crate::service::access::principal::Principal;
use crate::service::deliveries::dispatch::DeliveryLease;
use crate::service::deliveries::dispatch::host_pings::HostRoom;
use crate::service::deliveries::dispatch::retry::{
    CORRUPT_RETRY_DELAY, FAILING_MAX, REQUEUE_DELAY, RETRY_DELAY_MAX,
};
use crate::service::deliveries::history::RetainedEvent;
use crate::service::deliveries::queue::{
    DELIVERY_LEASE, EndpointQueue, LEASE_AHEAD_MAX, QueuedDelivery, StoredDelivery, UrlConfirmation,
};
use crate::service::endpoints::EndpointRecord;
use crate::service::operation::Prefetch;
use crate::service::{Event, KnowledgeService, SigningSecret};
use crate::store::{Entry, Key, StoreError, Transaction, decode};

/// Maximum number of deliveries to an inactive endpoint that one claim dead-letters.
const DEAD_LETTERED_PER_CLAIM: usize = 200;

/// Record that was read, or `None` if it is missing.
struct Fetched {
    key: Key,
    entry: Option<Entry>,
}

impl Fetched {
    /// Decodes the record; `None` if it is missing.
    fn decode<T: DeserializeOwned>(&self) -> Option<Result<T, StoreError>> {
        let decoded = decode::<T>(&self.key, self.entry.as_ref()?);
        Some(decoded.map(|record| record.value))
    }
}

/// Queue entry that may be claimed, with its delivery and its event.
struct Candidate {
    queued: QueuedDelivery,
    delivery: Fetched,
    event: Fetched,
}

/// Claim from the queue of an endpoint that is due.
pub(super) struct QueueClaim<'t> {
    service: &'t KnowledgeService,
    transaction: &'t mut Transaction,
    claim: EndpointClaim,
    queue: EndpointQueue,
    record: EndpointRecord,
    /// True if events may be sent to the URL of the endpoint.
    is_confirmed: bool,
    /// What is known about its URL, if the endpoint is unconfirmed.
    confirmation: Option<UrlConfirmation>,
    /// True if the claim sends the ping that asks the URL.
    asks: bool,
    /// On whose behalf the endpoint receives events, with the actions held in its workspace.
    receiver: Option<(Principal, ActionSet)>,
    /// Number of deliveries that may be leased.
    capacity: usize,
    /// True if nothing is pending that the endpoint may receive.
    is_queue_empty: bool,
    /// Entries at the front of the queue without a running lease.
    waiting: Vec<QueuedDelivery>,
    candidates: Vec<Candidate>,
    /// SHA-256 of the endpoint's URL.
    url: [u8; 32],
    secrets: Vec<SigningSecret>,
    /// Candidates that are leased, dead-lettered, postponed or removed.
    handled: Vec<QueuedDelivery>,
    /// Queue entries of the leased deliveries.
    leased: Vec<QueuedDelivery>,
    result: EndpointClaimResult,
    /// Earliest time for which the endpoint waits after the claim.
    next: Option<Timestamp>,
}

impl<'t> QueueClaim<'t> {
    /// Claims what is due in a queue and schedules the endpoint again.
    ///
    /// The state of the queue and [`EndpointClaim::front`] were prefetched.
    pub(super) async fn run(
        service: &'t KnowledgeService,
        transaction: &'t mut Transaction,
        queue: EndpointQueue,
        claim: EndpointClaim,
    ) -> Result<EndpointClaimResult, Error> {
        if queue.state.failing_since.is_some() && claim.in_flight > 0 {
            // It is due again when its attempt in flight has ended or the lease has expired.
            let later = claim.now.plus(DELIVERY_LEASE);
            queue.postpone(transaction, later);
            return Ok(EndpointClaimResult::nothing(Some(later)));
        }
        let mut step = Self::read(service, transaction, queue, claim).await?;
        if step.begins_confirmation()
            && let Some(later) = step.waits_for_another().await?
        {
            return Ok(step.wait_until(later));
        }
        let mut room = None;
        if step.sends_ping() {
            let found = service
                .host_room(step.transaction, &step.record, claim.now)
                .await?;
            if found.left == 0 {
                step.note_next_ping(found.next, Some(found.limit));
                return Ok(step.wait_until(found.next));
            }
            step.candidates.truncate(found.left);
            room = Some(found);
        }
        step.open_secrets(room.is_some())?;
        step.claim_candidates();
        if step.begins_confirmation() {
            step.create_ping();
        }
        if step.asks {
            step.note_next_ping(claim.now, None);
        }
        step.take_room(room);
        step.lease();
        let left = if step.is_active() {
            step.first_waiting()
        } else {
            step.dead_letter_queue().await?
        };
        step.schedule(left);
        step.queue.save(step.transaction);
        Ok(step.result)
    }

    /// Reads the front of the queue, the endpoint with its receiver, and the candidates.
    async fn read(
        service: &'t KnowledgeService,
        transaction: &'t mut Transaction,
        mut queue: EndpointQueue,
        claim: EndpointClaim,
    ) -> Result<Self, Error> {
        let (org, endpoint, now) = (claim.org, claim.endpoint, claim.now);
        // A failing endpoint gets a single attempt.
        let is_failing = queue.state.failing_since.is_some();
        let capacity = if is_failing { 1 } else { claim.capacity };
        let front = front(transaction, &mut queue, claim, capacity).await?;
        let capacity = capacity.min(queue.state.leases.room(now));
        let record = EndpointRecord::read(transaction, org, endpoint, queue.state.parent).await?;
        let checked = CheckedRecord::read(service, transaction, &mut queue, record, now).await?;
        let CheckedRecord {
            record,
            is_confirmed,
            confirmation,
        } = checked;
        let mut waiting = if is_confirmed {
            front
        } else {
            queue.pending_pings(transaction).await?
        };
        let is_queue_empty = waiting.is_empty();
        waiting.retain(|queued| !queue.state.leases.has_running(queued.event, now));
        let candidates = candidates(&waiting[..waiting.len().min(capacity)], now);
        let keys = records_of(&candidates, claim);
        let prefetch = Prefetch::keys(keys.iter().cloned());
        let receiver = service
            .receiver(transaction, &record, prefetch, now)
            .await?;
        let entries = transaction.get_many::<Entry>(&keys).await?;
        let fetched = keys.into_iter().zip(entries);
        let mut fetched = fetched.map(|(key, entry)| Fetched { key, entry });
        let candidates = candidates.into_iter().filter_map(|queued| {
            let (delivery, event) = (fetched.next()?, fetched.next()?);
            Some(Candidate {
                queued,
                delivery,
                event,
            })
        });
        let url = sha256_bytes(record.url().as_str());
        Ok(Self {
            candidates: candidates.collect(),
            service,
            transaction,
            claim,
            queue,
            record,
            is_confirmed,
            confirmation,
            asks: false,
            receiver,
            capacity,
            is_queue_empty,
            waiting,
            url,
            secrets: Vec::new(),
            handled: Vec::new(),
            leased: Vec::new(),
            result: EndpointClaimResult::default(),
            next: None,
        })
    }

    /// Returns true if the endpoint may receive events, once it is confirmed.
    fn is_active(&self) -> bool {
        self.record.is_active() && self.receiver.is_some()
    }

    /// Returns true if the endpoint may receive pings, even if the service disabled it.
    fn may_be_pinged(&self) -> bool {
        self.receiver.is_some() && !self.record.is_disabled_by_owner()
    }

    /// Returns true if the claim creates the ping of an unconfirmed endpoint.
    fn begins_confirmation(&self) -> bool {
        !self.is_confirmed && self.is_active() && self.is_queue_empty
    }

    /// Returns true if the claim may send pings to an unconfirmed endpoint.
    fn sends_ping(&self) -> bool {
        let has_candidates = self.may_be_pinged() && !self.candidates.is_empty();
        !self.is_confirmed && (self.begins_confirmation() || has_candidates)
    }

    /// Postpones the endpoint until its URL may be asked, but not for days.
    fn wait_until(mut self, until: Timestamp) -> EndpointClaimResult {
        let now = self.claim.now;
        let failing_since = *self.queue.state.failing_since.get_or_insert(now);
        let mut later = until;
        if self.record.is_active() && now.since(failing_since) >= FAILING_MAX {
            let reason = Some(DisabledReason::Failing);
            self.service
                .set_disabled(self.transaction, self.record, reason, now);
            self.queue.state.failing_since = None;
            self.queue.state.pings.clear();
            // What waits for it is dead-lettered then.
            later = now.plus(REQUEUE_DELAY);
        }
        self.queue.postpone(self.transaction, later);
        EndpointClaimResult::nothing(Some(later))
    }

    /// Opens the secrets that sign the requests, if there may be any.
    fn open_secrets(&mut self, has_room: bool) -> Result<(), Error> {
        let may_send = self.is_active() || self.may_be_pinged();
        if has_room || !self.candidates.is_empty() && may_send {
            self.secrets = self.service.secrets(&self.record, self.claim.now)?;
        }
        Ok(())
    }

    fn claim_candidates(&mut self) {
        for candidate in std::mem::take(&mut self.candidates) {
            if self.claim_candidate(&candidate) {
                self.handled.push(candidate.queued);
            }
        }
    }

    /// Claims a candidate if it is due and the endpoint may receive it; returns true if its queue
    /// entry is handled.
    fn claim_candidate(&mut self, candidate: &Candidate) -> bool {
        let queued = candidate.queued;
        let Some(mut delivery) = self.pending_delivery(queued, &candidate.delivery) else {
            return true;
        };
        let ahead = queued.at.since(self.claim.now);
        let was_leased = self.queue.state.leases.of(queued.event).is_some();
        let is_due = ahead.is_zero() || was_leased || ahead > RETRY_DELAY_MAX;
        let is_wanted = self.is_active() || (delivery.is_ping && self.may_be_pinged());
        if !is_due || !is_wanted {
            return false;
        }
        let is_moved = delivery.due.replace(queued.at) != Some(queued.at);
        match candidate.event.decode::<RetainedEvent>() {
            Some(Ok(retained)) => {
                let event = &retained.event;
                if delivery.is_superseded(&self.record, self.receiver.as_ref(), &event.data) {
                    let message = "the endpoint was taken over after the event";
                    self.dead_letter(delivery, DeliveryFailureCode::Superseded, message);
                } else {
                    if is_moved {
                        delivery.put(self.transaction, &self.queue);
                    }
                    self.asks |= !self.is_confirmed && !delivery.is_ping;
                    self.claim_delivery(delivery.delivery.id, queued, event);
                }
            }
            unreadable => {
                let error = unreadable.and_then(Result::err);
                let key = &candidate.event.key;
                tracing::error!(%key, ?error, "unreadable event; dead-lettering its delivery");
                let message = "the stored event is unreadable";
                self.dead_letter(delivery, DeliveryFailureCode::EventUnreadable, message);
            }
        }
        true
    }

    /// Returns the delivery of a queue entry, if it is pending there.
    ///
    /// Otherwise the entry is removed, or postponed for an unreadable delivery.
    fn pending_delivery(
        &mut self,
        queued: QueuedDelivery,
        fetched: &Fetched,
    ) -> Option<StoredDelivery> {
        let delivery = match fetched.decode::<StoredDelivery>() {
            Some(Ok(delivery)) => delivery,
            Some(Err(error)) => {
                self.quarantine(queued, &error);
                return None;
            }
            None => {
                self.transaction.delete(self.queue.entry_key(queued));
                return None;
            }
        };
        if !delivery.is_pending() {
            self.transaction.delete(self.queue.entry_key(queued));
            self.note_next(delivery.due);
            return None;
        }
        Some(delivery)
    }

    /// Postpones an unreadable delivery, which is kept for repair.
    fn quarantine(&mut self, queued: QueuedDelivery, error: &StoreError) {
        let now = self.claim.now;
        if queued.at > now && queued.at.since(now) <= RETRY_DELAY_MAX {
            self.note_next(Some(queued.at));
            return;
        }
        let event = queued.event;
        tracing::error!(
            endpoint = %self.queue.endpoint,
            %event,
            %error,
            "unreadable delivery; postponing it"
        );
        let at = now.plus(CORRUPT_RETRY_DELAY);
        let postponed = QueuedDelivery { at, event };
        self.transaction.delete(self.queue.entry_key(queued));
        self.transaction.put(self.queue.entry_key(postponed), &());
        self.note_next(Some(at));
    }

    /// Dead-letters a delivery without an attempt.
    fn dead_letter(&mut self, delivery: StoredDelivery, code: DeliveryFailureCode, message: &str) {
        let message = message.to_owned();
        let reason = DeliveryFailure { code, message };
        delivery.dead_letter(self.transaction, &self.queue, reason, self.claim.now);
        self.result.dead_lettered += 1;
    }

    /// Signs the request of a delivery, which [`Self::lease`] leases.
    fn claim_delivery(&mut self, id: DeliveryId, queued: QueuedDelivery, event: &Event) {
        let lease = DeliveryLease {
            org: self.claim.org,
            endpoint: self.claim.endpoint,
            event: queued.event,
            epoch: self.queue.state.claims + 1,
            at: self.claim.now,
            url: self.url,
        };
        let url = self.record.url().clone();
        let claimed = ClaimedDelivery::signed(lease, id, event, url, &self.secrets);
        self.leased.push(queued);
        self.result.deliveries.push(claimed);
    }

    /// Creates the ping that confirms the endpoint, and claims it.
    fn create_ping(&mut self) {
        let (service, now) = (self.service, self.claim.now);
        let event = service.ping_event(&self.record, now);
        self.queue.note_ping(event.id);
        self.asks = true;
        let mut delivery = StoredDelivery::new(&event, &self.record);
        delivery.create_due(self.transaction, &self.queue, now);
        let queued = QueuedDelivery {
            at: now,
            event: event.id,
        };
        self.claim_delivery(delivery.delivery.id, queued, &event);
        RetainedEvent::new(event, vec![self.claim.endpoint], service.limits())
            .create(self.transaction, service.env());
    }

    /// Counts the pings that are sent to the host of an unconfirmed endpoint.
    fn take_room(&mut self, room: Option<HostRoom>) {
        let pings = self.result.deliveries.len();
        if let Some(room) = room.filter(|_| pings > 0) {
            self.service
                .take_room(self.transaction, room, pings, self.claim.now);
        }
    }

    fn lease(&mut self) {
        for queued in &self.handled {
            self.queue.state.leases.remove(queued.event);
        }
        self.queue.lease(&self.leased, self.claim.until());
        self.queue.state.leases.forget_expired(self.claim.now);
    }

    /// Returns the first waiting entry that is not handled.
    fn first_waiting(&self) -> Option<QueuedDelivery> {
        let mut waiting = self.waiting.iter().copied();
        waiting.find(|queued| !self.handled.contains(queued))
    }

    /// Dead-letters the queue of an inactive endpoint.
    ///
    /// Attempts in flight and pings that may be sent remain; the first of them is returned.
    async fn dead_letter_queue(&mut self) -> Result<Option<QueuedDelivery>, Error> {
        let now = self.claim.now;
        let limit = self.queue.state.leases.len() + DEAD_LETTERED_PER_CLAIM + 1;
        let mut queued = self.queue.peek(self.transaction, limit).await?;
        queued.retain(|queued| !self.queue.state.leases.has_running(queued.event, now));
        let has_more = queued.len() > DEAD_LETTERED_PER_CLAIM;
        queued.truncate(DEAD_LETTERED_PER_CLAIM);
        queued.retain(|queued| !self.handled.contains(queued));
        let (org, endpoint) = (self.claim.org, self.claim.endpoint);
        let keys: Vec<Key> = queued
            .iter()
            .map(|queued| keys::delivery(org, endpoint, queued.event))
            .collect();
        let entries = self.transaction.get_many::<Entry>(&keys).await?;
        // Only a corrupt queue lists a delivery twice; its second entry is left for another claim.
        let mut seen: Vec<EventId> = self.handled.iter().map(|queued| queued.event).collect();
        let mut left = None;
        let fetched = keys.into_iter().zip(entries);
        let fetched = fetched.map(|(key, entry)| Fetched { key, entry });
        for (queued, fetched) in queued.into_iter().zip(fetched) {
            let is_second = seen.contains(&queued.event);
            seen.push(queued.event);
            if is_second || !self.dead_letter_queued(queued, &fetched) {
                left = left.or(Some(queued));
            }
        }
        if has_more {
            self.note_next(Some(now));
        }
        Ok(left)
    }

    /// Dead-letters a delivery to an inactive endpoint; returns false if it remains in the queue.
    fn dead_letter_queued(&mut self, queued: QueuedDelivery, fetched: &Fetched) -> bool {
        let Some(delivery) = self.pending_delivery(queued, fetched) else {
            return true;
        };
        let pings = &self.queue.state.pings;
        let is_expected = self.is_confirmed || pings.contains(&queued.event);
        if delivery.is_ping && self.may_be_pinged() && is_expected {
            return false;
        }
        if delivery.due != Some(queued.at) {
            self.transaction.delete(self.queue.entry_key(queued));
        }
        self.queue.state.leases.remove(queued.event);
        let message = "the endpoint is inactive";
        self.dead_letter(delivery, DeliveryFailureCode::EndpointInactive, message);
        true
    }

    /// Sets the time at which the endpoint is due next. `left` is the first entry that remains.
    fn schedule(&mut self, left: Option<QueuedDelivery>) {
        let now = self.claim.now;
        let leases = &self.queue.state.leases;
        // Expired leases are among the deliveries that wait.
        let lease_end = leases.first_running_end(now);
        self.note_next(left.map(|left| left.at));
        self.note_next(lease_end);
        let earliest = now.plus(REQUEUE_DELAY);
        let is_failing = self.queue.state.failing_since.is_some();
        let is_probed = is_failing && !self.result.deliveries.is_empty();
        let is_full = self.capacity == 0 && self.claim.capacity > 0;
        let not_before = match lease_end {
            _ if is_probed => self.claim.until(),
            Some(lease_end) if is_full => earliest.max(lease_end),
            _ => earliest,
        };
        if self.is_active() && !self.is_confirmed {
            // Its pings have ended without a result if none is left: another one begins.
            self.next = self.next.or(Some(earliest));
        }
        self.queue.schedule(self.next, not_before);
        if !self.is_confirmed {
            // The events that wait are due earlier.
            self.queue.state.not_before = self.queue.state.due;
        }
        self.result.next_due = self.queue.state.due;
    }

    fn note_next(&mut self, at: Option<Timestamp>) {
        self.next = self.next.into_iter().chain(at).min();
    }
}

/// Returns the front of a queue: what is leased there, the deliveries that may be claimed, and the
/// one after them.
///
/// Leases of deliveries that have ended are removed.
async fn front(
    transaction: &mut Transaction,
    queue: &mut EndpointQueue,
    claim: EndpointClaim,
    capacity: usize,
) -> Result<Vec<QueuedDelivery>, Error> {
    let read = claim.front();
    let entries = transaction.scan(&read).await?;
    let mut front = entries
        .iter()
        .map(QueuedDelivery::parse)
        .collect::<Result<Vec<_>, _>>()?;
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

/// Returns the keys of the records of candidates: of each, the delivery and then the event.
fn records_of(candidates: &[QueuedDelivery], claim: EndpointClaim) -> Vec<Key> {
    let (org, endpoint) = (claim.org, claim.endpoint);
    let records = candidates.iter().flat_map(|queued| {
        let delivery = keys::delivery(org, endpoint, queued.event);
        [delivery, keys::event(org, queued.event)]
    });
    records.collect()
}

/// Returns the deliveries at the front of a queue that may be due.
///
/// A delivery further in the future than any lease is included, because the clock may have been set
/// back since it was queued.
fn candidates(front: &[QueuedDelivery], now: Timestamp) -> Vec<QueuedDelivery> {
    let mut candidates: Vec<QueuedDelivery> = Vec::with_capacity(front.len());
    for queued in front {
        let is_candidate = queued.at <= now || queued.at > now.plus(LEASE_AHEAD_MAX);
        // Only a corrupt queue lists a delivery twice.
        let is_new = candidates.iter().all(|other| other.event != queued.event);
        if is_candidate && is_new {
            candidates.push(*queued);
        }
    }
    candidates
}
