//! Deliveries on request: redelivery and test events.

use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use super::retained_event::RetainedEvent;
use crate::error::Error;
use crate::keys;
use crate::model::{Delivery, DeliveryId, DeliveryStatus, EndpointId, OrgId, Timestamp};
use crate::service::KnowledgeService;
use crate::service::audit::write::{Actor, AuditedOperation};
use crate::service::deliveries::queue::{
    EndpointQueue, QueuedDelivery, StoredDelivery, delivery_keys, find_delivery,
};
use crate::service::endpoints::EndpointRecord;
use crate::service::operation::Prefetch;
use crate::store::{Entry, KeyEntry, RangeRead, Transaction, decode};

/// Maximum number of dead letters that one call redelivers.
///
/// They fit into one commit with all their stored attempts.
const REDELIVERED_PER_CALL: usize = 500;
const MILLISECOND: Duration = Duration::from_millis(1);

/// Result of redelivering dead letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "openapi",
    derive(schemars::JsonSchema),
    schemars(rename = "Redelivered")
)]
pub struct RedeliveryReport {
    /// Number of dead letters that this call redelivered.
    pub redelivered: u64,
    /// True if there are more dead letters: call again.
    pub has_more: bool,
}

/// Returns the read of the dead letters that a call redelivers first.
pub(in crate::service) fn first_dead_letters(org: OrgId, endpoint: EndpointId) -> RangeRead {
    RangeRead::first(keys::dead_letters(org, endpoint), REDELIVERED_PER_CALL + 1)
}

impl KnowledgeService {
    /// Queues a delivery again, due now.
    ///
    /// # Errors
    /// [`Error::NotFound`]; those of [`Self::receiving_queue`].
    pub(in crate::service) async fn redeliver_one(
        &self,
        transaction: &mut Transaction,
        operation: AuditedOperation,
        actor: Actor,
        record: &EndpointRecord,
        id: DeliveryId,
    ) -> Result<Delivery, Error> {
        let mut delivery = find_delivery(transaction, record.org(), record.endpoint(), id).await?;
        let mut queue = self
            .receiving_queue(transaction, record, operation.at)
            .await?;
        delivery.attempt_count = 0;
        let is_leased = queue.state.leases.of(delivery.delivery.event_id).is_some();
        if !(delivery.is_pending() && is_leased) {
            delivery.enqueue(transaction, &mut queue, operation.at);
        }
        delivery.put(transaction, &queue);
        queue.save(transaction);
        let (action, resource) = (record.redelivery_action(), record.resource());
        let what = json!({ "delivery_id": id });
        operation.record(transaction, actor, action, resource, None, Some(what));
        Ok(delivery.delivery)
    }

    /// Queues dead letters again, oldest first, due now.
    ///
    /// # Errors
    /// Those of [`Self::receiving_queue`].
    pub(in crate::service) async fn redeliver_dead_letters(
        &self,
        transaction: &mut Transaction,
        operation: AuditedOperation,
        actor: Actor,
        record: &EndpointRecord,
    ) -> Result<RedeliveryReport, Error> {
        let mut queue = self
            .receiving_queue(transaction, record, operation.at)
            .await?;
        let (mut redelivered, mut has_more) = (0, false);
        let mut read = first_dead_letters(queue.org, queue.endpoint);
        loop {
            let capacity = REDELIVERED_PER_CALL - redelivered;
            read.limit = capacity + 1;
            let mut entries = transaction.scan(&read).await?;
            let is_last = entries.len() <= capacity;
            entries.truncate(capacity);
            let Some(last) = entries.last() else {
                has_more = !is_last;
                break;
            };
            read.range = read.range.after(&last.key);
            redelivered += redeliver_batch(transaction, &mut queue, entries, operation.at).await?;
            if is_last {
                break;
            }
        }
        if redelivered > 0 {
            queue.save(transaction);
            let (action, resource) = (record.redelivery_action(), record.resource());
            let what = json!({ "redelivered": redelivered });
            operation.record(transaction, actor, action, resource, None, Some(what));
        }
        Ok(RedeliveryReport {
            redelivered: redelivered as u64,
            has_more,
        })
    }

    /// Returns the queue of an endpoint that may receive events now.
    ///
    /// # Errors
    /// [`Error::EndpointInactive`] if it is inactive or suspended, or has ended; those of the store.
    async fn receiving_queue(
        &self,
        transaction: &mut Transaction,
        record: &EndpointRecord,
        now: Timestamp,
    ) -> Result<EndpointQueue, Error> {
        let queue = queue_of(transaction, record).await?;
        let is_receiving = record.is_active()
            && self
                .is_authorized(transaction, record, Prefetch::none(), now)
                .await?;
        if is_receiving {
            Ok(queue)
        } else {
            Err(Error::EndpointInactive)
        }
    }

    /// Queues a test event for an endpoint, before all its other deliveries.
    ///
    /// # Errors
    /// [`Error::EndpointInactive`] if its owner deactivated it; those of the store.
    pub(in crate::service) async fn send_ping(
        &self,
        transaction: &mut Transaction,
        operation: AuditedOperation,
        actor: Actor,
        record: &EndpointRecord,
    ) -> Result<Delivery, Error> {
        let now = operation.at;
        let mut queue = queue_of(transaction, record).await?;
        if record.is_disabled_by_owner() {
            return Err(Error::EndpointInactive);
        }
        let event = self.ping_event(record, now);
        if !record.is_confirmed() {
            queue.note_ping(event.id);
        }
        let mut delivery = StoredDelivery::new(&event, record);
        delivery.is_ping = true;
        let front = EndpointQueue::front(record.org(), record.endpoint(), 1);
        let entries = transaction.scan(&front).await?;
        let first = entries.first().map(QueuedDelivery::parse).transpose()?;
        let at = first.map_or(now, |first| now.min(first.at.minus(MILLISECOND)));
        let delivery = delivery.create_at_front(transaction, &mut queue, at, now);
        queue.save(transaction);
        let endpoints = vec![record.endpoint()];
        RetainedEvent::new(event, endpoints, self.limits()).create(transaction, self.env());
        let (action, resource) = (record.ping_action(), record.resource());
        let what = json!({ "delivery_id": delivery.id });
        operation.record(transaction, actor, action, resource, None, Some(what));
        Ok(delivery)
    }
}

/// Queues the dead letters of these index entries again and returns their number.
///
/// Unreadable ones are left unchanged.
async fn redeliver_batch(
    transaction: &mut Transaction,
    queue: &mut EndpointQueue,
    entries: Vec<KeyEntry>,
    now: Timestamp,
) -> Result<usize, Error> {
    let records = delivery_keys(queue.org, queue.endpoint, &entries);
    let found = transaction.get_many::<Entry>(&records).await?;
    let mut redelivered = 0;
    for ((dead_letter, key), entry) in entries.into_iter().zip(&records).zip(found) {
        let decoded = entry.map(|entry| decode::<StoredDelivery>(key, &entry));
        let mut delivery = match decoded {
            Some(Ok(found)) if found.value.delivery.status == DeliveryStatus::Dead => found.value,
            Some(Err(error)) => {
                tracing::error!(%key, %error, "unreadable dead letter; skipping it");
                continue;
            }
            _ => {
                transaction.delete(dead_letter.key);
                continue;
            }
        };
        delivery.attempt_count = 0;
        delivery.enqueue(transaction, queue, now);
        delivery.put(transaction, queue);
        redelivered += 1;
    }
    Ok(redelivered)
}

async fn queue_of(
    transaction: &mut Transaction,
    record: &EndpointRecord,
) -> Result<EndpointQueue, Error> {
    let (org, endpoint) = (record.org(), record.endpoint());
    let found = EndpointQueue::read(transaction, org, endpoint).await?;
    found.ok_or_else(|| Error::internal(format!("the state of {endpoint} is missing")))
}
