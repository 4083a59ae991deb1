//! How the audit log is stored: pages of entries, and how entries are read from them.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::audit::{AuditAction, AuditEntry, AuditOutcome, AuditResource, ResourceKind};
use super::audit_runs::StoredEntries;
use crate::error::Error;
use crate::model::{
    AuditLogId, CredentialId, MemberId, MemoryChange, MemoryId, MemoryLabels, OperationId, OrgId,
    Timestamp,
};
use crate::keys;
use crate::store::{Key, StoreExt, Transaction};

/// How many entries about memories share a page: what fits into one value with the longest labels.
pub(super) const PAGE_ENTRIES: usize = 160;

/// Some entries of one operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct AuditPage {
    pub(super) operation_id: OperationId,
    pub(super) at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) actor_id: Option<MemberId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) credential_id: Option<CredentialId>,
    pub(super) action: AuditAction,
    pub(super) body: PageBody,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PageBody {
    /// One thing of any kind.
    Single {
        resource: AuditResource,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<Value>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<Value>,
    },
    /// Many memories.
    Memories(MemoryEntries),
}

/// Entries about memories, which `audit_runs` stores.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "StoredEntries")]
pub(super) struct MemoryEntries {
    pub(super) change: Option<MemoryChange>,
    pub(super) entries: Vec<MemoryAudit>,
}

/// The outcome for one memory. Deserialised from pages of schema 1 only.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct MemoryAudit {
    pub(super) memory_id: MemoryId,
    pub(super) outcome: AuditOutcome,
    pub(super) before: Option<MemoryLabels>,
    /// `None` where it follows from the labels before and the change of the page.
    pub(super) after: Option<MemoryLabels>,
}

impl MemoryAudit {
    /// The labels after, where the memory still has some.
    pub(super) fn labels_after(&self, change: Option<&MemoryChange>) -> Option<MemoryLabels> {
        match (&self.after, &self.before, change) {
            (Some(after), _, _) => Some(after.clone()),
            (None, Some(before), Some(change)) if self.outcome == AuditOutcome::Ok => {
                Some(change.applied_to(before))
            }
            _ => None,
        }
    }
}

/// The entries about memories of one operation, in their order.
///
/// # Errors
/// [`Error::Internal`] where a page is missing.
pub(super) async fn read_memory_entries(
    transaction: &Transaction,
    org: OrgId,
    first: AuditLogId,
    count: usize,
) -> Result<Vec<(MemoryAudit, Option<MemoryLabels>)>, Error> {
    let pages: Vec<Key> = (0..count)
        .step_by(PAGE_ENTRIES)
        .map(|offset| keys::audit(org, first.plus(offset as u128)))
        .collect();
    let pages = transaction
        .unchecked()
        .get_many_as::<AuditPage>(&pages)
        .await?;
    let mut entries = Vec::with_capacity(count);
    for page in pages.into_iter().flatten() {
        if let PageBody::Memories(found) = page.value.body {
            let change = found.change.as_ref();
            entries.extend(found.entries.into_iter().map(|entry| {
                let after = entry.labels_after(change);
                (entry, after)
            }));
        }
    }
    if entries.len() == count {
        Ok(entries)
    } else {
        Err(Error::internal(format!(
            "audit pages from {first} on are missing"
        )))
    }
}

/// Shows labels in full: stored, they lack what has its default.
fn labels_state(labels: &MemoryLabels) -> Value {
    json!({
        "workspace_id": labels.workspace_id,
        "source_id": labels.source_id,
        "audience": labels.audience,
        "sensitivity": labels.sensitivity,
        "review": labels.review,
    })
}

impl AuditPage {
    /// How many entries the page has.
    pub(super) fn len(&self) -> usize {
        match &self.body {
            PageBody::Single { .. } => 1,
            PageBody::Memories(memories) => memories.entries.len(),
        }
    }

    /// The entry at this place of the page.
    pub(super) fn entry(&self, id: AuditLogId, index: usize) -> Option<AuditEntry> {
        let (resource, outcome, before, after) = match &self.body {
            PageBody::Single {
                resource,
                before,
                after,
            } => (index == 0)
                .then(|| (*resource, AuditOutcome::Ok, before.clone(), after.clone()))?,
            PageBody::Memories(memories) => {
                let entry = memories.entries.get(index)?;
                let after = entry.labels_after(memories.change.as_ref());
                let resource = AuditResource {
                    kind: ResourceKind::Memory,
                    id: entry.memory_id.0,
                };
                (
                    resource,
                    entry.outcome,
                    entry.before.as_ref().map(labels_state),
                    after.as_ref().map(labels_state),
                )
            }
        };
        Some(AuditEntry {
            id,
            operation_id: self.operation_id,
            at: self.at,
            actor_id: self.actor_id,
            credential_id: self.credential_id,
            action: self.action,
            resource,
            reason: match outcome {
                AuditOutcome::Denied(denial) => Some(denial.to_string()),
                AuditOutcome::Ok | AuditOutcome::NotFound => None,
            },
            outcome,
            before,
            after,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Action, Denial};
    use crate::limits::INGEST_MEMORIES_MAX;
    use crate::model::{AudienceLabel, ReviewStatus, SensitivityLabel, SourceId, WorkspaceId};
    use crate::store::VALUE_BYTES_MAX;

    #[test]
    fn the_largest_page_fits_into_one_value() {
        let id = uuid::Uuid::max();
        let audience = |number: usize| -> AudienceLabel {
            format!("workspace:{number:x>64}").parse().unwrap()
        };
        // No labels are those of another entry.
        let labels = |number| MemoryLabels {
            workspace_id: WorkspaceId(id),
            source_id: SourceId(id),
            audience: audience(number),
            sensitivity: SensitivityLabel::Confidential,
            review: ReviewStatus::Approved,
        };
        let refused = |number| MemoryAudit {
            memory_id: MemoryId(id),
            outcome: AuditOutcome::Denied(Denial::Lacks(Action::MemoryDeclassify)),
            before: Some(labels(number)),
            after: None,
        };
        let changed = |number| MemoryAudit {
            memory_id: MemoryId(id),
            outcome: AuditOutcome::Ok,
            before: Some(labels(number)),
            after: Some(labels(1_000 + number)),
        };
        let page = |entries| AuditPage {
            operation_id: OperationId(id),
            at: Timestamp::MAX,
            actor_id: Some(MemberId(id)),
            credential_id: Some(CredentialId(id)),
            action: AuditAction::InboundWebhookCreate,
            body: PageBody::Memories(MemoryEntries {
                change: Some(MemoryChange {
                    audience_tag: Some(audience(0)),
                    sensitivity_label: Some(SensitivityLabel::Confidential),
                    source_id: Some(SourceId(id)),
                    review_status: Some(ReviewStatus::Approved),
                }),
                entries,
            }),
        };
        for entries in [
            (0..PAGE_ENTRIES).map(refused).collect(),
            (0..INGEST_MEMORIES_MAX).map(changed).collect(),
        ] {
            let bytes = serde_json::to_vec(&page(entries)).unwrap().len();
            assert!(bytes <= VALUE_BYTES_MAX, "{bytes}");
        }
    }
}
