//! Retention and purge of events and their deliveries.

use serde::{Deserialize, Serialize};

use crate::env::Env;
use crate::error::Error;
use crate::keys;
use crate::limits::Limits;
use crate::model::{DeliveryId, EndpointId, EventId, OrgId, Timestamp};
use crate::service::deliveries::queue::StoredDelivery;
use crate::service::tasks::ScheduledTask;
use crate::service::{Event, KnowledgeService};
use crate::store::{Direction, Entry, Key, KeyEntry, StoreExt, Transaction, decode};

/// Maximum number of deliveries of a deleted endpoint that one step purges.
const CLEARED_PER_STEP: usize = 200;
/// Delay of the purge of an event that has a pending delivery, because it was redelivered late.
const PURGE_DELAY: std::time::Duration = std::time::Duration::from_secs(24 * 60 * 60);

/// An event with deliveries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::service) struct RetainedEvent {
    pub(in crate::service) event: Event,
    /// Endpoints that it has, or had, deliveries to.
    pub(in crate::service) endpoints: Vec<EndpointId>,
    /// Time of its purge, scheduled under `due`.
    pub(in crate::service) kept_until: Timestamp,
}

impl RetainedEvent {
    /// Creates an event with deliveries to these endpoints, retained according to the limits.
    pub(in crate::service) fn new(
        event: Event,
        endpoints: Vec<EndpointId>,
        limits: &Limits,
    ) -> Self {
        let kept_until = event.timestamp.plus(limits.delivery_retention);
        Self {
            event,
            endpoints,
            kept_until,
        }
    }

    /// Writes the event with its first deliveries and schedules its purge.
    pub(in crate::service) fn create(&self, transaction: &mut Transaction, env: &Env) {
        let (org, event) = (self.event.org_id, self.event.id);
        transaction.create(keys::event(org, event), self);
        ScheduledTask::Event { org, event }.schedule(transaction, self.kept_until, env);
    }
}

impl KnowledgeService {
    /// Purges an event with its deliveries, or postpones that while one is pending.
    pub(in crate::service) async fn purge_event(
        &self,
        due: &KeyEntry,
        org: OrgId,
        event: EventId,
        now: Timestamp,
    ) -> Result<(), Error> {
        self.transact(|mut transaction| async move {
            if transaction.get::<ScheduledTask>(&due.key).await?.is_none() {
                return Ok(transaction.done(()));
            }
            transaction.delete(due.key.clone());
            let key = keys::event(org, event);
            let Some(mut retained) = transaction.get::<RetainedEvent>(&key).await? else {
                return Ok(transaction.done(()));
            };
            let endpoints = &retained.endpoints;
            let records: Vec<_> = endpoints
                .iter()
                .map(|endpoint| keys::delivery(org, *endpoint, event))
                .collect();
            let found = transaction.get_many::<Entry>(&records).await?;
            let found: Vec<_> = records.iter().zip(&found).map(StoredState::read).collect();
            let is_pending = |stored: &StoredState| match stored {
                StoredState::Whole(delivery) => delivery.is_pending(),
                _ => false,
            };
            if found.iter().any(is_pending) {
                retained.kept_until = now.plus(PURGE_DELAY);
                let later = retained.kept_until;
                ScheduledTask::Event { org, event }.schedule(&mut transaction, later, self.env());
                transaction.put(key, &retained);
                return Ok(transaction.done(()));
            }
            for (endpoint, stored) in endpoints.iter().zip(found) {
                stored
                    .delete(&mut transaction, org, *endpoint, event)
                    .await?;
            }
            transaction.delete(key);
            Ok(transaction.done(()))
        })
        .await
    }

    /// Purges some deliveries of a deleted endpoint; returns true if there are more.
    pub(in crate::service) async fn clear_former_endpoint(
        &self,
        org: OrgId,
        endpoint: EndpointId,
    ) -> Result<bool, Error> {
        let range = &keys::deliveries(org, endpoint);
        self.transact(|mut transaction| async move {
            let found = transaction
                .unchecked()
                .store()
                .scan(range, CLEARED_PER_STEP, Direction::Forward)
                .await?;
            for found in &found {
                let version = Some(found.entry.version);
                transaction.check(found.key.clone(), version);
                let Some(event) = keys::last_id(&found.key).map(EventId) else {
                    // No other entries follow from such a key.
                    transaction.delete(found.key.clone());
                    continue;
                };
                let stored = StoredState::read((&found.key, &Some(found.entry.clone())));
                stored
                    .delete(&mut transaction, org, endpoint, event)
                    .await?;
            }
            Ok(transaction.done(found.len() == CLEARED_PER_STEP))
        })
        .await
    }
}

/// Stored state of a delivery that is to be deleted.
enum StoredState {
    Whole(StoredDelivery),
    Corrupt,
    Gone,
}

impl StoredState {
    fn read((key, entry): (&Key, &Option<Entry>)) -> Self {
        match entry.as_ref().map(|entry| decode(key, entry)) {
            None => Self::Gone,
            Some(Ok(delivery)) => Self::Whole(delivery.value),
            Some(Err(error)) => {
                tracing::error!(%key, %error, "unreadable delivery; deleting it");
                Self::Corrupt
            }
        }
    }

    async fn delete(
        self,
        transaction: &mut Transaction,
        org: OrgId,
        endpoint: EndpointId,
        event: EventId,
    ) -> Result<(), Error> {
        match self {
            Self::Gone => Ok(()),
            Self::Whole(mut delivery) => {
                delivery.delete(transaction, org, endpoint);
                Ok(())
            }
            Self::Corrupt => delete_corrupt(transaction, org, endpoint, event).await,
        }
    }
}

/// Deletes an unreadable delivery and the index entries that follow from its endpoint and event.
///
/// It was counted as pending if it has an entry in the queue or under `undelivered`.
async fn delete_corrupt(
    transaction: &mut Transaction,
    org: OrgId,
    endpoint: EndpointId,
    event: EventId,
) -> Result<(), Error> {
    let index_key = keys::undelivered(event, endpoint);
    let mut is_pending = transaction.get::<Entry>(&index_key).await?.is_some();
    if is_pending {
        transaction.delete(index_key);
    }
    let queue = keys::deliveries_due(org, endpoint);
    for queued in transaction.unchecked().store().scan_all(&queue).await? {
        let of = keys::parse_delivery_due(&queued.key).map(|(_, event)| event);
        if of == Some(event) {
            transaction.delete(queued.key);
            is_pending = true;
        }
    }
    if is_pending {
        transaction.add(keys::undelivered_count(org), -1);
    }
    transaction.delete(keys::dead_letter(org, endpoint, event));
    transaction.delete(keys::delivery_id(org, DeliveryId::of(event, endpoint)));
    transaction.delete(keys::delivery(org, endpoint, event));
    Ok(())
}
