//! Dead-lettering without an attempt: the queues of inactive endpoints, and what cannot be sent.

use super::endpoint_leases::LEASE_AHEAD_MAX;
use super::entry_claim::ClaimBuilder;
use super::queue::{EndpointQueue, QueuedDelivery};
use super::record::StoredDelivery;
use crate::error::Error;
use crate::keys;
use crate::model::{
    DeliveryAttempt, DeliveryFailure, DeliveryFailureCode, DeliveryStatus, EventId, Timestamp,
};
use crate::store::{Key, Transaction, decode};

/// Maximum number of deliveries to an inactive endpoint that one claim dead-letters.
const DEAD_LETTERED_PER_CLAIM: usize = 200;

/// Dead-letters the queue of an inactive endpoint.
///
/// Attempts in flight and pings that may be sent remain; the first of them is returned.
pub(super) async fn dead_letter_queue(
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

/// Returns true if an earlier version renewed the lease after the queue was read, which moved the
/// entry.
///
/// The entry of a quarantined delivery has another time than the delivery too, but is valid.
pub(super) fn is_elsewhere(delivery: &StoredDelivery, queued: QueuedDelivery) -> bool {
    delivery.is_leased && delivery.due != Some(queued.at)
}

/// Dead-letters a delivery without an attempt, and records the reason.
pub(super) fn dead_letter(
    transaction: &mut Transaction,
    queue: &EndpointQueue,
    mut delivery: StoredDelivery,
    (code, message): (DeliveryFailureCode, &str),
    now: Timestamp,
) {
    delivery.record_attempt(DeliveryAttempt {
        at: now,
        duration_ms: 0,
        status: None,
        error: Some(DeliveryFailure {
            code,
            message: message.to_owned(),
        }),
    });
    delivery.end(transaction, queue, DeliveryStatus::Dead);
    delivery.put(transaction, queue);
}
