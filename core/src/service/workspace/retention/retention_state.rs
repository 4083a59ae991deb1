//! Progress of the sweeps of a workspace.
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
use crate::store::{Key, RangeRead, Transaction};

/// Time between two sweeps of the memories and recalls of a workspace.
const DAILY_SWEEP_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

/// Progress of the sweeps of a workspace as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RetentionSweep {
    /// Due time of the task that erases what has expired.
    pub(crate) next: Option<Timestamp>,
    /// True if the retention of the workspace is stored.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) has_retention: bool,
    /// Progress of the daily sweep of memories and recalls, while one is running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) work: Option<ErasureWork>,
    /// Time of the next daily sweep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    daily_next: Option<Timestamp>,
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

    /// Reads the retention of a workspace, or the default.
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

    /// Returns the workspace of the retention.
    pub(crate) fn workspace(&self) -> WorkspaceId {
        self.workspace
    }

    /// Returns true if searches register recalls.
    pub(crate) fn records_recalls(&self) -> bool {
        self.stored.retention.record_recalls
    }

    /// Returns this retention after a change at `now`, for [`schedule`](Self::schedule).
    ///
    /// Chats that have expired stay so. A daily sweep begins again, but examines the recalls that
    /// cite what it has deleted.
    pub(crate) fn changed_to(mut self, retention: &Retention, now: Timestamp) -> Self {
        self.stored = self.stored.changed_to(retention, now);
        self.is_changed = true;
        let work = self.sweep.work.take().unwrap_or_default();
        self.sweep.work = Some(work.restarted());
        self
    }

    /// Takes the work of the daily sweep, if one is running or due.
    pub(super) fn take_work(&mut self, now: Timestamp) -> Option<ErasureWork> {
        let is_due = self.sweep.daily_next.is_some_and(|next| next <= now);
        let new = || is_due.then(|| ErasureWork::default().restarted());
        self.sweep.work.take().or_else(new)
    }

    /// Plans the next daily sweep after one that ends at `now`, if the retention asks for one.
    pub(super) fn plan_daily_sweep(&mut self, now: Timestamp) {
        let next = now.plus(DAILY_SWEEP_INTERVAL);
        self.sweep.daily_next = Some(next).filter(|_| self.stored.is_swept_daily());
    }

    /// Returns the time of the next daily sweep that only recalls are a reason for.
    ///
    /// It is at the same time of each day, which the workspace decides. So the end of a recall tells
    /// nothing of the recalls of others.
    fn next_recall_sweep(&self, now: Timestamp) -> Timestamp {
        let day = DAILY_SWEEP_INTERVAL.as_millis();
        let offset = i64::try_from(self.workspace.0.as_u128() % day).unwrap_or_default();
        let day = i64::try_from(day).unwrap_or(i64::MAX);
        let passed = (now.as_millis() - offset).rem_euclid(day);
        Timestamp::from_millis(now.as_millis() - passed + day)
    }

    /// Returns true if a daily sweep is running or planned.
    fn has_daily_sweep(&self) -> bool {
        self.sweep.work.is_some() || self.sweep.daily_next.is_some()
    }

    /// Plans a daily sweep if there is none, but a recall.
    ///
    /// # Errors
    /// Those of the store.
    pub(super) async fn cover_recalls(
        &mut self,
        transaction: &mut Transaction,
        now: Timestamp,
    ) -> Result<(), Error> {
        if self.has_daily_sweep() {
            return Ok(());
        }
        let recalls = keys::workspace_recalls(self.org, self.workspace);
        let recalls = transaction.scan(&RangeRead::first(recalls, 1)).await?;
        if !recalls.is_empty() {
            self.sweep.daily_next = Some(self.next_recall_sweep(now));
        }
        Ok(())
    }

    /// Plans a daily sweep for a recall that is registered at `now`, if there is none.
    ///
    /// The commit checks the progress in either case. So no recall is left without a sweep: one
    /// that was registered before a daily sweep ended is found by [`cover_recalls`], which reads
    /// later, and any later one comes here.
    ///
    /// [`cover_recalls`]: Self::cover_recalls
    pub(crate) fn cover_new_recall(mut self, transaction: &mut Transaction, now: Timestamp) {
        if self.has_daily_sweep() {
            return;
        }
        self.sweep.daily_next = Some(self.next_recall_sweep(now));
        let next = self.sweep.next.into_iter().chain(self.sweep.daily_next);
        let next = next.min();
        self.schedule(transaction, next);
    }

    /// Moves the task by a day.
    pub(super) fn postpone(self, transaction: &mut Transaction, now: Timestamp) {
        self.schedule(transaction, Some(now.plus(DAILY_SWEEP_INTERVAL)));
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
        chats.into_iter().chain(self.sweep.daily_next).min()
    }

    /// Moves the task that erases what has expired to `next`, and stores the progress, with the
    /// retention if it has changed.
    ///
    /// Without a time nothing remains that expires, and what is left of the retention is removed:
    /// the default applies again.
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
        if self.is_changed {
            transaction.put(retention, &self.stored);
            self.sweep.has_retention = true;
        }
        transaction.put(sweep, &self.sweep);
    }
}
