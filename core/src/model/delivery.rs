//! Recalls, citation subscriptions and webhooks in both directions.

use serde::{Deserialize, Serialize};

use super::{
    Confirmation, DisabledReason, EventType, InboundWebhookId, MemberId, MemoryId, OrgId, RecallId,
    ResourceStatus, SourceId, SubscriptionId, Timestamp, WebhookId, WebhookUrl, WorkspaceId,
};
use crate::request::request;
use crate::request::rules::{Flag, Id, Name, Parsed, Url};

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
    /// Memories that the answer cites, those that exist for the caller and are approved.
    pub memory_ids: Vec<MemoryId>,
    /// Member that registered the recall.
    pub created_by: MemberId,
    /// Time of registration.
    pub created_at: Timestamp,
}

/// Filter of a list of recalls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, bon::Builder)]
#[non_exhaustive]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct CitationFilter {
    /// Memory that the recalls cite and show to the caller.
    pub memory_id: Option<MemoryId>,
}

impl From<Recall> for RecallSummary {
    fn from(recall: Recall) -> Self {
        Self {
            id: recall.id,
            workspace_id: recall.workspace_id,
            query: recall.query,
            memory_ids: recall.memory_ids,
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
    /// True if the URL has answered a `webhook.ping` with 2xx. Until then, nothing else is sent.
    pub is_confirmed: bool,
    /// How far the confirmation is; omitted from the response of the creation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schemars(with = "Confirmation"))]
    pub confirmation: Option<Confirmation>,
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
    /// State of the subscription, in every response; records of the store have none.
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", schemars(with = "ResourceStatus"))]
    pub status: Option<ResourceStatus>,
}

request! {
    /// A new citation subscription.
    pub struct NewCitationSubscription {
        /// Recall to subscribe to.
        recall_id: RecallId as Id<RecallId>,
        /// URL that receives the deliveries.
        webhook_url: WebhookUrl as Url,
    }
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
    /// True if the webhook is switched on and has not ended: it receives events once its URL is
    /// confirmed.
    pub is_active: bool,
    /// Reason for which the service disabled it, if it did. Activating the webhook clears it.
    pub disabled_reason: Option<DisabledReason>,
    /// True if the URL has answered a `webhook.ping` with 2xx. Until then, nothing else is sent.
    pub is_confirmed: bool,
    /// How far the confirmation is; omitted from the response of the creation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schemars(with = "Confirmation"))]
    pub confirmation: Option<Confirmation>,
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
    /// State of the webhook, in every response; records of the store have none.
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", schemars(with = "ResourceStatus"))]
    pub status: Option<ResourceStatus>,
}

request! {
    /// A new outbound webhook.
    pub struct NewWebhook {
        /// Type of the events that it receives.
        event_type: EventType as Parsed<EventType>,
        /// URL that receives the deliveries.
        url: WebhookUrl as Url,
    }
}

request! {
    /// A change of an outbound webhook. Omitted fields are unchanged.
    #[derive(Default)]
    pub struct WebhookUpdate {
        /// Type of the events that it receives.
        event_type: Option<EventType> as Option<Parsed<EventType>>,
        /// URL that receives the deliveries.
        url: Option<WebhookUrl> as Option<Url>,
        /// True to activate the webhook, false to deactivate it.
        is_active: Option<bool> as Option<Flag>,
    }
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
    /// State of the webhook, in every response; records of the store have none.
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", schemars(with = "ResourceStatus"))]
    pub status: Option<ResourceStatus>,
}

request! {
    /// A new inbound webhook.
    pub struct NewInboundWebhook {
        /// Name, 1 to 128 characters.
        name: String as Name,
    }
}

request! {
    /// A change of an inbound webhook. Omitted fields are unchanged.
    #[derive(Default)]
    pub struct InboundWebhookUpdate {
        /// Name, 1 to 128 characters.
        name: Option<String> as Option<Name>,
    }
}
