//! Activity of a workspace by day.

use serde::{Deserialize, Serialize};

use super::Timestamp;
use super::names::string_enum;

string_enum! {
    /// Kind of what a day of a workspace's activity counts.
    ActivityKind {
        /// Memories that were added.
        Added = "added",
        /// Memories that were approved or rejected.
        Reviewed = "reviewed",
        /// Memories whose audience, sensitivity or source changed.
        Relabelled = "relabelled",
        /// Memories whose title or text changed.
        Edited = "edited",
        /// Memories that were deleted.
        Deleted = "deleted",
        /// Change of the number of memories that wait for review.
        Backlog = "backlog",
    }
}

/// Activity of a workspace by day.
///
/// Its numbers are the workspace's: they count every memory, whoever may know of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Activity {
    /// Days in UTC, the oldest first, the last one today, also those on which nothing happened.
    pub days: Vec<ActivityDay>,
}

/// Activity of a workspace on one day.
///
/// A memory counts once for each request that changes it. One request may both review and relabel
/// it, and then counts as both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ActivityDay {
    /// Beginning of the day, which is a day in UTC.
    pub begins_at: Timestamp,
    /// Number of memories that were added.
    pub added: u64,
    /// Number of memories that were approved or rejected.
    pub reviewed: u64,
    /// Number of memories whose audience, sensitivity or source changed.
    pub relabelled: u64,
    /// Number of memories whose title or text changed.
    pub edited: u64,
    /// Number of memories that were deleted, also by an erasure or a retention.
    pub deleted: u64,
    /// Change of the number of memories that wait for review, which may be negative.
    pub backlog_change: i64,
}

impl ActivityDay {
    /// Creates a day on which nothing happened.
    #[must_use]
    pub const fn empty(begins_at: Timestamp) -> Self {
        Self {
            begins_at,
            added: 0,
            reviewed: 0,
            relabelled: 0,
            edited: 0,
            deleted: 0,
            backlog_change: 0,
        }
    }

    /// Adds a number of one kind.
    pub fn add(&mut self, kind: ActivityKind, number: i64) {
        let count = match kind {
            ActivityKind::Added => &mut self.added,
            ActivityKind::Reviewed => &mut self.reviewed,
            ActivityKind::Relabelled => &mut self.relabelled,
            ActivityKind::Edited => &mut self.edited,
            ActivityKind::Deleted => &mut self.deleted,
            ActivityKind::Backlog => {
                self.backlog_change += number;
                return;
            }
        };
        *count = count.saturating_add_signed(number);
    }
}
