//! Memories and their bulk update.

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

use super::{
    AudienceLabel, AuditLogId, MemberId, MemoryId, OperationId, ReviewStatus, SensitivityLabel,
    SourceId, Timestamp, WorkspaceId,
};

/// Labels that govern access to a memory.
///
/// They are stored apart from the content, so that relabelling never rewrites it. Default values
/// are not stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MemoryLabels {
    /// Workspace of the memory.
    pub workspace_id: WorkspaceId,
    /// Source that the memory is filed under.
    pub source_id: SourceId,
    /// Audience label.
    pub audience: AudienceLabel,
    /// Sensitivity label; `internal` by default.
    #[serde(default, skip_serializing_if = "is_internal")]
    pub sensitivity: SensitivityLabel,
    /// Review status; `pending` by default.
    #[serde(default = "pending", skip_serializing_if = "is_pending")]
    pub review: ReviewStatus,
}

fn is_internal(sensitivity: &SensitivityLabel) -> bool {
    *sensitivity == SensitivityLabel::default()
}

/// Returns the default, which shows a memory to fewer members than the other values.
fn pending() -> ReviewStatus {
    ReviewStatus::Pending
}

fn is_pending(review: &ReviewStatus) -> bool {
    *review == pending()
}

impl MemoryLabels {
    /// Returns true if the memory waits for review.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.review == ReviewStatus::Pending
    }
}

/// Content of a memory.
///
/// A missing source key, and a time of change equal to that of creation, are not stored.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "StoredContent")]
pub struct MemoryContent {
    /// Title, 1 to 128 characters.
    pub title: String,
    /// Text of the memory.
    pub content: String,
    /// Source that delivered the memory. Filing it under another source does not change it.
    pub origin_source_id: SourceId,
    /// Key of the memory at its original source, if it has one.
    ///
    /// Ingesting the same key from that source again updates the memory instead of adding one.
    pub source_key: Option<String>,
    /// Member that added the memory.
    pub created_by: MemberId,
    /// Time at which the memory was added.
    pub created_at: Timestamp,
    /// Time of the last change of the title or content.
    pub updated_at: Timestamp,
}

/// Stored form of [`MemoryContent`].
#[derive(Deserialize)]
struct StoredContent {
    title: String,
    content: String,
    origin_source_id: SourceId,
    source_key: Option<String>,
    created_by: MemberId,
    created_at: Timestamp,
    updated_at: Option<Timestamp>,
}

impl From<StoredContent> for MemoryContent {
    fn from(stored: StoredContent) -> Self {
        Self {
            title: stored.title,
            content: stored.content,
            origin_source_id: stored.origin_source_id,
            source_key: stored.source_key,
            created_by: stored.created_by,
            created_at: stored.created_at,
            updated_at: stored.updated_at.unwrap_or(stored.created_at),
        }
    }
}

impl Serialize for MemoryContent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut stored = serializer.serialize_struct("MemoryContent", 7)?;
        stored.serialize_field("title", &self.title)?;
        stored.serialize_field("content", &self.content)?;
        stored.serialize_field("origin_source_id", &self.origin_source_id)?;
        match &self.source_key {
            Some(name) => stored.serialize_field("source_key", name)?,
            None => stored.skip_field("source_key")?,
        }
        stored.serialize_field("created_by", &self.created_by)?;
        stored.serialize_field("created_at", &self.created_at)?;
        if self.updated_at == self.created_at {
            stored.skip_field("updated_at")?;
        } else {
            stored.serialize_field("updated_at", &self.updated_at)?;
        }
        stored.end()
    }
}

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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
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

/// A change of one memory. Omitted fields are unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct MemoryUpdate {
    /// New title, 1 to 128 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schemars(with = "Option<crate::schema::Name>"))]
    pub title: Option<String>,
    /// New text, at most 32 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schemars(with = "Option<crate::schema::Content>"))]
    pub content: Option<String>,
    /// New labels, under the rules of a bulk update.
    #[serde(flatten)]
    pub change: MemoryChange,
}

/// Attributes that a bulk update sets. Omitted fields are unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct MemoryChange {
    /// New audience label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audience_tag: Option<AudienceLabel>,
    /// New sensitivity label. Lowering it requires the action `memory:declassify`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sensitivity_label: Option<SensitivityLabel>,
    /// New source, one of the same organisation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_id: Option<SourceId>,
    /// New review status. Setting it requires the action `memory:review`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review_status: Option<ReviewStatus>,
}

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

/// A bulk update: the memories and the attributes to set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[cfg_attr(
    feature = "openapi",
    schemars(extend("anyOf" = [
        { "required": ["audienceTag"] },
        { "required": ["sensitivityLabel"] },
        { "required": ["sourceId"] },
        { "required": ["reviewStatus"] },
    ]))
)]
pub struct BulkUpdate {
    /// Distinct memories. The result has an item for each, in this order.
    #[cfg_attr(
        feature = "openapi",
        schemars(length(min = 1), extend("uniqueItems" = true, "x-limit" = "bulk_memories_max"))
    )]
    pub memory_ids: Vec<MemoryId>,
    /// Attributes to set; at least one.
    #[serde(flatten)]
    pub change: MemoryChange,
}

/// Result of a bulk update.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct BulkResult {
    /// Identifier of the operation; a replay returns that of the first run.
    pub operation_id: OperationId,
    /// True if this is the stored result of an earlier identical request.
    pub replayed: bool,
    /// Counts of the memories.
    pub summary: BulkSummary,
    /// Item for each requested memory, in the order of the request.
    pub results: Vec<BulkItem>,
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
#[cfg_attr(
    feature = "openapi",
    schemars(extend("oneOf" = [{ "required": ["memory"] }, { "required": ["error"] }]))
)]
pub struct BulkItem {
    /// Requested memory.
    pub memory_id: MemoryId,
    /// True if the memory now has the requested labels.
    pub ok: bool,
    /// Memory after the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schemars(with = "Memory"))]
    pub memory: Option<Memory>,
    /// Identifier of the audit log entry. A rejected change has one too.
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const ID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

    fn labels(sensitivity: SensitivityLabel, review: ReviewStatus) -> MemoryLabels {
        let id: uuid::Uuid = ID.parse().unwrap();
        MemoryLabels {
            workspace_id: id.into(),
            source_id: id.into(),
            audience: "org:acme".parse().unwrap(),
            sensitivity,
            review,
        }
    }

    #[test]
    fn labels_are_stored_without_their_defaults() {
        let default = labels(SensitivityLabel::Internal, ReviewStatus::Pending);
        let stored = json!({ "workspace_id": ID, "source_id": ID, "audience": "org:acme" });
        assert_eq!(json!(default), stored);
        for sensitivity in SensitivityLabel::ALL {
            for review in ReviewStatus::ALL {
                let labels = labels(*sensitivity, *review);
                let read: MemoryLabels = serde_json::from_value(json!(labels)).unwrap();
                assert_eq!(read, labels);
            }
        }
    }

    #[test]
    fn labels_of_schema_1_are_readable() {
        let stored = r#"{"workspace_id":"01890a5d-ac96-774b-bcce-b302099a8057","source_id":"01890a5d-ac96-774b-bcce-b302099a8057","audience":"org:acme","sensitivity":"internal","review":"pending"}"#;
        let read: MemoryLabels = serde_json::from_str(stored).unwrap();
        assert_eq!(
            read,
            labels(SensitivityLabel::Internal, ReviewStatus::Pending)
        );
    }

    fn content(source_key: Option<&str>, updated_at: &str) -> MemoryContent {
        let id: uuid::Uuid = ID.parse().unwrap();
        MemoryContent {
            title: "Refunds".to_owned(),
            content: "Five days.".to_owned(),
            origin_source_id: id.into(),
            source_key: source_key.map(str::to_owned),
            created_by: id.into(),
            created_at: "2026-01-31T09:30:00.000Z".parse().unwrap(),
            updated_at: updated_at.parse().unwrap(),
        }
    }

    #[test]
    fn content_is_stored_without_absent_fields() {
        let new = content(None, "2026-01-31T09:30:00.000Z");
        let stored = json!({
            "title": "Refunds",
            "content": "Five days.",
            "origin_source_id": ID,
            "created_by": ID,
            "created_at": "2026-01-31T09:30:00.000Z",
        });
        assert_eq!(json!(new), stored);
        let changed = content(Some("refunds.md"), "2026-02-01T09:30:00.000Z");
        for content in [new, changed] {
            let read: MemoryContent = serde_json::from_value(json!(content)).unwrap();
            assert_eq!(read, content);
        }
    }

    #[test]
    fn content_of_schema_1_is_readable() {
        let stored = |source_key: Value| {
            json!({
                "title": "Refunds",
                "content": "Five days.",
                "origin_source_id": ID,
                "source_key": source_key,
                "created_by": ID,
                "created_at": "2026-01-31T09:30:00.000Z",
                "updated_at": "2026-01-31T09:30:00.000Z",
            })
        };
        for name in [None, Some("refunds.md")] {
            let read: MemoryContent = serde_json::from_value(stored(json!(name))).unwrap();
            assert_eq!(read, content(name, "2026-01-31T09:30:00.000Z"));
        }
    }
}
