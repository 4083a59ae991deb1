//! The outbox: events written in the commit that causes them.
//!
//! The commit writes the event alone, however many endpoints there are. What it announces is thin: identifiers and
//! labels, never the content of a memory.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::env::Env;
use crate::model::{EventId, EventType, MemoryId, OperationId, OrgId, Timestamp, WorkspaceId};
use crate::store::{Transaction, keys};

/// How many memories one event lists, so that its body stays below 20 kB.
const EVENT_MEMORIES_MAX: usize = 450;

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
}

/// Where and when something happened.
#[derive(Clone, Copy, Debug)]
pub(super) struct Occasion {
    pub(super) org: OrgId,
    pub(super) workspace: WorkspaceId,
    pub(super) at: Timestamp,
}

impl Occasion {
    /// Puts an event into the outbox.
    pub(super) fn emit(
        self,
        transaction: &mut Transaction,
        env: &Env,
        event_type: EventType,
        data: Value,
    ) {
        let id = EventId(env.uuid_at(self.at));
        let event = Event {
            id,
            org_id: self.org,
            workspace_id: self.workspace,
            event_type,
            timestamp: self.at,
            data,
        };
        transaction.create(keys::event(id), &event);
    }

    /// Puts events about memories into the outbox, one for as many as fit.
    pub(super) fn emit_memories(
        self,
        transaction: &mut Transaction,
        env: &Env,
        event_type: EventType,
        operation: OperationId,
        memories: &[MemoryId],
    ) {
        for part in memories.chunks(EVENT_MEMORIES_MAX) {
            let data = json!({
                "workspace_id": self.workspace,
                "operation_id": operation,
                "memory_ids": part,
            });
            self.emit(transaction, env, event_type, data);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_event_stays_below_20_kb() {
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
                "memory_ids": vec![id; EVENT_MEMORIES_MAX],
            }),
        };
        assert!(serde_json::to_vec(&event).unwrap().len() < 20_000);
    }
}
