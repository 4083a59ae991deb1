//! Reads of a past state, by undoing later changes in the entries read from sled.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use knowledge_storage_embedded::record::{decode, decode_key, entry_range, write_entry_key};
use knowledge_storage_embedded::{EngineError, View};
use knowledge_store::{Direction, Entry, Key, KeyEntry, KeyRange};

use crate::error::engine_error;
use crate::undo::PastState;

/// sled's tree at a past state.
#[derive(Debug)]
pub struct PastView<P> {
    tree: sled::Tree,
    past: Arc<P>,
}

impl<P: PastState> PastView<P> {
    pub(crate) fn new(tree: sled::Tree, past: Arc<P>) -> Self {
        Self { tree, past }
    }

    /// Reads the first entries of a range from sled, synced or not.
    fn read_page(
        &self,
        range: &KeyRange,
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<KeyEntry>, EngineError> {
        let entry = |stored: sled::Result<(sled::IVec, sled::IVec)>| {
            let (key, entry) = stored.map_err(engine_error)?;
            Ok(KeyEntry {
                key: decode_key(&key)?,
                entry: decode(Bytes::copy_from_slice(&entry))?,
            })
        };
        let found = self.tree.range(entry_range(range));
        match direction {
            Direction::Forward => found.take(limit).map(entry).collect(),
            Direction::Reverse => found.rev().take(limit).map(entry).collect(),
        }
    }

    /// Restores the past state of a page of entries that covers the range `covered`.
    fn restore_page(
        &self,
        page: Vec<KeyEntry>,
        covered: &KeyRange,
        direction: Direction,
    ) -> Vec<KeyEntry> {
        if self.past.is_current() {
            return page;
        }
        let restored = self.past.restore_range(covered);
        if restored.is_empty() {
            return page;
        }
        let mut entries: BTreeMap<Key, Entry> = page
            .into_iter()
            .map(|found| (found.key, found.entry))
            .collect();
        for (key, entry) in restored {
            match entry {
                Some(entry) => entries.insert(key, entry),
                None => entries.remove(&key),
            };
        }
        let entries = entries
            .into_iter()
            .map(|(key, entry)| KeyEntry { key, entry });
        match direction {
            Direction::Forward => entries.collect(),
            Direction::Reverse => entries.rev().collect(),
        }
    }
}

impl<P: PastState> View for PastView<P> {
    fn get(&self, keys: &[Key]) -> Result<Vec<Option<Entry>>, EngineError> {
        let mut buffer = Vec::new();
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            write_entry_key(&mut buffer, key);
            let stored = self.tree.get(&buffer).map_err(engine_error)?;
            let entry = stored.map(|stored| decode(Bytes::copy_from_slice(&stored)));
            found.push(entry.transpose()?);
        }
        if !self.past.is_current() {
            for (key, found) in keys.iter().zip(&mut found) {
                if let Some(entry) = self.past.restore(key) {
                    *found = entry;
                }
            }
        }
        Ok(found)
    }

    fn scan(
        &self,
        range: &KeyRange,
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<KeyEntry>, EngineError> {
        let mut rest = range.clone();
        let mut found = Vec::new();
        // One iteration, unless the current group has added entries that are not published yet.
        while found.len() < limit && !rest.is_empty() {
            let wanted = limit - found.len();
            let page = self.read_page(&rest, wanted, direction)?;
            let last = page.last().map(|last| last.key.clone());
            match last.filter(|_| page.len() == wanted) {
                None => {
                    found.extend(self.restore_page(page, &rest, direction));
                    break;
                }
                Some(last) => {
                    let (covered, remaining) = split_after(&rest, &last, direction);
                    found.extend(self.restore_page(page, &covered, direction));
                    rest = remaining;
                }
            }
        }
        found.truncate(limit);
        Ok(found)
    }

    fn is_lost(&self) -> bool {
        self.past.is_lost()
    }
}

/// Splits a range after the last key of a page, in scan direction.
///
/// Returns the part that the page covers and the rest.
fn split_after(range: &KeyRange, last: &Key, direction: Direction) -> (KeyRange, KeyRange) {
    match direction {
        Direction::Forward => (range.before(&last.successor()), range.after(last)),
        Direction::Reverse => {
            let covered = KeyRange {
                start: last.clone(),
                end: range.end.clone(),
            };
            (covered, range.before(last))
        }
    }
}
