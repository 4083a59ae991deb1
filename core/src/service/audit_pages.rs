//! How the audit log is stored: pages of entries, and how entries are read from them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::audit::{AuditAction, AuditEntry, AuditOutcome, AuditResource, ResourceKind, state};
use crate::error::Error;
use crate::model::{
    AuditLogId, CredentialId, MemberId, MemoryChange, MemoryId, MemoryLabels, OperationId, OrgId,
    Timestamp,
};
use crate::store::{Key, StoreExt, Transaction, keys};

/// How many entries about memories share a page: what fits into one value with the longest labels.
pub(super) const PAGE_ENTRIES: usize = 160;

/// Some entries of one operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct AuditPage {
    pub(super) operation_id: OperationId,
    pub(super) at: Timestamp,
    pub(super) actor_id: Option<MemberId>,
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
        before: Option<Value>,
        after: Option<Value>,
    },
    /// Many memories.
    Memories {
        change: Option<MemoryChange>,
        entries: Vec<MemoryAudit>,
    },
}

/// What became of one memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MemoryAudit {
    pub(super) memory_id: MemoryId,
    pub(super) outcome: AuditOutcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) before: Option<MemoryLabels>,
    /// Left out where it follows from the labels before and the change of the page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
        if let PageBody::Memories {
            change,
            entries: found,
        } = page.value.body
        {
            entries.extend(found.into_iter().map(|entry| {
                let after = entry.labels_after(change.as_ref());
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

impl AuditPage {
    /// How many entries the page has.
    pub(super) fn len(&self) -> usize {
        match &self.body {
            PageBody::Single { .. } => 1,
            PageBody::Memories { entries, .. } => entries.len(),
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
            PageBody::Memories { change, entries } => {
                let entry = entries.get(index)?;
                let after = entry.labels_after(change.as_ref());
                let resource = AuditResource {
                    kind: ResourceKind::Memory,
                    id: entry.memory_id.0,
                };
                (
                    resource,
                    entry.outcome,
                    entry.before.as_ref().map(state),
                    after.as_ref().map(state),
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
    use crate::model::{AudienceLabel, ReviewStatus, SensitivityLabel, SourceId, WorkspaceId};
    use crate::store::VALUE_BYTES_MAX;

    #[test]
    fn the_largest_page_fits_into_one_value() {
        let id = uuid::Uuid::max();
        let audience: AudienceLabel = format!("workspace:{}", "x".repeat(64)).parse().unwrap();
        let labels = MemoryLabels {
            workspace_id: WorkspaceId(id),
            source_id: SourceId(id),
            audience: audience.clone(),
            sensitivity: SensitivityLabel::Confidential,
            review: ReviewStatus::Approved,
        };
        let entry = MemoryAudit {
            memory_id: MemoryId(id),
            outcome: AuditOutcome::Denied(Denial::Lacks(Action::MemoryDeclassify)),
            before: Some(labels),
            after: None,
        };
        let page = AuditPage {
            operation_id: OperationId(id),
            at: Timestamp::MAX,
            actor_id: Some(MemberId(id)),
            credential_id: Some(CredentialId(id)),
            action: AuditAction::InboundWebhookCreate,
            body: PageBody::Memories {
                change: Some(MemoryChange {
                    audience_tag: Some(audience),
                    sensitivity_label: Some(SensitivityLabel::Confidential),
                    source_id: Some(SourceId(id)),
                    review_status: Some(ReviewStatus::Approved),
                }),
                entries: vec![entry; PAGE_ENTRIES],
            },
        };
        assert!(serde_json::to_vec(&page).unwrap().len() <= VALUE_BYTES_MAX);
    }
}
