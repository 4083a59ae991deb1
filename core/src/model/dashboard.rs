//! The dashboard summary of a workspace.

use serde::{Deserialize, Serialize};

use super::names::string_enum;
use super::{
    AudienceLabel, ChatId, ConnectorId, CredentialId, EndedReason, ResourceState, SourceId,
    Timestamp, WorkspaceId,
};

/// Dashboard summary of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct DashboardSummary {
    /// The workspace.
    pub workspace: WorkspaceSummary,
    /// Number of memories that wait for review.
    pub review_backlog_count: u64,
    /// First steps in a new workspace.
    pub first_value_checklist: Checklist,
    /// Connectors, in order of creation.
    pub connector_health: Vec<ConnectorHealth>,
    /// MCP keys, in order of creation.
    pub mcp_keys: Vec<McpKeySummary>,
    /// Chats with the most recent messages, newest first, at most 10.
    pub recent_chats: Vec<ChatSummary>,
}

/// A workspace as its dashboard shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct WorkspaceSummary {
    /// Identifier of the workspace.
    pub id: WorkspaceId,
    /// Name of the workspace.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Name"))]
    pub name: String,
    /// Slug of the workspace.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Slug"))]
    pub slug: String,
    /// Audience label of the workspace.
    pub audience: AudienceLabel,
    /// Time at which memories were last added; `null` if there are none yet.
    pub last_ingest_at: Option<Timestamp>,
}

string_enum! {
    /// Importance of a checklist step.
    ChecklistTier {
        /// Required step.
        Required = "required",
        /// Suggested step.
        Suggested = "suggested",
    }
}

/// First steps in a new workspace, by tier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Checklist {
    /// Steps of tier `required`.
    pub required: Vec<ChecklistStep>,
    /// Steps of tier `suggested`.
    pub suggested: Vec<ChecklistStep>,
}

/// One step of the checklist. Its completion is derived from stored data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ChecklistStep {
    /// Name of the step, for programs.
    pub step_id: String,
    /// Name of the step, for people.
    pub label: String,
    /// Label of the button that starts the step.
    pub cta_label: String,
    /// True if the step is completed.
    pub completed: bool,
    /// True if the tier is `required`.
    pub required: bool,
    /// Tier of the step.
    pub tier: ChecklistTier,
    /// Slug of the workspace.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Slug"))]
    pub workspace_slug: String,
}

string_enum! {
    /// Owner of the knowledge that a connector imports.
    ConnectorScope {
        /// One person.
        Personal = "personal",
        /// The workspace.
        Workspace = "workspace",
        /// The organisation.
        Organization = "organization",
    }
}

string_enum! {
    /// Health of a connector, derived from its reports and the current time.
    ConnectorStatus {
        /// Never synced.
        Pending = "pending",
        /// Syncing without errors.
        Healthy = "healthy",
        /// At least one error in the last 24 hours.
        Degraded = "degraded",
        /// No successful sync for twice the sync interval.
        Stale = "stale",
        /// At least three failed syncs in a row.
        Failing = "failing",
        /// Authentication failure at the last sync.
        AuthRequired = "auth_required",
        /// Paused by a member.
        Paused = "paused",
    }
}

/// Health of a connector as the dashboard shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ConnectorHealth {
    /// Identifier of the connector, which is the service account that it runs as.
    pub service_account_id: ConnectorId,
    /// Kind of the connected system, for example `confluence`.
    pub kind: String,
    /// Account in the connected system.
    pub account_label: String,
    /// Owner of the knowledge that it imports.
    pub scope: ConnectorScope,
    /// Slug of the workspace.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Slug"))]
    pub workspace_slug: String,
    /// Health of the connector.
    pub status: ConnectorStatus,
    /// Time of the last sync; `null` before the first.
    pub last_sync: Option<Timestamp>,
    /// Error of the last sync; `null` after a success.
    pub last_error: Option<String>,
    /// Time of the last successful sync.
    pub last_success_at: Option<Timestamp>,
    /// Time of the next sync.
    pub next_sync_at: Option<Timestamp>,
    /// Number of failed syncs in the last 24 hours, in a sliding window of hourly buckets.
    pub error_count_24h: u32,
}

string_enum! {
    /// Kind of client that uses an MCP key.
    #[non_exhaustive]
    McpClient {
        /// Claude Desktop.
        ClaudeDesktop = "claude_desktop",
        /// Claude Code.
        ClaudeCode = "claude_code",
        /// ChatGPT.
        Chatgpt = "chatgpt",
        /// Cursor.
        Cursor = "cursor",
        /// Visual Studio Code.
        Vscode = "vscode",
        /// Windsurf.
        Windsurf = "windsurf",
        /// OpenCode.
        Opencode = "opencode",
        /// Any other client.
        Other = "other",
    }
}

/// An MCP key as the dashboard shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct McpKeySummary {
    /// Identifier of the key; the key itself is not shown.
    pub id: CredentialId,
    /// Workspace that the key gives access to.
    pub workspace_id: WorkspaceId,
    /// Name of the key.
    pub name: String,
    /// Kind of client that uses the key.
    pub client: McpClient,
    /// Audience labels that the key covers.
    pub audience: Vec<AudienceLabel>,
    /// Source of the memories that the key may propose; absent if it may propose none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposal_source_id: Option<SourceId>,
    /// Time of the last use; `null` before the first.
    pub last_used_at: Option<Timestamp>,
    /// Time by which the key must be rotated.
    pub rotates_at: Option<Timestamp>,
    /// Current state: `active`, `suspended` or `ended`.
    pub state: ResourceState,
    /// Reason for which the key is suspended or has ended; `null` if it is active.
    pub ended_reason: Option<EndedReason>,
    /// Time of its end; `null` if it has not ended, or if the time is unknown.
    pub ended_at: Option<Timestamp>,
}

/// A chat as the dashboard shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ChatSummary {
    /// Identifier of the chat.
    pub session_id: ChatId,
    /// Title of the chat.
    pub title: String,
    /// Time of the newest message.
    pub last_message_at: Timestamp,
    /// Beginning of the newest message, at most 160 characters.
    pub snippet: String,
}
