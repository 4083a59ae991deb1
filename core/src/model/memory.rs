//! Memories and their bulk update.

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

use super::{
    AudienceLabel, AuditLogId, MemberId, MemoryId, OperationId, ReviewStatus, SensitivityLabel,
    SourceId, Timestamp, WorkspaceId,
};

/// What governs a memory: small, and apart from its content, so that relabelling never touches that.
///
/// Serialised as it is stored: without what has its default.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MemoryLabels {
    /// The workspace that the memory belongs to.
    pub workspace_id: WorkspaceId,
    /// The source it is filed under.
    pub source_id: SourceId,
    /// Who may know of it.
    pub audience: AudienceLabel,
    /// How sensitive it is; `internal` by default.
    #[serde(default, skip_serializing_if = "is_internal")]
    pub sensitivity: SensitivityLabel,
    /// Where it stands in its review; `pending` by default.
    #[serde(default = "pending", skip_serializing_if = "is_pending")]
    pub review: ReviewStatus,
}

fn is_internal(sensitivity: &SensitivityLabel) -> bool {
    *sensitivity == SensitivityLabel::default()
}

/// The default shows a memory to fewer people than the others.
fn pending() -> ReviewStatus {
    ReviewStatus::Pending
}

fn is_pending(review: &ReviewStatus) -> bool {
    *review == pending()
}

impl MemoryLabels {
    /// Whether the memory waits for review.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.review == ReviewStatus::Pending
    }
}

/// What a memory says.
///
/// Serialised as it is stored: without a name that it has not, and without the time of a change that
/// was not made.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "StoredContent")]
pub struct MemoryContent {
    /// 1 to 128 characters.
    pub title: String,
    /// The text.
    pub content: String,
    /// The source that it came in from. It stays the same when the memory is filed under another one.
    pub origin_source_id: SourceId,
    /// The name of the memory at the source that it came in from, where it has one: the same key from there updates
    /// instead of adding.
    pub source_key: Option<String>,
    /// Who added it.
    pub created_by: MemberId,
    /// When it was added.
    pub created_at: Timestamp,
    /// When its content was last written.
    pub updated_at: Timestamp,
}

/// What is read of a content.
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

/// A memory as a bulk result shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Memory {
    /// The identifier.
    pub id: MemoryId,
    /// The source.
    pub source_id: SourceId,
    /// The audience label.
    pub audience_tag: AudienceLabel,
    /// The sensitivity label.
    pub sensitivity_label: SensitivityLabel,
}

impl Memory {
    /// The wire form of a memory with these labels.
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

/// A memory as a list shows it. What it says is `null` for those who may know of it and not read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct MemorySummary {
    /// The identifier.
    pub id: MemoryId,
    /// The workspace that the memory belongs to.
    pub workspace_id: WorkspaceId,
    /// The source that it is filed under.
    pub source_id: SourceId,
    /// The source that it came in from, whatever source it is filed under since.
    pub origin_source_id: SourceId,
    /// Its name at the source that it came in from, where it has one.
    pub source_key: Option<String>,
    /// The audience label.
    pub audience_tag: AudienceLabel,
    /// The sensitivity label.
    pub sensitivity_label: SensitivityLabel,
    /// Where it stands in its review.
    pub review_status: ReviewStatus,
    /// The title.
    #[cfg_attr(feature = "openapi", schemars(with = "Option<crate::schema::Name>"))]
    pub title: Option<String>,
    /// Who added it.
    pub created_by: MemberId,
    /// When it was added.
    pub created_at: Timestamp,
    /// When its title or content was last written.
    pub updated_at: Timestamp,
}

impl MemorySummary {
    /// What a list shows of a memory; of what it says only where it `is_readable`.
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

/// A memory as it is read by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct MemoryDetails {
    /// What a list shows of it.
    #[serde(flatten)]
    pub summary: MemorySummary,
    /// The text; `null` for those who may know of the memory and not read it.
    #[cfg_attr(feature = "openapi", schemars(with = "Option<crate::schema::Content>"))]
    pub content: Option<String>,
}

impl MemoryDetails {
    /// A memory; what it says only where it `is_readable`.
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

/// Which memories a list shows: those that have every label that is set here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct MemoryFilter {
    /// The audience label.
    pub audience_tag: Option<AudienceLabel>,
    /// The sensitivity label.
    pub sensitivity_label: Option<SensitivityLabel>,
    /// Where it stands in its review.
    pub review_status: Option<ReviewStatus>,
    /// The source that it is filed under.
    pub source_id: Option<SourceId>,
}

impl MemoryFilter {
    /// Whether a memory with these labels is shown.
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

/// What a change of one memory sets; what is absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct MemoryUpdate {
    /// The new title: 1 to 128 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schemars(with = "Option<crate::schema::Name>"))]
    pub title: Option<String>,
    /// The new text: at most 32 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schemars(with = "Option<crate::schema::Content>"))]
    pub content: Option<String>,
    /// The new labels, under the rules of a bulk update.
    #[serde(flatten)]
    pub change: MemoryChange,
}

/// The attributes that a bulk update sets; what is absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct MemoryChange {
    /// The new audience.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audience_tag: Option<AudienceLabel>,
    /// The new sensitivity. Lowering it needs the action `memory:declassify`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sensitivity_label: Option<SensitivityLabel>,
    /// The new source, one of the organisation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_id: Option<SourceId>,
    /// The new review status. Setting it needs the action `memory:review`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review_status: Option<ReviewStatus>,
}

impl MemoryChange {
    /// Whether nothing is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether an attribute other than the review status is set.
    #[must_use]
    pub fn relabels(&self) -> bool {
        self.audience_tag.is_some() || self.sensitivity_label.is_some() || self.source_id.is_some()
    }

    /// `labels` with what this sets.
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

/// The request of a bulk update: which memories, and what to set.
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
    /// The memories, without duplicates. The result has an item for each, in this order.
    #[cfg_attr(
        feature = "openapi",
        schemars(length(min = 1), extend("uniqueItems" = true, "x-limit" = "bulk_memories_max"))
    )]
    pub memory_ids: Vec<MemoryId>,
    /// What to set; not empty.
    #[serde(flatten)]
    pub change: MemoryChange,
}

/// What became of a bulk update.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct BulkResult {
    /// The run that changed the memories; a replay names the first run.
    pub operation_id: OperationId,
    /// Whether this is the stored result of an earlier identical request.
    pub replayed: bool,
    /// How many memories.
    pub summary: BulkSummary,
    /// An item per memory requested, in the order of the request.
    pub results: Vec<BulkItem>,
}

/// How many memories a bulk update was asked for, changed and refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct BulkSummary {
    /// All of them.
    pub requested: u32,
    /// Those with `ok` true.
    pub succeeded: u32,
    /// Those with `ok` false.
    pub failed: u32,
}

/// What became of one memory of a bulk update: `memory` where `ok` is true, `error` where it is false.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[cfg_attr(
    feature = "openapi",
    schemars(extend("oneOf" = [{ "required": ["memory"] }, { "required": ["error"] }]))
)]
pub struct BulkItem {
    /// The memory asked for.
    pub memory_id: MemoryId,
    /// Whether it has the labels asked for now.
    pub ok: bool,
    /// The memory after the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schemars(with = "Memory"))]
    pub memory: Option<Memory>,
    /// The entry in the audit log; a refused attempt has one too.
    pub audit_log_id: AuditLogId,
    /// Why it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schemars(with = "BulkItemError"))]
    pub error: Option<BulkItemError>,
}

/// Why one memory of a bulk update was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct BulkItemError {
    /// The reason, for programs.
    pub code: BulkItemErrorCode,
    /// The reason, for people.
    pub message: String,
}

super::names::string_enum! {
    /// Why one memory of a bulk update was refused, for programs.
    BulkItemErrorCode {
        /// The organisation has no such memory.
        NotFound = "not_found",
        /// The caller lacks an action that the change needs in the memory's workspace.
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
    fn schema_1_labels_are_read() {
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
    fn contents_are_stored_without_what_they_lack() {
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
    fn schema_1_contents_are_read() {
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
