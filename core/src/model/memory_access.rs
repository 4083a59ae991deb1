//! Checks of the access to many memories at once.

use serde::{Deserialize, Serialize};

use super::{
    AudienceLabel, MemoryId, MemoryLabels, ReviewStatus, SensitivityLabel, SourceId, WorkspaceId,
};
use crate::error::ProblemCode;
use crate::limits::ACCESS_CHECK_MEMORIES_MAX;
use crate::request::rules::{Flag, Id, Items, List, Object, SourceKey};
use crate::request::{Path, Problems, request};

request! {
    /// A request to check which memories the caller may read.
    #[derive(Default)]
    #[schemars(extend("anyOf" = [
        {
            "title": "AccessCheckOfMemories",
            "description": "An access check that names memories.",
            "properties": { "memoryIds": { "minItems": 1 } },
            "required": ["memoryIds"],
        },
        {
            "title": "AccessCheckOfSourceKeys",
            "description": "An access check that names source keys.",
            "properties": { "sourceKeys": { "minItems": 1 } },
            "required": ["sourceKeys"],
        },
    ]))]
    pub struct AccessCheck {
        /// Memories to check; one may occur more than once.
        ///
        /// With the source keys, 1 to 1,000.
        memory_ids ("memoryIds"):
            Vec<MemoryId> as List<Id<MemoryId>, Items<0, ACCESS_CHECK_MEMORIES_MAX>> = Vec::new(),
        /// Memories to check by their keys at their sources.
        source_keys ("sourceKeys"):
            Vec<MemoryKey> as List<Object<MemoryKey>, Items<0, ACCESS_CHECK_MEMORIES_MAX>>
            = Vec::new(),
        /// True to return the title and the text of the readable memories; `false` by default.
        include_content ("includeContent"): bool as Flag = false,
    }
    check AccessCheck::check_count;
}

impl AccessCheck {
    /// Adds the problem of no memory or too many.
    fn check_count(&self, path: &Path<'_>, problems: &mut Problems) {
        let count = self.memory_ids.len() + self.source_keys.len();
        let (name, code) = match count {
            0 => ("memoryIds", ProblemCode::TooSmall),
            1..=ACCESS_CHECK_MEMORIES_MAX => return,
            _ if self.memory_ids.len() > ACCESS_CHECK_MEMORIES_MAX => return,
            _ => ("sourceKeys", ProblemCode::TooLarge),
        };
        let message = format!(
            "must have 1 to {ACCESS_CHECK_MEMORIES_MAX} items in both lists together, not {count}"
        );
        problems.push(&Path::Field(path, name), code, message);
    }
}

request! {
    /// A memory by its key at the source that delivered it.
    pub struct MemoryKey {
        /// Workspace of the memory.
        workspace_id ("workspaceId"): WorkspaceId as Id<WorkspaceId>,
        /// Source that delivered the memory, whatever source it is filed under now.
        source_id ("sourceId"): SourceId as Id<SourceId>,
        /// Key of the memory at that source, 1 to 512 characters.
        source_key ("sourceKey"): String as SourceKey,
    }
}

/// Result of an access check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct AccessCheckResult {
    /// One item for each memory of `memoryIds`, in the order of the request.
    pub results: Vec<MemoryAccess>,
    /// One item for each of `sourceKeys`, in the order of the request.
    ///
    /// It is `null` unless the caller may read the memory that has the key, whether there is one or
    /// not.
    pub source_key_results: Vec<Option<MemoryAccess>>,
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
