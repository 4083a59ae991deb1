//! Knowledge that the receivers of an event have of its memories.
//!
//! An endpoint receives those memories that existed for its owner before or after the change, by
//! their labels at that time and the permissions of the owner now. The reference monitor decides,
//! once per event and owner.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::access::ActionSet;
use crate::error::Error;
use crate::model::{
    CitationChange, EventData, EventId, MemoryId, MemoryLabels, Recall, WorkspaceId,
};
use crate::service::access::monitor::{Monitor, Subject};
use crate::service::access::principal::{Delegator, Principal};
use crate::service::memories::recalls::Cited;
use crate::store::Transaction;

/// Member and credential on whose behalf endpoints of a workspace receive events.
#[derive(Debug)]
pub(super) struct Receiver {
    pub(super) delegator: Delegator,
    pub(super) caller: Principal,
    pub(super) held: ActionSet,
}

impl Receiver {
    /// Returns the reference monitor of the receiver for memories of the workspace.
    pub(super) async fn monitor(
        &self,
        transaction: &mut Transaction,
        workspace: WorkspaceId,
        subjects: &[Subject<'_>],
    ) -> Result<Monitor, Error> {
        let held = vec![(workspace, self.held)];
        Monitor::new(transaction, &self.caller, held, subjects).await
    }
}

/// Labels of a memory before and after the change of an event; neither if they are unknown.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) before: Option<MemoryLabels>,
    pub(super) after: Option<MemoryLabels>,
}

impl Change {
    pub(super) fn existence(&self, exists: impl Fn(&Option<MemoryLabels>) -> bool) -> Existence {
        match (&self.before, &self.after) {
            (None, None) => [true, false],
            (before, after) => [exists(before), exists(after)],
        }
    }
}

/// Changes of the memories of an event.
pub(super) type Changes = BTreeMap<MemoryId, Change>;

/// Existence of a memory before and after the change.
pub(super) type Existence = [bool; 2];

/// Part of the memories of an event that a receiver knows.
pub(super) enum Known {
    All,
    /// Existence of each memory that existed before or after.
    Some(BTreeMap<MemoryId, Existence>),
}

impl Known {
    /// Returns the data of an event without what does not exist for the receiver, if any is left.
    pub(super) fn reduce(&self, mut data: EventData) -> Option<EventData> {
        let Self::Some(known) = self else {
            return Some(data);
        };
        if let EventData::IngestCompleted(summary) = &mut data {
            let is_new = known.values().filter(|existence| !existence[0]).count();
            (summary.created, summary.updated) = (is_new, known.len() - is_new);
            return (!known.is_empty()).then_some(data);
        }
        let memories = data.memories().iter().copied();
        let memories: Vec<_> = memories.filter(|id| known.contains_key(id)).collect();
        if memories.is_empty() {
            return None;
        }
        data.set_memories(memories);
        Some(data)
    }

    /// Returns the change of a cited memory, if it existed for the receiver.
    pub(super) fn citation(
        &self,
        memory: MemoryId,
        change: CitationChange,
    ) -> Option<CitationChange> {
        let Self::Some(known) = self else {
            return Some(change);
        };
        let [_, remains] = known.get(&memory)?;
        Some(if *remains {
            CitationChange::Updated
        } else {
            CitationChange::Deleted
        })
    }
}

/// Decisions about the event in hand.
#[derive(Default)]
pub(super) struct Decisions {
    pub(super) event: Option<EventId>,
    pub(super) changes: Option<Arc<Changes>>,
    pub(super) known: HashMap<Delegator, Arc<Known>>,
}

/// A recall that cites memories of an event, with the decisions about it.
pub(super) struct CitingRecall<'r> {
    pub(super) recall: &'r Recall,
    /// Labels of the memories that it cites, before and after the change.
    pub(super) cited: Option<Arc<[Cited; 2]>>,
    pub(super) exists: HashMap<Delegator, bool>,
}

impl<'r> CitingRecall<'r> {
    pub(super) fn new(recall: &'r Recall) -> Self {
        Self {
            recall,
            cited: None,
            exists: HashMap::new(),
        }
    }
}
