//! Memories and their bulk update, in requests and responses.

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize};

use super::{
    AudienceLabel, AuditLogId, MemberId, MemoryContent, MemoryId, MemoryLabels, OperationId,
    Provenance, ReviewStatus, SensitivityLabel, SourceId, Timestamp, WorkspaceId,
};
use crate::error::ProblemCode;
use crate::request::rules::{
    BulkItems, Content, Field, Flag, Flattened, Id, List, Name, Parsed, Unique,
};
use crate::request::{Checks, Fields, Path, Problems, request};

/// A memory as an item of a bulk result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Memory {
    /// Identifier of the memory.
    pub id: MemoryId,
    /// Source that the memory is filed under.
    pub source_id: SourceId,
    /// Audience label.
    pub audience_tag: AudienceLabel,
    /// Sensitivity label.
    pub sensitivity_label: SensitivityLabel,
}

impl Memory {
    /// Creates the wire form of a memory with these labels.
    #[must_use]
    pub fn new(id: MemoryId, labels: &MemoryLabels) -> Self {
        Self {
            id,
            source_id: labels.source_id,
            audience_tag: labels.audience.clone(),
            sensitivity_label: labels.sensitivity,
        }
    }
}

/// A memory as an item of a list.
///
/// Its title is `null` for a caller that may know of the memory but not read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct MemorySummary {
    /// Identifier of the memory.
    pub id: MemoryId,
    /// Workspace of the memory.
    pub workspace_id: WorkspaceId,
    /// Source that the memory is filed under.
    pub source_id: SourceId,
    /// Source that delivered the memory, whatever source it is filed under now.
    pub origin_source_id: SourceId,
    /// Key of the memory at its original source, if it has one.
    pub source_key: Option<String>,
    /// Audience label.
    pub audience_tag: AudienceLabel,
    /// Sensitivity label.
    pub sensitivity_label: SensitivityLabel,
    /// Review status.
    pub review_status: ReviewStatus,
    /// Title, 1 to 128 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "Option<crate::schema::Name>"))]
    pub title: Option<String>,
    /// Member that added the memory.
    pub created_by: MemberId,
    /// Time at which the memory was added.
    pub created_at: Timestamp,
    /// Time of the last change of the title or content.
    pub updated_at: Timestamp,
    /// Origin of the memory; absent if it is not known, and for a caller that may not read the
    /// memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
}

impl MemorySummary {
    /// Creates the summary of a memory, with its title only if it `is_readable`.
    #[must_use]
    pub fn new(
        id: MemoryId,
        labels: &MemoryLabels,
        content: &MemoryContent,
        is_readable: bool,
    ) -> Self {
        Self {
            id,
            workspace_id: labels.workspace_id,
            source_id: labels.source_id,
            origin_source_id: content.origin_source_id,
            source_key: content.source_key.clone().filter(|_| is_readable),
            audience_tag: labels.audience.clone(),
            sensitivity_label: labels.sensitivity,
            review_status: labels.review,
            title: is_readable.then(|| content.title.clone()),
            created_by: content.created_by,
            created_at: content.created_at,
            updated_at: content.updated_at,
            provenance: content.provenance.clone().filter(|_| is_readable),
        }
    }

    /// Returns the labels of the memory.
    pub(crate) fn labels(&self) -> MemoryLabels {
        MemoryLabels {
            workspace_id: self.workspace_id,
            source_id: self.source_id,
            audience: self.audience_tag.clone(),
            sensitivity: self.sensitivity_label,
            review: self.review_status,
        }
    }
}

/// A memory with its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct MemoryDetails {
    /// Fields that a list shows too.
    #[serde(flatten)]
    pub summary: MemorySummary,
    /// Text; `null` for a caller that may know of the memory but not read it.
    #[cfg_attr(feature = "openapi", schemars(with = "Option<crate::schema::Content>"))]
    pub content: Option<String>,
}

impl MemoryDetails {
    /// Creates the wire form of a memory, with its title and content only if it `is_readable`.
    #[must_use]
    pub fn new(
        id: MemoryId,
        labels: &MemoryLabels,
        content: &MemoryContent,
        is_readable: bool,
    ) -> Self {
        Self {
            summary: MemorySummary::new(id, labels, content, is_readable),
            content: is_readable.then(|| content.content.clone()),
        }
    }
}

/// Filter of a list of memories: a memory has to match every field that is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, bon::Builder)]
#[builder(on(String, into))]
#[non_exhaustive]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct MemoryFilter {
    /// Audience label.
    pub audience_tag: Option<AudienceLabel>,
    /// Sensitivity label.
    pub sensitivity_label: Option<SensitivityLabel>,
    /// Review status.
    pub review_status: Option<ReviewStatus>,
    /// Source that the memory is filed under.
    pub source_id: Option<SourceId>,
}

impl MemoryFilter {
    /// Returns true if a memory with these labels matches the filter.
    #[must_use]
    pub fn admits(&self, labels: &MemoryLabels) -> bool {
        self.audience_tag
            .as_ref()
            .is_none_or(|wanted| *wanted == labels.audience)
            && self
                .sensitivity_label
                .is_none_or(|wanted| wanted == labels.sensitivity)
            && self
                .review_status
                .is_none_or(|wanted| wanted == labels.review)
            && self
                .source_id
                .is_none_or(|wanted| wanted == labels.source_id)
    }
}

request! {
    /// A change of one memory. Omitted fields are unchanged.
    #[derive(Default)]
    pub struct MemoryUpdate {
        /// New title, 1 to 128 characters.
        title: Option<String> as Option<Name>,
        /// New text, at most 32 KiB.
        content: Option<String> as Option<Content>,
        /// New labels, under the rules of a bulk update.
        #[builder(default)]
        #[schemars(flatten)]
        change: MemoryChange as Flattened<MemoryChange>,
    }
}

request! {
    /// Attributes that a bulk update sets. Omitted fields are unchanged.
    #[derive(Default)]
    pub struct MemoryChange {
        /// New audience label.
        audience_tag ("audienceTag"): Option<AudienceLabel> as Option<Parsed<AudienceLabel>>,
        /// New sensitivity label. Lowering it requires the action `memory:declassify`.
        sensitivity_label ("sensitivityLabel"):
            Option<SensitivityLabel> as Option<Parsed<SensitivityLabel>>,
        /// New source, one of the same organisation.
        source_id ("sourceId"): Option<SourceId> as Option<Id<SourceId>>,
        /// New review status. Setting it requires the action `memory:review`.
        review_status ("reviewStatus"): Option<ReviewStatus> as Option<Parsed<ReviewStatus>>,
    }
}

/// A change that sets at least one attribute.
enum SomeChange {}

impl SomeChange {
    fn check_is_set(change: &MemoryChange, _: &Path<'_>, problems: &mut Problems) {
        if change.is_empty() {
            let message = "must set at least one of audienceTag, sensitivityLabel, sourceId, \
                           reviewStatus";
            problems.push("body", ProblemCode::Required, message);
        }
    }
}

impl Field for SomeChange {
    type Value = MemoryChange;

    const IS_REQUIRED: bool = true;

    fn take(fields: &mut Fields<'_, '_>, name: &'static str) -> Option<MemoryChange> {
        let problems = fields.problems();
        let change = Flattened::take(fields, name)?;
        if fields.problems() == problems {
            fields.check_together(|path, problems| Self::check_is_set(&change, path, problems));
        }
        Some(change)
    }

    fn check(
        change: &MemoryChange,
        name: &'static str,
        path: &Path<'_>,
        checks: &Checks<'_>,
        problems: &mut Problems,
    ) {
        Flattened::check(change, name, path, checks, problems);
        Self::check_is_set(change, path, problems);
    }

    fn put<M: SerializeMap>(
        change: &MemoryChange,
        name: &'static str,
        map: &mut M,
    ) -> Result<(), M::Error> {
        Flattened::put(change, name, map)
    }
}

#[cfg(feature = "openapi")]
crate::schema::schemas_of_values! { [] SomeChange => MemoryChange; }

impl MemoryChange {
    /// Returns true if no attribute is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns true if an attribute other than the review status is set.
    #[must_use]
    pub fn relabels(&self) -> bool {
        self.audience_tag.is_some() || self.sensitivity_label.is_some() || self.source_id.is_some()
    }

    /// Returns true if the change decides the review: approves or rejects.
    #[must_use]
    pub fn decides_review(&self) -> bool {
        let status = self.review_status;
        status.is_some_and(|status| status != ReviewStatus::Pending)
    }

    /// Returns `labels` with these changes applied.
    #[must_use]
    pub fn applied_to(&self, labels: &MemoryLabels) -> MemoryLabels {
        MemoryLabels {
            workspace_id: labels.workspace_id,
            source_id: self.source_id.unwrap_or(labels.source_id),
            audience: self
                .audience_tag
                .as_ref()
                .unwrap_or(&labels.audience)
                .clone(),
            sensitivity: self.sensitivity_label.unwrap_or(labels.sensitivity),
            review: self.review_status.unwrap_or(labels.review),
        }
    }
}

request! {
    /// A bulk update: the memories and the attributes to set.
    #[schemars(extend("anyOf" = [
        {
            "title": "BulkAudienceUpdate",
            "description": "A bulk update that sets the audience.",
            "required": ["audienceTag"],
        },
        {
            "title": "BulkSensitivityUpdate",
            "description": "A bulk update that sets the sensitivity.",
            "required": ["sensitivityLabel"],
        },
        {
            "title": "BulkSourceUpdate",
            "description": "A bulk update that sets the source.",
            "required": ["sourceId"],
        },
        {
            "title": "BulkReviewUpdate",
            "description": "A bulk update that sets the review status.",
            "required": ["reviewStatus"],
        },
    ]))]
    pub struct BulkUpdate {
        /// Distinct memories. The result has an item for each, in this order.
        memory_ids ("memoryIds"): Vec<MemoryId> as List<Id<MemoryId>, BulkItems, Unique>,
        /// Attributes to set; at least one.
        #[schemars(flatten)]
        change: MemoryChange as SomeChange,
        /// True to return the items and the impact of the update without changing anything; `false`
        /// by default.
        dry_run ("dryRun"): bool as Flag = false,
    }
}

/// Result of a bulk update.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct BulkResult {
    /// Identifier of the operation; a replay returns that of the first run, a dry run the nil UUID.
    pub operation_id: OperationId,
    /// True if this is the stored result of an earlier identical request.
    pub replayed: bool,
    /// Counts of the memories.
    pub summary: BulkSummary,
    /// Item for each requested memory, in the order of the request.
    pub results: Vec<BulkItem>,
    /// Audience label that the update sets, if it covers nobody now: no team, no member and no
    /// workspace that exists for the caller has the name. It is no error, because they may be added
    /// later.
    #[serde(rename = "labels_without_members")]
    pub labels_without_members: Vec<AudienceLabel>,
    /// Effects of a dry run; `null` for an update that was made.
    pub impact: Option<BulkImpact>,
}

/// Effects that a bulk update would have.
///
/// Members count with all that their roles and teams permit, also service accounts. A private
/// workspace that does not exist for the caller has no people here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct BulkImpact {
    /// Number of memories whose labels would change.
    pub would_change: u32,
    /// Number of members that could read at least one of the memories that they cannot read now.
    pub members_gaining: u32,
    /// Number of members that could no longer read at least one of the memories.
    pub members_losing: u32,
    /// False if the organisation has more members than a dry run considers. The numbers of members
    /// are then those among the members that were added first.
    pub is_complete: bool,
    /// Audience label that the update would set, if it covers nobody now.
    pub labels_without_members: Vec<AudienceLabel>,
}

/// Numbers of memories that a bulk update requested, changed and rejected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct BulkSummary {
    /// Number of requested memories.
    pub requested: u32,
    /// Number of items with `ok` true.
    pub succeeded: u32,
    /// Number of items with `ok` false.
    pub failed: u32,
}

/// Result for one memory of a bulk update: with `memory` if `ok` is true, otherwise with `error`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "openapi", schemars(extend("oneOf" = [
    {
        "title": "BulkItemSuccess",
        "description": "Result for a memory that was changed.",
        "properties": { "ok": { "const": true } },
        "required": ["memory"],
    },
    {
        "title": "BulkItemFailure",
        "description": "Result for a memory that was not changed.",
        "properties": { "ok": { "const": false } },
        "required": ["error"],
    },
])))]
pub struct BulkItem {
    /// Requested memory.
    pub memory_id: MemoryId,
    /// True if the memory now has the requested labels, or would have them after a dry run.
    pub ok: bool,
    /// Memory after the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schemars(with = "Memory"))]
    pub memory: Option<Memory>,
    /// Identifier of the audit log entry. A rejected change has one too; in a dry run it is the nil
    /// UUID.
    pub audit_log_id: AuditLogId,
    /// Reason for the rejection.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schemars(with = "BulkItemError"))]
    pub error: Option<BulkItemError>,
}

/// Error for one memory of a bulk update.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct BulkItemError {
    /// Reason, for programs.
    pub code: BulkItemErrorCode,
    /// Reason, for people.
    pub message: String,
}

super::names::string_enum! {
    /// Reason for which one memory of a bulk update was rejected.
    BulkItemErrorCode {
        /// The organisation has no such memory.
        NotFound = "not_found",
        /// The caller lacks an action that the change requires in the memory's workspace.
        Forbidden = "forbidden",
    }
}
