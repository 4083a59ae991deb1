//! State of the retention of a workspace.

use std::collections::BTreeMap;

use knowledge_core::model::{MemoryId, SensitivityLabel, Timestamp};

/// Retention of a workspace.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RetentionFacts {
    pub(super) chat_days: Option<u64>,
    pub(super) memory_days: BTreeMap<SensitivityLabel, u64>,
    pub(super) recall_days: u64,
    pub(super) record_recalls: bool,
    /// Next step of the daily sweep, while one is running.
    pub(super) step: Option<DailyStep>,
    /// Time of the next daily sweep.
    pub(super) daily_next: Option<Timestamp>,
    /// Chats whose newest message is not later expired under an earlier retention.
    pub(super) expired_until: Option<Timestamp>,
    /// Time of the next sweep.
    pub(super) next: Option<Timestamp>,
}

/// Step of a daily sweep.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum DailyStep {
    /// Deletes the memories that have expired.
    Memories,
    /// Deletes the recalls that cite these deleted memories, and none that is stored.
    Citing(Vec<MemoryId>),
    /// Deletes the recalls that have expired.
    Recalls,
}

impl Default for RetentionFacts {
    fn default() -> Self {
        Self {
            chat_days: None,
            memory_days: BTreeMap::new(),
            recall_days: 30,
            record_recalls: true,
            step: None,
            daily_next: None,
            expired_until: None,
            next: None,
        }
    }
}
