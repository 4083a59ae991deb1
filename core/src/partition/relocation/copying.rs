//! Copies and comparisons of ranges between two stores.

use std::collections::BTreeMap;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::outcome::MoveError;
use super::side::Side;
use crate::digest::hex;
use crate::store::{Commit, CommitBuilder, Direction, Key, KeyEntry, KeyRange, Store, StoreExt};

/// Number of entries that are read or written at once.
pub(super) const PAGE_ENTRIES: usize = 500;
/// Size of the values of a commit, in bytes, from which it is made.
const COMMIT_VALUE_BYTES: usize = 2 * 1024 * 1024;

/// Number and checksum of entries.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) entries: u64,
    digest: Sha256,
}

impl Tally {
    fn add(&mut self, found: &KeyEntry) {
        let (key, value) = (found.key.as_bytes(), &found.entry.value);
        for part in [key, value] {
            let length = u64::try_from(part.len()).unwrap_or(u64::MAX);
            self.digest.update(length.to_be_bytes());
            self.digest.update(part);
        }
        self.entries += 1;
    }

    /// Returns the checksum in hexadecimal digits; empty for no entries.
    pub(super) fn sha256(&self) -> String {
        match self.entries {
            0 => String::new(),
            _ => hex(self.digest.clone().finalize()),
        }
    }
}

impl PartialEq for Tally {
    fn eq(&self, other: &Self) -> bool {
        self.entries == other.entries && self.sha256() == other.sha256()
    }
}

/// Makes ranges of the target equal to those of the source; returns the tally of what was read.
pub(super) async fn synchronize(
    source: &Side,
    target: &Side,
    ranges: &[KeyRange],
    progress: &mut (dyn FnMut(u64) + Send),
) -> Result<Tally, MoveError> {
    let mut read = Tally::default();
    for range in ranges {
        let mut rest = range.clone();
        loop {
            let page = source
                .store
                .scan(&rest, PAGE_ENTRIES, Direction::Forward)
                .await?;
            page.iter().for_each(|found| read.add(found));
            let next = page.last().filter(|_| page.len() == PAGE_ENTRIES);
            let next = next.map(|last| rest.after(&last.key));
            let part = match &next {
                Some(next) => KeyRange::new(rest.start, next.start.clone()),
                None => rest,
            };
            equalize(target, &part, page).await?;
            progress(read.entries);
            match next {
                Some(next) => rest = next,
                None => break,
            }
        }
    }
    Ok(read)
}

/// Makes a range of the target contain exactly these entries.
async fn equalize(target: &Side, range: &KeyRange, wanted: Vec<KeyEntry>) -> Result<(), MoveError> {
    let present = target.store.scan_all(range).await?.into_iter();
    let mut present: BTreeMap<Key, Bytes> = present
        .map(|found| (found.key, found.entry.value))
        .collect();
    let mut batch = Batch::new(target);
    for found in wanted {
        let before = present.remove(&found.key);
        if before.is_none_or(|value| value != found.entry.value) {
            batch.put(vec![found]).await?;
        }
    }
    batch.end().await?;
    delete(target, present.into_keys().collect()).await
}

/// Entries that are written in as few commits as their size permits.
pub(super) struct Batch<'b> {
    target: &'b Side,
    entries: Vec<KeyEntry>,
    bytes: usize,
}

impl<'b> Batch<'b> {
    pub(super) fn new(target: &'b Side) -> Self {
        Self {
            target,
            entries: Vec::new(),
            bytes: 0,
        }
    }

    /// Adds entries, which are written in one commit.
    pub(super) async fn put(&mut self, group: Vec<KeyEntry>) -> Result<(), MoveError> {
        self.bytes += group
            .iter()
            .map(|found| found.entry.value.len())
            .sum::<usize>();
        self.entries.extend(group);
        if self.bytes >= COMMIT_VALUE_BYTES || self.entries.len() >= PAGE_ENTRIES {
            self.end().await
        } else {
            Ok(())
        }
    }

    /// Writes what has not been written yet.
    pub(super) async fn end(&mut self) -> Result<(), MoveError> {
        if self.entries.is_empty() {
            return Ok(());
        }
        let entries = std::mem::take(&mut self.entries).into_iter();
        self.bytes = 0;
        let put = |commit: CommitBuilder, found: KeyEntry| commit.put(found.key, found.entry.value);
        self.target
            .commit(entries.fold(Commit::builder(), put))
            .await
    }
}

/// Deletes entries.
pub(super) async fn delete(side: &Side, keys: Vec<Key>) -> Result<(), MoveError> {
    for keys in keys.chunks(PAGE_ENTRIES) {
        let keys = keys.iter().cloned();
        side.commit(keys.fold(CommitBuilder::default(), CommitBuilder::delete))
            .await?;
    }
    Ok(())
}

/// Returns the number and the checksum of the entries of some ranges.
pub(super) async fn tally(store: &dyn Store, ranges: &[KeyRange]) -> Result<Tally, MoveError> {
    let mut tally = Tally::default();
    for range in ranges {
        let mut rest = range.clone();
        loop {
            let page = store.scan(&rest, PAGE_ENTRIES, Direction::Forward).await?;
            page.iter().for_each(|found| tally.add(found));
            match page.last().filter(|_| page.len() == PAGE_ENTRIES) {
                Some(last) => rest = rest.after(&last.key),
                None => break,
            }
        }
    }
    Ok(tally)
}

/// Removes the entries of some ranges.
pub(super) async fn remove(
    side: &Side,
    ranges: &[KeyRange],
    progress: &mut (dyn FnMut(u64) + Send),
) -> Result<(), MoveError> {
    let mut removed = 0;
    for range in ranges {
        loop {
            let page = side
                .store
                .scan(range, PAGE_ENTRIES, Direction::Forward)
                .await?;
            if page.is_empty() {
                break;
            }
            removed += u64::try_from(page.len()).unwrap_or(u64::MAX);
            delete(side, page.into_iter().map(|found| found.key).collect()).await?;
            progress(removed);
        }
    }
    Ok(())
}
