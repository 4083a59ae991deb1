//! Citation subscriptions, webhooks in both directions, and the types of events.

use serde::{Deserialize, Serialize};

use super::names::string_enum;
use super::{
    DisabledReason, InboundWebhookId, MemberId, MemoryId, OrgId, RecallId, SourceId,
    SubscriptionId, Timestamp, WebhookId, WebhookUrl, WorkspaceId,
};

string_enum! {
    /// Type of an event.
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
        /// A batch of memories was ingested.
        IngestCompleted = "ingest.completed",
        /// A batch of memories was rejected.
        IngestFailed = "ingest.failed",
        /// The status of a connector changed.
        ConnectorStatusChanged = "connector.status_changed",
        /// A test event.
        WebhookPing = "webhook.ping",
    }
}

/// One answer of an assistant, with the memories that it cites.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Recall {
    /// Identifier of the recall.
    pub id: RecallId,
    /// Workspace of the recall.
    pub workspace_id: WorkspaceId,
    /// Query that was answered.
    pub query: String,
    /// Memories that the answer cites.
    pub memory_ids: Vec<MemoryId>,
    /// Member that registered the recall.
    pub created_by: MemberId,
    /// Time of registration.
    pub created_at: Timestamp,
}

/// A recall as an item of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct RecallSummary {
    /// Identifier of the recall.
    pub id: RecallId,
    /// Workspace of the recall.
    pub workspace_id: WorkspaceId,
    /// Query that was answered.
    pub query: String,
    /// Member that registered the recall.
    pub created_by: MemberId,
    /// Time of registration.
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

/// A subscription to changes of the memories that a recall cites.
///
/// It covers every cited memory, by its identifier only, whatever its labels are: a client that
/// relied on an answer has to be notified even when it may no longer see what the answer cites.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct CitationSubscription {
    /// Identifier of the subscription.
    pub id: SubscriptionId,
    /// Organisation of the subscription.
    pub org_id: OrgId,
    /// Workspace of the recall.
    pub workspace_id: WorkspaceId,
    /// Identifier of the recall.
    pub recall_id: RecallId,
    /// Member that subscribed.
    pub subscriber_user_id: MemberId,
    /// URL that receives the deliveries.
    pub webhook_url: WebhookUrl,
    /// Secret that signs deliveries (Standard Webhooks 1.0.0: `whsec_` and base64).
    ///
    /// It is returned only when the subscription is created, and is `null` afterwards.
    #[cfg_attr(
        feature = "openapi",
        schemars(with = "Option<crate::schema::SigningSecret>")
    )]
    pub signing_secret: Option<String>,
    /// Time of creation.
    pub created_at: Timestamp,
}

/// A new citation subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct NewCitationSubscription {
    /// Recall to subscribe to.
    pub recall_id: RecallId,
    /// URL that receives the deliveries.
    pub webhook_url: WebhookUrl,
}

/// An outbound webhook of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Webhook {
    /// Identifier of the webhook.
    pub id: WebhookId,
    /// Organisation of the webhook.
    pub org_id: OrgId,
    /// Workspace of the webhook.
    pub workspace_id: WorkspaceId,
    /// Type of the events that it receives.
    pub event_type: EventType,
    /// URL that receives the deliveries.
    pub url: WebhookUrl,
    /// True if the webhook receives events.
    pub is_active: bool,
    /// Reason for which the service disabled it, if it did. Activating the webhook clears it.
    pub disabled_reason: Option<DisabledReason>,
    /// Secret that signs deliveries.
    ///
    /// It is returned only when the webhook is created, and is `null` afterwards.
    #[cfg_attr(
        feature = "openapi",
        schemars(with = "Option<crate::schema::SigningSecret>")
    )]
    pub signing_secret: Option<String>,
    /// Member that registered the webhook.
    pub created_by: MemberId,
    /// Time of registration.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
}

/// A new outbound webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct NewWebhook {
    /// Type of the events that it receives.
    pub event_type: EventType,
    /// URL that receives the deliveries.
    pub url: WebhookUrl,
}

/// A change of an outbound webhook. Omitted fields are unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct WebhookUpdate {
    /// Type of the events that it receives.
    pub event_type: Option<EventType>,
    /// URL that receives the deliveries.
    pub url: Option<WebhookUrl>,
    /// True to activate the webhook, false to deactivate it.
    pub is_active: Option<bool>,
}

/// An inbound webhook of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct InboundWebhook {
    /// Identifier of the webhook.
    pub id: InboundWebhookId,
    /// Organisation of the webhook.
    pub org_id: OrgId,
    /// Workspace of the webhook.
    pub workspace_id: WorkspaceId,
    /// Name, 1 to 128 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Name"))]
    pub name: String,
    /// URL that senders post to; only its path if the service does not know its own address.
    pub url: String,
    /// Source of the memories that it receives.
    ///
    /// It is created with the webhook and has the same name and identifier.
    pub source_id: SourceId,
    /// Member that posted memories are created as: the one that registered the webhook or last
    /// rotated its secret.
    pub acts_as: MemberId,
    /// Secret that senders sign with.
    ///
    /// It is returned only when the webhook is created, and is `null` afterwards.
    #[cfg_attr(
        feature = "openapi",
        schemars(with = "Option<crate::schema::SigningSecret>")
    )]
    pub signing_secret: Option<String>,
    /// Member that registered the webhook.
    pub created_by: MemberId,
    /// Time of registration.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
}

/// A new inbound webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct NewInboundWebhook {
    /// Name, 1 to 128 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Name"))]
    pub name: String,
}

/// A change of an inbound webhook. Omitted fields are unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct InboundWebhookUpdate {
    /// Name, 1 to 128 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "Option<crate::schema::Name>"))]
    pub name: Option<String>,
}
