//! What the demo remembers between two starts: in a file beside the data, never in the directory of the store.

use std::path::{Path, PathBuf};

use knowledge_core::model::{ConnectorId, MemberId, MemoryId, OrgId, RecallId, WorkspaceId};
use serde::{Deserialize, Serialize};

use crate::private_file::{self, PrivateFileError};

/// How many memories the demo names.
pub(super) const MEMORY_IDS_MAX: usize = 2_000;

/// Where the file of a data directory is: beside it, under the same name with `.demo.json` behind it.
#[must_use]
pub fn state_path(data_dir: &Path) -> PathBuf {
    private_file::with_suffix(data_dir, ".demo.json")
}

/// How far the demo in a data directory is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum DemoState {
    /// It is being made. Where a start finds this, the making was interrupted.
    Seeding,
    /// It was made whole.
    Ready(Box<Demo>),
}

/// A demo that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Demo {
    /// The organisation.
    pub org_id: OrgId,
    /// Its name.
    pub org_name: String,
    /// Its slug.
    pub org_slug: String,
    /// The first workspace.
    pub workspace_id: WorkspaceId,
    /// Its slug.
    pub workspace_slug: String,
    /// Who the token acts as.
    pub bearer_member: MemberId,
    /// A bearer token of an administrator.
    pub bearer_token: String,
    /// Who the session acts as.
    pub session_member: MemberId,
    /// A session of the owner.
    pub session_token: String,
    /// A recall in the first workspace.
    pub recall_id: RecallId,
    /// Up to 2,000 memories of the first workspace.
    pub memory_ids: Vec<MemoryId>,
    /// The connector that is kept healthy.
    pub healthy_connector: ConnectorId,
    /// The connector that is kept degraded.
    pub degraded_connector: ConnectorId,
    /// How much was made.
    pub counts: Counts,
}

/// How much was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Memories in both workspaces.
    pub memories: u64,
    /// Of them, those in the first one.
    pub memories_in_first: u64,
    /// Members, service accounts among them.
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

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// It cannot be read or written, or others may read it.
    #[error(transparent)]
    File(#[from] PrivateFileError),
    /// It has something else in it.
    #[error("{} is not the file of a demo: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// Reads the file; `None` where there is none.
///
/// # Errors
/// [`StateError`], one by one.
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

/// Writes the file, at once.
///
/// # Errors
/// [`StateError::File`].
pub fn write_state(path: &Path, state: &DemoState) -> Result<(), StateError> {
    let mut text = serde_json::to_string_pretty(state).expect("the state serialises");
    text.push('\n');
    Ok(private_file::replace(path, &text)?)
}
