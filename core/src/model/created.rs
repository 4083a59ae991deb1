//! What credentials create, and its state.

use serde::{Deserialize, Serialize};

use super::names::string_enum;
use super::{Timestamp, WorkspaceId};

string_enum! {
    /// State of an MCP key, an API token, a webhook, an inbound webhook or a citation subscription.
    ResourceState {
        /// Works.
        Active = "active",
        /// Receives nothing but pings until its URL has answered one.
        Unconfirmed = "unconfirmed",
        /// Switched off, by its owner or by the service.
        Disabled = "disabled",
        /// Does nothing while its member lacks the permission, or while its private workspace does
        /// not exist for the member.
        Suspended = "suspended",
        /// Does nothing any more. Rotating its secret takes it over.
        Ended = "ended",
    }
}

string_enum! {
    /// Reason for which an MCP key, an API token, a webhook, an inbound webhook or a citation
    /// subscription is suspended or has ended.
    EndedReason {
        /// Its member lacks the permission, the scope of its credential excludes it, or the member
        /// is not one of the people of its private workspace.
        PermissionMissing = "permission_missing",
        /// The scoped token that it depends on was revoked, or a restore revoked its secret.
        CredentialRevoked = "credential_revoked",
        /// The scoped token that it depends on has expired.
        CredentialExpired = "credential_expired",
        /// It was ended together with the credential that created it.
        EndedWithCredential = "ended_with_credential",
        /// Its member was removed.
        MemberRemoved = "member_removed",
    }
}

/// State of something that a credential created, with the reason and the time of its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ResourceStatus {
    /// Current state.
    pub state: ResourceState,
    /// Reason for which it is suspended or has ended; `null` in any other state.
    pub ended_reason: Option<EndedReason>,
    /// Time of its end; `null` if it has not ended, or if the time is unknown.
    pub ended_at: Option<Timestamp>,
}

string_enum! {
    /// Kind of something that a credential created.
    CreatedKind {
        /// MCP key.
        McpKey = "mcp_key",
        /// API token.
        Token = "token",
        /// Outbound webhook.
        Webhook = "webhook",
        /// Inbound webhook.
        InboundWebhook = "inbound_webhook",
        /// Citation subscription.
        CitationSubscription = "citation_subscription",
    }
}

/// Something that a credential created or last took over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct CreatedResource {
    /// Kind of the resource.
    pub kind: CreatedKind,
    /// Identifier of the resource.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Identifier"))]
    pub id: uuid::Uuid,
    /// Workspace of the resource; `null` for a token.
    pub workspace_id: Option<WorkspaceId>,
    /// Name of the resource; of an outbound webhook or a subscription its URL.
    pub name: String,
    /// State of the resource.
    #[serde(flatten)]
    pub status: ResourceStatus,
}
