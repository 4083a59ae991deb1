//! Entries and ranges that a transaction has read, and the versions that its commit checks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;

use super::ext::StoreExt;
use super::{Direction, Entry, Key, KeyEntry, KeyRange, Store, StoreError, Version};

/// Number of checked keys up to which a read repeats them.
const REPEATED_MAX: usize = 24;

/// Versions that a commit checks.
///
/// They are shared with [`transact`](super::transact), because they outlive a decision that ends in
/// an error.
#[derive(Clone, Debug, Default)]
pub(super) struct Checks(Arc<Mutex<CheckedVersions>>);

#[derive(Debug, Default)]
struct CheckedVersions {
    /// Versions in the order of the reads, so that equal decisions produce equal commits.
    versions: Vec<(Key, Option<Version>)>,
    /// True unless the last read has shown all of these versions together.
    is_unconfirmed: bool,
    /// Number of reads of the store so far.
    reads: u32,
}

impl Checks {
    fn lock(&self) -> MutexGuard<'_, CheckedVersions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if all entries are unchanged and were therefore read at one point in time.
    ///
    /// This takes a read, unless the last one has shown it. A single key always was.
    pub(super) async fn is_current(&self, store: &dyn Store) -> Result<bool, StoreError> {
        let (keys, versions): (Vec<Key>, Vec<Option<Version>>) = {
            let checked = self.lock();
            if checked.versions.len() < 2 || !checked.is_unconfirmed {
                return Ok(true);
            }
            checked.versions.iter().cloned().unzip()
        };
        let found = store.get(&keys).await?.into_iter();
        Ok(found
            .map(|entry| entry.map(|entry| entry.version))
            .eq(versions))
    }

    /// Notes a version that was, or may be, of another point in time than the last read.
    pub(super) fn set_unconfirmed(&self) {
        self.lock().is_unconfirmed = true;
    }

    /// Returns the keys that the next read repeats: all, or none if there are many.
    pub(super) fn repeated(&self) -> Vec<Key> {
        let checked = self.lock();
        if checked.versions.len() > REPEATED_MAX {
            return Vec::new();
        }
        let versions = checked.versions.iter();
        versions.map(|(key, _)| key.clone()).collect()
    }

    /// Notes what the last read found under the repeated keys.
    pub(super) fn confirm(&self, repeated: &[Option<Entry>]) {
        let mut checked = self.lock();
        checked.reads += 1;
        let found = repeated.iter().map(version_of);
        checked.is_unconfirmed = !found.eq(checked.versions.iter().map(|(_, version)| *version));
    }

    /// Takes the versions, for the checks of a commit.
    pub(super) fn take(&self) -> Vec<(Key, Option<Version>)> {
        std::mem::take(&mut *self.lock()).versions
    }
}

impl CheckedVersions {
    /// Adds the version of a key; the first one stays.
    fn add(&mut self, key: &Key, version: Option<Version>, known: &mut KnownKey) {
        if let Some(index) = known.check {
            self.is_unconfirmed |= self.versions[index].1 != version;
        } else {
            // A read after an unchecked one has not repeated the key.
            let used_after = known.used_after.unwrap_or(self.reads);
            self.is_unconfirmed |= used_after < self.reads;
            known.check = Some(self.versions.len());
            self.versions.push((key.clone(), version));
        }
    }
}

fn version_of(entry: &Option<Entry>) -> Option<Version> {
    entry.as_ref().map(|entry| entry.version)
}

/// First entries of a range, to be read by [`Transaction::scan`](super::Transaction::scan).
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

/// State of a key in a transaction.
#[derive(Debug, Default)]
struct KnownKey {
    /// Entry that was read, or its absence; `None` if only a version was given.
    entry: Option<Option<Entry>>,
    /// Index among the versions that the commit checks; `None` without a check.
    check: Option<usize>,
    /// Number of reads of the store when an unchecked one returned the key first. Later reads do
    /// not repeat it.
    used_after: Option<u32>,
}

impl KnownKey {
    /// Returns true if the key was prefetched and no read has returned it so far.
    fn is_pending(&self) -> bool {
        self.entry.is_some() && self.check.is_none() && self.used_after.is_none()
    }
}

/// Entries and ranges that a transaction has read, with the checks of its commit.
///
/// Prefetched keys and ranges are pending until a read returns the key, or a scan takes the range.
/// Every read of the store repeats what is pending, so that it is of the last read.
#[derive(Debug, Default)]
pub(super) struct ReadSet {
    keys: HashMap<Key, KnownKey, RandomState>,
    /// Number of the pending keys.
    pending: usize,
    /// Prefetched ranges that no scan has taken.
    ranges: Vec<(RangeRead, Vec<KeyEntry>)>,
    pub(super) checks: Checks,
}

impl ReadSet {
    /// Returns true if nothing is known.
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.ranges.is_empty()
    }

    /// Returns the entry under a key, or its absence; `None` if that is unknown.
    pub(super) fn get(&self, key: &Key) -> Option<Option<&Entry>> {
        match self.keys.get(key).and_then(|known| known.entry.as_ref()) {
            Some(entry) => Some(entry.as_ref()),
            None => self.get_in_range(key),
        }
    }

    /// Returns the entry under a key, or its absence, from a range that was read to its end.
    fn get_in_range(&self, key: &Key) -> Option<Option<&Entry>> {
        let includes = |(read, found): &&(RangeRead, Vec<KeyEntry>)| {
            found.len() < read.limit && read.range.contains(key)
        };
        let (_, found) = self.ranges.iter().find(includes)?;
        let found = found.iter().find(|found| found.key == *key);
        Some(found.map(|found| &found.entry))
    }

    /// Keeps the entry under a key, also after its range is taken. Returns false if it is unknown.
    pub(super) fn keep(&mut self, key: &Key) -> bool {
        if self
            .keys
            .get(key)
            .is_some_and(|known| known.entry.is_some())
        {
            return true;
        }
        let Some(entry) = self.get_in_range(key).map(|entry| entry.cloned()) else {
            return false;
        };
        self.add_keys([(key.clone(), entry)]);
        true
    }

    /// Adds entries that the last read found, without a check.
    pub(super) fn add_keys(&mut self, found: impl IntoIterator<Item = (Key, Option<Entry>)>) {
        let found = found.into_iter();
        self.keys.reserve(found.size_hint().0);
        for (key, entry) in found {
            let known = self.keys.entry(key).or_default();
            self.pending += usize::from(known.entry.is_none() && known.check.is_none());
            known.entry = Some(entry);
        }
    }

    /// Adds ranges that the last read found.
    pub(super) fn add_ranges(
        &mut self,
        found: impl IntoIterator<Item = (RangeRead, Vec<KeyEntry>)>,
    ) {
        self.ranges.extend(found);
    }

    /// Returns the entries under these keys for a checked or an unchecked read; `None` unless all
    /// were read as keys.
    ///
    /// Each key is looked up once: that takes most of the time of a read of many.
    pub(super) fn use_keys(
        &mut self,
        keys: &[Key],
        is_checked: bool,
    ) -> Option<Vec<Option<Entry>>> {
        let mut checks = self.checks.lock();
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            let known = self.keys.get_mut(key)?;
            let entry = known.entry.clone()?;
            self.pending -= usize::from(known.is_pending());
            if is_checked {
                checks.add(key, version_of(&entry), known);
            } else {
                known.used_after.get_or_insert(checks.reads);
            }
            found.push(entry);
        }
        Some(found)
    }

    /// Adds entries that the commit checks; the first version of a key stays the checked one.
    pub(super) fn add_checked(&mut self, keys: &[Key], found: &[Option<Entry>]) {
        let mut checks = self.checks.lock();
        self.keys.reserve(keys.len());
        checks.versions.reserve(keys.len());
        for (key, entry) in keys.iter().zip(found) {
            let known = self.keys.entry(key.clone()).or_default();
            self.pending -= usize::from(known.is_pending());
            known.entry = Some(entry.clone());
            checks.add(key, version_of(entry), known);
        }
    }

    /// Adds a version that was read elsewhere, as [`ReadSet::add_checked`] does.
    pub(super) fn check(&mut self, key: Key, version: Option<Version>) {
        let mut checks = self.checks.lock();
        checks.is_unconfirmed = true;
        let known = self.keys.entry(key.clone()).or_default();
        self.pending -= usize::from(known.is_pending());
        checks.add(&key, version, known);
    }

    /// Returns the pending keys.
    pub(super) fn pending_keys(&self) -> Vec<Key> {
        if self.pending == 0 {
            return Vec::new();
        }
        let keys = self.keys.iter().filter(|(_, known)| known.is_pending());
        keys.map(|(key, _)| key.clone()).collect()
    }

    /// Forgets those of these keys that are pending, because they are read again.
    pub(super) fn forget_pending(&mut self, keys: &[Key]) {
        if self.pending == 0 {
            return;
        }
        for key in keys {
            if self.keys.get(key).is_some_and(KnownKey::is_pending) {
                self.keys.remove(key);
                self.pending -= 1;
            }
        }
    }

    /// Returns the entries of a range, if exactly this read was prefetched.
    pub(super) fn range(&self, read: &RangeRead) -> Option<&[KeyEntry]> {
        let mut ranges = self.ranges.iter();
        let (_, found) = ranges.find(|(range, _)| range == read)?;
        Some(found)
    }

    /// Takes the entries of a prefetched range, or copies them from a read of the same range that
    /// reached its end with another limit.
    pub(super) fn take_range(&mut self, read: &RangeRead) -> Option<Vec<KeyEntry>> {
        if let Some(index) = self.ranges.iter().position(|(range, _)| range == read) {
            return Some(self.ranges.swap_remove(index).1);
        }
        let is_whole = |(known, found): &&(RangeRead, Vec<KeyEntry>)| {
            known.range == read.range
                && known.direction == read.direction
                && found.len() < known.limit.min(read.limit)
        };
        let (_, found) = self.ranges.iter().find(is_whole)?;
        Some(found.clone())
    }

    /// Takes the ranges that no scan has taken.
    pub(super) fn take_ranges(&mut self) -> Vec<RangeRead> {
        let ranges = std::mem::take(&mut self.ranges);
        ranges.into_iter().map(|(range, _)| range).collect()
    }
}
