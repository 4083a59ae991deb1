//! The outbox: events written in the commit that causes them.
//!
//! The commit writes the event alone, however many endpoints there are; where there never was one, not even that. What it
//! announces is thin: identifiers and labels, never the content of a memory.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::env::Env;
use crate::error::Error;
use crate::model::{EventId, EventType, MemoryId, OperationId, OrgId, Timestamp, WorkspaceId};
use crate::keys;
use crate::store::Transaction;

/// Something that happened and has to be announced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The identifier.
    pub id: EventId,
    /// The organisation.
    pub org_id: OrgId,
    /// The workspace.
    pub workspace_id: WorkspaceId,
    /// What happened.
    #[serde(rename = "type")]
    pub event_type: EventType,
    /// When it happened.
    pub timestamp: Timestamp,
    /// What it is about.
    pub data: Value,
    /// How many endpoints the workspace had ever had at the commit: those alone hear of it.
    pub endpoints: i64,
}

/// Where and when something happens, and who is there to hear of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Occasion {
    org: OrgId,
    workspace: WorkspaceId,
    at: Timestamp,
    endpoints: i64,
}

impl Occasion {
    /// An occasion in this workspace. Its events are for the endpoints that are there when the transaction is committed.
    pub(super) async fn begin(
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

    /// Whether there ever was an endpoint that could hear of it.
    pub(super) fn is_heard(self) -> bool {
        self.endpoints > 0
    }

    /// Puts an event into the outbox, unless there never was an endpoint that could hear of it.
    pub(super) fn emit(
        self,
        transaction: &mut Transaction,
        env: &Env,
        event_type: EventType,
        data: Value,
    ) {
        if !self.is_heard() {
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

    /// Puts an event about memories into the outbox, unless there are none: one, however many they are. What is delivered of
    /// it is split.
    pub(super) fn emit_memories(
        self,
        transaction: &mut Transaction,
        env: &Env,
        event_type: EventType,
        operation: OperationId,
        memories: &[MemoryId],
    ) {
        if memories.is_empty() || !self.is_heard() {
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
    fn the_largest_event_fits_into_a_value() {
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
