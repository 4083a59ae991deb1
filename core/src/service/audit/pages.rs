//! Stored form of the audit log: pages of entries.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::Error;
use crate::keys;
use crate::model::{AuditAction, ResourceKind};
use crate::model::{
    AuditLogId, CredentialId, InboundWebhookId, MemberId, MemoryLabels, OperationId, OrgId,
    Timestamp, WorkspaceId,
};
use crate::service::access::principal::Principal;
use crate::service::audit::entry::{AuditEntry, AuditOutcome, AuditResource, ENTRY_BITS};
use crate::service::audit::runs::{MemoryAudit, MemoryEntries};
use crate::store::{Entry, Key, KeyRange, StoreExt, Transaction, decode, decode_value};

/// Maximum number of entries about memories in a page.
///
/// A page with the longest labels fits into one value.
pub(crate) const PAGE_ENTRIES: usize = 160;

/// Consecutive entries of one operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct AuditPage {
    pub(crate) operation_id: OperationId,
    pub(crate) at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) actor_id: Option<MemberId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) credential_id: Option<CredentialId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) via_id: Option<MemberId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) inbound_webhook_id: Option<InboundWebhookId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) client_address: Option<IpAddr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) request_id: Option<uuid::Uuid>,
    /// Workspace of the operation, if it has only one. It is not shown: it decides who sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) workspace_id: Option<WorkspaceId>,
    pub(crate) action: AuditAction,
    pub(crate) body: PageBody,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PageBody {
    /// One resource of any kind.
    Single {
        resource: AuditResource,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<Value>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<Value>,
    },
    /// One rejected change, about one resource of any kind.
    Rejected {
        resource: AuditResource,
        reason: String,
    },
    /// Many memories.
    Memories(MemoryEntries),
}

/// Reads the entries about memories of one operation, in order, each with its labels after.
///
/// # Errors
/// [`Error::Internal`] if a page is missing.
pub(crate) async fn read_memory_entries(
    transaction: &mut Transaction,
    org: OrgId,
    first: AuditLogId,
    count: usize,
) -> Result<Vec<(MemoryAudit, Option<MemoryLabels>)>, Error> {
    let pages: Vec<Key> = (0..count)
        .step_by(PAGE_ENTRIES)
        .map(|offset| keys::audit(org, first.plus(offset as u128)))
        .collect();
    let found = transaction.unchecked().get_many::<Entry>(&pages).await?;
    let mut entries = Vec::with_capacity(count);
    for (key, entry) in pages.iter().zip(&found) {
        let page = entry.as_ref().map(|entry| decode::<AuditPage>(key, entry));
        if let Some(page) = page.transpose()? {
            entries.extend(page.value.into_memories());
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

/// Reads the successful entries about memories of one operation, as [`read_memory_entries`] does.
///
/// There are none once they have expired.
///
/// # Errors
/// Those of the store.
pub(crate) async fn read_changed_memories(
    transaction: &mut Transaction,
    org: OrgId,
    first: AuditLogId,
) -> Result<Vec<(MemoryAudit, Option<MemoryLabels>)>, Error> {
    let behind = keys::audit(org, first.plus(1 << ENTRY_BITS));
    let pages = KeyRange::new(keys::audit(org, first), behind);
    let mut entries = Vec::new();
    for found in transaction.unchecked().store().scan_all(&pages).await? {
        let page: AuditPage = decode_value(&found)?;
        let found = page.into_memories();
        entries.extend(found.filter(|(entry, _)| entry.outcome == AuditOutcome::Ok));
    }
    Ok(entries)
}

/// Returns labels in full: their stored form omits default values.
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
    /// Returns the entries about memories, each with its labels after.
    fn into_memories(self) -> impl Iterator<Item = (MemoryAudit, Option<MemoryLabels>)> {
        let (change, entries) = match self.body {
            PageBody::Memories(found) => (found.change, found.entries),
            PageBody::Single { .. } | PageBody::Rejected { .. } => (None, Vec::new()),
        };
        entries.into_iter().map(move |entry| {
            let after = entry.labels_after(change.as_ref());
            (entry, after)
        })
    }

    /// Returns true if the page is about a workspace that does not exist for the caller.
    pub(crate) fn is_hidden_from(&self, caller: &Principal) -> bool {
        self.workspace_id.is_some_and(|place| !caller.knows(place))
    }

    /// Returns the number of entries.
    pub(crate) fn len(&self) -> usize {
        match &self.body {
            PageBody::Single { .. } | PageBody::Rejected { .. } => 1,
            PageBody::Memories(memories) => memories.entries.len(),
        }
    }

    /// Returns the entry at this index of the page.
    pub(crate) fn entry(&self, id: AuditLogId, index: usize) -> Option<AuditEntry> {
        let (mut rejection, mut is_own) = (None, false);
        let (resource, outcome, before, after) = match &self.body {
            PageBody::Rejected { resource, reason } => {
                rejection = Some(reason.clone());
                (index == 0).then_some((*resource, AuditOutcome::Rejected, None, None))?
            }
            PageBody::Single {
                resource,
                before,
                after,
            } => (index == 0)
                .then(|| (*resource, AuditOutcome::Ok, before.clone(), after.clone()))?,
            PageBody::Memories(memories) => {
                let entry = memories.entries.get(index)?;
                is_own = entry.is_own;
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
            via_id: self.via_id,
            inbound_webhook_id: self.inbound_webhook_id,
            client_address: self.client_address,
            request_id: self.request_id,
            action: self.action,
            resource,
            reason: match outcome {
                AuditOutcome::Denied(denial) => Some(denial.to_string()),
                AuditOutcome::Ok | AuditOutcome::NotFound | AuditOutcome::Rejected => rejection,
            },
            outcome,
            own: is_own,
            before,
            after,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Action;
    use crate::limits::INGEST_MEMORIES_MAX;
    use crate::model::{AudienceLabel, ReviewStatus, SensitivityLabel, SourceId};
    use crate::model::{MemoryChange, MemoryId};
    use crate::service::access::principal::Denial;
    use crate::store::VALUE_BYTES_MAX;

    #[test]
    fn largest_audit_page_fits_into_one_value() {
        let id = uuid::Uuid::max();
        let audience = |number: usize| -> AudienceLabel {
            format!("workspace:{number:x>64}").parse().unwrap()
        };
        // No two entries share their labels.
        let labels = |number| MemoryLabels {
            workspace_id: WorkspaceId(id),
            source_id: SourceId(id),
            audience: audience(number),
            sensitivity: SensitivityLabel::Confidential,
            review: ReviewStatus::Approved,
        };
        let refused = |number| MemoryAudit {
            memory_id: MemoryId(id),
            is_own: false,
            outcome: AuditOutcome::Denied(Denial::MissingPermission(Action::MemoryDeclassify)),
            before: Some(labels(number)),
            after: None,
        };
        let changed = |number| MemoryAudit {
            memory_id: MemoryId(id),
            is_own: false,
            outcome: AuditOutcome::Ok,
            before: Some(labels(number)),
            after: Some(labels(1_000 + number)),
        };
        let page = |entries| AuditPage {
            operation_id: OperationId(id),
            at: Timestamp::MAX,
            actor_id: Some(MemberId(id)),
            credential_id: Some(CredentialId(id)),
            via_id: None,
            inbound_webhook_id: Some(InboundWebhookId(id)),
            client_address: Some(std::net::Ipv6Addr::from([0xffff; 8]).into()),
            request_id: Some(id),
            workspace_id: Some(WorkspaceId(id)),
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
