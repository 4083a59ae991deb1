//! Indexes of the workspaces that were searched.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use futures::lock::Mutex as Turn;

use super::words::WordIndex;
use crate::model::{
    AuditLogId, ErasureId, ErasureScope, MemoryId, MemoryLabels, OrgId, Timestamp, WorkspaceId,
};
use crate::store::KeyRange;

/// A workspace with its organisation.
pub(super) type Place = (OrgId, WorkspaceId);

/// Indexes of the workspaces that were searched, as far as there is room.
#[derive(Default)]
pub(in crate::service) struct SearchIndexes(Mutex<Indexes>);

#[derive(Default)]
struct Indexes {
    /// Number of uses so far.
    uses: u64,
    /// Indexes with the number of their last use.
    of: HashMap<Place, (u64, Arc<WorkspaceIndex>)>,
}

impl SearchIndexes {
    /// Returns the index of a workspace, which is new unless the workspace was searched before.
    pub(super) fn of(&self, place: Place) -> Arc<WorkspaceIndex> {
        let mut indexes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        indexes.uses += 1;
        let uses = indexes.uses;
        let (last, index) = indexes.of.entry(place).or_default();
        *last = uses;
        Arc::clone(index)
    }

    /// Drops the indexes that were not used for longest, until the others have at most this size
    /// in bytes. That of a workspace in use stays.
    pub(super) fn make_room(&self, in_use: Place, bytes_max: usize) {
        let mut indexes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let sizes = indexes.of.values();
            let total: usize = sizes.map(|(_, index)| index.bytes()).sum();
            let others = indexes.of.iter().filter(|(place, _)| **place != in_use);
            let oldest = others.min_by_key(|(_, (last, _))| *last);
            match oldest.map(|(place, _)| *place) {
                Some(oldest) if total > bytes_max => drop(indexes.of.remove(&oldest)),
                _ => return,
            }
        }
    }
}

/// Index of a workspace, with the changes that it has applied.
#[derive(Default)]
pub(super) struct WorkspaceIndex {
    /// Turn of the one call that makes the index follow the store.
    pub(super) following: Turn<()>,
    state: RwLock<IndexState>,
    /// Size in bytes when it was last measured, which takes milliseconds.
    bytes: AtomicUsize,
    /// Number of memories then.
    memories: AtomicUsize,
}

/// Words of a workspace, as of some number of changes.
#[derive(Default)]
pub(super) struct IndexState {
    /// Approved memories by their words, with labels that decide who may read them.
    pub(super) words: WordIndex<MemoryLabels>,
    /// Progress of the first build.
    pub(super) build: Build,
    /// Memories that have to be read before the words contain the changes.
    pub(super) pending: Changes,
    /// Number of changes that the words contain.
    pub(super) applied: i64,
    /// Latest of the changes that the words contain.
    pub(super) latest: BTreeSet<AuditLogId>,
    /// True once the memory was given back that the first build left over.
    pub(super) is_shrunk: bool,
    /// Running erasures, in whose scopes no memory is in the index.
    pub(super) erasing: Erasing,
}

impl IndexState {
    /// Returns true if the index is in a wanted state, or beyond.
    pub(super) fn reaches(&self, wanted: Wanted<'_>) -> bool {
        self.is_complete() && self.applied >= wanted.applied && self.erasing == *wanted.erasing
    }

    /// Returns true if the first build is over, and nothing is pending.
    pub(super) fn is_complete(&self) -> bool {
        matches!(self.build, Build::Complete) && self.pending.is_empty()
    }
}

/// Progress of the first build of an index.
#[derive(Default)]
pub(super) enum Build {
    /// Nothing was read.
    #[default]
    New,
    /// These marks of memories remain to be read.
    Rest(KeyRange),
    /// All marks were read.
    Complete,
    /// The index would be too large; it is built again after that time.
    TooLarge { until: Timestamp },
}

/// Memories that changed, each with whether its text may have.
pub(super) type Changes = BTreeMap<MemoryId, bool>;

/// State that a caller wants an index to have.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'w> {
    /// Number of changes that were counted.
    pub(super) applied: i64,
    /// Running erasures of the organisation.
    pub(super) erasing: &'w Erasing,
}

/// Running erasures, by their identifiers.
pub(super) type Erasing = BTreeMap<ErasureId, ErasureScope>;

impl WorkspaceIndex {
    pub(super) fn read(&self) -> RwLockReadGuard<'_, IndexState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, IndexState> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the size in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Measures the size, unless about as many memories as now were there the last time. Returns
    /// true if it did.
    pub(super) fn measure(&self) -> bool {
        let state = self.read();
        let (now, before) = (state.words.len(), self.memories.load(Ordering::Relaxed));
        if now.abs_diff(before) <= before / 8 {
            return false;
        }
        self.memories.store(now, Ordering::Relaxed);
        self.bytes.store(state.words.bytes(), Ordering::Relaxed);
        true
    }

    /// Returns the different labels of the memories, which have no source.
    pub(super) fn labels(&self) -> Vec<MemoryLabels> {
        self.read().words.classes().cloned().collect()
    }

    /// Returns the best memories of those whose labels the caller may read, with their scores, best
    /// first; `None` unless the index is in the wanted state.
    pub(super) fn search(
        &self,
        query: &str,
        limit: usize,
        wanted: Wanted<'_>,
        is_readable: impl Fn(&MemoryLabels) -> bool,
    ) -> Option<Vec<(MemoryId, f64)>> {
        let state = self.read();
        if !state.reaches(wanted) || state.applied != wanted.applied {
            return None;
        }
        let hits = state.words.search(query, limit, is_readable).into_iter();
        let hits = hits.map(|hit| (MemoryId(uuid::Uuid::from_u128(hit.id)), hit.score));
        Some(hits.collect())
    }
}
