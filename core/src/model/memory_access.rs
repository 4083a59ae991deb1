//! Checks of the access to many memories at once.

use serde::{Deserialize, Serialize};

use super::{
    AudienceLabel, MemoryId, MemoryLabels, ReviewStatus, SensitivityLabel, SourceId, WorkspaceId,
};
use crate::limits::ACCESS_CHECK_MEMORIES_MAX;
use crate::request::request;
use crate::request::rules::{Flag, Id, Items, List};

request! {
    /// A request to check which memories the caller may read.
    #[derive(Default)]
    pub struct AccessCheck {
        /// Memories to check, 1 to 1,000; one may occur more than once.
        memory_ids ("memoryIds"):
            Vec<MemoryId> as List<Id<MemoryId>, Items<1, ACCESS_CHECK_MEMORIES_MAX>>,
        /// True to return the title and the text of the readable memories; `false` by default.
        include_content ("includeContent"): bool as Flag = false,
    }
}

/// Result of an access check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct AccessCheckResult {
    /// One item for each memory, in the order of the request.
    pub results: Vec<MemoryAccess>,
}

/// Access of the caller to one memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct MemoryAccess {
    /// Identifier of the memory.
    pub memory_id: MemoryId,
    /// True if the caller may read the memory.
    pub readable: bool,
    /// Labels; `null` for a memory that does not exist or that the caller may not know of.
    pub labels: Option<AccessLabels>,
    /// Title; `null` unless it was requested and the memory is readable.
    pub title: Option<String>,
    /// Text; `null` unless it was requested and the memory is readable.
    pub content: Option<String>,
    /// True if the title and the text were left out, because the response would be too large.
    pub content_omitted: bool,
}

/// Labels of a memory in an access check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct AccessLabels {
    /// Workspace of the memory.
    pub workspace_id: WorkspaceId,
    /// Source that the memory is filed under.
    pub source_id: SourceId,
    /// Audience label.
    pub audience_tag: AudienceLabel,
    /// Sensitivity label.
    pub sensitivity_label: SensitivityLabel,
    /// Review status.
    pub review_status: ReviewStatus,
}

impl MemoryAccess {
    /// Creates the item of a memory that the caller may not know of.
    #[must_use]
    pub fn none(memory_id: MemoryId) -> Self {
        Self {
            memory_id,
            readable: false,
            labels: None,
            title: None,
            content: None,
            content_omitted: false,
        }
    }
}

impl From<&MemoryLabels> for AccessLabels {
    fn from(labels: &MemoryLabels) -> Self {
        Self {
            workspace_id: labels.workspace_id,
            source_id: labels.source_id,
            audience_tag: labels.audience.clone(),
            sensitivity_label: labels.sensitivity,
            review_status: labels.review,
        }
    }
}
