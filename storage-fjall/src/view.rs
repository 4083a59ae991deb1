//! Reads of one state, by fjall's native snapshots.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use fjall::{Keyspace, Readable as _};
use knowledge_storage_embedded::record::{decode, decode_key, entry_range, write_entry_key};
use knowledge_storage_embedded::{EngineError, View};
use knowledge_store::{Direction, Entry, Key, KeyEntry, KeyRange};

use crate::error::engine_error;

/// State of the store at one point in time.
pub struct FjallView {
    keyspace: Keyspace,
    snapshot: Arc<fjall::Snapshot>,
}

impl FjallView {
    pub(crate) fn new(keyspace: Keyspace, snapshot: Arc<fjall::Snapshot>) -> Self {
        Self { keyspace, snapshot }
    }
}

impl fmt::Debug for FjallView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FjallView").finish_non_exhaustive()
    }
}

impl View for FjallView {
    fn get(&self, keys: &[Key]) -> Result<Vec<Option<Entry>>, EngineError> {
        let mut buffer = Vec::new();
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            write_entry_key(&mut buffer, key);
            let stored = self.snapshot.get(&self.keyspace, &buffer);
            let stored = stored.map_err(engine_error)?;
            found.push(stored.map(|stored| decode(stored.into())).transpose()?);
        }
        Ok(found)
    }

    fn scan(
        &self,
        range: &KeyRange,
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<KeyEntry>, EngineError> {
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let entry = |stored: fjall::Guard| {
            let (key, entry) = stored.into_inner().map_err(engine_error)?;
            let entry: Bytes = entry.into();
            Ok(KeyEntry {
                key: decode_key(&key)?,
                entry: decode(entry)?,
            })
        };
        let found = self.snapshot.range(&self.keyspace, entry_range(range));
        match direction {
            Direction::Forward => found.take(limit).map(entry).collect(),
            Direction::Reverse => found.rev().take(limit).map(entry).collect(),
        }
    }
}
