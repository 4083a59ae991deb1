//! What is kept of events and their deliveries, and for how long.

use serde::{Deserialize, Serialize};

use super::record::StoredDelivery;
use crate::env::Env;
use crate::error::Error;
use crate::limits::Limits;
use crate::model::{DeliveryId, EndpointId, EventId, OrgId, Timestamp};
use crate::service::maintain::Due;
use crate::service::{Event, KnowledgeService};
use crate::keys;
use crate::store::{Direction, Entry, Key, KeyEntry, StoreExt, Transaction, decode};

/// How many deliveries of a deleted endpoint one step clears.
const CLEARED_PER_STEP: usize = 200;
/// How long the sweeping of an event waits that a delivery of is still under way, after it was redelivered late.
const SWEEP_POSTPONED: std::time::Duration = std::time::Duration::from_secs(24 * 60 * 60);

/// An event with deliveries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::service) struct AnnouncedEvent {
    pub(in crate::service) event: Event,
    /// The endpoints that it has deliveries to, or had.
    pub(in crate::service) endpoints: Vec<EndpointId>,
    /// When it is swept: what stands under `due` at that time.
    pub(in crate::service) kept_until: Timestamp,
}

impl AnnouncedEvent {
    /// An event with deliveries to these endpoints, to be kept as long as the limits say.
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

    /// Writes it with its first deliveries.
    pub(in crate::service) fn create(&self, transaction: &mut Transaction, env: &Env) {
        let (org, event) = (self.event.org_id, self.event.id);
        transaction.create(keys::event(org, event), self);
        Due::Event { org, event }.schedule(transaction, self.kept_until, env);
    }
}

impl KnowledgeService {
    /// Sweeps an event with its deliveries. One that is still under way postpones it.
    pub(in crate::service) async fn sweep_event(
        &self,
        due: &KeyEntry,
        org: OrgId,
        event: EventId,
        now: Timestamp,
    ) -> Result<(), Error> {
        self.transact(|mut transaction| async move {
            if transaction.read::<Due>(&due.key).await?.is_none() {
                return transaction.done(());
            }
            transaction.delete(due.key.clone());
            let key = keys::event(org, event);
            let Some(mut announced) = transaction.read::<AnnouncedEvent>(&key).await? else {
                return transaction.done(());
            };
            let endpoints = &announced.endpoints;
            let records: Vec<_> = endpoints
                .iter()
                .map(|endpoint| keys::delivery(org, *endpoint, event))
                .collect();
            let found = transaction.entries(&records).await?;
            let found: Vec<_> = records.iter().zip(&found).map(Kept::read).collect();
            let is_pending =
                |kept: &Kept| matches!(kept, Kept::Whole(delivery) if delivery.is_pending());
            if found.iter().any(is_pending) {
                announced.kept_until = now.plus(SWEEP_POSTPONED);
                let later = announced.kept_until;
                Due::Event { org, event }.schedule(&mut transaction, later, self.env());
                transaction.put(key, &announced);
                return transaction.done(());
            }
            for (endpoint, kept) in endpoints.iter().zip(found) {
                kept.delete(&mut transaction, org, *endpoint, event).await?;
            }
            transaction.delete(key);
            transaction.done(())
        })
        .await
    }

    /// Clears some of the deliveries of a deleted endpoint. Whether there are more.
    pub(in crate::service) async fn clear_former_endpoint(
        &self,
        org: OrgId,
        endpoint: EndpointId,
    ) -> Result<bool, Error> {
        let range = &keys::deliveries(org, endpoint);
        self.transact(|mut transaction| async move {
            let found = transaction
                .unchecked()
                .scan(range, CLEARED_PER_STEP, Direction::Forward)
                .await?;
            for found in &found {
                let version = Some(found.entry.version);
                transaction.check(found.key.clone(), version);
                let Some(event) = keys::last_id(&found.key).map(EventId) else {
                    // Nothing follows from such a key.
                    transaction.delete(found.key.clone());
                    continue;
                };
                let kept = Kept::read((&found.key, &Some(found.entry.clone())));
                kept.delete(&mut transaction, org, endpoint, event).await?;
            }
            transaction.done(found.len() == CLEARED_PER_STEP)
        })
        .await
    }
}

/// A delivery that is to be deleted.
enum Kept {
    Whole(StoredDelivery),
    Damaged,
    Gone,
}

impl Kept {
    fn read((key, entry): (&Key, &Option<Entry>)) -> Self {
        match entry.as_ref().map(|entry| decode(key, entry)) {
            None => Self::Gone,
            Some(Ok(delivery)) => Self::Whole(delivery.value),
            Some(Err(error)) => {
                tracing::error!(%key, %error, "a delivery that is cleared away cannot be read");
                Self::Damaged
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
            Self::Damaged => delete_damaged(transaction, org, endpoint, event).await,
        }
    }
}

/// Deletes a delivery and what leads to it, as far as that follows from its endpoint and event. Its mark tells whether it
/// was counted.
async fn delete_damaged(
    transaction: &mut Transaction,
    org: OrgId,
    endpoint: EndpointId,
    event: EventId,
) -> Result<(), Error> {
    let mark = keys::undelivered(event, endpoint);
    let marks = transaction.entries(std::slice::from_ref(&mark)).await?;
    if marks.iter().any(Option::is_some) {
        transaction.delete(mark);
        transaction.add(keys::undelivered_count(org), -1);
    }
    let queue = keys::deliveries_due(org, endpoint);
    for place in transaction.scan_unchecked(&queue).await? {
        let of = keys::parse_delivery_due(&place.key).map(|(_, event)| event);
        if of == Some(event) {
            transaction.delete(place.key);
        }
    }
    transaction.delete(keys::dead_letter(org, endpoint, event));
    transaction.delete(keys::delivery_id(org, DeliveryId::of(event, endpoint)));
    transaction.delete(keys::delivery(org, endpoint, event));
    Ok(())
}
