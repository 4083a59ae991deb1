//! Model of a store.

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use knowledge_core::store::{CommitOutcome, Direction, Key, KeyRange, StoreErrorKind, Version};

use crate::operation::Change;

pub(crate) type FoundEntry = (Key, Bytes, Version);

/// A map of entries, and all versions used so far.
#[derive(Default)]
pub(crate) struct Model {
    entries: BTreeMap<Key, (Bytes, Version)>,
    outdated: BTreeMap<Key, Version>,
    used: HashSet<(Key, Version)>,
}

impl Model {
    pub(crate) fn version(&self, key: &Key) -> Option<Version> {
        self.entries.get(key).map(|(_, version)| *version)
    }

    /// Returns the version that the last change of a key replaced.
    pub(crate) fn outdated(&self, key: &Key) -> Option<Version> {
        self.outdated.get(key).copied()
    }

    pub(crate) fn get(&self, keys: &[Key]) -> Vec<Option<(Bytes, Version)>> {
        keys.iter()
            .map(|key| self.entries.get(key).cloned())
            .collect()
    }

    /// Filters all entries, to share no logic about bounds with the store.
    pub(crate) fn scan(
        &self,
        range: &KeyRange,
        limit: usize,
        direction: Direction,
    ) -> Vec<FoundEntry> {
        let inside =
            |key: &Key| *key >= range.start && range.end.as_ref().is_none_or(|end| key < end);
        let mut found: Vec<FoundEntry> = self
            .entries
            .iter()
            .filter(|(key, _)| inside(key))
            .map(|(key, (value, version))| (key.clone(), value.clone(), *version))
            .collect();
        if direction == Direction::Reverse {
            found.reverse();
        }
        found.truncate(limit);
        found
    }

    /// Asserts that a commit has the expected outcome, and applies it.
    pub(crate) fn commit(
        &mut self,
        checks: &[(Key, Option<Version>)],
        changes: &[(Key, &Change)],
        outcome: Result<CommitOutcome, StoreErrorKind>,
    ) {
        if checks
            .iter()
            .any(|(key, expected)| self.version(key) != *expected)
        {
            assert_eq!(outcome, Ok(CommitOutcome::Conflict));
            return;
        }
        let written: Option<Vec<_>> = changes
            .iter()
            .map(|(key, change)| Some((key, self.value_after(key, change)?)))
            .collect();
        let Some(written) = written else {
            assert_eq!(outcome, Err(StoreErrorKind::Invalid));
            return;
        };
        let Ok(CommitOutcome::Committed(version)) = outcome else {
            panic!("all checks hold and all changes are valid, but: {outcome:?}");
        };
        for (key, value) in written {
            let replaced = match value {
                Some(value) => {
                    assert!(
                        self.used.insert((key.clone(), version)),
                        "{version:?} was used twice"
                    );
                    self.entries.insert(key.clone(), (value, version))
                }
                None => self.entries.remove(key),
            };
            if let Some((_, replaced)) = replaced {
                self.outdated.insert(key.clone(), replaced);
            }
        }
    }

    /// Returns the value of a key after a change; the outer `None` if the change is invalid.
    fn value_after(&self, key: &Key, change: &Change) -> Option<Option<Bytes>> {
        Some(match change {
            Change::Put(value) => Some(value.clone().into()),
            Change::PutNumber(number) => Some(number.to_string().into()),
            Change::Delete => None,
            Change::Add(delta) => {
                let current: i64 = match self.entries.get(key) {
                    Some((digits, _)) => std::str::from_utf8(digits).ok()?.parse().ok()?,
                    None => 0,
                };
                Some(current.checked_add(*delta)?.to_string().into())
            }
        })
    }
}
