//! State of the retention of a workspace.

use std::collections::BTreeMap;

use knowledge_core::model::{MemoryId, SensitivityLabel, Timestamp};

/// Retention of a workspace.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RetentionFacts {
    pub(super) chat_days: Option<u64>,
    pub(super) memory_days: BTreeMap<SensitivityLabel, u64>,
    /// Time of the next sweep of the memories.
    pub(super) memories_next: Option<Timestamp>,
    /// Deleted memories; the recalls that cite them are next.
    pub(super) deleted: Vec<MemoryId>,
    /// Chats whose newest message is not later expired under an earlier retention.
    pub(super) expired_until: Option<Timestamp>,
    /// Time of the next sweep.
    pub(super) next: Timestamp,
}
