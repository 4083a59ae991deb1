//! Deliveries that are made because somebody asks: again, or to try an endpoint out.

use std::time::Duration;

use serde_json::{Value, json};

use super::history::AnnouncedEvent;
use super::log::{Redelivered, find_delivery};
use super::queue::EndpointQueue;
use super::recipient::Recipient;
use super::record::StoredDelivery;
use crate::error::Error;
use crate::model::{Delivery, DeliveryId, DeliveryStatus, EventId, EventType, Timestamp};
use crate::service::audit::{Actor, AuditAction, Operation};
use crate::service::{Event, KnowledgeService};
use crate::keys;
use crate::store::{Direction, Key, KeyEntry, StoreExt, Transaction, decode};

/// How many dead letters one call puts back: what fits into one commit, with the attempts that are kept of each.
const REDELIVERED_PER_CALL: usize = 500;
const MILLISECOND: Duration = Duration::from_millis(1);

impl KnowledgeService {
    /// Puts a delivery back to be made now.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::EndpointOff`]; those of the store.
    pub(in crate::service) async fn put_back(
        &self,
        transaction: &mut Transaction,
        actor: Actor,
        recipient: &Recipient,
        id: DeliveryId,
    ) -> Result<Delivery, Error> {
        let (now, endpoint) = (self.env().now(), recipient.endpoint());
        let mut delivery = find_delivery(transaction, actor.org, endpoint, id).await?;
        let mut queue = queue_of(transaction, recipient).await?;
        if !recipient.is_on() {
            return Err(Error::EndpointOff);
        }
        delivery.tries = 0;
        if !delivery.is_leased {
            delivery.enqueue(transaction, &mut queue, now);
        }
        delivery.put(transaction, &queue);
        queue.settle(transaction);
        let what = json!({ "delivery_id": id });
        self.note_redelivery(transaction, actor, recipient, what, now);
        Ok(delivery.delivery)
    }

    /// Puts dead letters back to be made now, the oldest first.
    ///
    /// # Errors
    /// [`Error::EndpointOff`]; those of the store.
    pub(in crate::service) async fn put_back_dead(
        &self,
        transaction: &mut Transaction,
        actor: Actor,
        recipient: &Recipient,
    ) -> Result<Redelivered, Error> {
        let now = self.env().now();
        let mut queue = queue_of(transaction, recipient).await?;
        if !recipient.is_on() {
            return Err(Error::EndpointOff);
        }
        let (mut redelivered, mut has_more) = (0, false);
        let mut rest = keys::dead_letters(queue.org, queue.endpoint);
        loop {
            let room = REDELIVERED_PER_CALL - redelivered;
            let store = transaction.unchecked();
            let mut marks = store.scan(&rest, room + 1, Direction::Forward).await?;
            let is_last = marks.len() <= room;
            marks.truncate(room);
            let Some(last) = marks.last() else {
                has_more = !is_last;
                break;
            };
            rest = rest.after(&last.key);
            redelivered += put_back_marked(transaction, &mut queue, marks, now).await?;
            if is_last {
                break;
            }
        }
        if redelivered > 0 {
            queue.settle(transaction);
            let what = json!({ "redelivered": redelivered });
            self.note_redelivery(transaction, actor, recipient, what, now);
        }
        Ok(Redelivered {
            redelivered: redelivered as u64,
            has_more,
        })
    }

    fn note_redelivery(
        &self,
        transaction: &mut Transaction,
        actor: Actor,
        recipient: &Recipient,
        what: Value,
        now: Timestamp,
    ) {
        let action = recipient.action(
            AuditAction::WebhookRedeliver,
            AuditAction::SubscriptionRedeliver,
        );
        let resource = recipient.resource();
        Operation::begin(transaction, self.env(), now).record(
            transaction,
            actor,
            action,
            resource,
            None,
            Some(what),
        );
    }

    /// Makes a delivery that tries an endpoint out, before whatever else it waits for.
    ///
    /// # Errors
    /// [`Error::EndpointOff`] where its owner switched it off; those of the store.
    pub(in crate::service) async fn try_out(
        &self,
        transaction: &mut Transaction,
        actor: Actor,
        recipient: &Recipient,
    ) -> Result<Delivery, Error> {
        let now = self.env().now();
        let mut queue = queue_of(transaction, recipient).await?;
        if recipient.is_paused() {
            return Err(Error::EndpointOff);
        }
        let event = Event {
            id: EventId(self.env().uuid_at(now)),
            org_id: actor.org,
            workspace_id: recipient.workspace(),
            event_type: EventType::WebhookPing,
            timestamp: now,
            data: json!({
                "workspace_id": recipient.workspace(),
                "endpoint_id": recipient.endpoint(),
            }),
            endpoints: 0,
        };
        let mut delivery = StoredDelivery::new(&event, recipient.endpoint());
        delivery.is_trial = true;
        let first = queue.head(transaction, 1).await?.into_iter().next();
        let first = first.map_or(now, |first| now.min(first.at.minus(MILLISECOND)));
        let delivery = delivery.create_first(transaction, &mut queue, first, now);
        queue.settle(transaction);
        let endpoints = vec![recipient.endpoint()];
        AnnouncedEvent::new(event, endpoints, self.limits()).create(transaction, self.env());
        let action = recipient.action(AuditAction::WebhookPing, AuditAction::SubscriptionPing);
        let what = json!({ "delivery_id": delivery.id });
        let resource = recipient.resource();
        Operation::begin(transaction, self.env(), now).record(
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

/// Puts back what these marks mark, but for what cannot be read: that stays as it is. Says how many.
async fn put_back_marked(
    transaction: &mut Transaction,
    queue: &mut EndpointQueue,
    marks: Vec<KeyEntry>,
    now: Timestamp,
) -> Result<usize, Error> {
    let event = |mark: &KeyEntry| EventId(keys::last_id(&mark.key).unwrap_or_default());
    let key = |mark| keys::delivery(queue.org, queue.endpoint, event(mark));
    let records: Vec<Key> = marks.iter().map(key).collect();
    let found = transaction.entries(&records).await?;
    let mut redelivered = 0;
    for ((mark, key), entry) in marks.into_iter().zip(&records).zip(found) {
        let delivery = entry.map(|entry| decode::<StoredDelivery>(key, &entry));
        let mut delivery = match delivery {
            Some(Ok(found)) if found.value.delivery.status == DeliveryStatus::Dead => found.value,
            Some(Err(error)) => {
                tracing::error!(%key, %error, "a dead letter cannot be read");
                continue;
            }
            _ => {
                transaction.delete(mark.key);
                continue;
            }
        };
        delivery.tries = 0;
        delivery.enqueue(transaction, queue, now);
        delivery.put(transaction, queue);
        redelivered += 1;
    }
    Ok(redelivered)
}

async fn queue_of(
    transaction: &mut Transaction,
    recipient: &Recipient,
) -> Result<EndpointQueue, Error> {
    let (org, endpoint) = (recipient.org(), recipient.endpoint());
    let found = EndpointQueue::read(transaction, org, endpoint).await?;
    found.ok_or_else(|| Error::internal(format!("the state of {endpoint} is missing")))
}
