//! Queue of an endpoint within a transaction.

use super::endpoint_leases::{EndpointLeases, StoredLease};
use super::endpoint_state::{EndpointParent, EndpointState};
use super::queued_delivery::QueuedDelivery;
use crate::error::Error;
use crate::keys;
use crate::model::{EndpointId, EventId, OrgId, Timestamp, WorkspaceId};
use crate::store::{Direction, Key, RangeRead, StoreExt, Transaction};

/// State of an endpoint within a transaction, written by [`EndpointQueue::save`].
#[derive(Debug)]
pub(in crate::service) struct EndpointQueue {
    pub(in crate::service) org: OrgId,
    pub(in crate::service) endpoint: EndpointId,
    pub(in crate::service) state: EndpointState,
    /// State as it is stored.
    stored: EndpointState,
}

impl EndpointQueue {
    /// Creates the state of a new endpoint of the workspace.
    ///
    /// An unconfirmed one is `due` at once, for its first ping.
    pub(in crate::service) async fn create(
        transaction: &mut Transaction,
        org: OrgId,
        workspace: WorkspaceId,
        endpoint: EndpointId,
        parent: EndpointParent,
        due: Option<Timestamp>,
    ) -> Result<(), Error> {
        let counter = keys::endpoint_sequence(org, workspace);
        let before = transaction.get::<i64>(&counter).await?.unwrap_or(0);
        transaction.add(counter, 1);
        let state = EndpointState {
            parent,
            sequence: before + 1,
            due,
            not_before: None,
            failing_since: None,
            pings: Vec::new(),
            claims: 0,
            leases: EndpointLeases::default(),
        };
        transaction.create(keys::endpoint(org, endpoint), &state);
        if let Some(due) = due {
            transaction.put(keys::endpoint_due(due, org, endpoint), &());
        }
        Ok(())
    }

    /// Reads the state of an endpoint.
    pub(in crate::service) async fn read(
        transaction: &mut Transaction,
        org: OrgId,
        endpoint: EndpointId,
    ) -> Result<Option<Self>, Error> {
        let state = transaction.get(&keys::endpoint(org, endpoint)).await?;
        Ok(state.map(|state| Self::of(org, endpoint, state)))
    }

    /// Wraps a state that this transaction has read.
    pub(in crate::service) fn of(org: OrgId, endpoint: EndpointId, state: EndpointState) -> Self {
        Self {
            org,
            endpoint,
            stored: state.clone(),
            state,
        }
    }

    /// Returns the first entries of the queue, ordered by time.
    ///
    /// The state must have been read before, so that the commit checks it: an entry that is added
    /// after this read is a conflict.
    pub(in crate::service) async fn peek(
        &self,
        transaction: &mut Transaction,
        limit: usize,
    ) -> Result<Vec<QueuedDelivery>, Error> {
        let range = keys::deliveries_due(self.org, self.endpoint);
        let store = transaction.unchecked().store();
        let found = store.scan(&range, limit, Direction::Forward).await?;
        found.iter().map(QueuedDelivery::parse).collect()
    }

    /// Returns the read of the first entries of a queue.
    pub(in crate::service) fn front(org: OrgId, endpoint: EndpointId, limit: usize) -> RangeRead {
        RangeRead::first(keys::deliveries_due(org, endpoint), limit)
    }

    /// Leases deliveries under the epoch of a new claim.
    pub(in crate::service) fn lease(&mut self, claimed: &[QueuedDelivery], until: Timestamp) {
        if claimed.is_empty() {
            return;
        }
        self.state.claims += 1;
        let epoch = self.state.claims;
        for queued in claimed {
            self.state
                .leases
                .insert(*queued, StoredLease { epoch, until });
        }
    }

    /// Removes the lease of a delivery that has ended.
    ///
    /// This alone is no change that [`Self::save`] has to write.
    pub(in crate::service) fn forget_lease(&mut self, event: EventId) {
        self.state.leases.remove(event);
        self.stored.leases.remove(event);
    }

    /// Returns the earliest time that the queue, without the deliveries that `is_own` names,
    /// requires the endpoint to be due: that of the first entry that is not leased, or the first
    /// expiry of a lease.
    ///
    /// `own` is the number of these deliveries. As for [`Self::peek`], the state must have been
    /// read before. Leases of deliveries that have ended are removed, which alone is no change that
    /// [`Self::save`] has to write.
    pub(in crate::service) async fn earliest(
        &mut self,
        transaction: &mut Transaction,
        own: usize,
        is_own: impl Fn(EventId) -> bool,
    ) -> Result<Option<Timestamp>, Error> {
        let limit = self.state.leases.len() + own + 1;
        let front = self.peek(transaction, limit).await?;
        let is_whole = front.len() < limit;
        self.state.leases.retain_queued(&front, is_whole);
        self.stored.leases.retain_queued(&front, is_whole);
        let leases = &self.state.leases;
        let is_waiting =
            |queued: &&QueuedDelivery| !is_own(queued.event) && leases.of(queued.event).is_none();
        let first = front.iter().find(is_waiting).map(|queued| queued.at);
        Ok(first.into_iter().chain(leases.first_end()).min())
    }

    /// Returns the key of an entry of the queue.
    pub(in crate::service) fn entry_key(&self, queued: QueuedDelivery) -> Key {
        keys::delivery_due(self.org, self.endpoint, queued.at, queued.event)
    }

    /// Returns true if the state differs from the stored one.
    pub(in crate::service) fn is_changed(&self) -> bool {
        self.state != self.stored
    }

    /// Queues an event. The endpoint is due at its time at the latest.
    pub(in crate::service) fn push(
        &mut self,
        transaction: &mut Transaction,
        at: Timestamp,
        event: EventId,
    ) {
        transaction.put(self.entry_key(QueuedDelivery { at, event }), &());
        self.schedule_by(at);
    }

    /// Queues an event before all other entries of the queue.
    ///
    /// This does not move the endpoint ahead of others that are due.
    pub(in crate::service) fn push_front(
        &mut self,
        transaction: &mut Transaction,
        at: Timestamp,
        event: EventId,
        now: Timestamp,
    ) {
        transaction.put(self.entry_key(QueuedDelivery { at, event }), &());
        let not_before = self.state.due.map_or(now, |due| due.min(now));
        self.schedule(Some(at), not_before);
    }

    /// Schedules the endpoint for its earliest entry, but not before `not_before`.
    pub(in crate::service) fn schedule(
        &mut self,
        earliest: Option<Timestamp>,
        not_before: Timestamp,
    ) {
        self.state.due = earliest.map(|earliest| earliest.max(not_before));
        let is_postponed = earliest.is_some_and(|earliest| earliest < not_before);
        self.state.not_before = is_postponed.then_some(not_before);
    }

    /// Schedules the endpoint for `at` at the latest.
    pub(in crate::service) fn schedule_by(&mut self, at: Timestamp) {
        self.state.due = Some(self.state.due.map_or(at, |due| due.min(at)));
    }

    /// Postpones the endpoint, whatever waits for it.
    pub(in crate::service) fn postpone(mut self, transaction: &mut Transaction, to: Timestamp) {
        self.state.due = Some(to);
        self.state.not_before = Some(to);
        self.save(transaction);
    }

    /// Writes the state, and moves the entry in the ready queue to the due time.
    pub(in crate::service) fn save(self, transaction: &mut Transaction) {
        let entry = |at| keys::endpoint_due(at, self.org, self.endpoint);
        if self.stored.due != self.state.due {
            if let Some(at) = self.stored.due {
                transaction.delete(entry(at));
            }
            if let Some(at) = self.state.due {
                transaction.put(entry(at), &());
            }
        }
        transaction.put(keys::endpoint(self.org, self.endpoint), &self.state);
    }

    /// Deletes the state of a deleted endpoint and its entry in the ready queue.
    pub(in crate::service) fn delete(self, transaction: &mut Transaction) {
        if let Some(at) = self.stored.due {
            transaction.delete(keys::endpoint_due(at, self.org, self.endpoint));
        }
        transaction.delete(keys::endpoint(self.org, self.endpoint));
    }
}
