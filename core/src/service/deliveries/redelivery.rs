//! Deliveries on request: redelivery and test events.

use std::time::Duration;

use serde_json::{Value, json};

use super::endpoint_record::EndpointRecord;
use super::history::RetainedEvent;
use super::queries::{RedeliveryReport, find_delivery};
use super::queue::EndpointQueue;
use super::record::StoredDelivery;
use crate::error::Error;
use crate::keys;
use crate::model::{Delivery, DeliveryId, DeliveryStatus, EventId, EventType, Timestamp};
use crate::service::kit::audit::{Actor, AuditedOperation};
use crate::service::kit::audit_entry::AuditAction;
use crate::service::{Event, KnowledgeService};
use crate::store::{Direction, Key, KeyEntry, StoreExt, Transaction, decode};

/// Maximum number of dead letters that one call redelivers.
///
/// They fit into one commit with all their stored attempts.
const REDELIVERED_PER_CALL: usize = 500;
const MILLISECOND: Duration = Duration::from_millis(1);

impl KnowledgeService {
    /// Queues a delivery again, due now.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::EndpointInactive`]; those of the store.
    pub(in crate::service) async fn redeliver_one(
        &self,
        transaction: &mut Transaction,
        actor: Actor,
        record: &EndpointRecord,
        id: DeliveryId,
    ) -> Result<Delivery, Error> {
        let (now, endpoint) = (self.env().now(), record.endpoint());
        let mut delivery = find_delivery(transaction, actor.org, endpoint, id).await?;
        let mut queue = queue_of(transaction, record).await?;
        if !record.is_active() {
            return Err(Error::EndpointInactive);
        }
        delivery.attempt_count = 0;
        if !delivery.is_leased {
            delivery.enqueue(transaction, &mut queue, now);
        }
        delivery.put(transaction, &queue);
        queue.save(transaction);
        let what = json!({ "delivery_id": id });
        self.audit_redelivery(transaction, actor, record, what, now);
        Ok(delivery.delivery)
    }

    /// Queues dead letters again, oldest first, due now.
    ///
    /// # Errors
    /// [`Error::EndpointInactive`]; those of the store.
    pub(in crate::service) async fn redeliver_dead_letters(
        &self,
        transaction: &mut Transaction,
        actor: Actor,
        record: &EndpointRecord,
    ) -> Result<RedeliveryReport, Error> {
        let now = self.env().now();
        let mut queue = queue_of(transaction, record).await?;
        if !record.is_active() {
            return Err(Error::EndpointInactive);
        }
        let (mut redelivered, mut has_more) = (0, false);
        let mut rest = keys::dead_letters(queue.org, queue.endpoint);
        loop {
            let capacity = REDELIVERED_PER_CALL - redelivered;
            let store = transaction.unchecked();
            let mut entries = store.scan(&rest, capacity + 1, Direction::Forward).await?;
            let is_last = entries.len() <= capacity;
            entries.truncate(capacity);
            let Some(last) = entries.last() else {
                has_more = !is_last;
                break;
            };
            rest = rest.after(&last.key);
            redelivered += redeliver_batch(transaction, &mut queue, entries, now).await?;
            if is_last {
                break;
            }
        }
        if redelivered > 0 {
            queue.save(transaction);
            let what = json!({ "redelivered": redelivered });
            self.audit_redelivery(transaction, actor, record, what, now);
        }
        Ok(RedeliveryReport {
            redelivered: redelivered as u64,
            has_more,
        })
    }

    fn audit_redelivery(
        &self,
        transaction: &mut Transaction,
        actor: Actor,
        record: &EndpointRecord,
        what: Value,
        now: Timestamp,
    ) {
        let action = record.action(
            AuditAction::WebhookRedeliver,
            AuditAction::SubscriptionRedeliver,
        );
        let resource = record.resource();
        AuditedOperation::begin(transaction, self.env(), now).record(
            transaction,
            actor,
            action,
            resource,
            None,
            Some(what),
        );
    }

    /// Queues a test event for an endpoint, before all its other deliveries.
    ///
    /// # Errors
    /// [`Error::EndpointInactive`] if its owner deactivated it; those of the store.
    pub(in crate::service) async fn send_ping(
        &self,
        transaction: &mut Transaction,
        actor: Actor,
        record: &EndpointRecord,
    ) -> Result<Delivery, Error> {
        let now = self.env().now();
        let mut queue = queue_of(transaction, record).await?;
        if record.is_disabled_by_owner() {
            return Err(Error::EndpointInactive);
        }
        let event = Event {
            id: EventId(self.env().uuid_at(now)),
            org_id: actor.org,
            workspace_id: record.workspace(),
            event_type: EventType::WebhookPing,
            timestamp: now,
            data: json!({
                "workspace_id": record.workspace(),
                "endpoint_id": record.endpoint(),
            }),
            endpoints: 0,
        };
        let mut delivery = StoredDelivery::new(&event, record.endpoint());
        delivery.is_ping = true;
        let first = queue.peek(transaction, 1).await?.into_iter().next();
        let first = first.map_or(now, |first| now.min(first.at.minus(MILLISECOND)));
        let delivery = delivery.create_at_front(transaction, &mut queue, first, now);
        queue.save(transaction);
        let endpoints = vec![record.endpoint()];
        RetainedEvent::new(event, endpoints, self.limits()).create(transaction, self.env());
        let action = record.action(AuditAction::WebhookPing, AuditAction::SubscriptionPing);
        let what = json!({ "delivery_id": delivery.id });
        let resource = record.resource();
        AuditedOperation::begin(transaction, self.env(), now).record(
            transaction,
            actor,
            action,
            resource,
            None,
            Some(what),
        );
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
    let event = |entry: &KeyEntry| EventId(keys::last_id(&entry.key).unwrap_or_default());
    let key = |entry| keys::delivery(queue.org, queue.endpoint, event(entry));
    let records: Vec<Key> = entries.iter().map(key).collect();
    let found = transaction.entries(&records).await?;
    let mut redelivered = 0;
    for ((dead_letter, key), entry) in entries.into_iter().zip(&records).zip(found) {
        let delivery = entry.map(|entry| decode::<StoredDelivery>(key, &entry));
        let mut delivery = match delivery {
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
