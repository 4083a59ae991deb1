//! Events: their types and their data.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::names::string_enum;
use super::{
    ConnectorId, ConnectorStatus, EndpointId, InboundWebhookId, MemoryId, OperationId, RecallId,
    SourceId, WorkspaceId,
};
use crate::store::read_json;

/// Defines the variant, the wire name and the payload type of each event.
///
/// The first paragraph of the documentation describes the type, the others the cause.
macro_rules! events {
    ($($(#[$meta:meta])+ $variant:ident($data:ty) = $text:literal,)+) => {
        string_enum! {
            /// Type of an event.
            #[non_exhaustive]
            EventType { $($(#[$meta])+ $variant = $text),+ }
        }

        /// Data of an event, with its type.
        ///
        /// A receiver can read the body of a delivery as this type.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
        #[serde(tag = "type", content = "data")]
        pub enum EventData {
            $($(#[$meta])+ #[serde(rename = $text)] $variant($data)),+
        }

        impl EventData {
            /// Returns the type of the event.
            #[must_use]
            pub const fn event_type(&self) -> EventType {
                match self {
                    $(Self::$variant(_) => EventType::$variant),+
                }
            }

            /// Reads the data of an event of this type.
            pub(crate) fn read(event_type: EventType, data: &RawValue) -> serde_json::Result<Self> {
                let data = data.get().as_bytes();
                match event_type {
                    $(EventType::$variant => read_json(data).map(Self::$variant)),+
                }
            }
        }

        impl Serialize for EventContent<'_> {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self.0 {
                    $(EventData::$variant(data) => data.serialize(serializer)),+
                }
            }
        }
    };
}

/// Data of an event that is serialised without its type.
///
/// Bodies and records have the time of the event between the type and the data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventContent<'e>(pub(crate) &'e EventData);

events! {
    /// A memory was added.
    ///
    /// One event lists all memories of a batch.
    ChunkCreated(ChangedMemories) = "chunk.created",
    /// A memory was deleted.
    ChunkDeleted(ChangedMemories) = "chunk.deleted",
    /// The labels, the review status or the content of memories changed.
    ///
    /// One event per operation and workspace, split if its body would exceed 20 kB.
    MemoryUpdated(ChangedMemories) = "memory.updated",
    /// A memory that a recall cites changed.
    ///
    /// One event per recall, cause and kind of change, generated during delivery: a
    /// `memory.updated` or a `chunk.deleted` affects memories that the recall cites. `change` is
    /// `deleted` for those that no longer exist for the owner of the endpoint, otherwise `updated`.
    CitationChanged(ChangedCitations) = "citation.changed",
    /// A batch of memories was ingested.
    ///
    /// One event per batch that changed something.
    IngestCompleted(IngestSummary) = "ingest.completed",
    /// A batch of memories was rejected.
    ///
    /// A message to an inbound webhook had a valid signature but was rejected for its content. One
    /// event per `webhook-id`.
    IngestFailed(IngestFailure) = "ingest.failed",
    /// The status of a connector changed.
    ///
    /// A report, a pause or the passage of time changed it.
    ConnectorStatusChanged(ConnectorStatusChange) = "connector.status_changed",
    /// A ping of one endpoint.
    ///
    /// It asks whether a new endpoint wants events, or is a test event that was requested.
    WebhookPing(WebhookPing) = "webhook.ping",
}

// The fields of the following types are in alphabetical order, in which they are stored and sent.

/// Memories that one operation added, changed or deleted in a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ChangedMemories {
    /// Memories of the operation that existed for the owner of the endpoint before or after it, or a
    /// part of them: at most 450 in one body.
    pub memory_ids: Vec<MemoryId>,
    /// Identifier of the operation, as in the audit log.
    pub operation_id: OperationId,
    /// Workspace of the memories.
    pub workspace_id: WorkspaceId,
}

string_enum! {
    /// Change of a memory that a recall cites.
    CitationChange {
        /// The labels, the review status or the content changed.
        Updated = "updated",
        /// The memory was deleted, or no longer exists for the owner of the endpoint.
        Deleted = "deleted",
    }
}

impl EventData {
    /// Returns the memories that the event lists, if it is about a change of listed memories.
    pub(crate) fn memories(&self) -> &[MemoryId] {
        match self {
            Self::ChunkCreated(changed)
            | Self::ChunkDeleted(changed)
            | Self::MemoryUpdated(changed) => &changed.memory_ids,
            _ => &[],
        }
    }

    /// Lists other memories, if the event is about a change of listed memories.
    pub(crate) fn set_memories(&mut self, memories: Vec<MemoryId>) {
        if let Self::ChunkCreated(changed)
        | Self::ChunkDeleted(changed)
        | Self::MemoryUpdated(changed) = self
        {
            changed.memory_ids = memories;
        }
    }
}

/// Memories cited by a recall that one operation changed or deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ChangedCitations {
    /// Change of the memories.
    pub change: CitationChange,
    /// Affected memories that the recall cites and that existed for the owner of the endpoint.
    pub memory_ids: Vec<MemoryId>,
    /// Identifier of the operation, as in the audit log.
    pub operation_id: OperationId,
    /// Recall that cites the memories.
    pub recall_id: RecallId,
    /// Workspace of the recall.
    pub workspace_id: WorkspaceId,
}

/// Result of an ingested batch, in numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct IngestSummary {
    /// Number of memories that the batch added and that exist for the owner of the endpoint.
    #[cfg_attr(feature = "openapi", schemars(with = "u32"))]
    pub created: usize,
    /// Identifier of the operation, as in the audit log.
    pub operation_id: OperationId,
    /// Source of the memories.
    pub source_id: SourceId,
    /// Number of memories that the batch updated and that exist for the owner of the endpoint.
    #[cfg_attr(feature = "openapi", schemars(with = "u32"))]
    pub updated: usize,
    /// Workspace of the memories.
    pub workspace_id: WorkspaceId,
}

/// Rejection of a message to an inbound webhook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct IngestFailure {
    /// Error code of the rejection.
    pub error: String,
    /// Inbound webhook that the message was posted to.
    pub inbound_webhook_id: InboundWebhookId,
    /// Identifier of the message: the header `webhook-id` of its sender.
    pub message_id: String,
    /// Source of the inbound webhook.
    pub source_id: SourceId,
    /// Workspace of the inbound webhook.
    pub workspace_id: WorkspaceId,
}

/// Change of the status of a connector.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ConnectorStatusChange {
    /// Status that was announced before; `null` the first time.
    pub from: Option<ConnectorStatus>,
    /// Identifier of the connector.
    pub service_account_id: ConnectorId,
    /// New status.
    pub to: ConnectorStatus,
    /// Workspace of the connector.
    pub workspace_id: WorkspaceId,
}

/// Data of a test event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct WebhookPing {
    /// Outbound webhook or citation subscription that receives the event.
    pub endpoint_id: EndpointId,
    /// Workspace of the endpoint.
    pub workspace_id: WorkspaceId,
}
