//! Dead-lettering without an attempt.

use super::queue::EndpointQueue;
use super::queued_delivery::QueuedDelivery;
use super::record::StoredDelivery;
use crate::model::{
    DeliveryAttempt, DeliveryFailure, DeliveryFailureCode, DeliveryStatus, Timestamp,
};
use crate::store::Transaction;

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
