//! An event with the memories that recalls cite, and the cursor over these recalls.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::model::{ChangedMemories, CitationChange, EndpointId, MemoryId, RecallId};
use crate::service::Event;

/// Cursor over the recalls that cite memories of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::service) struct Recalls {
    /// Last recall that is complete.
    pub(super) after: Option<RecallId>,
    /// Last endpoint that has a delivery for the recall after that one.
    pub(super) within: Option<EndpointId>,
}

/// A source event with its memories.
pub(super) struct SourceEvent<'e> {
    pub(super) event: &'e Event,
    pub(super) change: CitationChange,
    pub(super) changed: &'e ChangedMemories,
    pub(super) memories: HashSet<MemoryId>,
}

impl<'e> SourceEvent<'e> {
    pub(super) fn new(
        event: &'e Event,
        change: CitationChange,
        changed: &'e ChangedMemories,
    ) -> Self {
        Self {
            event,
            change,
            changed,
            memories: changed.memory_ids.iter().copied().collect(),
        }
    }
}
