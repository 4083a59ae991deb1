//! Transactions over any [`Store`]: reads that become checks, and writes that become a commit.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::ext::{StoreExt, Versioned, decode};
use super::{
    Commit, Entry, InvalidCommit, Key, KeyEntry, KeyRange, MaybeSend, Mutation, Store, StoreError,
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
/// The commit checks every entry read through [`Transaction::read`] and its siblings: the decision
/// is based on the stored data, or it is repeated. A decision that commits nothing, errors
/// included, is checked by one more read. Reads do not see the transaction's own writes.
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

/// Entries that a transaction has read, in the order of their keys.
///
/// It is shared with [`transact`](super::transact), because it outlives a decision that ends in an
/// error. The order makes equal decisions produce equal commits.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadSet(Arc<Mutex<BTreeMap<Key, Option<Version>>>>);

impl ReadSet {
    fn versions(&self) -> MutexGuard<'_, BTreeMap<Key, Option<Version>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if all entries are unchanged and were therefore read at one point in time.
    ///
    /// A single key always was.
    pub(super) async fn is_current(&self, store: &dyn Store) -> Result<bool, StoreError> {
        let (keys, versions): (Vec<Key>, Vec<Option<Version>>) =
            self.versions().clone().into_iter().unzip();
        if keys.len() < 2 {
            return Ok(true);
        }
        let found = store.get(&keys).await?.into_iter();
        Ok(found
            .map(|entry| entry.map(|entry| entry.version))
            .eq(versions))
    }
}

/// Store of a transaction, a separate type to implement `Debug`.
struct StoreHandle(Arc<dyn Store>);

impl std::fmt::Debug for StoreHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Store")
    }
}

fn json<T: Serialize>(value: &T) -> Bytes {
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
        &self.store.0
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

    async fn entry(&mut self, key: &Key) -> Result<Option<Entry>, StoreError> {
        let found = self.entries(std::slice::from_ref(key)).await?;
        Ok(found.into_iter().next().flatten())
    }

    /// Reads entries of any types at one point in time; the commit checks each of them.
    ///
    /// # Errors
    /// Those of [`Store::read`].
    pub async fn entries(&mut self, keys: &[Key]) -> Result<Vec<Option<Entry>>, StoreError> {
        let found = self.store.0.get(keys).await?;
        for (key, entry) in keys.iter().zip(&found) {
            self.check(key.clone(), entry.as_ref().map(|entry| entry.version));
        }
        Ok(found)
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
        let found = self.store.0.get(std::slice::from_ref(key)).await?;
        let entry = found.into_iter().next().flatten();
        entry.map(|entry| value(key, &entry)).transpose()
    }

    /// Reads all entries of a short range without a check.
    ///
    /// A decision over a range also needs a guard.
    ///
    /// # Errors
    /// Those of [`Store::read`].
    pub async fn scan_unchecked(&self, range: &KeyRange) -> Result<Vec<KeyEntry>, StoreError> {
        self.store.0.scan_all(range).await
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
        self.reads.versions().entry(key).or_insert(version);
    }

    /// Writes a JSON value.
    pub fn put<T: Serialize>(&mut self, key: Key, value: &T) {
        let value = json(value);
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
    pub fn create_unique<T: Serialize>(&mut self, key: Key, value: &T) {
        let value = json(value);
        self.check(key.clone(), None);
        self.proof.get_or_insert_with(|| CommitProof {
            key: key.clone(),
            value: value.clone(),
        });
        self.mutations.push(Mutation::Put { key, value });
    }

    /// Removes an entry.
    pub fn delete(&mut self, key: Key) {
        self.mutations.push(Mutation::Delete { key });
    }

    /// Adds to a counter, without a check; adding 0 changes nothing.
    pub fn add(&mut self, key: Key, delta: i64) {
        *self.adds.entry(key).or_default() += delta;
    }

    /// Ends the decision. Without a write there is no commit.
    ///
    /// # Errors
    /// None; the type is that of the functions that end with it.
    pub fn done<T, E>(self, output: T) -> Result<Prepared<T>, E> {
        Ok(Prepared {
            transaction: self,
            output,
        })
    }

    pub(super) fn changes_nothing(&self) -> bool {
        self.mutations.is_empty() && self.adds.values().all(|delta| *delta == 0)
    }

    pub(super) fn into_commit(self) -> Result<(Commit, Option<CommitProof>), InvalidCommit> {
        let mut builder = Commit::builder();
        for (key, version) in std::mem::take(&mut *self.reads.versions()) {
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
