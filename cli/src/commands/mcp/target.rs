//! Store or server of `knowledge mcp`, and the member that it acts as.

use std::path::PathBuf;

use crate::commands::operator::OrgArgs;

/// Memories of an assistant, and the member as which it reads them.
#[derive(Debug, clap::Args)]
pub(super) struct Target {
    /// Handle of the member to act as; defaults to an owner
    #[arg(long, value_name = "HANDLE", conflicts_with = "url")]
    pub(super) member: Option<String>,

    /// Workspace, by slug or identifier; optional if there is only one. With --url, by identifier,
    /// and optional for a token of one workspace, such as an MCP key
    #[arg(long, value_name = "SLUG")]
    pub(super) workspace: Option<String>,

    /// URL of a server, for example https://knowledge.example.com
    #[arg(long, value_name = "URL")]
    pub(super) url: Option<String>,

    /// File with the access token, readable only by its owner; defaults to KNOWLEDGE_TOKEN
    #[arg(long, value_name = "FILE", requires = "url")]
    pub(super) token_file: Option<PathBuf>,

    /// Trust the certificates in this file (PEM) instead of the system's
    #[arg(long, value_name = "FILE", requires = "url")]
    pub(super) ca_file: Option<PathBuf>,

    #[command(flatten)]
    pub(super) org: OrgArgs,
}
