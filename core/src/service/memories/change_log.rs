//! Log of the changes of memories, by which the indexes of words follow them.
//!
//! An index is in the memory of a process, and any process may change memories. Each commit that
//! changes what a recall may find logs which memories it changed, and counts them: an index that
//! has applied as many changes as were counted has applied all of them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::keys;
use crate::model::{
    AuditLogId, MemoryId, MemoryLabels, OrgId, ReviewStatus, Timestamp, WorkspaceId,
};
use crate::service::KnowledgeService;
use crate::service::audit::entry::least_id;
use crate::store::{Direction, Key, StoreExt, Transaction};

/// Time for which the log is kept. An index that is further behind is built again.
const LOG_KEPT: Duration = Duration::from_secs(24 * 60 * 60);
/// Number of entries that one commit purges.
const PURGED_PER_COMMIT: usize = 1_000;

/// Part of the memories that a commit changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Changed {
    /// Labels only.
    Labels,
    /// Anything: texts, labels, or whether they exist.
    Anything,
}

/// Changes of one commit to the memories of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LoggedChange {
    /// Memories that it changed.
    pub(crate) memories: Vec<MemoryId>,
    /// True if it changed their labels only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) labels_only: bool,
}

/// Returns true if a recall may find a memory with one of these labels, before or after a change.
pub(crate) fn is_logged(before: Option<&MemoryLabels>, after: Option<&MemoryLabels>) -> bool {
    let is_approved = |labels: &MemoryLabels| labels.review == ReviewStatus::Approved;
    before.is_some_and(is_approved) || after.is_some_and(is_approved)
}

/// Logs that a commit changes these memories of a workspace, each named once.
///
/// A commit calls it once for each workspace; `first` is the first audit entry of its operation.
pub(crate) fn log_changes(
    transaction: &mut Transaction,
    (org, workspace): (OrgId, WorkspaceId),
    first: AuditLogId,
    memories: Vec<MemoryId>,
    changed: Changed,
) {
    if memories.is_empty() {
        return;
    }
    let count = i64::try_from(memories.len()).unwrap_or(i64::MAX);
    let change = LoggedChange {
        memories,
        labels_only: changed == Changed::Labels,
    };
    transaction.put(keys::memory_change(org, workspace, first), &change);
    transaction.add(keys::memory_change_number(org, workspace), count);
}

impl KnowledgeService {
    /// Purges the entries of the log that are no longer kept.
    ///
    /// # Errors
    /// Those of the store.
    pub(in crate::service) async fn purge_memory_changes(
        &self,
        org: OrgId,
        now: Timestamp,
    ) -> Result<(), Error> {
        let kept = least_id(now.minus(LOG_KEPT));
        for workspace in self.store().scan_all(&keys::workspaces(org)).await? {
            let workspace = WorkspaceId(keys::last_id(&workspace.key).unwrap_or_default());
            let past = keys::memory_changes(org, workspace);
            let past = past.before(&keys::memory_change(org, workspace, kept));
            loop {
                let (limit, direction) = (PURGED_PER_COMMIT, Direction::Forward);
                let found = self.store().scan(&past, limit, direction).await?;
                let found: Vec<Key> = found.into_iter().map(|found| found.key).collect();
                if found.is_empty() {
                    break;
                }
                let found = &found;
                self.transact(|mut transaction| async move {
                    found.iter().for_each(|key| transaction.delete(key.clone()));
                    Ok(transaction.done(()))
                })
                .await?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::BULK_MEMORIES_CEILING;
    use crate::store::VALUE_BYTES_MAX;

    #[test]
    fn largest_change_fits_into_one_value() {
        let change = LoggedChange {
            memories: vec![MemoryId(uuid::Uuid::max()); BULK_MEMORIES_CEILING],
            labels_only: true,
        };
        assert!(serde_json::to_vec(&change).unwrap().len() <= VALUE_BYTES_MAX);
    }
}
