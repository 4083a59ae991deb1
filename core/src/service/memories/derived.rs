//! What the commit of a change to memories keeps beside them: marks by which lists find them, the
//! counters of a workspace and of its labels, and its activity by day.
//!
//! Every commit that adds, changes or removes memories comes here, so that nothing is forgotten.

use crate::keys;
use crate::model::{
    ActivityKind, MemoryId, MemoryLabels, OrgId, ReviewStatus, Timestamp, WorkspaceId,
};
use crate::service::memories::label_counts::count_labels;
use crate::service::quota::day_of;
use crate::store::{Key, Transaction};

/// Keeps everything for the change of one memory at a time; its labels are `None` while it does not
/// exist.
pub(crate) fn keep(
    transaction: &mut Transaction,
    (org, id): (OrgId, MemoryId),
    (before, after): (Option<&MemoryLabels>, Option<&MemoryLabels>),
    is_edited: bool,
    at: Timestamp,
) {
    file(transaction, org, id, before, after);
    count_labels(transaction, org, (before, after), 1);
    let mut changes = Changes::default();
    changes.note(before, after, is_edited);
    if let Some(labels) = after.or(before) {
        changes.count(transaction, (org, labels.workspace_id), at);
    }
}

/// Moves the marks of a memory whose labels change; `None` for one that does not exist.
///
/// A mark is written only if the label that it is for changes: relabelling moves none.
pub(crate) fn file(
    transaction: &mut Transaction,
    org: OrgId,
    id: MemoryId,
    before: Option<&MemoryLabels>,
    after: Option<&MemoryLabels>,
) {
    if before.map(|labels| labels.review) != after.map(|labels| labels.review) {
        let mark = |labels: &MemoryLabels| {
            keys::reviewed_memory(org, labels.workspace_id, labels.review, id)
        };
        move_mark(transaction, before.map(mark), after.map(mark));
    }
    if before.map(|labels| labels.source_id) != after.map(|labels| labels.source_id) {
        let mark = |labels: &MemoryLabels| {
            keys::sourced_memory(org, labels.workspace_id, labels.source_id, id)
        };
        move_mark(transaction, before.map(mark), after.map(mark));
    }
}

fn move_mark(transaction: &mut Transaction, from: Option<Key>, to: Option<Key>) {
    if let Some(from) = from {
        transaction.delete(from);
    }
    if let Some(to) = to {
        transaction.put(to, &());
    }
}

/// Numbers of what a commit does to the memories of a workspace.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Changes {
    added: i64,
    reviewed: i64,
    relabelled: i64,
    edited: i64,
    deleted: i64,
    /// Change of the number of memories that wait for review.
    backlog: i64,
}

impl Changes {
    /// Counts the change of a memory; its labels are `None` while it does not exist.
    ///
    /// It is reviewed if it is approved or rejected now and had another status; it is relabelled if
    /// its audience, its sensitivity or its source changes. Both may be.
    pub(crate) fn note(
        &mut self,
        before: Option<&MemoryLabels>,
        after: Option<&MemoryLabels>,
        is_edited: bool,
    ) {
        let waits =
            |labels: Option<&MemoryLabels>| i64::from(labels.is_some_and(MemoryLabels::is_pending));
        self.backlog += waits(after) - waits(before);
        let (Some(before), Some(after)) = (before, after) else {
            self.added += i64::from(after.is_some());
            self.deleted += i64::from(before.is_some());
            return;
        };
        let is_reviewed = after.review != before.review && after.review != ReviewStatus::Pending;
        let is_relabelled = after.audience != before.audience
            || after.sensitivity != before.sensitivity
            || after.source_id != before.source_id;
        self.reviewed += i64::from(is_reviewed);
        self.relabelled += i64::from(is_relabelled);
        self.edited += i64::from(is_edited);
    }

    /// Adds the numbers to the counters of the workspace and of the day (UTC) of `at`.
    pub(crate) fn count(
        self,
        transaction: &mut Transaction,
        (org, workspace): (OrgId, WorkspaceId),
        at: Timestamp,
    ) {
        let size = self.added - self.deleted;
        transaction.add(keys::memory_count(org, workspace), size);
        transaction.add(keys::pending_count(org, workspace), self.backlog);
        let day = day_of(at);
        for (kind, number) in [
            (ActivityKind::Added, self.added),
            (ActivityKind::Reviewed, self.reviewed),
            (ActivityKind::Relabelled, self.relabelled),
            (ActivityKind::Edited, self.edited),
            (ActivityKind::Deleted, self.deleted),
            (ActivityKind::Backlog, self.backlog),
        ] {
            if number != 0 {
                transaction.add(keys::activity(org, workspace, day, kind), number);
            }
        }
    }
}
