//! The queue of an endpoint, and its turn among the others.
//!
//! What an endpoint waits for stands under `delivery_due`, by time. An endpoint with a queue has one mark under
//! `endpoint_due`, its turn: so that one with a long queue takes no more room among the others than one with a short
//! one. Whoever adds to a queue writes the state of the endpoint, so that a claim that has not seen it is a conflict.

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::model::{
    EndpointId, EventId, OrgId, RecallId, SubscriptionId, Timestamp, WebhookId, WorkspaceId,
};
use crate::store::{Key, Transaction, keys};

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
    /// Since when every attempt has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::service) failing_since: Option<Timestamp>,
}

impl EndpointState {
    /// The key of its record.
    pub(in crate::service) fn record(&self, org: OrgId, endpoint: EndpointId) -> Key {
        match self.place {
            EndpointPlace::Webhook(workspace) => {
                keys::webhook(org, workspace, WebhookId(endpoint.0))
            }
            EndpointPlace::Subscription(recall) => {
                keys::subscription(org, recall, SubscriptionId(endpoint.0))
            }
        }
    }
}

/// The state of an endpoint within a transaction, written by [`EndpointQueue::settle`].
#[derive(Debug)]
pub(in crate::service) struct EndpointQueue {
    pub(in crate::service) org: OrgId,
    pub(in crate::service) endpoint: EndpointId,
    pub(in crate::service) state: EndpointState,
    /// Where the mark stands that is stored.
    marked: Option<Timestamp>,
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
            marked: state.due,
            state,
        }
    }

    /// Queues an event. The turn comes then at the latest.
    pub(in crate::service) fn add(
        &mut self,
        transaction: &mut Transaction,
        at: Timestamp,
        event: EventId,
    ) {
        transaction.put(keys::delivery_due(self.org, self.endpoint, at, event), &());
        self.wake(at);
    }

    /// Has the turn come at this time at the latest.
    pub(in crate::service) fn wake(&mut self, at: Timestamp) {
        self.state.due = Some(self.state.due.map_or(at, |due| due.min(at)));
    }

    /// Writes the state, and moves the mark to where the turn is now.
    pub(in crate::service) fn settle(self, transaction: &mut Transaction) {
        let mark = |at| keys::endpoint_due(at, self.org, self.endpoint);
        if self.marked != self.state.due {
            if let Some(at) = self.marked {
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
        if let Some(at) = self.marked {
            transaction.delete(keys::endpoint_due(at, self.org, self.endpoint));
        }
        transaction.delete(keys::endpoint(self.org, self.endpoint));
    }
}
