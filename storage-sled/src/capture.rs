//! The state behind a snapshot: the previous entries of all keys changed since it was taken.
//!
//! A [`ReadPoint`](crate::timeline::ReadPoint) keeps all changes of all groups while a reader holds
//! it. This suits reads, which are short, but memory would be unbounded for a reader that takes
//! minutes. A capture keeps one value per changed key, counts their bytes, and discards them beyond
//! a limit. Writers never wait for it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use knowledge_store::{Entry, Key, KeyRange};

use crate::undo::{PastState, UndoMap, undo_in};

/// Memory of a captured entry besides its key and value, in bytes: map node and reference counts.
const ENTRY_OVERHEAD_BYTES: usize = 192;

/// State of the store when the capture began, as its difference from sled's state.
#[derive(Debug)]
pub struct Capture {
    bytes_max: usize,
    state: Mutex<CaptureState>,
}

#[derive(Debug, Default)]
struct CaptureState {
    undo: UndoMap,
    bytes: usize,
    is_lost: bool,
}

impl Capture {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, CaptureState> {
        // No code panics while holding the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the entries that a group is about to change.
    ///
    /// Returns false once the state is lost because the limit is exceeded.
    pub(crate) fn record(&self, undo: &UndoMap) -> bool {
        let mut state = self.state();
        if state.is_lost {
            return false;
        }
        for (key, entry) in undo {
            if state.undo.contains_key(key) {
                continue;
            }
            let value_bytes = entry.as_ref().map_or(0, |entry| entry.value.len());
            state.bytes += ENTRY_OVERHEAD_BYTES + key.as_bytes().len() + value_bytes;
            state.undo.insert(key.clone(), entry.clone());
        }
        if state.bytes > self.bytes_max {
            *state = CaptureState {
                is_lost: true,
                ..CaptureState::default()
            };
        }
        !state.is_lost
    }
}

impl PastState for Capture {
    fn is_current(&self) -> bool {
        self.state().undo.is_empty()
    }

    fn restore(&self, key: &Key) -> Option<Option<Entry>> {
        self.state().undo.get(key).cloned()
    }

    fn is_lost(&self) -> bool {
        self.state().is_lost
    }

    fn restore_range(&self, range: &KeyRange) -> UndoMap {
        if range.is_empty() {
            return UndoMap::new();
        }
        let state = self.state();
        let entries = undo_in(&state.undo, range);
        entries
            .map(|(key, entry)| (key.clone(), entry.clone()))
            .collect()
    }
}
