//! The state behind a snapshot: the entries that were changed since it was taken, as they were then.
//!
//! A [`Moment`](crate::timeline::Moment) keeps everything that groups change for as long as a reader holds it: right for
//! reads, which end at once, and without bounds for a reader that takes minutes. A capture keeps one value for each
//! key that was changed, counts its bytes, and gives up when they are too many. No writer waits for it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use knowledge_store::{Entry, Key, KeyRange};

use crate::timeline::{Before, Past, touched};

/// The memory of a captured entry besides its key and its value, in bytes: its place in the map and reference counts.
const ENTRY_OVERHEAD_BYTES: usize = 192;

/// The state of the store when it was begun, as far as it differs from sled's.
#[derive(Debug)]
pub struct Capture {
    bytes_max: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    before: Before,
    bytes: usize,
    is_lost: bool,
}

impl Capture {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            kept: Mutex::default(),
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Nothing panics while it is held.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the entries that a group is about to change; `false` once it is too much and the state is lost.
    pub(crate) fn absorb(&self, before: &Before) -> bool {
        let mut kept = self.kept();
        if kept.is_lost {
            return false;
        }
        for (key, entry) in before {
            if kept.before.contains_key(key) {
                continue;
            }
            let value_bytes = entry.as_ref().map_or(0, |entry| entry.value.len());
            kept.bytes += ENTRY_OVERHEAD_BYTES + key.as_bytes().len() + value_bytes;
            kept.before.insert(key.clone(), entry.clone());
        }
        if kept.bytes > self.bytes_max {
            *kept = Kept {
                is_lost: true,
                ..Kept::default()
            };
        }
        !kept.is_lost
    }
}

impl Past for Capture {
    fn is_untouched(&self) -> bool {
        self.kept().before.is_empty()
    }

    fn restore(&self, key: &Key) -> Option<Option<Entry>> {
        self.kept().before.get(key).cloned()
    }

    fn is_lost(&self) -> bool {
        self.kept().is_lost
    }

    fn restore_range(&self, range: &KeyRange) -> Before {
        if range.is_empty() {
            return Before::new();
        }
        let kept = self.kept();
        let touched = touched(&kept.before, range);
        touched
            .map(|(key, entry)| (key.clone(), entry.clone()))
            .collect()
    }
}
