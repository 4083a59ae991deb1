//! Entries of the audit log.

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use crate::model::{AuditLogId, CredentialId, MemberId, OperationId, Timestamp};
use crate::service::kit::principal::Denial;

/// Number of zero low bits in the first identifier of an operation.
///
/// The identifiers that follow it belong to the same operation.
pub(crate) const ENTRY_BITS: u32 = 16;

crate::model::names::string_enum! {
    /// Action of an audit entry.
    #[non_exhaustive]
    AuditAction {
        /// Ingest of memories.
        MemoryIngest = "memory.ingest",
        /// Creation of a memory.
        MemoryCreate = "memory.create",
        /// Change of a memory.
        MemoryUpdate = "memory.update",
        /// Deletion of a memory.
        MemoryDelete = "memory.delete",
        /// Bulk update of memories.
        MemoryBulkUpdate = "memory.bulk_update",
        /// Creation of a source.
        SourceCreate = "source.create",
        /// Creation of a custom role.
        RoleCreate = "role.create",
        /// Change of a custom role.
        RoleUpdate = "role.update",
        /// Deletion of a custom role.
        RoleDelete = "role.delete",
        /// Assignment of a role to a member.
        RoleAssign = "role.assign",
        /// Creation of a citation subscription.
        SubscriptionCreate = "citation_subscription.create",
        /// Deletion of a citation subscription.
        SubscriptionDelete = "citation_subscription.delete",
        /// Rotation of the signing secret of a citation subscription.
        SubscriptionRotateSecret = "citation_subscription.rotate_secret",
        /// Disabling of a citation subscription by the service.
        SubscriptionDisable = "citation_subscription.disable",
        /// Enabling of a citation subscription by the service, after a successful test event.
        SubscriptionEnable = "citation_subscription.enable",
        /// Test event to a citation subscription.
        SubscriptionPing = "citation_subscription.ping",
        /// Redelivery to a citation subscription.
        SubscriptionRedeliver = "citation_subscription.redeliver",
        /// Registration of an outbound webhook.
        WebhookCreate = "webhook.create",
        /// Change of an outbound webhook.
        WebhookUpdate = "webhook.update",
        /// Deletion of an outbound webhook.
        WebhookDelete = "webhook.delete",
        /// Rotation of the signing secret of an outbound webhook.
        WebhookRotateSecret = "webhook.rotate_secret",
        /// Disabling of an outbound webhook by the service.
        WebhookDisable = "webhook.disable",
        /// Enabling of an outbound webhook by the service, after a successful test event.
        WebhookEnable = "webhook.enable",
        /// Test event to an outbound webhook.
        WebhookPing = "webhook.ping",
        /// Redelivery to an outbound webhook.
        WebhookRedeliver = "webhook.redeliver",
        /// Registration of an inbound webhook.
        InboundWebhookCreate = "inbound_webhook.create",
        /// Change of an inbound webhook.
        InboundWebhookUpdate = "inbound_webhook.update",
        /// Deletion of an inbound webhook.
        InboundWebhookDelete = "inbound_webhook.delete",
        /// Rotation of the signing secret of an inbound webhook.
        InboundWebhookRotateSecret = "inbound_webhook.rotate_secret",
        /// Creation of a connector.
        ConnectorCreate = "connector.create",
        /// Pausing or resuming of a connector.
        ConnectorPause = "connector.pause",
        /// Change of the configuration of a connector.
        ConnectorUpdate = "connector.update",
        /// Deletion of a connector.
        ConnectorDelete = "connector.delete",
        /// Creation of an MCP key.
        McpKeyCreate = "mcp_key.create",
        /// Rotation of the secret of an MCP key.
        McpKeyRotate = "mcp_key.rotate",
        /// Revocation of an MCP key.
        McpKeyRevoke = "mcp_key.revoke",
        /// Creation of a chat.
        ChatCreate = "chat.create",
        /// Registration of a recall.
        RecallCreate = "recall.create",
        /// Creation of an organisation.
        OrganizationCreate = "organization.create",
        /// Creation of a workspace.
        WorkspaceCreate = "workspace.create",
        /// Addition of a member.
        MemberCreate = "member.create",
        /// Change of the name or the teams of a member.
        MemberUpdate = "member.update",
        /// Removal of a member.
        MemberRemove = "member.remove",
        /// Creation of a token or session.
        CredentialCreate = "credential.create",
        /// Revocation of a token or session.
        CredentialRevoke = "credential.revoke",
    }
}

crate::model::names::string_enum! {
    /// Kind of the resource of an audit entry.
    #[non_exhaustive]
    ResourceKind {
        /// A memory.
        Memory = "memory",
        /// A source.
        Source = "source",
        /// A custom role.
        Role = "role",
        /// A member.
        Member = "member",
        /// A citation subscription.
        Subscription = "citation_subscription",
        /// An outbound webhook.
        Webhook = "webhook",
        /// An inbound webhook.
        InboundWebhook = "inbound_webhook",
        /// A connector.
        Connector = "connector",
        /// A token, a session or an MCP key.
        Credential = "credential",
        /// A chat.
        Chat = "chat",
        /// A recall.
        Recall = "recall",
        /// An organisation.
        Organization = "organization",
        /// A workspace.
        Workspace = "workspace",
    }
}

/// The resource of an audit entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct AuditResource {
    /// Kind of the resource.
    pub kind: ResourceKind,
    /// Identifier of the resource.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Identifier"))]
    pub id: uuid::Uuid,
}

/// Outcome of an operation for one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditOutcome {
    /// Success.
    Ok,
    /// Rejected: the resource does not exist.
    NotFound,
    /// Rejected: the caller lacks the permission.
    Denied(Denial),
}

impl AuditOutcome {
    /// Returns the name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::NotFound => "not_found",
            Self::Denied(_) => "forbidden",
        }
    }
}

fn outcome_name<S: Serializer>(outcome: &AuditOutcome, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(outcome.as_str())
}

/// An entry of the audit log.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct AuditEntry {
    /// Identifier of the entry.
    pub id: AuditLogId,
    /// Operation that the entry belongs to.
    pub operation_id: OperationId,
    /// Time of the operation.
    pub at: Timestamp,
    /// Member that acted; `null` for the operator of the service and for the service itself.
    pub actor_id: Option<MemberId>,
    /// Token or session of the actor.
    pub credential_id: Option<CredentialId>,
    /// Action of the operation.
    pub action: AuditAction,
    /// Resource that the entry concerns.
    pub resource: AuditResource,
    /// Outcome: `ok`, `not_found` or `forbidden`.
    #[serde(serialize_with = "outcome_name")]
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::OutcomeName"))]
    pub outcome: AuditOutcome,
    /// Reason for the outcome `forbidden`; `null` for the others.
    pub reason: Option<String>,
    /// State before; `null` for a new resource.
    pub before: Option<Value>,
    /// State after; `null` for a deleted resource and for a rejected change.
    pub after: Option<Value>,
}
