//! State of the demo between two starts: a file beside the data directory.

use std::path::{Path, PathBuf};

use knowledge_core::model::{ConnectorId, MemberId, MemoryId, OrgId, RecallId, WorkspaceId};
use serde::{Deserialize, Serialize};

use crate::private_file::{self, PrivateFileError};

/// Memories listed in the state.
pub(super) const MEMORY_IDS_MAX: usize = 2_000;

/// Returns the path of the state file: that of the data directory with `.demo.json` appended.
#[must_use]
pub fn state_path(data_dir: &Path) -> PathBuf {
    private_file::with_suffix(data_dir, ".demo.json")
}

/// State of the demo in a data directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum DemoState {
    /// The demo is being created; a start that finds this state follows an interruption.
    Seeding,
    /// The demo is complete.
    Ready(Box<Demo>),
}

/// A complete demo.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Demo {
    /// Organisation.
    pub org_id: OrgId,
    /// Name of the organisation.
    pub org_name: String,
    /// Slug of the organisation.
    pub org_slug: String,
    /// First workspace.
    pub workspace_id: WorkspaceId,
    /// Slug of the first workspace.
    pub workspace_slug: String,
    /// Member that the token acts as.
    pub bearer_member: MemberId,
    /// Bearer token of an administrator.
    pub bearer_token: String,
    /// Member that the session acts as.
    pub session_member: MemberId,
    /// Session of the owner.
    pub session_token: String,
    /// Recall in the first workspace.
    pub recall_id: RecallId,
    /// Up to 2,000 memories of the first workspace.
    pub memory_ids: Vec<MemoryId>,
    /// Connector that is kept healthy.
    pub healthy_connector: ConnectorId,
    /// Connector that is kept degraded.
    pub degraded_connector: ConnectorId,
    /// Numbers of created records.
    pub counts: Counts,
}

/// Numbers of created records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Memories in both workspaces.
    pub memories: u64,
    /// Memories in the first workspace.
    pub memories_in_first: u64,
    /// Members, including service accounts.
    pub members: u64,
    /// Sources.
    pub sources: u64,
    /// Connectors.
    pub connectors: u64,
    /// MCP keys.
    pub mcp_keys: u64,
    /// Chats.
    pub chats: u64,
}

/// Reason for an unusable state file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The file cannot be read or written, or is readable by others.
    #[error(transparent)]
    File(#[from] PrivateFileError),
    /// The file has other contents.
    #[error("{} is not a demo's state file: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The problem.
        reason: String,
    },
}

/// Reads the state file; `None` if there is none.
///
/// # Errors
/// [`StateError`].
pub fn read_state(path: &Path) -> Result<Option<DemoState>, StateError> {
    let Some(text) = private_file::read(path)? else {
        return Ok(None);
    };
    match serde_json::from_str(&text) {
        Ok(state) => Ok(Some(state)),
        Err(error) => Err(StateError::Malformed {
            path: path.to_owned(),
            reason: error.to_string(),
        }),
    }
}

/// Replaces the state file atomically.
///
/// # Errors
/// [`StateError::File`].
pub fn write_state(path: &Path, state: &DemoState) -> Result<(), StateError> {
    let mut text = serde_json::to_string_pretty(state).expect("the state serialises");
    text.push('\n');
    Ok(private_file::replace(path, &text)?)
}
