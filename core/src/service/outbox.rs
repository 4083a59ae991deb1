//! The outbox: events are written by the commit that causes them.
//!
//! The commit writes one event, however many endpoints there are, and none if the workspace never
//! had an endpoint. A mark leads to the events of an organisation. An event has identifiers and labels, never the content of a memory.

use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::env::Env;
use crate::error::Error;
use crate::keys;
use crate::model::{
    AuditLogId, ChangedMemories, EventContent, EventData, EventId, EventType, MemoryId, OrgId,
    Timestamp, WorkspaceId,
};
use crate::service::audit::write::AuditedOperation;
use crate::store::{RangeRead, Transaction};

/// An event to publish.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "StoredEvent<Box<RawValue>>")]
pub struct Event {
    /// Identifier of the event.
    pub id: EventId,
    /// Organisation of the event.
    pub org_id: OrgId,
    /// Workspace of the event.
    pub workspace_id: WorkspaceId,
    /// Time of the event.
    pub timestamp: Timestamp,
    /// Data of the event, with its type.
    pub data: EventData,
    /// Number of endpoints ever created in the workspace before the commit.
    ///
    /// Only these receive the event.
    pub endpoints: i64,
    /// First audit entry of the operation, whose entries have the labels of its memories before and
    /// after.
    ///
    /// `None` for an event that is not about memories, and once the event has deliveries.
    pub(crate) audit: Option<AuditLogId>,
}

impl Event {
    /// Returns the type of the event.
    #[must_use]
    pub const fn event_type(&self) -> EventType {
        self.data.event_type()
    }
}

/// An event as it is stored.
#[derive(Serialize, Deserialize)]
struct StoredEvent<D> {
    id: EventId,
    org_id: OrgId,
    workspace_id: WorkspaceId,
    #[serde(rename = "type")]
    event_type: EventType,
    timestamp: Timestamp,
    data: D,
    endpoints: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    audit: Option<AuditLogId>,
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let stored = StoredEvent {
            id: self.id,
            org_id: self.org_id,
            workspace_id: self.workspace_id,
            event_type: self.event_type(),
            timestamp: self.timestamp,
            data: EventContent(&self.data),
            endpoints: self.endpoints,
            audit: self.audit,
        };
        stored.serialize(serializer)
    }
}

impl TryFrom<StoredEvent<Box<RawValue>>> for Event {
    type Error = serde_json::Error;

    fn try_from(stored: StoredEvent<Box<RawValue>>) -> Result<Self, Self::Error> {
        Ok(Self {
            id: stored.id,
            org_id: stored.org_id,
            workspace_id: stored.workspace_id,
            timestamp: stored.timestamp,
            data: EventData::read(stored.event_type, &stored.data)?,
            endpoints: stored.endpoints,
            audit: stored.audit,
        })
    }
}

/// The outbox of an operation: its workspace, its time and the endpoints that receive its events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outbox {
    org: OrgId,
    workspace: WorkspaceId,
    at: Timestamp,
    endpoints: i64,
}

/// Number of workspaces of an organisation whose endpoints are prefetched.
const SEQUENCES_PREFETCHED: usize = 64;

/// Returns the read of what [`Outbox::begin`] reads, for any workspace of an organisation.
pub(crate) fn sequences_read(org: OrgId) -> RangeRead {
    RangeRead::first(keys::endpoint_sequences(org), SEQUENCES_PREFETCHED)
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
            endpoints: transaction.get::<i64>(&sequence).await?.unwrap_or(0),
        })
    }

    /// Returns true if the workspace ever had an endpoint.
    pub(crate) fn has_endpoints(self) -> bool {
        self.endpoints > 0
    }

    /// Adds an event to the outbox, unless the workspace never had an endpoint.
    ///
    /// `audit` is the first audit entry of the operation, if the event is about its memories.
    pub(crate) fn emit(
        self,
        transaction: &mut Transaction,
        env: &Env,
        data: EventData,
        audit: Option<AuditLogId>,
    ) {
        if !self.has_endpoints() {
            return;
        }
        let id = EventId(env.uuid_at(self.at));
        let event = Event {
            id,
            org_id: self.org,
            workspace_id: self.workspace,
            timestamp: self.at,
            data,
            endpoints: self.endpoints,
            audit,
        };
        transaction.create(keys::outbox(id), &event);
        transaction.put(keys::outbox_queue(self.org, id), &());
    }

    /// Adds one event about all these memories to the outbox, unless there are none.
    ///
    /// `event` is its variant of [`EventData`]. The fan-out splits it into parts.
    pub(crate) fn emit_memories(
        self,
        transaction: &mut Transaction,
        env: &Env,
        event: fn(ChangedMemories) -> EventData,
        operation: AuditedOperation,
        memories: &[MemoryId],
    ) {
        if memories.is_empty() || !self.has_endpoints() {
            return;
        }
        let changed = ChangedMemories {
            memory_ids: memories.to_vec(),
            operation_id: operation.id,
            workspace_id: self.workspace,
        };
        let audit = Some(operation.first_audit_id);
        self.emit(transaction, env, event(changed), audit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::BULK_MEMORIES_CEILING;
    use crate::model::OperationId;
    use crate::store::VALUE_BYTES_MAX;

    #[test]
    fn largest_event_fits_into_one_value() {
        let id = uuid::Uuid::max();
        let event = Event {
            id: EventId(id),
            org_id: OrgId(id),
            workspace_id: WorkspaceId(id),
            timestamp: Timestamp::MAX,
            data: EventData::MemoryUpdated(ChangedMemories {
                memory_ids: vec![MemoryId(id); BULK_MEMORIES_CEILING],
                operation_id: OperationId(id),
                workspace_id: WorkspaceId(id),
            }),
            endpoints: i64::MAX,
            audit: Some(AuditLogId(id)),
        };
        assert!(serde_json::to_vec(&event).unwrap().len() < VALUE_BYTES_MAX);
    }
}
