//! Activity of workspaces by day (UTC).

use std::time::Duration;

use super::Org;
use knowledge_core::model::{ActivityDay, MemoryLabels, ReviewStatus, Timestamp, WorkspaceId};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns the number of the day since the Unix epoch.
fn day_number(at: Timestamp) -> i64 {
    at.as_seconds().div_euclid(DAY.as_secs().cast_signed())
}

impl Org {
    /// Counts what a request does to a memory, other than its deletion.
    ///
    /// Deletions by an erasure or a retention happen on the day of their step, which the model does
    /// not know.
    pub(crate) fn note_activity(
        &mut self,
        (before, after): (Option<&MemoryLabels>, &MemoryLabels),
        is_edited: bool,
        at: Timestamp,
    ) {
        let day = (after.workspace_id, day_number(at));
        let begins_at = Timestamp::UNIX_EPOCH.plus(DAY * u32::try_from(day.1).unwrap_or(0));
        let counts = self.activity.entry(day);
        let counts = counts.or_insert_with(|| ActivityDay::empty(begins_at));
        let Some(before) = before else {
            counts.added += 1;
            return;
        };
        let is_decided = after.review != ReviewStatus::Pending;
        counts.reviewed += u64::from(is_decided && before.review != after.review);
        let unreviewed = MemoryLabels {
            review: after.review,
            ..before.clone()
        };
        counts.relabelled += u64::from(unreviewed != *after);
        counts.edited += u64::from(is_edited);
    }

    /// Returns the last days of a workspace.
    pub(crate) fn activity_of(
        &self,
        workspace: WorkspaceId,
        days: u64,
        now: Timestamp,
    ) -> Vec<ActivityDay> {
        let today = day_number(now);
        let days = (0..days.cast_signed()).rev().map(|ago| today - ago);
        days.map(|day| {
            let begins_at = Timestamp::UNIX_EPOCH.plus(DAY * u32::try_from(day).unwrap_or(0));
            let counted = self.activity.get(&(workspace, day)).copied();
            counted.unwrap_or_else(|| ActivityDay::empty(begins_at))
        })
        .collect()
    }
}
