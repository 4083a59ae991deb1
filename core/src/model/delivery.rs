//! Who is told what: citation subscriptions, webhooks in both directions, and the types of events.

use serde::{Deserialize, Serialize};

use super::names::string_enum;
use super::{
    DisabledReason, InboundWebhookId, MemberId, MemoryId, OrgId, RecallId, SourceId,
    SubscriptionId, Timestamp, WebhookId, WebhookUrl, WorkspaceId,
};

string_enum! {
    /// What can be announced.
    #[non_exhaustive]
    EventType {
        /// A memory was added.
        ChunkCreated = "chunk.created",
        /// A memory was deleted.
        ChunkDeleted = "chunk.deleted",
        /// The labels, the review status or the content of memories changed.
        MemoryUpdated = "memory.updated",
        /// A memory that a recall cites changed.
        CitationChanged = "citation.changed",
        /// A batch of memories came in.
        IngestCompleted = "ingest.completed",
        /// A batch of memories was refused.
        IngestFailed = "ingest.failed",
        /// A connector has another status.
        ConnectorStatusChanged = "connector.status_changed",
        /// A trial of an endpoint.
        WebhookPing = "webhook.ping",
    }
}

/// One answer of an assistant, with the memories that it cites.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Recall {
    /// The identifier.
    pub id: RecallId,
    /// The workspace.
    pub workspace_id: WorkspaceId,
    /// What was asked.
    pub query: String,
    /// The memories that the answer cites.
    pub memory_ids: Vec<MemoryId>,
    /// Who registered it.
    pub created_by: MemberId,
    /// When it was registered.
    pub created_at: Timestamp,
}

/// A recall as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct RecallSummary {
    /// The identifier.
    pub id: RecallId,
    /// The workspace.
    pub workspace_id: WorkspaceId,
    /// What was asked.
    pub query: String,
    /// Who registered it.
    pub created_by: MemberId,
    /// When it was registered.
    pub created_at: Timestamp,
}

impl From<Recall> for RecallSummary {
    fn from(recall: Recall) -> Self {
        Self {
            id: recall.id,
            workspace_id: recall.workspace_id,
            query: recall.query,
            created_by: recall.created_by,
            created_at: recall.created_at,
        }
    }
}

/// Who hears when a memory changes that a recall cites: of every such memory, by its identifier alone, whatever its labels
/// are for the subscriber. Who relied on an answer has to hear that what it cites is no longer for them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct CitationSubscription {
    /// The identifier.
    pub id: SubscriptionId,
    /// The organisation.
    pub org_id: OrgId,
    /// The workspace of the recall.
    pub workspace_id: WorkspaceId,
    /// The recall.
    pub recall_id: RecallId,
    /// Who subscribed.
    pub subscriber_user_id: MemberId,
    /// Where deliveries go.
    pub webhook_url: WebhookUrl,
    /// The secret that deliveries are signed with (Standard Webhooks 1.0.0: `whsec_` and base64). Shown in the answer
    /// to the creation and `null` ever after.
    #[cfg_attr(
        feature = "openapi",
        schemars(with = "Option<crate::schema::SigningSecret>")
    )]
    pub signing_secret: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// The request for a citation subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct NewCitationSubscription {
    /// The recall to hear of.
    pub recall_id: RecallId,
    /// Where deliveries go.
    pub webhook_url: WebhookUrl,
}

/// An outbound webhook of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Webhook {
    /// The identifier.
    pub id: WebhookId,
    /// The organisation.
    pub org_id: OrgId,
    /// The workspace.
    pub workspace_id: WorkspaceId,
    /// What it is told of.
    pub event_type: EventType,
    /// Where deliveries go.
    pub url: WebhookUrl,
    /// Whether it is told anything at present.
    pub is_active: bool,
    /// Why the service switched it off, where it did; switching it on again clears this.
    pub disabled_reason: Option<DisabledReason>,
    /// The secret that deliveries are signed with. Shown in the answer to the creation and `null` ever after.
    #[cfg_attr(
        feature = "openapi",
        schemars(with = "Option<crate::schema::SigningSecret>")
    )]
    pub signing_secret: Option<String>,
    /// Who registered it.
    pub created_by: MemberId,
    /// When it was registered.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// The request for an outbound webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct NewWebhook {
    /// What to be told of.
    pub event_type: EventType,
    /// Where deliveries go.
    pub url: WebhookUrl,
}

/// The request to change an outbound webhook; what is absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct WebhookUpdate {
    /// What to be told of.
    pub event_type: Option<EventType>,
    /// Where deliveries go.
    pub url: Option<WebhookUrl>,
    /// Switches it off or on.
    pub is_active: Option<bool>,
}

/// An inbound webhook of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct InboundWebhook {
    /// The identifier.
    pub id: InboundWebhookId,
    /// The organisation.
    pub org_id: OrgId,
    /// The workspace.
    pub workspace_id: WorkspaceId,
    /// 1 to 128 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Name"))]
    pub name: String,
    /// Where senders post to: a path on this service, or a whole URL where the service knows its own address.
    pub url: String,
    /// The source of the memories that come in through it, made with it and named alike: it has the identifier of the webhook.
    pub source_id: SourceId,
    /// Whose actions decide on what comes in: who registered it or last replaced its secret.
    pub acts_as: MemberId,
    /// The secret that senders sign with. Shown in the answer to the creation and `null` ever after.
    #[cfg_attr(
        feature = "openapi",
        schemars(with = "Option<crate::schema::SigningSecret>")
    )]
    pub signing_secret: Option<String>,
    /// Who registered it.
    pub created_by: MemberId,
    /// When it was registered.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// The request for an inbound webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct NewInboundWebhook {
    /// 1 to 128 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Name"))]
    pub name: String,
}

/// The request to change an inbound webhook; what is absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct InboundWebhookUpdate {
    /// 1 to 128 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "Option<crate::schema::Name>"))]
    pub name: Option<String>,
}
