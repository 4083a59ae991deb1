//! An event with the memories that recalls cite, and the cursor over these recalls.

use std::collections::HashMap;

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
    /// Cursor of an earlier version, which tells the recalls that it completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) earlier: Option<Citations>,
}

/// Cursor of earlier versions, which visited each memory with the recalls that cite it.
///
/// They notified a recall at the first memory of the event that it cites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::service) struct Citations {
    /// Index of the next memory.
    memory: usize,
    /// Last recall of that memory that is complete.
    after: Option<RecallId>,
    /// Last endpoint that has a delivery for the recall after that one.
    within: Option<EndpointId>,
}

impl From<Citations> for Recalls {
    fn from(earlier: Citations) -> Self {
        Self {
            earlier: Some(earlier),
            ..Self::default()
        }
    }
}

impl Recalls {
    /// Returns true if an earlier version has notified the recall, at this memory.
    pub(super) fn is_complete(&self, recall: RecallId, memory: usize) -> bool {
        let is_complete =
            |earlier: Citations| (memory, Some(recall)) <= (earlier.memory, earlier.after);
        self.earlier.is_some_and(is_complete)
    }

    /// Resumes the recall that an earlier version began at this memory, the first one that is not
    /// complete.
    pub(super) fn resume(&mut self, memory: usize) {
        if let Some(earlier) = &mut self.earlier
            && earlier.memory == memory
        {
            self.within = self.within.or(earlier.within.take());
        }
    }
}

/// A source event with its memories, in their order and by position.
pub(super) struct SourceEvent<'e> {
    pub(super) event: &'e Event,
    pub(super) change: CitationChange,
    pub(super) changed: &'e ChangedMemories,
    pub(super) places: HashMap<MemoryId, usize>,
}

impl<'e> SourceEvent<'e> {
    pub(super) fn new(
        event: &'e Event,
        change: CitationChange,
        changed: &'e ChangedMemories,
    ) -> Self {
        let places = changed.memory_ids.iter().enumerate();
        Self {
            event,
            change,
            changed,
            places: places.map(|(place, memory)| (*memory, place)).collect(),
        }
    }
}
