//! Decisions on a group of commits, over the entries that were read behind its locks.

use std::collections::HashMap;

use bytes::Bytes;
use foldhash::fast::RandomState;
use knowledge_store::{Commit, CommitOutcome, Key, Mutation, StoreError, Version};

/// State of one key within a group.
#[derive(Clone, Debug, Default)]
struct Slot {
    version: Option<Version>,
    /// Value, if the entry exists and a mutation adds to it.
    value: Option<Bytes>,
    is_changed: bool,
}

/// Entries of a group: the entries that were read, with the changes of its commits on top.
#[derive(Debug)]
pub(crate) struct Overlay {
    slots: HashMap<Key, Slot, RandomState>,
    last_version: u64,
}

/// Changes of a group, with one element per key.
#[derive(Debug, Default)]
pub(crate) struct Changes<'o> {
    pub(crate) put_keys: Vec<&'o [u8]>,
    pub(crate) put_values: Vec<&'o [u8]>,
    pub(crate) put_versions: Vec<i64>,
    pub(crate) deleted_keys: Vec<&'o [u8]>,
}

impl Overlay {
    /// Creates an overlay in which no key exists, above the highest version of its lanes.
    pub(crate) fn new(last_version: u64) -> Self {
        Self {
            slots: HashMap::default(),
            last_version,
        }
    }

    /// Adds an entry that was read.
    pub(crate) fn insert(&mut self, key: Key, version: Version, value: Option<Bytes>) {
        let slot = Slot {
            version: Some(version),
            value,
            is_changed: false,
        };
        self.slots.insert(key, slot);
    }

    /// Returns the version of the last commit that succeeded.
    pub(crate) fn last_version(&self) -> u64 {
        self.last_version
    }

    /// Decides one commit. The next commit sees its changes.
    ///
    /// # Errors
    /// Errors of [`Mutation::add_to`]. The overlay then contains nothing of this commit.
    pub(crate) fn decide(&mut self, commit: &Commit) -> Result<CommitOutcome, StoreError> {
        let holds = |key: &Key, version| self.current(key).and_then(|slot| slot.version) == version;
        let mut checks = commit.checks().iter();
        if !checks.all(|check| holds(&check.key, check.version)) {
            return Ok(CommitOutcome::Conflict);
        }
        let version = Version::new(self.last_version).map_or(Version::FIRST, Version::next);
        let changes: Result<Vec<Slot>, StoreError> = commit
            .mutations()
            .iter()
            .map(|mutation| {
                let value = match mutation {
                    Mutation::Put { value, .. } => Some(value.clone()),
                    Mutation::Delete { .. } => None,
                    Mutation::Add { key, delta } => {
                        let current = self.current(key).and_then(|slot| slot.value.as_deref());
                        Some(Mutation::add_to(current, *delta)?)
                    }
                };
                Ok(Slot {
                    version: value.as_ref().map(|_| version),
                    value,
                    is_changed: true,
                })
            })
            .collect();
        for (mutation, slot) in commit.mutations().iter().zip(changes?) {
            self.slots.insert(mutation.key().clone(), slot);
        }
        self.last_version = version.get();
        Ok(CommitOutcome::Committed(version))
    }

    fn current(&self, key: &Key) -> Option<&Slot> {
        self.slots.get(key)
    }

    /// Returns the changes of all commits that succeeded.
    pub(crate) fn changes(&self) -> Changes<'_> {
        let mut changes = Changes::default();
        for (key, slot) in self.slots.iter().filter(|(_, slot)| slot.is_changed) {
            match (&slot.value, slot.version) {
                (Some(value), Some(version)) => {
                    changes.put_keys.push(key.as_bytes());
                    changes.put_values.push(value);
                    // Versions are below 2^63, the limit of the column.
                    changes.put_versions.push(version.get().cast_signed());
                }
                _ => changes.deleted_keys.push(key.as_bytes()),
            }
        }
        changes
    }
}
