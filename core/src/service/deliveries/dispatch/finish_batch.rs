//! Completion of many successful attempts in one commit.

use std::collections::{BTreeMap, BTreeSet};

use super::delivery_lease::DeliveryLease;
use super::exchange::Attempt;
use super::finish::AttemptOutcome;
use crate::error::Error;
use crate::keys;
use crate::model::{DeliveryStatus, EndpointId, EventId, OrgId, Timestamp};
use crate::service::deliveries::queue::{EndpointQueue, EndpointState, StoredDelivery};
use crate::service::{Dispatcher, KnowledgeService};
use crate::store::{Entry, Key, Transaction, decode};

/// Maximum number of attempts that one commit completes.
const FINISHED_PER_COMMIT: usize = 256;

/// An attempt with the lease under which it was made.
type EndedAttempt = (DeliveryLease, Attempt);

/// Successful attempts of one endpoint that are completed together.
struct EndpointBatch {
    queue: EndpointQueue,
    /// Events of the completed deliveries.
    events: Vec<EventId>,
    /// Expiries of their leases.
    lease_ends: Vec<Timestamp>,
}

impl EndpointBatch {
    fn of(queue: EndpointQueue) -> Self {
        Self {
            queue,
            events: Vec::new(),
            lease_ends: Vec::new(),
        }
    }

    /// Completes a delivery, unless it needs more than this: see [`Dispatcher::finish_batch`].
    fn finish(
        &mut self,
        transaction: &mut Transaction,
        (lease, attempt): &EndedAttempt,
        mut delivery: StoredDelivery,
    ) -> Option<AttemptOutcome> {
        let is_ping = delivery.is_ping || self.queue.state.pings.contains(&lease.event);
        let lease_end = lease
            .held_until(&self.queue, &delivery)
            .filter(|_| !is_ping)?;
        self.events.push(lease.event);
        self.lease_ends.push(lease_end);
        self.queue.forget_lease(lease.event);
        delivery.record_leased(lease.epoch, attempt.record(lease.at));
        delivery.end(transaction, &self.queue, DeliveryStatus::Delivered);
        delivery.put(transaction, &self.queue);
        Some(AttemptOutcome::Delivered)
    }

    /// Schedules the endpoint for the deliveries that it has pending now, and saves its state if it
    /// has changed.
    ///
    /// An earlier due time is kept, so that the endpoint does not fall behind others.
    async fn save(mut self, transaction: &mut Transaction, now: Timestamp) -> Result<(), Error> {
        if self.events.is_empty() {
            return Ok(());
        }
        self.queue.state.failing_since = None;
        // A due time at the expiry of one of these leases has no other reason.
        let due = self
            .queue
            .state
            .due
            .filter(|due| !self.lease_ends.contains(due));
        // If it is due anyway, the next claim looks at its queue.
        if due.is_none_or(|due| due > now) {
            let (own, is_own) = (self.events.len(), |event| self.events.contains(&event));
            let next = self.queue.earliest(transaction, own, is_own).await?;
            let earlier = due.filter(|due| next.is_some_and(|next| *due < next.max(now)));
            match earlier {
                Some(due) => self.queue.state.due = Some(due),
                None => self.queue.schedule(next, now),
            }
        }
        if self.queue.is_changed() {
            self.queue.save(transaction);
        }
        Ok(())
    }
}

/// # Results of attempts
impl Dispatcher<'_> {
    /// Completes successful attempts together, which costs much less than one by one.
    ///
    /// Returns the outcome of each; `None` if [`finish`](Self::finish) has to complete it: the
    /// attempt failed or was a ping, its lease is not held, its record is corrupt, its delivery
    /// occurs twice, or a move holds the writes of its organisation. These hold up no other. Like
    /// [`Self::finish`], it is idempotent.
    ///
    /// # Errors
    /// Those of the store; earlier attempts, 256 at a time, remain completed.
    pub async fn finish_batch(
        self,
        now: Timestamp,
        ended: &[(DeliveryLease, Attempt)],
    ) -> Result<Vec<Option<AttemptOutcome>>, Error> {
        let mut outcomes = Vec::with_capacity(ended.len());
        for ended in ended.chunks(FINISHED_PER_COMMIT) {
            outcomes.extend(self.service.finish_chunk(now, ended).await?);
        }
        Ok(outcomes)
    }
}

impl KnowledgeService {
    /// Completes attempts, without those of organisations whose writes are held.
    async fn finish_chunk(
        &self,
        now: Timestamp,
        ended: &[EndedAttempt],
    ) -> Result<Vec<Option<AttemptOutcome>>, Error> {
        let mut held = BTreeSet::new();
        loop {
            let rest = ended.iter().filter(|(lease, _)| !held.contains(&lease.org));
            let rest: Vec<_> = rest.collect();
            match self.finish_together(now, &rest).await {
                Ok(outcomes) => {
                    let mut outcomes = outcomes.into_iter();
                    let outcome = |(lease, _): &EndedAttempt| {
                        if held.contains(&lease.org) {
                            None
                        } else {
                            outcomes.next().flatten()
                        }
                    };
                    return Ok(ended.iter().map(outcome).collect());
                }
                Err(error) => {
                    let orgs = rest.iter().map(|(lease, _)| lease.org).collect();
                    held.extend(self.fenced_orgs(error, orgs).await?);
                }
            }
        }
    }

    async fn finish_together(
        &self,
        now: Timestamp,
        ended: &[&EndedAttempt],
    ) -> Result<Vec<Option<AttemptOutcome>>, Error> {
        let endpoints: BTreeMap<EndpointId, OrgId> = ended
            .iter()
            .map(|(lease, _)| (lease.endpoint, lease.org))
            .collect();
        let states = endpoints
            .iter()
            .map(|(endpoint, org)| keys::endpoint(*org, *endpoint));
        let deliveries = ended.iter().map(|(lease, _)| lease.delivery_key());
        let read = &states.chain(deliveries).collect::<Vec<_>>();
        let endpoints = &endpoints;
        self.transact(|mut transaction| async move {
            let found = transaction.get_many::<Entry>(read).await?;
            let found: Vec<_> = read.iter().zip(&found).collect();
            let (states, deliveries) = found.split_at(endpoints.len());
            let mut batches = batches(endpoints, states);
            let (mut known, mut outcomes) = (BTreeSet::new(), Vec::with_capacity(ended.len()));
            for (attempt, (key, delivery)) in ended.iter().zip(deliveries) {
                let lease = &attempt.0;
                let is_first = known.insert((lease.endpoint, lease.event));
                let delivery = delivery
                    .as_ref()
                    .filter(|_| is_first && attempt.1.is_success());
                let delivery = delivery.and_then(|entry| decode::<StoredDelivery>(key, entry).ok());
                outcomes.push(match (batches.get_mut(&lease.endpoint), delivery) {
                    (Some(batch), Some(delivery)) => {
                        batch.finish(&mut transaction, attempt, delivery.value)
                    }
                    _ => None,
                });
            }
            for batch in batches.into_values() {
                batch.save(&mut transaction, now).await?;
            }
            Ok(transaction.done(outcomes))
        })
        .await
    }
}

/// Begins a batch for each endpoint whose state is readable.
fn batches(
    endpoints: &BTreeMap<EndpointId, OrgId>,
    states: &[(&Key, &Option<Entry>)],
) -> BTreeMap<EndpointId, EndpointBatch> {
    let batch =
        |((endpoint, org), (key, state)): ((&EndpointId, &OrgId), &(&Key, &Option<Entry>))| {
            let state = decode::<EndpointState>(key, state.as_ref()?).ok()?;
            let queue = EndpointQueue::of(*org, *endpoint, state.value);
            Some((*endpoint, EndpointBatch::of(queue)))
        };
    endpoints.iter().zip(states).filter_map(batch).collect()
}
