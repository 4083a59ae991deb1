//! Optimistic transactions over any [`Store`]: read, decide, commit.

use std::collections::BTreeMap;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::ext::{StoreExt, Versioned, decode};
use super::{
    Commit, CommitOutcome, Entry, InvalidCommit, Key, KeyEntry, KeyRange, MaybeSend, Mutation,
    Store, StoreError, StoreErrorKind, Version,
};
use crate::env::Env;

/// How often a transaction is decided before it gives up.
pub const RETRIES_MAX: u32 = 16;
/// The longest first wait after a conflict; each further one may be twice as long.
const RETRY_DELAY_MIN: Duration = Duration::from_millis(2);
/// The longest wait between two attempts.
const RETRY_DELAY_MAX: Duration = Duration::from_millis(250);

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
    /// Others changed what was read, [`RETRIES_MAX`] times in a row.
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
    reads: Reads,
    mutations: Vec<Mutation>,
    /// Several additions to one counter become one: a commit changes each key once.
    adds: BTreeMap<Key, i64>,
    unique: Uuid,
    witness: Option<Witness>,
}

/// A key that one attempt of a transaction at most ever writes, and what this attempt would write there.
#[derive(Clone, Debug)]
struct Witness {
    key: Key,
    value: Bytes,
}

/// What a transaction has read, shared with [`transact`], which outlives a decision that ends in a refusal. In the order
/// of keys, so that the same decision makes the same commit.
#[derive(Clone, Debug, Default)]
struct Reads(Arc<Mutex<BTreeMap<Key, Option<Version>>>>);

impl Reads {
    fn versions(&self) -> MutexGuard<'_, BTreeMap<Key, Option<Version>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether everything is still as it was read, and so was all of it at one moment. A single key always was.
    async fn still_hold(&self, store: &dyn Store) -> Result<bool, StoreError> {
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
    transaction: Transaction,
    output: T,
}

impl Transaction {
    /// Begins to read. Outside [`transact`] it is a way to read, whose writes are never committed.
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

    /// A new time-ordered identifier, the same one in each attempt of [`transact`]; the nil one outside.
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
    /// As [`StoreExt::read`].
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
    /// As [`StoreExt::read`].
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
    /// As [`StoreExt::read`].
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
    /// Those of [`Store::get`].
    pub(crate) async fn entries(&mut self, keys: &[Key]) -> Result<Vec<Option<Entry>>, StoreError> {
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
    /// As [`StoreExt::read`].
    pub async fn guard(&mut self, key: &Key) -> Result<i64, StoreError> {
        Ok(self.read(key).await?.unwrap_or(0))
    }

    /// Reads one JSON value without checking at the commit that it stayed the same: for what is only shown.
    ///
    /// # Errors
    /// As [`StoreExt::read`].
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
    /// Those of [`Store::scan`].
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

    fn changes_nothing(&self) -> bool {
        self.mutations.is_empty() && self.adds.values().all(|delta| *delta == 0)
    }

    fn into_commit(self) -> Result<(Commit, Option<Witness>), InvalidCommit> {
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

/// Reads, decides and commits; decides anew, after a random wait, where others changed meanwhile what was read.
///
/// `decide` gets a fresh [`Transaction`] for every attempt and ends with [`Transaction::done`]. Its output is
/// returned once the commit is durable. Where the answer to a commit is lost, the key written by
/// [`Transaction::create_unique`] tells whether it was applied, and keeps it from being applied twice; without such a
/// key the error is passed on.
///
/// # Errors
/// Those of `decide`, and [`TransactionError`] as its error type takes it.
pub async fn transact<T, E, F, D>(store: &Arc<dyn Store>, env: &Env, decide: F) -> Result<T, E>
where
    T: MaybeSend,
    E: From<TransactionError> + MaybeSend,
    F: FnMut(Transaction) -> D + MaybeSend,
    D: Future<Output = Result<Decided<T>, E>> + MaybeSend,
{
    let mut decision = Typed {
        decide,
        deciding: PhantomData,
        told: Vec::new(),
    };
    let place = run(&mut decision, store, env).await?;
    decision.told.swap_remove(place)
}

/// A decision on its way; there is no transaction where it was refused.
#[cfg(not(target_arch = "wasm32"))]
type Deciding<'d> = Pin<Box<dyn Future<Output = Option<Transaction>> + Send + 'd>>;
#[cfg(target_arch = "wasm32")]
type Deciding<'d> = Pin<Box<dyn Future<Output = Option<Transaction>> + 'd>>;

/// What [`run`] has to know of a decision: not its types, so that all that surrounds one is compiled once.
trait Decide: MaybeSend {
    /// Decides, and keeps what its caller would be told.
    fn decide(&mut self, transaction: Transaction) -> Deciding<'_>;

    /// Forgets what the last decision would tell.
    fn forget(&mut self);
}

/// A decision with its types.
struct Typed<T, E, F, D> {
    decide: F,
    /// What `decide` makes, so that it is known to live as long as this.
    deciding: PhantomData<fn() -> D>,
    /// What is told where the last attempt stands, after what is told where one does whose answer was lost.
    told: Vec<Result<T, E>>,
}

impl<T, E, F, D> Decide for Typed<T, E, F, D>
where
    T: MaybeSend,
    E: MaybeSend,
    F: FnMut(Transaction) -> D + MaybeSend,
    D: Future<Output = Result<Decided<T>, E>> + MaybeSend,
{
    fn decide(&mut self, transaction: Transaction) -> Deciding<'_> {
        let told = &mut self.told;
        Box::pin((self.decide)(transaction).map(move |decided| {
            let (transaction, output) = match decided {
                Ok(decided) => (Some(decided.transaction), Ok(decided.output)),
                Err(refusal) => (None, Err(refusal)),
            };
            told.push(output);
            transaction
        }))
    }

    fn forget(&mut self) {
        self.told.pop();
    }
}

/// Makes attempts until one stands; the place of what it tells.
async fn run(
    decision: &mut dyn Decide,
    store: &Arc<dyn Store>,
    env: &Env,
) -> Result<usize, TransactionError> {
    let mut attempts = Attempts::new(store, env);
    loop {
        let transaction = decision.decide(attempts.begin()).await;
        let last = attempts.lost.len();
        match attempts.end(transaction).await? {
            Next::Tell => return Ok(last),
            Next::TellLost(place) => return Ok(place),
            Next::Keep => {}
            Next::Again => decision.forget(),
        }
        if let Some(place) = attempts.wait().await? {
            return Ok(place);
        }
    }
}

/// What follows an attempt.
enum Next {
    /// What it came to is told.
    Tell,
    /// An earlier attempt, whose answer was lost, is committed: what that came to is told.
    TellLost(usize),
    /// Its answer was lost: what it came to is kept, and it is decided anew.
    Keep,
    /// It is decided anew.
    Again,
}

/// The attempts of one [`transact`]: all of it that does not depend on what is decided, so that it is compiled once.
struct Attempts<'t> {
    store: &'t Arc<dyn Store>,
    env: &'t Env,
    unique: Uuid,
    made: u32,
    delay_max: Duration,
    /// What the present attempt has read.
    reads: Reads,
    /// The witnesses of the attempts whose answers were lost.
    lost: Vec<Witness>,
}

impl<'t> Attempts<'t> {
    fn new(store: &'t Arc<dyn Store>, env: &'t Env) -> Self {
        Self {
            store,
            env,
            unique: env.uuid(),
            made: 0,
            delay_max: RETRY_DELAY_MIN,
            reads: Reads::default(),
            lost: Vec::new(),
        }
    }

    fn begin(&mut self) -> Transaction {
        let mut transaction = Transaction::begin(Arc::clone(self.store));
        transaction.unique = self.unique;
        self.reads = transaction.reads.clone();
        transaction
    }

    /// Ends an attempt; there is no transaction where it was refused.
    async fn end(&mut self, transaction: Option<Transaction>) -> Result<Next, TransactionError> {
        // Asked after the decision: it may have seen, and refused, what an earlier attempt of its own had written.
        if let Some(place) = self.arrived().await? {
            return Ok(Next::TellLost(place));
        }
        let is_refused = transaction.is_none();
        if let Some(transaction) = transaction
            && !transaction.changes_nothing()
        {
            return self.commit(transaction).await;
        }
        // Nothing to commit, so nothing has checked yet what was read.
        match self.reads.still_hold(&**self.store).await {
            Ok(false) => Ok(Next::Again),
            // A refusal says that nothing was changed: an attempt that may still arrive forbids to say so.
            Ok(true) if is_refused && !self.lost.is_empty() => Err(unknown()),
            Ok(true) => Ok(Next::Tell),
            // Whatever made the decision fail: it is not for this failure to hide it.
            Err(_) if is_refused => Ok(Next::Tell),
            Err(error) => Err(failure(error, &self.lost)),
        }
    }

    async fn commit(&mut self, mut transaction: Transaction) -> Result<Next, TransactionError> {
        for witness in &self.lost {
            transaction.check(witness.key.clone(), None);
        }
        let (commit, witness) = transaction.into_commit()?;
        match self.store.commit(commit).await {
            Ok(CommitOutcome::Committed(_)) => Ok(Next::Tell),
            Ok(CommitOutcome::Conflict) => Ok(Next::Again),
            Err(error) => match witness {
                Some(witness) if error.kind() == StoreErrorKind::Unknown => {
                    self.lost.push(witness);
                    Ok(Next::Keep)
                }
                _ => Err(failure(error, &self.lost)),
            },
        }
    }

    /// Waits before the next attempt. After the last one it gives up, unless a lost one turns out to be committed.
    async fn wait(&mut self) -> Result<Option<usize>, TransactionError> {
        self.env.sleep(self.env.jitter(self.delay_max)).await;
        self.delay_max = (self.delay_max * 2).min(RETRY_DELAY_MAX);
        self.made += 1;
        if self.made < RETRIES_MAX {
            return Ok(None);
        }
        match self.arrived().await? {
            Some(place) => Ok(Some(place)),
            None if self.lost.is_empty() => Err(TransactionError::Contended),
            None => Err(unknown()),
        }
    }

    /// The lost attempt that turns out to be committed, if one does.
    async fn arrived(&self) -> Result<Option<usize>, TransactionError> {
        if self.lost.is_empty() {
            return Ok(None);
        }
        let keys: Vec<Key> = self
            .lost
            .iter()
            .map(|witness| witness.key.clone())
            .collect();
        let found = self.store.get(&keys).await;
        let found = found.map_err(|error| failure(error, &self.lost))?;
        let is_there = |(entry, witness): (&Option<Entry>, &Witness)| {
            entry
                .as_ref()
                .is_some_and(|entry| entry.value == witness.value)
        };
        Ok(found.iter().zip(&self.lost).position(is_there))
    }
}

fn unknown() -> TransactionError {
    let message = "it could not be found out whether a commit was applied";
    StoreError::new(StoreErrorKind::Unknown, message).into()
}

/// What a failure of the store means. Most say that nothing was applied: that is no longer known where the answer to
/// an earlier attempt was lost.
fn failure(error: StoreError, lost: &[Witness]) -> TransactionError {
    if lost.is_empty() {
        return error.into();
    }
    let message = format!("it could not be found out whether a commit was applied: {error}");
    StoreError::new(StoreErrorKind::Unknown, message)
        .with_source(error)
        .into()
}
