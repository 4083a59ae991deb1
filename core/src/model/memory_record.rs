//! Stored form of a memory: its labels and, apart from them, its content.

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

use super::{
    AudienceLabel, CredentialId, McpClient, MemberId, RecallId, ReviewStatus, SensitivityLabel,
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
/// A missing source key or audience, a time of change equal to that of creation, and a writer that is the
/// member that added the memory are not stored.
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
    /// Audience label that the source declared last; `None` for that of the workspace.
    ///
    /// Beside the label that people may have set since, it tells whether the source moves the
    /// memory to another audience.
    pub declared_audience: Option<AudienceLabel>,
    /// Member that added the memory.
    pub created_by: MemberId,
    /// Time at which the memory was added.
    pub created_at: Timestamp,
    /// Member that last changed the title or content, at first the one that added the memory.
    pub updated_by: MemberId,
    /// Time of the last change of the title or content.
    pub updated_at: Timestamp,
    /// Service account that added the memory for its member, if one did.
    pub created_via: Option<MemberId>,
    /// Service account that last changed the title or content for a member, if one did.
    pub updated_via: Option<MemberId>,
    /// Origin of the memory, if an MCP key proposed it or it names a recall.
    pub provenance: Option<Provenance>,
}

/// Origin of a memory.
///
/// It stays as it was when the memory was added: the key and the recall may have ended since.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Provenance {
    /// MCP key that proposed the memory; `null` if none did.
    pub mcp_key_id: Option<CredentialId>,
    /// Client of the MCP key.
    pub client: Option<McpClient>,
    /// Recall whose answer led to the memory; `null` if none is known.
    pub recall_id: Option<RecallId>,
}

impl MemoryContent {
    /// Returns the member that added the memory, and its key at the source.
    pub(crate) fn origin(&self) -> (MemberId, Option<&str>) {
        (self.created_by, self.source_key.as_deref())
    }
}

/// Stored form of [`MemoryContent`].
#[derive(Deserialize)]
struct StoredContent {
    title: String,
    content: String,
    origin_source_id: SourceId,
    source_key: Option<String>,
    declared_audience: Option<AudienceLabel>,
    created_by: MemberId,
    created_at: Timestamp,
    updated_by: Option<MemberId>,
    updated_at: Option<Timestamp>,
    created_via: Option<MemberId>,
    updated_via: Option<MemberId>,
    provenance: Option<Provenance>,
}

impl From<StoredContent> for MemoryContent {
    fn from(stored: StoredContent) -> Self {
        Self {
            title: stored.title,
            content: stored.content,
            origin_source_id: stored.origin_source_id,
            source_key: stored.source_key,
            declared_audience: stored.declared_audience,
            created_by: stored.created_by,
            created_at: stored.created_at,
            updated_by: stored.updated_by.unwrap_or(stored.created_by),
            updated_at: stored.updated_at.unwrap_or(stored.created_at),
            created_via: stored.created_via,
            updated_via: stored.updated_via,
            provenance: stored.provenance,
        }
    }
}

impl Serialize for MemoryContent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut stored = serializer.serialize_struct("MemoryContent", 12)?;
        stored.serialize_field("title", &self.title)?;
        stored.serialize_field("content", &self.content)?;
        stored.serialize_field("origin_source_id", &self.origin_source_id)?;
        match &self.source_key {
            Some(name) => stored.serialize_field("source_key", name)?,
            None => stored.skip_field("source_key")?,
        }
        match &self.declared_audience {
            Some(label) => stored.serialize_field("declared_audience", label)?,
            None => stored.skip_field("declared_audience")?,
        }
        stored.serialize_field("created_by", &self.created_by)?;
        stored.serialize_field("created_at", &self.created_at)?;
        if self.updated_by == self.created_by {
            stored.skip_field("updated_by")?;
        } else {
            stored.serialize_field("updated_by", &self.updated_by)?;
        }
        if self.updated_at == self.created_at {
            stored.skip_field("updated_at")?;
        } else {
            stored.serialize_field("updated_at", &self.updated_at)?;
        }
        match &self.created_via {
            Some(account) => stored.serialize_field("created_via", account)?,
            None => stored.skip_field("created_via")?,
        }
        match &self.updated_via {
            Some(account) => stored.serialize_field("updated_via", account)?,
            None => stored.skip_field("updated_via")?,
        }
        match &self.provenance {
            Some(provenance) => stored.serialize_field("provenance", provenance)?,
            None => stored.skip_field("provenance")?,
        }
        stored.end()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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

    fn content(source_key: Option<&str>, updated_at: &str) -> MemoryContent {
        let id: uuid::Uuid = ID.parse().unwrap();
        MemoryContent {
            title: "Refunds".to_owned(),
            content: "Five days.".to_owned(),
            origin_source_id: id.into(),
            source_key: source_key.map(str::to_owned),
            declared_audience: source_key.map(|_| "user:maya".parse().unwrap()),
            created_by: id.into(),
            created_at: "2026-01-31T09:30:00.000Z".parse().unwrap(),
            updated_by: id.into(),
            created_via: None,
            updated_via: None,
            provenance: source_key.map(|_| Provenance {
                recall_id: Some(id.into()),
                ..Provenance::default()
            }),
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
}
