//! Results that a process keeps while nothing that they follow from has changed.
//!
//! They follow from areas of the store and from the time. The mark of an area, see [`Store::mark`],
//! is its generation; comparing generations takes the place of reading again. They have to be taken
//! before the reads begin: a change during the reads is then noticed.
//!
//! The gain of each use is in `workspace::dashboard_cache` and `operation::login`.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::model::Timestamp;
use crate::store::{Key, Mark, Store};

/// Generations of areas at one time.
#[derive(Clone, Debug)]
pub(crate) struct Generations(Vec<(Key, Mark)>);

impl Generations {
    /// Returns the marks of the areas of these keys, if the store has all of them.
    pub(crate) fn take(store: &dyn Store, keys: impl IntoIterator<Item = Key>) -> Option<Self> {
        let keys = keys.into_iter();
        let marks = keys.map(|key| store.mark(key.area()).map(|mark| (key, mark)));
        marks.collect::<Option<_>>().map(Self)
    }

    /// Returns the marks of no area, for what follows from the time alone.
    pub(crate) fn none() -> Self {
        Self(Vec::new())
    }

    /// Returns true if none of the areas has changed since.
    fn are_current(&self, store: &dyn Store) -> bool {
        let mut marks = self.0.iter();
        marks.all(|(key, mark)| store.mark(key.area()) == Some(*mark))
    }
}

/// Empty interval, of results that are never served again.
const NEVER: Range<Timestamp> = Timestamp::MAX..Timestamp::MAX;

struct Kept<V> {
    value: V,
    marks: Generations,
    during: Range<Timestamp>,
}

/// Results by what they were asked for, at most `MAX`.
pub(crate) struct GenerationCache<K, V, const MAX: usize>(Mutex<HashMap<K, Kept<V>>>);

impl<K, V, const MAX: usize> Default for GenerationCache<K, V, MAX> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K, V, const MAX: usize> fmt::Debug for GenerationCache<K, V, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unchanged").finish_non_exhaustive()
    }
}

impl<K: Hash + Eq, V: Clone, const MAX: usize> GenerationCache<K, V, MAX> {
    fn kept(&self) -> MutexGuard<'_, HashMap<K, Kept<V>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the result for `key` if it would be the same now.
    pub(crate) fn get(&self, store: &dyn Store, key: &K, now: Timestamp) -> Option<V> {
        let kept = self.kept();
        let found = kept.get(key)?;
        let is_same = found.during.contains(&now) && found.marks.are_current(store);
        is_same.then(|| found.value.clone())
    }

    /// Returns the last result for `key`, whether or not it would be the same now.
    pub(crate) fn last(&self, key: &K) -> Option<V> {
        self.kept().get(key).map(|kept| kept.value.clone())
    }

    /// Ends the time of the result for `key`, which remains the last one.
    pub(crate) fn outdate(&self, key: &K) {
        if let Some(kept) = self.kept().get_mut(key) {
            kept.during = NEVER;
        }
    }

    /// Keeps the result for `key`, which follows from the areas with these marks, for this time.
    pub(crate) fn keep(&self, key: K, value: V, marks: Generations, during: Range<Timestamp>) {
        let value = Kept {
            value,
            marks,
            during,
        };
        Self::put(&mut self.kept(), key, value);
    }

    /// Keeps the result for `key` as the last one.
    ///
    /// It takes the place of an earlier result, as long as that would have been the same.
    pub(crate) fn keep_last(&self, key: K, value: V) {
        let mut kept = self.kept();
        if let Some(kept) = kept.get_mut(&key) {
            kept.value = value;
            return;
        }
        let value = Kept {
            value,
            marks: Generations::none(),
            during: NEVER,
        };
        Self::put(&mut kept, key, value);
    }

    fn put(kept: &mut HashMap<K, Kept<V>>, key: K, value: Kept<V>) {
        if kept.len() >= MAX && !kept.contains_key(&key) {
            // What is still asked for comes back.
            kept.clear();
        }
        kept.insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;
    use crate::store::{Commit, MemoryStore};

    type Results<V> = GenerationCache<usize, V, 3>;

    fn key(text: &str) -> Key {
        Key::new(text).unwrap()
    }

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn change(store: &MemoryStore, key: &Key) {
        let commit = Commit::builder().put(key.clone(), "1").build().unwrap();
        let committed = store.commit(commit).now_or_never();
        committed.expect("the store answers at once").unwrap();
    }

    #[test]
    fn result_is_kept_until_an_area_changes_or_its_time_ends() {
        let store = MemoryStore::new();
        let results = Results::default();
        let marks = Generations::take(&store, [key("memory/acme/1")]).unwrap();
        results.keep(1, "a", marks, at(10)..at(20));
        change(&store, &key("memory/other/1"));
        assert_eq!(results.get(&store, &1, at(10)), Some("a"));
        assert_eq!(results.get(&store, &1, at(19)), Some("a"));
        for now in [at(9), at(20)] {
            assert_eq!(results.get(&store, &1, now), None);
        }
        assert_eq!(results.get(&store, &2, at(10)), None);
        change(&store, &key("audit/acme/7"));
        assert_eq!(results.get(&store, &1, at(10)), None);
        assert_eq!((results.last(&1), results.last(&2)), (Some("a"), None));
    }

    #[test]
    fn last_result_is_valid_as_long_as_the_one_that_it_replaces() {
        let store = MemoryStore::new();
        let results = Results::default();
        let marks = Generations::take(&store, [key("memory/acme/1")]).unwrap();
        results.keep(1, "a", marks, at(10)..at(20));
        for key in [1, 2] {
            results.keep_last(key, "b");
            assert_eq!(results.last(&key), Some("b"));
        }
        assert_eq!(results.get(&store, &1, at(19)), Some("b"));
        assert_eq!(results.get(&store, &1, at(20)), None);
        assert_eq!(results.get(&store, &2, at(10)), None);
    }

    #[test]
    fn outdated_result_remains_the_last_one() {
        let store = MemoryStore::new();
        let results = Results::default();
        let marks = Generations::take(&store, [key("memory/acme/1")]).unwrap();
        results.keep(1, "a", marks, at(10)..at(20));
        results.outdate(&1);
        assert_eq!(results.get(&store, &1, at(10)), None);
        assert_eq!(results.last(&1), Some("a"));
    }

    #[test]
    fn number_of_results_is_limited() {
        let store = MemoryStore::new();
        let results = Results::default();
        let marks = Generations::take(&store, []).unwrap();
        for number in 0..10 {
            results.keep(number, (), marks.clone(), at(0)..at(1));
            assert!(results.get(&store, &number, at(0)).is_some());
        }
        assert!(results.kept().len() <= 3);
    }
}
