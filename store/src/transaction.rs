//! Transactions over any [`Store`]: reads that become checks, and writes that become a commit.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::ext::decode;
use super::read::mismatch;
use super::read_set::{RangeRead, ReadSet};
use super::{
    Commit, Entry, InvalidCommit, Key, KeyEntry, MaybeSend, Mutation, Read, Store, StoreError,
    Version,
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
/// The commit checks every entry that [`Transaction::get`] and [`Transaction::get_many`] return:
/// the decision is based on the stored data, or it is repeated. A checked key is not read again:
/// later calls return the same entry. The commit checks no ranges: a decision over one needs a
/// guard, a counter that every change of the range increments and that is read like any other
/// entry. A decision that commits nothing, errors included, is checked by at most one more read.
/// Reads do not see the transaction's own writes.
#[derive(Debug)]
pub struct Transaction {
    store: StoreHandle,
    pub(super) reads: ReadSet,
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

/// Form in which a [`Transaction`] returns what is stored: an [`Entry`], or a JSON value.
pub trait FromEntry: Sized + MaybeSend {
    /// Converts the entry under a key.
    ///
    /// # Errors
    /// [`StoreErrorKind::Corrupt`](super::StoreErrorKind::Corrupt) if it has another form.
    fn from_entry(key: &Key, entry: Entry) -> Result<Self, StoreError>;
}

impl FromEntry for Entry {
    fn from_entry(_: &Key, entry: Entry) -> Result<Self, StoreError> {
        Ok(entry)
    }
}

impl<T: DeserializeOwned + MaybeSend> FromEntry for T {
    fn from_entry(key: &Key, entry: Entry) -> Result<Self, StoreError> {
        decode(key, &entry).map(|found| found.value)
    }
}

fn convert<T: FromEntry>(key: &Key, entry: Option<Entry>) -> Result<Option<T>, StoreError> {
    entry.map(|entry| T::from_entry(key, entry)).transpose()
}

fn convert_all<T: FromEntry>(
    keys: &[Key],
    found: Vec<Option<Entry>>,
) -> Result<Vec<Option<T>>, StoreError> {
    let mut converted = Vec::with_capacity(found.len());
    for (key, entry) in keys.iter().zip(found) {
        converted.push(convert(key, entry)?);
    }
    Ok(converted)
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

    /// Prefetches keys and ranges that are not known yet, in one [`Store::read`].
    ///
    /// The calls that read one of these keys return what was found here, however often they are
    /// repeated. So do those that read a key of a range that was read to its end, until
    /// [`Transaction::scan`] takes its entries. Nothing becomes a check before that.
    ///
    /// Every read of a transaction repeats what was read before, if it is not much: if it is
    /// unchanged, all of it was seen at one point in time, and a decision that commits nothing needs
    /// no further read.
    ///
    /// # Errors
    /// Those of [`Store::read`].
    pub async fn prefetch(
        &mut self,
        mut keys: Vec<Key>,
        mut ranges: Vec<RangeRead>,
    ) -> Result<(), StoreError> {
        if !self.reads.is_empty() {
            keys.retain(|key| !self.reads.keep(key));
            ranges.retain(|range| self.reads.range(range).is_none());
        }
        if keys.is_empty() && ranges.is_empty() {
            return Ok(());
        }
        let (entries, found) = self.read(&keys, &ranges).await?;
        self.reads.add_keys(keys.into_iter().zip(entries));
        self.reads.add_ranges(ranges.into_iter().zip(found));
        Ok(())
    }

    /// Reads one JSON value or entry; the commit checks that it is unchanged.
    ///
    /// # Errors
    /// Those of [`Store::read`] and [`FromEntry::from_entry`].
    pub async fn get<T: FromEntry>(&mut self, key: &Key) -> Result<Option<T>, StoreError> {
        let found = self.checked_entries(std::slice::from_ref(key)).await?;
        convert(key, found.into_iter().next().flatten())
    }

    /// Reads many JSON values of one type, or entries of any; the commit checks each of them.
    ///
    /// They are read at one point in time, together with everything that was read before and is
    /// not much.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub async fn get_many<T: FromEntry>(
        &mut self,
        keys: &[Key],
    ) -> Result<Vec<Option<T>>, StoreError> {
        convert_all(keys, self.checked_entries(keys).await?)
    }

    /// Returns the first entries of a range without a check.
    ///
    /// It takes those of a prefetch, if this was of the same read or reached the end of the range.
    /// A decision over a range also needs a guard.
    ///
    /// # Errors
    /// Those of [`Store::read`].
    pub async fn scan(&mut self, read: &RangeRead) -> Result<Vec<KeyEntry>, StoreError> {
        if let Some(found) = self.reads.take_range(read) {
            return Ok(found);
        }
        let (_, ranges) = self.read(&[], std::slice::from_ref(read)).await?;
        ranges.into_iter().next().ok_or_else(mismatch)
    }

    /// Returns the reads that the commit does not check, for values that are only displayed.
    pub fn unchecked(&mut self) -> Unchecked<'_> {
        Unchecked(self)
    }

    /// Returns what is known without a further read, which the commit does not check.
    #[must_use]
    pub fn prefetched(&self) -> Prefetched<'_> {
        Prefetched(&self.reads)
    }

    async fn checked_entries(&mut self, keys: &[Key]) -> Result<Vec<Option<Entry>>, StoreError> {
        if let Some(found) = self.reads.use_keys(keys, true) {
            return Ok(found);
        }
        let found = self.entries(keys).await?;
        self.reads.add_checked(keys, &found);
        Ok(found)
    }

    /// Returns entries that are known, or reads all of them if one is not.
    async fn entries(&mut self, keys: &[Key]) -> Result<Vec<Option<Entry>>, StoreError> {
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            let Some(known) = self.reads.get(key) else {
                self.reads.forget_pending(keys);
                return Ok(self.read(keys, &[]).await?.0);
            };
            found.push(known.cloned());
        }
        Ok(found)
    }

    /// Reads keys and ranges from the store, and repeats what is pending.
    async fn read(
        &mut self,
        keys: &[Key],
        ranges: &[RangeRead],
    ) -> Result<(Vec<Option<Entry>>, Vec<Vec<KeyEntry>>), StoreError> {
        let pending_keys = self.reads.pending_keys();
        let pending_ranges = self.reads.take_ranges();
        if pending_keys.is_empty() && pending_ranges.is_empty() {
            return self.read_checked(keys, ranges).await;
        }
        let all_keys: Vec<Key> = keys.iter().chain(&pending_keys).cloned().collect();
        let all_ranges: Vec<RangeRead> = ranges.iter().chain(&pending_ranges).cloned().collect();
        let (mut entries, mut found) = self.read_checked(&all_keys, &all_ranges).await?;
        let repeated = entries.split_off(keys.len());
        self.reads.add_keys(pending_keys.into_iter().zip(repeated));
        let repeated = found.split_off(ranges.len());
        let repeated = pending_ranges.into_iter().zip(repeated);
        self.reads.add_ranges(repeated);
        Ok((entries, found))
    }

    /// Reads keys and ranges from the store, and repeats what the commit checks.
    async fn read_checked(
        &self,
        keys: &[Key],
        ranges: &[RangeRead],
    ) -> Result<(Vec<Option<Entry>>, Vec<Vec<KeyEntry>>), StoreError> {
        let repeated = self.reads.checks.repeated();
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
        self.reads.checks.confirm(&next()?.into_keys()?);
        let ranges: Result<_, _> = ranges.iter().map(|_| next()?.into_range()).collect();
        Ok((entries, ranges?))
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
        self.reads.check(key, version);
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

    /// Ends a decision that only shows what it would do: its writes are dropped.
    #[must_use]
    pub fn discard<T>(mut self, output: T) -> Prepared<T> {
        self.mutations.clear();
        self.adds.clear();
        self.proof = None;
        self.done(output)
    }

    /// Returns true if there is something to commit.
    #[must_use]
    pub fn has_changes(&self) -> bool {
        !self.mutations.is_empty() || self.adds.values().any(|delta| *delta != 0)
    }

    pub(super) fn into_commit(self) -> Result<(Commit, Option<CommitProof>), InvalidCommit> {
        let mut builder = Commit::builder();
        for (key, version) in self.reads.checks.take() {
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

/// Reads of a transaction that its commit does not check.
#[derive(Debug)]
pub struct Unchecked<'t>(&'t mut Transaction);

impl<'t> Unchecked<'t> {
    /// Reads one JSON value or entry, unless it is known.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub async fn get<T: FromEntry>(self, key: &Key) -> Result<Option<T>, StoreError> {
        let found = self.entries(std::slice::from_ref(key)).await?;
        convert(key, found.into_iter().next().flatten())
    }

    /// Reads many JSON values of one type, or entries of any, at one point in time, unless all of
    /// them are known.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub async fn get_many<T: FromEntry>(self, keys: &[Key]) -> Result<Vec<Option<T>>, StoreError> {
        convert_all(keys, self.entries(keys).await?)
    }

    async fn entries(self, keys: &[Key]) -> Result<Vec<Option<Entry>>, StoreError> {
        match self.0.reads.use_keys(keys, false) {
            Some(found) => Ok(found),
            None => self.0.entries(keys).await,
        }
    }

    /// Returns the store, for reads that do not return what is known.
    #[must_use]
    pub fn store(self) -> &'t Arc<dyn Store> {
        self.0.reads.checks.set_unconfirmed();
        &self.0.store.0
    }
}

/// Entries that a transaction returns without a read of the store.
#[derive(Clone, Copy, Debug)]
pub struct Prefetched<'t>(&'t ReadSet);

impl<'t> Prefetched<'t> {
    /// Returns true if reading this key takes no read of the store.
    #[must_use]
    pub fn contains(self, key: &Key) -> bool {
        self.0.get(key).is_some()
    }

    /// Returns the JSON value or entry under a key; `None` if it is absent or unknown.
    ///
    /// # Errors
    /// Those of [`FromEntry::from_entry`].
    pub fn get<T: FromEntry>(self, key: &Key) -> Result<Option<T>, StoreError> {
        convert(key, self.0.get(key).flatten().cloned())
    }

    /// Returns the entries of a range, if exactly this read was prefetched and not taken.
    #[must_use]
    pub fn scan(self, read: &RangeRead) -> Option<&'t [KeyEntry]> {
        self.0.range(read)
    }
}
