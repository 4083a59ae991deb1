//! Attempts at a transaction, until one stands.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use uuid::Uuid;

use super::transaction::{Decided, Reads, Transaction, TransactionError, Witness};
use super::{CommitOutcome, Entry, Key, MaybeSend, Store, StoreError, StoreErrorKind, StoreExt};
use crate::env::Env;

/// How often a transaction is decided before it gives up.
pub const RETRIES_MAX: u32 = 16;
/// The longest first wait after a conflict; each further one may be twice as long.
const RETRY_DELAY_MIN: Duration = Duration::from_millis(2);
/// The longest wait between two attempts.
const RETRY_DELAY_MAX: Duration = Duration::from_millis(250);

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
