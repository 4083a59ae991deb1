//! Activity of workspaces by day (UTC).

use super::Org;
use knowledge_core::model::{ActivityDay, MemoryLabels, ReviewStatus, Timestamp, WorkspaceId};

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// Returns the number of the day since the Unix epoch.
fn day_number(at: Timestamp) -> i64 {
    at.as_seconds().div_euclid(DAY_SECONDS)
}

fn empty(day: i64) -> ActivityDay {
    ActivityDay::empty(Timestamp::from_millis(day * DAY_SECONDS * 1_000))
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
        let day = day_number(at);
        let counts = self.activity.entry((after.workspace_id, day));
        let counts = counts.or_insert_with(|| empty(day));
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
        let (today, days) = (day_number(now), i64::try_from(days).unwrap_or(0));
        let days = (today - days + 1)..=today;
        days.map(|day| {
            let counted = self.activity.get(&(workspace, day)).copied();
            counted.unwrap_or_else(|| empty(day))
        })
        .collect()
    }
}
