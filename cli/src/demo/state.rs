//! State of the demo between two starts: a file beside the data directory.

use std::path::{Path, PathBuf};

use knowledge_core::access::Credential;
use knowledge_core::model::{ConnectorId, MemberId, MemoryId, OrgId, RecallId, WorkspaceId};
use knowledge_core::service::Caller;
use knowledge_server::private_file::{self, PrivateFileError};
use serde::{Deserialize, Serialize};

/// Memories listed in the state.
pub(super) const MEMORY_IDS_MAX: usize = 2_000;

/// Returns the path of the state file: that of the data directory with `.demo.json` appended.
#[must_use]
pub(crate) fn state_path(data_dir: &Path) -> PathBuf {
    private_file::with_suffix(data_dir, ".demo.json")
}

/// State of the demo in a data directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub(crate) enum DemoState {
    /// The demo is being created; a start that finds this state follows an interruption.
    Seeding,
    /// The demo is complete.
    Ready(Box<Demo>),
}

/// A complete demo.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Demo {
    /// Organisation.
    pub(crate) org_id: OrgId,
    /// First workspace.
    pub(crate) workspace_id: WorkspaceId,
    /// Member that the token acts as.
    pub(crate) bearer_member: MemberId,
    /// Bearer token of an administrator.
    pub(crate) bearer_token: String,
    /// Member that the session acts as.
    pub(crate) session_member: MemberId,
    /// Session of the owner.
    pub(crate) session_token: String,
    /// Recall in the first workspace.
    pub(crate) recall_id: RecallId,
    /// Up to 2,000 memories of the first workspace.
    pub(crate) memory_ids: Vec<MemoryId>,
    /// Connector that is kept healthy.
    pub(crate) healthy_connector: ConnectorId,
    /// Connector that is kept degraded.
    pub(crate) degraded_connector: ConnectorId,
    /// Number of created memories in both workspaces.
    pub(crate) memories: u64,
    /// Number of created memories in the first workspace.
    pub(crate) memories_in_first: u64,
}

impl Demo {
    /// Returns the administrator as a caller.
    pub(crate) fn administrator(&self) -> Caller {
        Caller::new(Credential::Trusted {
            org: self.org_id,
            member: self.bearer_member,
        })
    }
}

/// Reason for an unusable state file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum StateError {
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
pub(crate) fn read_state(path: &Path) -> Result<Option<DemoState>, StateError> {
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
pub(crate) fn write_state(path: &Path, state: &DemoState) -> Result<(), StateError> {
    let mut text = serde_json::to_string_pretty(state).expect("the state serialises");
    text.push('\n');
    Ok(private_file::replace(path, &text)?)
}
