//! Audience labels of a workspace.

use serde::{Deserialize, Serialize};

use super::AudienceLabel;

/// Audience labels of a workspace, in the order of their texts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct WorkspaceLabels {
    /// Labels in use, and labels that cover somebody.
    pub data: Vec<WorkspaceLabel>,
    /// False if there are too many labels or teams: the last ones are missing.
    pub is_complete: bool,
}

/// An audience label of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct WorkspaceLabel {
    /// Audience label.
    pub label: AudienceLabel,
    /// Number of memories of the workspace with the label; those that await review or were rejected
    /// count only for reviewers.
    pub memories: u64,
    /// True if the label covers at least one member now; a private workspace that does not exist
    /// for the caller has none.
    pub has_members: bool,
}
