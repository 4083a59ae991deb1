//! Optimistic transactions over any [`Store`]: what is read, and what is to be committed.

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

/// A transaction that could not be brought to an end.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransactionError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What was decided does not fit into one commit.
    #[error(transparent)]
    Invalid(#[from] InvalidCommit),
    /// Others changed what was read, [`RETRIES_MAX`](super::RETRIES_MAX) times in a row.
    #[error("others kept changing the same entries")]
    Contended,
}

/// Reads that become checks, and writes that become one commit.
///
/// Every entry read through [`Transaction::read`] and its siblings is checked by the commit: what was decided holds
/// of what is stored, or the decision is made again. A decision that commits nothing, a refusal too, is checked by one
/// more reading. Reads do not see the transaction's own writes.
#[derive(Debug)]
pub struct Transaction {
    store: StoreHandle,
    pub(super) reads: Reads,
    mutations: Vec<Mutation>,
    /// Several additions to one counter become one: a commit changes each key once.
    adds: BTreeMap<Key, i64>,
    pub(super) unique: Uuid,
    witness: Option<Witness>,
}

/// A key that one attempt of a transaction at most ever writes, and what this attempt would write there.
#[derive(Clone, Debug)]
pub(super) struct Witness {
    pub(super) key: Key,
    pub(super) value: Bytes,
}

/// What a transaction has read, shared with [`transact`](super::transact), which outlives a decision that ends in a refusal. In the order
/// of keys, so that the same decision makes the same commit.
#[derive(Clone, Debug, Default)]
pub(super) struct Reads(Arc<Mutex<BTreeMap<Key, Option<Version>>>>);

impl Reads {
    fn versions(&self) -> MutexGuard<'_, BTreeMap<Key, Option<Version>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether everything is still as it was read, and so was all of it at one moment. A single key always was.
    pub(super) async fn still_hold(&self, store: &dyn Store) -> Result<bool, StoreError> {
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

/// The store of a transaction; a type of its own for the sake of `Debug`.
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

/// A transaction whose decision is made, with what its caller is told once it is durable.
#[derive(Debug)]
pub struct Decided<T> {
    pub(super) transaction: Transaction,
    pub(super) output: T,
}

impl Transaction {
    /// Begins to read. Outside [`transact`](super::transact) it is a way to read, whose writes are never committed.
    #[must_use]
    pub fn begin(store: Arc<dyn Store>) -> Self {
        Self {
            store: StoreHandle(store),
            reads: Reads::default(),
            mutations: Vec::new(),
            adds: BTreeMap::new(),
            unique: Uuid::nil(),
            witness: None,
        }
    }

    /// A new time-ordered identifier, the same one in each attempt of [`transact`](super::transact); the nil one outside.
    #[must_use]
    pub fn unique(&self) -> Uuid {
        self.unique
    }

    /// The store, for reads that the commit does not have to check.
    #[must_use]
    pub fn unchecked(&self) -> &Arc<dyn Store> {
        &self.store.0
    }

    /// Reads one JSON value and checks at the commit that it did not change.
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

    /// The same, with the version.
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

    /// Reads many JSON values of one type at one point in time; each is checked at the commit.
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

    /// Reads many entries as they are, of whatever types, at one point in time; each is checked at the commit.
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

    /// The value of a counter, checked at the commit: any change of it is a conflict. For guards; a counter that is
    /// only shown is read through [`Transaction::unchecked`].
    ///
    /// # Errors
    /// As [`StoreExt::get_as`].
    pub async fn guard(&mut self, key: &Key) -> Result<i64, StoreError> {
        Ok(self.read(key).await?.unwrap_or(0))
    }

    /// Reads one JSON value without checking at the commit that it stayed the same: for what is only shown.
    ///
    /// # Errors
    /// As [`StoreExt::get_as`].
    pub async fn peek<T: DeserializeOwned + MaybeSend>(
        &self,
        key: &Key,
    ) -> Result<Option<T>, StoreError> {
        let found = self.store.0.get(std::slice::from_ref(key)).await?;
        let entry = found.into_iter().next().flatten();
        entry.map(|entry| value(key, &entry)).transpose()
    }

    /// Every entry of a short range, without a check: a decision over a range needs a guard as well.
    ///
    /// # Errors
    /// Those of [`Store::read`].
    pub async fn scan_unchecked(&self, range: &KeyRange) -> Result<Vec<KeyEntry>, StoreError> {
        self.store.0.scan_all(range).await
    }

    /// What this transaction adds to a counter so far.
    #[must_use]
    pub fn added(&self, key: &Key) -> i64 {
        self.adds.get(key).copied().unwrap_or(0)
    }

    /// Adds a check of a version that was read elsewhere. The first one stands: a later reading that differs makes
    /// the commit a conflict, as it must be.
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

    /// Writes a JSON value under a key made of [`Transaction::unique`]: of all attempts one at most is ever applied, also
    /// where one whose answer was lost arrives after another was made instead. What stands there tells which one. The
    /// values of two attempts that differ in anything have to differ.
    pub fn create_unique<T: Serialize>(&mut self, key: Key, value: &T) {
        let value = json(value);
        self.check(key.clone(), None);
        self.witness.get_or_insert_with(|| Witness {
            key: key.clone(),
            value: value.clone(),
        });
        self.mutations.push(Mutation::Put { key, value });
    }

    /// Removes an entry.
    pub fn delete(&mut self, key: Key) {
        self.mutations.push(Mutation::Delete { key });
    }

    /// Adds to a counter, without a check. Adding nothing changes nothing.
    pub fn add(&mut self, key: Key, delta: i64) {
        *self.adds.entry(key).or_default() += delta;
    }

    /// Ends the decision. Without a write there is no commit.
    ///
    /// # Errors
    /// None; the type is that of the functions that end with it.
    pub fn done<T, E>(self, output: T) -> Result<Decided<T>, E> {
        Ok(Decided {
            transaction: self,
            output,
        })
    }

    pub(super) fn changes_nothing(&self) -> bool {
        self.mutations.is_empty() && self.adds.values().all(|delta| *delta == 0)
    }

    pub(super) fn into_commit(self) -> Result<(Commit, Option<Witness>), InvalidCommit> {
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
        Ok((builder.build()?, self.witness))
    }
}
