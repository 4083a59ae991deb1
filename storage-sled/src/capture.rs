//! What a snapshot needs: the entries that were changed since it was taken, as they stood then.
//!
//! A [`Moment`](crate::timeline::Moment) keeps everything that groups change for as long as a reader holds it: right for
//! reads, which end at once, and without bounds for a reader that takes minutes. A capture keeps one value for each
//! key that was changed, counts its bytes, and gives up when they are too many. No writer waits for it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use knowledge_core::store::{Entry, Key, KeyRange};

use crate::timeline::{Before, Past, touched};

/// What a captured entry takes besides its key and its value: its place in the map and the counts of references.
const ENTRY_OVERHEAD_BYTES: usize = 192;

/// The state of the store when it was begun, as far as that differs from what is in sled.
#[derive(Debug)]
pub(crate) struct Capture {
    bytes_max: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    before: Before,
    bytes: usize,
    is_given_up: bool,
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

    /// Keeps what a group is about to change; `false` once it is too much and the state is lost.
    pub(crate) fn absorb(&self, before: &Before) -> bool {
        let mut kept = self.kept();
        if kept.is_given_up {
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
                is_given_up: true,
                ..Kept::default()
            };
        }
        !kept.is_given_up
    }

    /// Whether the state is lost. Asked after everything was put back.
    pub(crate) fn is_given_up(&self) -> bool {
        self.kept().is_given_up
    }
}

impl Past for Capture {
    fn is_untouched(&self) -> bool {
        self.kept().before.is_empty()
    }

    fn restore(&self, key: &Key) -> Option<Option<Entry>> {
        self.kept().before.get(key).cloned()
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
