//! The queue of an endpoint, and its turn among the others.
//!
//! What an endpoint waits for stands under `delivery_due`, by time. An endpoint with a queue has one mark under
//! `endpoint_due`, its turn: so that one with a long queue takes no more room among the others than one with a short
//! one. Whoever adds to a queue, or moves what waits there to an earlier time, writes the state of the endpoint, so that a
//! claim that has not seen it is a conflict. Who takes away from it or moves it to a later time need not.
//!
//! The invariant: while anything waits the turn is set, and it is no later than the earliest of what waits, or than
//! [`EndpointState::not_before`]. It may be earlier, and come in vain.

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::model::{EndpointId, EventId, OrgId, RecallId, Timestamp, WorkspaceId};
use crate::keys;
use crate::store::{Direction, Key, StoreExt, Transaction};

/// Where the record of an endpoint stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::service) enum EndpointPlace {
    /// A webhook of this workspace.
    Webhook(WorkspaceId),
    /// A subscription to this recall.
    Subscription(RecallId),
}

/// What is known of an endpoint beside its record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::service) struct EndpointState {
    pub(in crate::service) place: EndpointPlace,
    /// The how-manieth endpoint of its workspace it is: an event concerns those that were there at its commit.
    pub(in crate::service) sequence: i64,
    /// Its turn: where its mark under `endpoint_due` stands.
    pub(in crate::service) due: Option<Timestamp>,
    /// Until when what was due had to wait when the turn was set: for the others that are due too, for the end of the
    /// one attempt that an endpoint gets that fails, or for the repair of what is damaged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::service) not_before: Option<Timestamp>,
    /// Since when every attempt has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::service) failing_since: Option<Timestamp>,
}

/// The state of an endpoint within a transaction, written by [`EndpointQueue::settle`].
#[derive(Debug)]
pub(in crate::service) struct EndpointQueue {
    pub(in crate::service) org: OrgId,
    pub(in crate::service) endpoint: EndpointId,
    pub(in crate::service) state: EndpointState,
    /// The state as it is stored.
    stored: EndpointState,
}

/// What an endpoint waits for, and since or until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::service) struct Waiting {
    pub(in crate::service) at: Timestamp,
    pub(in crate::service) event: EventId,
}

impl EndpointQueue {
    /// Makes the state of a new endpoint of the workspace.
    pub(in crate::service) async fn create(
        transaction: &mut Transaction,
        org: OrgId,
        workspace: WorkspaceId,
        endpoint: EndpointId,
        place: EndpointPlace,
    ) -> Result<(), Error> {
        let counter = keys::endpoint_sequence(org, workspace);
        let before = transaction.guard(&counter).await?;
        transaction.add(counter, 1);
        let state = EndpointState {
            place,
            sequence: before + 1,
            due: None,
            not_before: None,
            failing_since: None,
        };
        transaction.create(keys::endpoint(org, endpoint), &state);
        Ok(())
    }

    /// The state of an endpoint that is there.
    pub(in crate::service) async fn read(
        transaction: &mut Transaction,
        org: OrgId,
        endpoint: EndpointId,
    ) -> Result<Option<Self>, Error> {
        let state = transaction.read(&keys::endpoint(org, endpoint)).await?;
        Ok(state.map(|state| Self::of(org, endpoint, state)))
    }

    /// A state that this transaction has read.
    pub(in crate::service) fn of(org: OrgId, endpoint: EndpointId, state: EndpointState) -> Self {
        Self {
            org,
            endpoint,
            stored: state.clone(),
            state,
        }
    }

    /// The first that the endpoint waits for, in the order of time. The state has to be read before, and is among the
    /// checks: what is added after this reading is a conflict.
    pub(in crate::service) async fn head(
        &self,
        transaction: &Transaction,
        limit: usize,
    ) -> Result<Vec<Waiting>, Error> {
        let range = keys::deliveries_due(self.org, self.endpoint);
        let store = transaction.unchecked();
        let found = store.scan(&range, limit, Direction::Forward).await?;
        let waiting = found.iter().map(|found| {
            let parsed = keys::parse_delivery_due(&found.key);
            let (at, event) = parsed
                .ok_or_else(|| Error::internal(format!("{} is no place in a queue", found.key)))?;
            Ok(Waiting { at, event })
        });
        waiting.collect()
    }

    /// The key of a place in the queue.
    pub(in crate::service) fn place(&self, waiting: Waiting) -> Key {
        keys::delivery_due(self.org, self.endpoint, waiting.at, waiting.event)
    }

    /// Whether the state is another than is stored.
    pub(in crate::service) fn is_changed(&self) -> bool {
        self.state != self.stored
    }

    /// Queues an event. The turn comes then at the latest.
    pub(in crate::service) fn add(
        &mut self,
        transaction: &mut Transaction,
        at: Timestamp,
        event: EventId,
    ) {
        transaction.put(self.place(Waiting { at, event }), &());
        self.wake(at);
    }

    /// Queues an event before whatever else waits there. That gives the endpoint no turn before others that are due.
    pub(in crate::service) fn add_first(
        &mut self,
        transaction: &mut Transaction,
        at: Timestamp,
        event: EventId,
        now: Timestamp,
    ) {
        transaction.put(self.place(Waiting { at, event }), &());
        let turn = self.state.due.map_or(now, |due| due.min(now));
        self.wait_until(Some(at), turn);
    }

    /// Has the turn come for the earliest of what waits, but not before this time.
    pub(in crate::service) fn wait_until(
        &mut self,
        earliest: Option<Timestamp>,
        not_before: Timestamp,
    ) {
        self.state.due = earliest.map(|earliest| earliest.max(not_before));
        let is_put_off = earliest.is_some_and(|earliest| earliest < not_before);
        self.state.not_before = is_put_off.then_some(not_before);
    }

    /// Has the turn come at this time at the latest.
    pub(in crate::service) fn wake(&mut self, at: Timestamp) {
        self.state.due = Some(self.state.due.map_or(at, |due| due.min(at)));
    }

    /// Writes the state, and moves the mark to where the turn is now.
    pub(in crate::service) fn settle(self, transaction: &mut Transaction) {
        let mark = |at| keys::endpoint_due(at, self.org, self.endpoint);
        if self.stored.due != self.state.due {
            if let Some(at) = self.stored.due {
                transaction.delete(mark(at));
            }
            if let Some(at) = self.state.due {
                transaction.put(mark(at), &());
            }
        }
        transaction.put(keys::endpoint(self.org, self.endpoint), &self.state);
    }

    /// Removes the state of an endpoint that is deleted, and with it its turn.
    pub(in crate::service) fn delete(self, transaction: &mut Transaction) {
        if let Some(at) = self.stored.due {
            transaction.delete(keys::endpoint_due(at, self.org, self.endpoint));
        }
        transaction.delete(keys::endpoint(self.org, self.endpoint));
    }
}
