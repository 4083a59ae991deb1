//! A storage backend: an ordered map in memory, rebuilt from a log on disk.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek, SeekFrom, Write};
use std::ops::Bound;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use knowledge_core::store::{
    Commit, CommitOutcome, Direction, Entry, Found, Key, KeyEntry, KeyRange, Mutation, Read, Store,
    StoreError, StoreErrorKind, Version,
};
use serde::{Deserialize, Serialize};

/// A store that writes each commit as one line of a file and syncs it before acknowledging it.
pub(crate) struct LogStore {
    state: Mutex<State>,
}

struct State {
    log: File,
    entries: BTreeMap<Key, Entry>,
    next_version: Version,
    /// True after a failed write: the contents of the file are then unknown, so every call fails.
    is_closed: bool,
}

/// One commit as a line of the log: the new value of each key, or `None` if it is deleted.
#[derive(Serialize, Deserialize)]
struct Line {
    version: Version,
    writes: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl LogStore {
    /// Opens the log at `path`, or creates one.
    ///
    /// Drops a line that a crash cut off: it was never acknowledged.
    pub(crate) fn open(path: &Path) -> std::io::Result<Self> {
        let mut log = OpenOptions::new()
            .create(true)
            .read(true)
            .append(true)
            .open(path)?;
        let mut text = Vec::new();
        log.read_to_end(&mut text)?;
        let whole = text
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |end| end + 1);
        log.set_len(whole as u64)?;
        // A line that was written but not synced is shown only once it is durable.
        log.sync_all()?;
        sync_directory_of(path)?;
        log.seek(SeekFrom::End(0))?;
        let mut state = State {
            log,
            entries: BTreeMap::new(),
            next_version: Version::FIRST,
            is_closed: false,
        };
        for line in text[..whole]
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            state.apply(serde_json::from_slice(line)?);
        }
        Ok(Self {
            state: Mutex::new(state),
        })
    }

    fn state(&self) -> Result<MutexGuard<'_, State>, StoreError> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_closed {
            return Err(StoreError::new(
                StoreErrorKind::Unavailable,
                "a write failed: open the store again",
            ));
        }
        Ok(state)
    }
}

/// Makes the entry of a new file in its directory durable, where directories can be opened.
fn sync_directory_of(path: &Path) -> std::io::Result<()> {
    if cfg!(unix) {
        let directory = path.parent().filter(|parent| *parent != Path::new(""));
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(())
}

impl State {
    /// Applies a line to the map.
    fn apply(&mut self, line: Line) {
        for (key, value) in line.writes {
            let key = Key::new(key).expect("the log holds keys that were keys");
            match value {
                Some(value) => self.entries.insert(
                    key,
                    Entry {
                        value: value.into(),
                        version: line.version,
                    },
                ),
                None => self.entries.remove(&key),
            };
        }
        self.next_version = line.version.next();
    }

    fn read(&self, read: Read<'_>) -> Found {
        match read {
            Read::Keys(keys) => Found::Keys(
                keys.iter()
                    .map(|key| self.entries.get(key).cloned())
                    .collect(),
            ),
            Read::Range {
                range,
                limit,
                direction,
            } => Found::Range(self.scan(range, limit, direction)),
        }
    }

    fn scan(&self, range: &KeyRange, limit: usize, direction: Direction) -> Vec<KeyEntry> {
        if range.is_empty() {
            return Vec::new();
        }
        let end = range.end.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let found = self
            .entries
            .range::<Key, _>((Bound::Included(&range.start), end));
        let found = found.map(|(key, entry)| KeyEntry {
            key: key.clone(),
            entry: entry.clone(),
        });
        match direction {
            Direction::Forward => found.take(limit).collect(),
            Direction::Reverse => found.rev().take(limit).collect(),
        }
    }

    fn holds(&self, key: &Key, version: Option<Version>) -> bool {
        self.entries.get(key).map(|entry| entry.version) == version
    }

    /// Returns the key of a mutation and its value afterwards.
    fn outcome(&self, mutation: Mutation) -> Result<(Vec<u8>, Option<Bytes>), StoreError> {
        let key = mutation.key().as_bytes().to_vec();
        let value = match mutation {
            Mutation::Put { value, .. } => Some(value),
            Mutation::Delete { .. } => None,
            Mutation::Add { key, delta } => Some(Mutation::add_to(
                self.entries.get(&key).map(|entry| &*entry.value),
                delta,
            )?),
        };
        Ok((key, value))
    }
}

#[async_trait]
impl Store for LogStore {
    async fn read(&self, reads: &[Read<'_>]) -> Result<Vec<Found>, StoreError> {
        let state = self.state()?;
        Ok(reads.iter().map(|read| state.read(*read)).collect())
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome, StoreError> {
        let mut state = self.state()?;
        if !commit
            .checks()
            .iter()
            .all(|check| state.holds(&check.key, check.version))
        {
            return Ok(CommitOutcome::Conflict);
        }
        let version = state.next_version;
        let (_, mutations) = commit.into_parts();
        let outcomes: Result<Vec<_>, _> = mutations
            .into_iter()
            .map(|mutation| state.outcome(mutation))
            .collect();
        let writes = outcomes?
            .into_iter()
            .map(|(key, value)| (key, value.map(|value| value.to_vec())))
            .collect();
        let line = Line { version, writes };
        let mut text = serde_json::to_vec(&line).expect("a line serialises");
        text.push(b'\n');
        // Durable first, visible second. A failed write is indeterminate (`Unknown`): it may have
        // reached the disk.
        if let Err(error) = state
            .log
            .write_all(&text)
            .and_then(|()| state.log.sync_data())
        {
            state.is_closed = true;
            return Err(
                StoreError::new(StoreErrorKind::Unknown, "the log could not be written")
                    .with_source(error),
            );
        }
        state.apply(line);
        Ok(CommitOutcome::Committed(version))
    }
}
