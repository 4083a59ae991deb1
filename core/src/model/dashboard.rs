//! The dashboard summary of a workspace.

use serde::{Deserialize, Serialize};

use super::names::string_enum;
use super::{AudienceLabel, ChatId, ConnectorId, CredentialId, Timestamp, WorkspaceId};

/// Everything a dashboard shows of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct DashboardSummary {
    /// The workspace itself.
    pub workspace: WorkspaceSummary,
    /// How many memories wait for review.
    pub review_backlog_count: u64,
    /// The first steps to get value from a workspace.
    pub first_value_checklist: Checklist,
    /// The connectors, in the order they were made.
    pub connector_health: Vec<ConnectorHealth>,
    /// The MCP keys, in the order they were made.
    pub mcp_keys: Vec<McpKeySummary>,
    /// The chats with the newest messages, newest first, at most 10.
    pub recent_chats: Vec<ChatSummary>,
}

/// A workspace on its dashboard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct WorkspaceSummary {
    /// The identifier.
    pub id: WorkspaceId,
    /// The name.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Name"))]
    pub name: String,
    /// The slug.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Slug"))]
    pub slug: String,
    /// The audience that it is for.
    pub audience: AudienceLabel,
    /// When memories last came in; `null` before the first.
    pub last_ingest_at: Option<Timestamp>,
}

string_enum! {
    /// Whether a step of the checklist is needed or a suggestion.
    ChecklistTier {
        /// Needed.
        Required = "required",
        /// A suggestion.
        Suggested = "suggested",
    }
}

/// The first steps to get value from a workspace, by tier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Checklist {
    /// The steps of tier `required`.
    pub required: Vec<ChecklistStep>,
    /// The steps of tier `suggested`.
    pub suggested: Vec<ChecklistStep>,
}

/// One step of the checklist. Whether it is completed follows from what is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ChecklistStep {
    /// The name of the step, for programs.
    pub step_id: String,
    /// The name of the step, for people.
    pub label: String,
    /// The text of the button that leads to it.
    pub cta_label: String,
    /// Whether it is done.
    pub completed: bool,
    /// Whether the tier is `required`.
    pub required: bool,
    /// The tier.
    pub tier: ChecklistTier,
    /// The slug of the workspace.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Slug"))]
    pub workspace_slug: String,
}

string_enum! {
    /// Whose knowledge a connector brings.
    ConnectorScope {
        /// One person's.
        Personal = "personal",
        /// The workspace's.
        Workspace = "workspace",
        /// The organisation's.
        Organization = "organization",
    }
}

string_enum! {
    /// How a connector is, derived from its reports and the time.
    ConnectorStatus {
        /// Never synced.
        Pending = "pending",
        /// All is well.
        Healthy = "healthy",
        /// There was an error in the last 24 hours.
        Degraded = "degraded",
        /// No success for twice the sync interval.
        Stale = "stale",
        /// The last three syncs or more failed.
        Failing = "failing",
        /// The last error was an authentication failure.
        AuthRequired = "auth_required",
        /// Switched off by someone.
        Paused = "paused",
    }
}

/// One connector on the dashboard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ConnectorHealth {
    /// The service account that the connector runs as: the connector's identifier.
    pub service_account_id: ConnectorId,
    /// What it connects to, for example `confluence`.
    pub kind: String,
    /// The account at the other end.
    pub account_label: String,
    /// Whose knowledge it brings.
    pub scope: ConnectorScope,
    /// The slug of the workspace.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Slug"))]
    pub workspace_slug: String,
    /// How it is.
    pub status: ConnectorStatus,
    /// When it last tried; `null` before the first time.
    pub last_sync: Option<Timestamp>,
    /// What went wrong at the last try; `null` after a success.
    pub last_error: Option<String>,
    /// When it last succeeded.
    pub last_success_at: Option<Timestamp>,
    /// When it tries next.
    pub next_sync_at: Option<Timestamp>,
    /// The failures of the last 24 hours, in a sliding window of hourly buckets.
    pub error_count_24h: u32,
}

string_enum! {
    /// The kind of program that uses an MCP key.
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
        /// Any other.
        Other = "other",
    }
}

/// One MCP key on the dashboard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct McpKeySummary {
    /// The identifier; never the key itself.
    pub id: CredentialId,
    /// The workspace that it opens.
    pub workspace_id: WorkspaceId,
    /// The name.
    pub name: String,
    /// The kind of program that uses it.
    pub client: McpClient,
    /// The audience labels that it covers.
    pub audience: Vec<AudienceLabel>,
    /// When it was last used; `null` before the first time.
    pub last_used_at: Option<Timestamp>,
    /// When it has to be replaced.
    pub rotates_at: Option<Timestamp>,
}

/// One chat on the dashboard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ChatSummary {
    /// The identifier.
    pub session_id: ChatId,
    /// The title.
    pub title: String,
    /// When the newest message was written.
    pub last_message_at: Timestamp,
    /// The beginning of the newest message, at most 160 characters.
    pub snippet: String,
}
