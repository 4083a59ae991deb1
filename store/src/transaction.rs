//! Transactions over any [`Store`]: reads that become checks, and writes that become a commit.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::ext::{StoreExt, Versioned, decode};
use super::read::mismatch;
use super::read_set::{Ahead, RangeRead, ReadSet};
use super::{
    Commit, Direction, Entry, InvalidCommit, Key, KeyEntry, KeyRange, MaybeSend, Mutation, Read,
    Store, StoreError, Version,
};

/// Error of a transaction.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransactionError {
    /// Error of the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Commit that exceeds the limits.
    #[error(transparent)]
    Invalid(#[from] InvalidCommit),
    /// Conflict in each of [`RETRIES_MAX`](super::RETRIES_MAX) attempts.
    #[error("concurrent modification of the same entries")]
    Contended,
}

/// Reads that become checks, and writes that become one commit.
///
/// The commit checks every entry read through [`Transaction::read`] and its siblings: the decision
/// is based on the stored data, or it is repeated. It checks no ranges: a decision over one needs a
/// guard, see [`Transaction::guard`]. A decision that commits nothing, errors
/// included, is checked by one more read. Reads do not see the transaction's own writes.
#[derive(Debug)]
pub struct Transaction {
    store: StoreHandle,
    pub(super) reads: ReadSet,
    ahead: Ahead,
    mutations: Vec<Mutation>,
    /// Sums of the additions per counter, because a commit changes each key once.
    adds: BTreeMap<Key, i64>,
    pub(super) unique: Uuid,
    proof: Option<CommitProof>,
}

/// Key that at most one attempt of a transaction writes, with the value that this attempt writes.
#[derive(Clone, Debug)]
pub(super) struct CommitProof {
    pub(super) key: Key,
    pub(super) value: Bytes,
}

/// Store of a transaction, a separate type to implement `Debug`.
struct StoreHandle(Arc<dyn Store>);

impl std::fmt::Debug for StoreHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Store")
    }
}

/// Encodes a value as JSON, as [`Transaction::put`] does.
#[must_use]
pub fn encode<T: Serialize>(value: &T) -> Bytes {
    let json = serde_json::to_vec(value);
    Bytes::from(json.expect("records serialise: string keys, no fallible implementations"))
}

fn value<T: DeserializeOwned>(key: &Key, entry: &Entry) -> Result<T, StoreError> {
    decode(key, entry).map(|found| found.value)
}

/// Decided transaction, with the output to return once it is durable.
#[derive(Debug)]
pub struct Prepared<T> {
    pub(super) transaction: Transaction,
    pub(super) output: T,
}

impl Transaction {
    /// Begins a transaction. Outside [`transact`](super::transact) it can only read.
    #[must_use]
    pub fn begin(store: Arc<dyn Store>) -> Self {
        Self {
            store: StoreHandle(store),
            reads: ReadSet::default(),
            ahead: Ahead::default(),
            mutations: Vec::new(),
            adds: BTreeMap::new(),
            unique: Uuid::nil(),
            proof: None,
        }
    }

    /// Returns a new time-ordered identifier, the same in each attempt of one transaction.
    ///
    /// Outside [`transact`](super::transact) it is the nil identifier.
    #[must_use]
    pub fn unique(&self) -> Uuid {
        self.unique
    }

    /// Returns the store, for reads that the commit does not check.
    #[must_use]
    pub fn unchecked(&self) -> &Arc<dyn Store> {
        self.reads.spread();
        &self.store.0
    }

    /// Reads keys and ranges ahead of the calls that use them, in one [`Store::read`].
    ///
    /// The next call that reads one of these keys, or [`Transaction::scan`] for one of these ranges,
    /// takes what was found here. So does a call that reads a key of a range that was read to its
    /// end. Nothing becomes a check before that.
    ///
    /// Every read of a transaction repeats what was read before, if it is not much: where it is
    /// unchanged, all of it was seen at one point in time, and a decision that commits nothing needs
    /// no further read.
    ///
    /// # Errors
    /// Errors of [`Store::read`].
    pub async fn read_ahead(
        &mut self,
        keys: Vec<Key>,
        ranges: Vec<RangeRead>,
    ) -> Result<(), StoreError> {
        if keys.is_empty() && ranges.is_empty() {
            return Ok(());
        }
        let (entries, found) = self.refresh(&keys, &ranges).await?;
        self.ahead.entries.extend(keys.into_iter().zip(entries));
        self.ahead.ranges.extend(ranges.into_iter().zip(found));
        Ok(())
    }

    /// Reads keys and ranges, and repeats what was read ahead.
    async fn refresh(
        &mut self,
        keys: &[Key],
        ranges: &[RangeRead],
    ) -> Result<(Vec<Option<Entry>>, Vec<Vec<KeyEntry>>), StoreError> {
        if self.ahead.is_empty() {
            return self.fetch(keys, ranges).await;
        }
        let ahead = std::mem::take(&mut self.ahead);
        let mut all_keys = keys.to_vec();
        all_keys.extend(ahead.entries.into_keys());
        let mut all_ranges = ranges.to_vec();
        all_ranges.extend(ahead.ranges.into_iter().map(|(range, _)| range));
        let (mut entries, mut found) = self.fetch(&all_keys, &all_ranges).await?;
        let again = entries.split_off(keys.len());
        self.ahead.entries = all_keys.into_iter().skip(keys.len()).zip(again).collect();
        let again = found.split_off(ranges.len());
        let again = all_ranges.into_iter().skip(ranges.len()).zip(again);
        self.ahead.ranges = again.collect();
        Ok((entries, found))
    }

    /// Reads keys and ranges, and repeats what was read before.
    async fn fetch(
        &self,
        keys: &[Key],
        ranges: &[RangeRead],
    ) -> Result<(Vec<Option<Entry>>, Vec<Vec<KeyEntry>>), StoreError> {
        let repeated = self.reads.repeated();
        let mut reads = vec![Read::Keys(keys), Read::Keys(&repeated)];
        reads.extend(ranges.iter().map(|read| Read::Range {
            range: &read.range,
            limit: read.limit,
            direction: read.direction,
        }));
        let mut found = self.store.0.read(&reads).await?.into_iter();
        let mut next = || found.next().ok_or_else(mismatch);
        let entries = next()?.into_keys()?;
        if entries.len() != keys.len() {
            return Err(mismatch());
        }
        self.reads.repeat(&next()?.into_keys()?);
        let ranges: Result<_, _> = ranges.iter().map(|_| next()?.into_range()).collect();
        Ok((entries, ranges?))
    }

    /// Reads one JSON value; the commit checks that it is unchanged.
    ///
    /// # Errors
    /// As [`StoreExt::get_as`].
    pub async fn read<T: DeserializeOwned + MaybeSend>(
        &mut self,
        key: &Key,
    ) -> Result<Option<T>, StoreError> {
        let found = self.entry(key).await?;
        found.map(|entry| value(key, &entry)).transpose()
    }

    /// Reads one JSON value with its version; the commit checks that it is unchanged.
    ///
    /// # Errors
    /// As [`StoreExt::get_as`].
    pub async fn read_versioned<T: DeserializeOwned + MaybeSend>(
        &mut self,
        key: &Key,
    ) -> Result<Option<Versioned<T>>, StoreError> {
        let found = self.entry(key).await?;
        found.map(|entry| decode(key, &entry)).transpose()
    }

    /// Reads many JSON values of one type at one point in time; the commit checks each of them.
    ///
    /// # Errors
    /// As [`StoreExt::get_as`].
    pub async fn read_many<T: DeserializeOwned + MaybeSend>(
        &mut self,
        keys: &[Key],
    ) -> Result<Vec<Option<T>>, StoreError> {
        let found = self.entries(keys).await?.into_iter().zip(keys);
        found
            .map(|(entry, key)| entry.map(|entry| value(key, &entry)).transpose())
            .collect()
    }

    /// Reads one JSON value that other decisions of the transaction read too; the commit checks it.
    ///
    /// It does not use up what was read ahead.
    ///
    /// # Errors
    /// As [`StoreExt::get_as`].
    pub async fn read_shared<T: DeserializeOwned + MaybeSend>(
        &mut self,
        key: &Key,
    ) -> Result<Option<T>, StoreError> {
        let Some(entry) = self.ahead.entry(key).map(|entry| entry.cloned()) else {
            return self.read(key).await;
        };
        let version = entry.as_ref().map(|entry| entry.version);
        self.reads.add([(key, version)]);
        entry.map(|entry| value(key, &entry)).transpose()
    }

    async fn entry(&mut self, key: &Key) -> Result<Option<Entry>, StoreError> {
        let found = self.entries(std::slice::from_ref(key)).await?;
        Ok(found.into_iter().next().flatten())
    }

    /// Reads entries of any types; the commit checks each of them.
    ///
    /// They are read at one point in time, together with everything that was read before and is
    /// not much.
    ///
    /// # Errors
    /// Errors of [`Store::read`].
    pub async fn entries(&mut self, keys: &[Key]) -> Result<Vec<Option<Entry>>, StoreError> {
        let found = self.take(keys).await?;
        let versions = found.iter();
        let versions = versions.map(|entry| entry.as_ref().map(|entry| entry.version));
        self.reads.add(keys.iter().zip(versions));
        Ok(found)
    }

    /// Returns true if a key was read ahead and not used yet.
    #[must_use]
    pub fn has_ahead(&self, key: &Key) -> bool {
        self.ahead.entry(key).is_some()
    }

    /// Returns the JSON value under a key that was read ahead, without using it.
    ///
    /// # Errors
    /// As [`StoreExt::get_as`].
    pub fn peek<T: DeserializeOwned>(&self, key: &Key) -> Result<Option<T>, StoreError> {
        let entry = self.ahead.entry(key).flatten();
        entry.map(|entry| value(key, entry)).transpose()
    }

    /// Returns the entries of a range, if it was read ahead, without using them.
    #[must_use]
    pub fn peek_range(&self, read: &RangeRead) -> Option<&[KeyEntry]> {
        self.ahead.range(read)
    }

    /// Takes entries that were read ahead, or reads all of them if one was not.
    ///
    /// A key may be there twice.
    async fn take(&mut self, keys: &[Key]) -> Result<Vec<Option<Entry>>, StoreError> {
        let mut found: Vec<Option<Entry>> = Vec::with_capacity(keys.len());
        for (index, key) in keys.iter().enumerate() {
            let earlier = || {
                let earlier = keys[..index].iter().position(|earlier| earlier == key)?;
                Some(found[earlier].clone())
            };
            let Some(entry) = self.ahead.take(key).or_else(earlier) else {
                for key in &keys[index..] {
                    self.ahead.entries.remove(key);
                }
                return Ok(self.refresh(keys, &[]).await?.0);
            };
            found.push(entry);
        }
        Ok(found)
    }

    /// Reads entries that the commit does not check, for values that are only displayed.
    ///
    /// # Errors
    /// Errors of [`Store::read`].
    pub async fn entries_unchecked(
        &mut self,
        keys: &[Key],
    ) -> Result<Vec<Option<Entry>>, StoreError> {
        self.take(keys).await
    }

    /// Returns the first entries of a range without a check.
    ///
    /// A decision over a range also needs a guard.
    ///
    /// # Errors
    /// Errors of [`Store::read`].
    pub async fn scan(&mut self, read: &RangeRead) -> Result<Vec<KeyEntry>, StoreError> {
        if let Some(found) = self.ahead.take_range(read) {
            return Ok(found);
        }
        let (_, ranges) = self.refresh(&[], std::slice::from_ref(read)).await?;
        ranges.into_iter().next().ok_or_else(mismatch)
    }

    /// Reads a counter; any change of it is a conflict.
    ///
    /// It is meant for guards; read a counter that is only displayed through
    /// [`Transaction::unchecked`].
    ///
    /// # Errors
    /// As [`StoreExt::get_as`].
    pub async fn guard(&mut self, key: &Key) -> Result<i64, StoreError> {
        Ok(self.read(key).await?.unwrap_or(0))
    }

    /// Reads one JSON value that the commit does not check, for values that are only displayed.
    ///
    /// # Errors
    /// As [`StoreExt::get_as`].
    pub async fn read_unchecked<T: DeserializeOwned + MaybeSend>(
        &self,
        key: &Key,
    ) -> Result<Option<T>, StoreError> {
        let entry = match self.ahead.entry(key) {
            Some(entry) => entry.cloned(),
            None => {
                let found = self.unchecked().get(std::slice::from_ref(key)).await?;
                found.into_iter().next().flatten()
            }
        };
        entry.map(|entry| value(key, &entry)).transpose()
    }

    /// Reads all entries of a short range without a check.
    ///
    /// It takes what was read ahead, if that went to the end of the range. A decision over a range
    /// also needs a guard.
    ///
    /// # Errors
    /// Errors of [`Store::read`].
    pub async fn scan_unchecked(&self, range: &KeyRange) -> Result<Vec<KeyEntry>, StoreError> {
        let is_whole = |(read, found): &&(RangeRead, Vec<KeyEntry>)| {
            read.range == *range && read.direction == Direction::Forward && found.len() < read.limit
        };
        match self.ahead.ranges.iter().find(is_whole) {
            Some((_, found)) => Ok(found.clone()),
            None => self.unchecked().scan_all(range).await,
        }
    }

    /// Returns the sum that this transaction adds to a counter so far.
    #[must_use]
    pub fn added(&self, key: &Key) -> i64 {
        self.adds.get(key).copied().unwrap_or(0)
    }

    /// Adds a check of a version that was read elsewhere.
    ///
    /// The first version of a key is kept: a later read that differs makes the commit a conflict.
    pub fn check(&mut self, key: Key, version: Option<Version>) {
        self.reads.add([(&key, version)]);
        self.reads.spread();
    }

    /// Writes a JSON value.
    pub fn put<T: Serialize>(&mut self, key: Key, value: &T) {
        self.put_encoded(key, encode(value));
    }

    /// Writes a JSON value that [`encode`] returned, for values that are written under many keys.
    pub fn put_encoded(&mut self, key: Key, value: Bytes) {
        self.mutations.push(Mutation::Put { key, value });
    }

    /// Writes a JSON value under a key that must not exist.
    pub fn create<T: Serialize>(&mut self, key: Key, value: &T) {
        self.check(key.clone(), None);
        self.put(key, value);
    }

    /// Writes a JSON value under a key derived from [`Transaction::unique`]: proof of the commit.
    ///
    /// At most one of all attempts is ever applied, even if an indeterminate one arrives after
    /// another attempt has replaced it. The stored value identifies the attempt: the values of two
    /// attempts that differ in anything must differ.
    ///
    /// Returns the size of the key and the value in bytes.
    pub fn create_unique<T: Serialize>(&mut self, key: Key, value: &T) -> usize {
        let value = encode(value);
        let bytes = key.as_bytes().len() + value.len();
        self.check(key.clone(), None);
        self.proof.get_or_insert_with(|| CommitProof {
            key: key.clone(),
            value: value.clone(),
        });
        self.mutations.push(Mutation::Put { key, value });
        bytes
    }

    /// Removes an entry.
    pub fn delete(&mut self, key: Key) {
        self.mutations.push(Mutation::Delete { key });
    }

    /// Adds to a counter, without a check; adding 0 changes nothing.
    ///
    /// # Panics
    /// If the sum of the additions to one counter exceeds 64 bits.
    pub fn add(&mut self, key: Key, delta: i64) {
        let sum = self.adds.entry(key).or_default();
        *sum = sum.checked_add(delta).expect("the sum has 64 bits");
    }

    /// Ends the decision. Without a write there is no commit.
    #[must_use]
    pub fn done<T>(self, output: T) -> Prepared<T> {
        Prepared {
            transaction: self,
            output,
        }
    }

    /// Returns true if there is something to commit.
    #[must_use]
    pub fn has_changes(&self) -> bool {
        !self.mutations.is_empty() || self.adds.values().any(|delta| *delta != 0)
    }

    pub(super) fn into_commit(self) -> Result<(Commit, Option<CommitProof>), InvalidCommit> {
        let mut builder = Commit::builder();
        for (key, version) in self.reads.take() {
            builder = builder.check(key, version);
        }
        for mutation in self.mutations {
            builder = builder.mutate(mutation);
        }
        for (key, delta) in self.adds.into_iter().filter(|(_, delta)| *delta != 0) {
            builder = builder.add(key, delta);
        }
        Ok((builder.build()?, self.proof))
    }
}
