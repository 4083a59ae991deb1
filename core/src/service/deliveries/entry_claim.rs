//! Claims from the queue of one endpoint.
//!
//! A claim leases due deliveries, dead-letters those to an inactive endpoint and those that may name
//! what does not exist for the endpoint's present owner, and sets the time at which the endpoint is
//! due next.

use super::claim_builder::{ClaimBuilder, ClaimResult, EntryClaim, Fetched};
use super::dead_letters::{dead_letter, is_elsewhere};
use super::endpoint_leases::{DELIVERY_LEASE, LEASE_AHEAD_MAX};
use super::endpoint_record::EndpointRecord;
use super::history::RetainedEvent;
use super::queue::EndpointQueue;
use super::queued_delivery::QueuedDelivery;
use super::record::StoredDelivery;
use super::schedule::REQUEUE_DELAY;
use crate::digest::sha256_bytes;
use crate::error::Error;
use crate::keys;
use crate::model::{DeliveryFailureCode, EventId, Timestamp};
use crate::service::KnowledgeService;
use crate::service::kit::act::Wants;
use crate::store::{Key, Transaction, decode};

/// Maximum number of deliveries to an inactive endpoint that one claim dead-letters.
const DEAD_LETTERED_PER_CLAIM: usize = 200;

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

/// Dead-letters the queue of an inactive endpoint.
///
/// Attempts in flight and pings that may be sent remain; the first of them is returned.
async fn dead_letter_queue(
    transaction: &mut Transaction,
    queue: &mut EndpointQueue,
    builder: &mut ClaimBuilder,
    handled: &[QueuedDelivery],
    may_be_pinged: bool,
) -> Result<Option<QueuedDelivery>, Error> {
    let now = builder.claim.now;
    let limit = queue.state.leases.len() + DEAD_LETTERED_PER_CLAIM + 1;
    let mut queued = queue.peek(transaction, limit).await?;
    queued.retain(|queued| !queue.state.leases.has_running(queued.event, now));
    let has_more = queued.len() > DEAD_LETTERED_PER_CLAIM;
    // Only a corrupt queue lists a delivery twice; its second entry is left for another claim.
    let mut known: Vec<EventId> = handled.iter().map(|queued| queued.event).collect();
    let queued: Vec<_> = queued
        .into_iter()
        .take(DEAD_LETTERED_PER_CLAIM)
        .filter(|queued| !handled.contains(queued))
        .collect();
    let key = |queued: &QueuedDelivery| keys::delivery(queue.org, queue.endpoint, queued.event);
    let keys: Vec<Key> = queued.iter().map(key).collect();
    let found = transaction.entries(&keys).await?;
    let mut left = None;
    for ((queued, key), entry) in queued.into_iter().zip(&keys).zip(found) {
        if known.contains(&queued.event) {
            left = left.or(Some(queued));
            continue;
        }
        known.push(queued.event);
        let delivery = match entry.map(|entry| decode::<StoredDelivery>(key, &entry)) {
            Some(Ok(delivery)) => delivery.value,
            Some(Err(error)) => {
                builder.quarantine(transaction, queue, queued, &error);
                continue;
            }
            None => {
                transaction.delete(queue.entry_key(queued));
                continue;
            }
        };
        if !delivery.is_pending() || is_elsewhere(&delivery, queued) {
            transaction.delete(queue.entry_key(queued));
            builder.note_next(delivery.due);
            continue;
        }
        let ahead = queued.at.since(now);
        let is_under_way = delivery.is_leased && !ahead.is_zero() && ahead <= LEASE_AHEAD_MAX;
        let is_expected =
            builder.record.is_confirmed() || queue.state.pings.contains(&queued.event);
        if is_under_way || (delivery.is_ping && may_be_pinged && is_expected) {
            left = left.or(Some(queued));
            continue;
        }
        if delivery.due != Some(queued.at) {
            transaction.delete(queue.entry_key(queued));
        }
        let code = DeliveryFailureCode::EndpointInactive;
        let message = "the endpoint is inactive";
        queue.state.leases.remove(queued.event);
        dead_letter(transaction, queue, delivery, (code, message), now);
        builder.result.dead_lettered += 1;
    }
    if has_more {
        builder.note_next(Some(now));
    }
    Ok(left)
}
