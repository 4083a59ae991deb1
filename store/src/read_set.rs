//! Reads of a transaction: the versions to check, and entries that were read ahead.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Place;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;

use super::ext::StoreExt;
use super::{Direction, Entry, Key, KeyEntry, KeyRange, Store, StoreError, Version};

/// Number of entries up to which a read repeats what was read before.
const REPEATED_MAX: usize = 24;

/// Entries that a transaction has read and its commit checks.
///
/// It is shared with [`transact`](super::transact), because it outlives a decision that ends in an
/// error.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadSet(Arc<Mutex<ReadVersions>>);

/// Versions that a transaction has read.
#[derive(Debug, Default)]
struct ReadVersions {
    /// Versions in the order of the reads, so that equal decisions produce equal commits. Noting 1,000
    /// takes 279,371 instructions, in an ordered map 963,069.
    versions: Vec<(Key, Option<Version>)>,
    /// Index of the version of each key.
    places: HashMap<Key, usize, RandomState>,
    /// True unless the last read has shown all of these versions together.
    is_spread: bool,
}

impl ReadSet {
    fn versions(&self) -> MutexGuard<'_, ReadVersions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if all entries are unchanged and were therefore read at one point in time.
    ///
    /// This takes a read, unless the last one has shown it. A single key always was.
    pub(super) async fn is_current(&self, store: &dyn Store) -> Result<bool, StoreError> {
        let (keys, versions): (Vec<Key>, Vec<Option<Version>>) = {
            let read = self.versions();
            if read.versions.len() < 2 || !read.is_spread {
                return Ok(true);
            }
            read.versions.iter().cloned().unzip()
        };
        let found = store.get(&keys).await?.into_iter();
        Ok(found
            .map(|entry| entry.map(|entry| entry.version))
            .eq(versions))
    }

    /// Adds versions that were read; the first one of a key is kept.
    pub(super) fn add<'k>(&self, read: impl IntoIterator<Item = (&'k Key, Option<Version>)>) {
        let (known, read) = (&mut *self.versions(), read.into_iter());
        known.versions.reserve(read.size_hint().0);
        known.places.reserve(read.size_hint().0);
        for (key, version) in read {
            match known.places.entry(key.clone()) {
                Place::Occupied(place) => {
                    known.is_spread |= known.versions[*place.get()].1 != version;
                }
                Place::Vacant(place) => {
                    place.insert(known.versions.len());
                    known.versions.push((key.clone(), version));
                }
            }
        }
    }

    /// Notes that something is read, or was read, at another point in time.
    pub(super) fn spread(&self) {
        self.versions().is_spread = true;
    }

    /// Returns the keys that the next read repeats: all, or none if there are many.
    pub(super) fn repeated(&self) -> Vec<Key> {
        let read = self.versions();
        if read.versions.len() > REPEATED_MAX {
            return Vec::new();
        }
        read.versions.iter().map(|(key, _)| key.clone()).collect()
    }

    /// Notes what the last read found under the repeated keys.
    pub(super) fn repeat(&self, found: &[Option<Entry>]) {
        let mut read = self.versions();
        let found = found.iter();
        let found = found.map(|entry| entry.as_ref().map(|entry| entry.version));
        read.is_spread = !found.eq(read.versions.iter().map(|(_, version)| *version));
    }

    /// Takes the versions, for the checks of a commit.
    pub(super) fn take(&self) -> Vec<(Key, Option<Version>)> {
        std::mem::take(&mut *self.versions()).versions
    }
}

/// First entries of a range, to be read by [`Transaction::read_ahead`](super::Transaction::read_ahead).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeRead {
    /// Keys to read.
    pub range: KeyRange,
    /// Maximum number of entries.
    pub limit: usize,
    /// Order of reading.
    pub direction: Direction,
}

impl RangeRead {
    /// Returns the read of the first `limit` entries of a range.
    #[must_use]
    pub fn first(range: KeyRange, limit: usize) -> Self {
        Self {
            range,
            limit,
            direction: Direction::Forward,
        }
    }

    /// Returns the read of a whole range, for ranges that are known to be short.
    #[must_use]
    pub fn all(range: KeyRange) -> Self {
        Self::first(range, usize::MAX)
    }
}

/// Entries that were read ahead and are not used yet.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    pub(super) entries: HashMap<Key, Option<Entry>, RandomState>,
    pub(super) ranges: Vec<(RangeRead, Vec<KeyEntry>)>,
}

impl Ahead {
    /// Returns true if nothing is left to use.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.ranges.is_empty()
    }

    /// Returns the entry under a key, or its absence; `None` if that is unknown.
    pub(super) fn entry(&self, key: &Key) -> Option<Option<&Entry>> {
        if let Some(entry) = self.entries.get(key) {
            return Some(entry.as_ref());
        }
        let is_known = |(read, found): &&(RangeRead, Vec<KeyEntry>)| {
            found.len() < read.limit && read.range.contains(key)
        };
        let (_, found) = self.ranges.iter().find(is_known)?;
        let found = found.iter().find(|found| found.key == *key);
        Some(found.map(|found| &found.entry))
    }

    /// Takes the entry under a key, as [`Ahead::entry`] returns it. One of a range stays there.
    pub(super) fn take(&mut self, key: &Key) -> Option<Option<Entry>> {
        let taken = self.entries.remove(key);
        taken.or_else(|| self.entry(key).map(|entry| entry.cloned()))
    }

    /// Returns the entries of a range, if it was read.
    pub(super) fn range(&self, read: &RangeRead) -> Option<&[KeyEntry]> {
        let mut ranges = self.ranges.iter();
        let (_, found) = ranges.find(|(range, _)| range == read)?;
        Some(found)
    }

    /// Takes the entries of a range, if it was read.
    pub(super) fn take_range(&mut self, read: &RangeRead) -> Option<Vec<KeyEntry>> {
        let index = self.ranges.iter().position(|(range, _)| range == read)?;
        Some(self.ranges.swap_remove(index).1)
    }
}
