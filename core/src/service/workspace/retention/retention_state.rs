//! Progress of the sweeps of a workspace with a retention.
//!
//! It is stored apart from the retention, which every use of a chat checks: a sweep conflicts with
//! none of them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::new_retention::Retention;
use super::stored_retention::StoredRetention;
use crate::error::Error;
use crate::keys;
use crate::model::{OrgId, Timestamp, WorkspaceId};
use crate::service::erasures::work::ErasureWork;
use crate::service::tasks::ScheduledTask;
use crate::store::{Key, Transaction};

/// Time between two sweeps of the memories of a workspace.
const MEMORY_SWEEP_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

/// Progress of the sweeps of a workspace as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RetentionSweep {
    /// Due time of the task that erases what has expired.
    pub(crate) next: Option<Timestamp>,
    /// Progress of the sweep of the memories, while one is running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) work: Option<ErasureWork>,
    /// Time of the next sweep of the memories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    memories_next: Option<Timestamp>,
}

/// Retention of a workspace with the progress of its sweeps, which the commit checks.
pub(crate) struct RetentionState {
    org: OrgId,
    workspace: WorkspaceId,
    pub(crate) stored: StoredRetention,
    pub(crate) sweep: RetentionSweep,
    /// True if the retention differs from the stored one.
    is_changed: bool,
}

impl RetentionState {
    /// Returns the keys of both records.
    pub(crate) fn keys(org: OrgId, workspace: WorkspaceId) -> [Key; 2] {
        [
            keys::retention(org, workspace),
            keys::retention_sweep(org, workspace),
        ]
    }

    /// Reads the retention of a workspace; the default keeps everything.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn read(
        transaction: &mut Transaction,
        org: OrgId,
        workspace: WorkspaceId,
    ) -> Result<Self, Error> {
        let [retention, sweep] = Self::keys(org, workspace);
        let stored = transaction.get::<StoredRetention>(&retention).await?;
        let sweep = transaction.get::<RetentionSweep>(&sweep).await?;
        Ok(Self {
            org,
            workspace,
            stored: stored.unwrap_or_default(),
            sweep: sweep.unwrap_or_default(),
            is_changed: false,
        })
    }

    /// Returns this retention after a change at `now`, for [`schedule`](Self::schedule).
    ///
    /// Chats that have expired stay so. A sweep of the memories begins again, but examines the
    /// recalls that cite what it has deleted.
    pub(crate) fn changed_to(mut self, retention: &Retention, now: Timestamp) -> Self {
        self.stored = self.stored.changed_to(retention, now);
        self.is_changed = true;
        let sweep = &mut self.sweep;
        if sweep.memories_next.is_some() || self.stored.has_memory_days() {
            sweep.work = Some(sweep.work.take().unwrap_or_default().restarted());
        }
        self
    }

    /// Takes the work of the sweep of the memories, if one is running or due.
    pub(crate) fn take_memory_work(&mut self, now: Timestamp) -> Option<ErasureWork> {
        let is_due = self.sweep.memories_next.is_some_and(|next| next <= now);
        let new = || is_due.then(|| ErasureWork::default().restarted());
        self.sweep.work.take().or_else(new)
    }

    /// Plans the next sweep of the memories after one that ends at `now`.
    pub(crate) fn plan_memory_sweep(&mut self, now: Timestamp) {
        let next = now.plus(MEMORY_SWEEP_INTERVAL);
        self.sweep.memories_next = Some(next).filter(|_| self.stored.has_memory_days());
    }

    /// Returns the time at which the next sweep of anything is due, if `oldest` is the time of the
    /// newest message of the chat that expires first.
    pub(crate) fn next_sweep(
        &self,
        oldest: Option<Timestamp>,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let period = self.stored.chat_period();
        let chats = period.map(|period| oldest.unwrap_or(now).plus(period));
        chats.into_iter().chain(self.sweep.memories_next).min()
    }

    /// Moves the task that erases what has expired to `next`, and stores the progress, with the
    /// retention if it has changed.
    ///
    /// Without a time nothing remains to be erased, and what is left of the retention is removed.
    pub(crate) fn schedule(mut self, transaction: &mut Transaction, next: Option<Timestamp>) {
        let (org, workspace) = (self.org, self.workspace);
        let due = |at| keys::due(at, workspace.0);
        let [retention, sweep] = Self::keys(org, workspace);
        let before = self.sweep.next.filter(|before| Some(*before) != next);
        if let Some(before) = before {
            transaction.delete(due(before));
        }
        self.sweep.next = next;
        let Some(at) = next else {
            transaction.delete(retention);
            transaction.delete(sweep);
            return;
        };
        transaction.put(due(at), &ScheduledTask::Retention { org, workspace });
        transaction.put(sweep, &self.sweep);
        if self.is_changed {
            transaction.put(retention, &self.stored);
        }
    }
}
