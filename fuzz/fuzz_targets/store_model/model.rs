//! What a store has to answer, said as simply as possible.

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use knowledge_core::store::{CommitOutcome, Direction, Key, KeyRange, StoreErrorKind, Version};

use crate::operation::Change;

pub(crate) type Found = (Key, Bytes, Version);

/// A map, and the versions that were given out.
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

    /// The version that the last change of the key replaced.
    pub(crate) fn outdated(&self, key: &Key) -> Option<Version> {
        self.outdated.get(key).copied()
    }

    pub(crate) fn get(&self, keys: &[Key]) -> Vec<Option<(Bytes, Version)>> {
        keys.iter()
            .map(|key| self.entries.get(key).cloned())
            .collect()
    }

    /// Looks at every entry, so that no cleverness about bounds is shared with the store.
    pub(crate) fn scan(&self, range: &KeyRange, limit: usize, direction: Direction) -> Vec<Found> {
        let inside =
            |key: &Key| *key >= range.start && range.end.as_ref().is_none_or(|end| key < end);
        let mut found: Vec<Found> = self
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

    /// Compares the outcome of a commit with the one predicted and applies what it wrote.
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
            .map(|(key, change)| Some((key, self.written(key, change)?)))
            .collect();
        let Some(written) = written else {
            assert_eq!(outcome, Err(StoreErrorKind::Invalid));
            return;
        };
        let Ok(CommitOutcome::Committed(version)) = outcome else {
            panic!("every check holds and every change can be made, but: {outcome:?}");
        };
        for (key, value) in written {
            let replaced = match value {
                Some(value) => {
                    assert!(
                        self.used.insert((key.clone(), version)),
                        "{version:?} twice"
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

    /// What stands under the key after the change; nothing at all where it cannot be made.
    fn written(&self, key: &Key, change: &Change) -> Option<Option<Bytes>> {
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
