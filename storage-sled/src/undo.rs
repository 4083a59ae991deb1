//! Past states of the store, restored from the entries that groups replaced.

use std::collections::BTreeMap;

use knowledge_store::{Entry, Key, KeyRange};

/// Previous entries of the keys that a group changes.
pub(crate) type UndoMap = BTreeMap<Key, Option<Entry>>;

/// A past state of the store, restored from entries that were read from sled later.
pub trait PastState: Send + Sync + 'static {
    /// Returns true if no group has begun since, so that sled has this state.
    fn is_current(&self) -> bool;

    /// Returns the entry of `key` in this state, if it has changed since.
    fn restore(&self, key: &Key) -> Option<Option<Entry>>;

    /// Returns the entries of `range` in this state that have changed since.
    fn restore_range(&self, range: &KeyRange) -> UndoMap;

    /// Returns true if the state is no longer available.
    fn is_lost(&self) -> bool {
        false
    }
}

/// Iterates over the part of an undo map in a range, which must not be empty.
pub(crate) fn undo_in<'b>(
    undo: &'b UndoMap,
    range: &'b KeyRange,
) -> impl Iterator<Item = (&'b Key, &'b Option<Entry>)> {
    undo.range(&range.start..)
        .take_while(|(key, _)| range.contains(key))
}
