//! The outbox: events are written by the commit that causes them.
//!
//! The commit writes one event, however many endpoints there are, and none if the workspace never
//! had an endpoint. An event has identifiers and labels, never the content of a memory.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::env::Env;
use crate::error::Error;
use crate::keys;
use crate::model::{EventId, EventType, MemoryId, OperationId, OrgId, Timestamp, WorkspaceId};
use crate::store::Transaction;

/// An event to publish.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Identifier of the event.
    pub id: EventId,
    /// Organisation of the event.
    pub org_id: OrgId,
    /// Workspace of the event.
    pub workspace_id: WorkspaceId,
    /// Type of the event.
    #[serde(rename = "type")]
    pub event_type: EventType,
    /// Time of the event.
    pub timestamp: Timestamp,
    /// Data of the event.
    pub data: Value,
    /// Number of endpoints ever created in the workspace before the commit.
    ///
    /// Only these receive the event.
    pub endpoints: i64,
}

/// The outbox of an operation: its workspace, its time and the endpoints that receive its events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outbox {
    org: OrgId,
    workspace: WorkspaceId,
    at: Timestamp,
    endpoints: i64,
}

impl Outbox {
    /// Begins the outbox of an operation in this workspace.
    ///
    /// Its events are for the endpoints that exist when the transaction is committed.
    pub(crate) async fn begin(
        transaction: &mut Transaction,
        org: OrgId,
        workspace: WorkspaceId,
        at: Timestamp,
    ) -> Result<Self, Error> {
        let sequence = keys::endpoint_sequence(org, workspace);
        Ok(Self {
            org,
            workspace,
            at,
            endpoints: transaction.guard(&sequence).await?,
        })
    }

    /// Returns true if the workspace ever had an endpoint.
    pub(crate) fn has_endpoints(self) -> bool {
        self.endpoints > 0
    }

    /// Adds an event to the outbox, unless the workspace never had an endpoint.
    pub(crate) fn emit(
        self,
        transaction: &mut Transaction,
        env: &Env,
        event_type: EventType,
        data: Value,
    ) {
        if !self.has_endpoints() {
            return;
        }
        let id = EventId(env.uuid_at(self.at));
        let event = Event {
            id,
            org_id: self.org,
            workspace_id: self.workspace,
            event_type,
            timestamp: self.at,
            data,
            endpoints: self.endpoints,
        };
        transaction.create(keys::outbox(id), &event);
    }

    /// Adds one event about all these memories to the outbox, unless there are none.
    ///
    /// The fan-out splits it into parts.
    pub(crate) fn emit_memories(
        self,
        transaction: &mut Transaction,
        env: &Env,
        event_type: EventType,
        operation: OperationId,
        memories: &[MemoryId],
    ) {
        if memories.is_empty() || !self.has_endpoints() {
            return;
        }
        let data = json!({
            "workspace_id": self.workspace,
            "operation_id": operation,
            "memory_ids": memories,
        });
        self.emit(transaction, env, event_type, data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::BULK_MEMORIES_CEILING;
    use crate::store::VALUE_BYTES_MAX;

    #[test]
    fn largest_event_fits_into_one_value() {
        let id = uuid::Uuid::max();
        let event = Event {
            id: EventId(id),
            org_id: OrgId(id),
            workspace_id: WorkspaceId(id),
            event_type: EventType::ConnectorStatusChanged,
            timestamp: Timestamp::MAX,
            data: json!({
                "workspace_id": id,
                "operation_id": id,
                "memory_ids": vec![id; BULK_MEMORIES_CEILING],
            }),
            endpoints: i64::MAX,
        };
        assert!(serde_json::to_vec(&event).unwrap().len() < VALUE_BYTES_MAX);
    }
}
