//! In-memory store: for tests and trials, and the reference for other backends.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use foldhash::fast::RandomState;

use super::{
    Commit, CommitOutcome, Direction, Entry, Found, Key, KeyEntry, KeyRange, Mark, Marks, Mutation,
    Read, Store, StoreError, Version,
};

/// [`Store`] in memory, which keeps every promise except durability.
#[derive(Debug)]
pub struct MemoryStore {
    state: Mutex<State>,
    marks: Marks,
}

#[derive(Clone, Debug)]
struct State {
    entries: HashMap<Key, Entry, RandomState>,
    /// Keys of the entries in order, which only ranges and new keys need: with the hash, a commit of
    /// 1,000 updates takes half the instructions, and their read a quarter.
    order: BTreeSet<Key>,
    next_version: Version,
}

impl State {
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

    fn write(&mut self, key: Key, entry: Option<Entry>) {
        let Some(entry) = entry else {
            self.order.remove(&key);
            self.entries.remove(&key);
            return;
        };
        match self.entries.get_mut(&key) {
            Some(present) => *present = entry,
            None => {
                self.order.insert(key.clone());
                self.entries.insert(key, entry);
            }
        }
    }

    fn scan(&self, range: &KeyRange, limit: usize, direction: Direction) -> Vec<KeyEntry> {
        if range.is_empty() {
            return Vec::new();
        }
        let end = range.end.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let found = self
            .order
            .range::<Key, _>((Bound::Included(&range.start), end));
        let entry = |key: &Key| KeyEntry {
            key: key.clone(),
            entry: self.entries[key].clone(),
        };
        match direction {
            Direction::Forward => found.take(limit).map(entry).collect(),
            Direction::Reverse => found.rev().take(limit).map(entry).collect(),
        }
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::with_entries([], None)
    }
}

impl MemoryStore {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a store of these entries, in any order, whose last commit had the version `last`.
    ///
    /// Its next commit has the version after `last`, as in the store from which the entries were
    /// read.
    #[must_use]
    pub fn with_entries(
        entries: impl IntoIterator<Item = KeyEntry>,
        last: Option<Version>,
    ) -> Self {
        let entries = entries.into_iter().map(|found| (found.key, found.entry));
        let entries: HashMap<_, _, _> = entries.collect();
        Self {
            state: Mutex::new(State {
                order: entries.keys().cloned().collect(),
                entries,
                next_version: last.map_or(Version::FIRST, Version::next),
            }),
            marks: Marks::default(),
        }
    }

    /// Copies the current contents into a separate store.
    #[must_use]
    pub fn snapshot(&self) -> Self {
        Self {
            state: Mutex::new(self.state().clone()),
            marks: Marks::default(),
        }
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state().entries.len()
    }

    /// Returns true if there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A commit changes the map only after everything that can fail, so a panic leaves it
        // consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
impl Store for MemoryStore {
    async fn read(&self, reads: &[Read<'_>]) -> Result<Vec<Found>, StoreError> {
        let state = self.state();
        Ok(reads.iter().map(|read| state.read(*read)).collect())
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome, StoreError> {
        let mut state = self.state();
        let holds =
            |key: &Key, version| state.entries.get(key).map(|entry| entry.version) == version;
        if !commit
            .checks()
            .iter()
            .all(|check| holds(&check.key, check.version))
        {
            return Ok(CommitOutcome::Conflict);
        }
        let version = state.next_version;
        let (_, mutations) = commit.into_parts();
        let mut writes = Vec::with_capacity(mutations.len());
        for mutation in mutations {
            writes.push(match mutation {
                Mutation::Put { key, value } => (key, Some(value)),
                Mutation::Delete { key } => (key, None),
                Mutation::Add { key, delta } => {
                    let sum = Mutation::add_to(
                        state.entries.get(&key).map(|entry| &*entry.value),
                        delta,
                    )?;
                    (key, Some(sum))
                }
            });
        }
        state.next_version = version.next();
        // Nobody reads while the state is locked, so the marks may change before it does.
        self.marks.change(writes.iter().map(|(key, _)| key), || {});
        for (key, value) in writes {
            state.write(key, value.map(|value| Entry { value, version }));
        }
        Ok(CommitOutcome::Committed(version))
    }

    fn mark(&self, area: &[u8]) -> Option<Mark> {
        self.marks.get(area)
    }
}
