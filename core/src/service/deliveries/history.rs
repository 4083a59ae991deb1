//! What is kept of events and their deliveries, and for how long.

use serde::{Deserialize, Serialize};

use super::record::StoredDelivery;
use crate::env::Env;
use crate::error::Error;
use crate::limits::Limits;
use crate::model::{EndpointId, EventId, OrgId, Timestamp};
use crate::service::maintain::Due;
use crate::service::{Event, KnowledgeService};
use crate::store::{Direction, KeyEntry, Transaction, keys};

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
            let found = transaction.read_many::<StoredDelivery>(&records).await?;
            if found.iter().flatten().any(StoredDelivery::is_pending) {
                announced.kept_until = now.plus(SWEEP_POSTPONED);
                let later = announced.kept_until;
                Due::Event { org, event }.schedule(&mut transaction, later, self.env());
                transaction.put(key, &announced);
                return transaction.done(());
            }
            for (endpoint, mut delivery) in endpoints.iter().zip(found).filter_map(present) {
                delivery.delete(&mut transaction, org, *endpoint);
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
            let records: Vec<_> = found.iter().map(|found| found.key.clone()).collect();
            let deliveries = transaction.read_many::<StoredDelivery>(&records).await?;
            for mut delivery in deliveries.into_iter().flatten() {
                delivery.delete(&mut transaction, org, endpoint);
            }
            transaction.done(found.len() == CLEARED_PER_STEP)
        })
        .await
    }
}

fn present<A, B>((one, other): (A, Option<B>)) -> Option<(A, B)> {
    Some((one, other?))
}
