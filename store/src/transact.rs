//! Optimistic transactions: attempts until one commits.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use uuid::Uuid;

use super::read_set::Checks;
use super::transaction::{CommitProof, Prepared, Transaction, TransactionError};
use super::{CommitOutcome, Entry, Key, MaybeSend, Store, StoreError, StoreErrorKind, StoreExt};
use crate::env::Env;

/// Maximum number of attempts of a transaction.
pub const RETRIES_MAX: u32 = 16;
/// Maximum delay after the first conflict; it doubles with each further one.
const RETRY_DELAY_MIN: Duration = Duration::from_millis(2);
/// Maximum delay between two attempts.
const RETRY_DELAY_MAX: Duration = Duration::from_millis(250);

/// Reads, decides and commits, and retries after a random delay if what was read has changed.
///
/// `decide` receives a fresh [`Transaction`] for every attempt and ends with [`Transaction::done`].
/// Its output is returned once the commit is durable. If the outcome of a commit is unknown, the
/// key written by [`Transaction::create_unique`] tells whether it was applied, and prevents a
/// second application; without such a key the error is returned.
///
/// # Errors
/// Errors of `decide`, and [`TransactionError`], converted into its error type.
pub async fn transact<T, E, F, D>(store: &Arc<dyn Store>, env: &Env, decide: F) -> Result<T, E>
where
    T: MaybeSend,
    E: From<TransactionError> + MaybeSend,
    F: FnMut(Transaction) -> D + MaybeSend,
    D: Future<Output = Result<Prepared<T>, E>> + MaybeSend,
{
    let mut attempt = TypedAttempt {
        decide,
        future: PhantomData,
        results: Vec::new(),
    };
    run(&mut attempt, store, env).await?;
    let result = attempt.results.pop();
    result.expect("the result of the last attempt is kept")
}

/// Decision in progress; it has no transaction if it ended in an error.
#[cfg(not(target_arch = "wasm32"))]
type AttemptFuture<'d> = Pin<Box<dyn Future<Output = Option<Transaction>> + Send + 'd>>;
#[cfg(target_arch = "wasm32")]
type AttemptFuture<'d> = Pin<Box<dyn Future<Output = Option<Transaction>> + 'd>>;

/// Decision without its types, so that the code around it is compiled only once: that saves 20 kB
/// of the WebAssembly module in gzip.
trait ErasedAttempt: MaybeSend {
    /// Decides, and stores the result for the caller.
    fn decide(&mut self, transaction: Transaction) -> AttemptFuture<'_>;

    /// Keeps only the first `count` results.
    fn truncate(&mut self, count: usize);
}

/// Decision with its types.
struct TypedAttempt<T, E, F, D> {
    decide: F,
    /// Type of the future of `decide`, so that it is known to outlive this.
    future: PhantomData<fn() -> D>,
    /// Results of the indeterminate attempts, followed by that of the last attempt.
    results: Vec<Result<T, E>>,
}

impl<T, E, F, D> ErasedAttempt for TypedAttempt<T, E, F, D>
where
    T: MaybeSend,
    E: MaybeSend,
    F: FnMut(Transaction) -> D + MaybeSend,
    D: Future<Output = Result<Prepared<T>, E>> + MaybeSend,
{
    fn decide(&mut self, transaction: Transaction) -> AttemptFuture<'_> {
        let results = &mut self.results;
        Box::pin((self.decide)(transaction).map(move |prepared| {
            let (transaction, output) = match prepared {
                Ok(prepared) => (Some(prepared.transaction), Ok(prepared.output)),
                Err(refusal) => (None, Err(refusal)),
            };
            results.push(output);
            transaction
        }))
    }

    fn truncate(&mut self, count: usize) {
        self.results.truncate(count);
    }
}

/// Makes attempts until one commits; its result is then the last one.
async fn run(
    attempt: &mut dyn ErasedAttempt,
    store: &Arc<dyn Store>,
    env: &Env,
) -> Result<(), TransactionError> {
    let mut attempts = Attempts::new(store, env);
    loop {
        let transaction = attempt.decide(attempts.begin()).await;
        let last = attempts.indeterminate.len();
        match attempts.end(transaction).await? {
            Next::Return => return Ok(()),
            Next::ReturnIndeterminate(index) => {
                attempt.truncate(index + 1);
                return Ok(());
            }
            Next::Keep => {}
            Next::Retry => attempt.truncate(last),
        }
        if let Some(index) = attempts.wait().await? {
            attempt.truncate(index + 1);
            return Ok(());
        }
    }
}

/// Next step after an attempt.
enum Next {
    /// Return the result of this attempt.
    Return,
    /// Return the result of this indeterminate attempt, which turned out to be committed.
    ReturnIndeterminate(usize),
    /// Keep the result of this indeterminate attempt, and retry.
    Keep,
    /// Retry.
    Retry,
}

/// Attempts of one [`transact`]: the part that does not depend on the decision, compiled only once.
struct Attempts<'t> {
    store: &'t Arc<dyn Store>,
    env: &'t Env,
    unique: Uuid,
    count: u32,
    delay_max: Duration,
    /// Checks of the current attempt.
    checks: Checks,
    /// Proofs of the indeterminate attempts.
    indeterminate: Vec<CommitProof>,
}

impl<'t> Attempts<'t> {
    fn new(store: &'t Arc<dyn Store>, env: &'t Env) -> Self {
        Self {
            store,
            env,
            unique: env.uuid(),
            count: 0,
            delay_max: RETRY_DELAY_MIN,
            checks: Checks::default(),
            indeterminate: Vec::new(),
        }
    }

    fn begin(&mut self) -> Transaction {
        let mut transaction = Transaction::begin(Arc::clone(self.store));
        transaction.unique = self.unique;
        self.checks = transaction.reads.checks.clone();
        transaction
    }

    /// Ends an attempt; `transaction` is `None` if the decision ended in an error.
    async fn end(&mut self, transaction: Option<Transaction>) -> Result<Next, TransactionError> {
        // After the decision, because it may have seen, and rejected, the writes of an earlier
        // attempt.
        if let Some(index) = self.find_committed().await? {
            return Ok(Next::ReturnIndeterminate(index));
        }
        let is_rejected = transaction.is_none();
        if let Some(transaction) = transaction
            && transaction.has_changes()
        {
            return self.commit(transaction).await;
        }
        // Without a commit, nothing has checked yet what was read.
        match self.checks.is_current(&**self.store).await {
            Ok(false) => Ok(Next::Retry),
            // An error asserts that nothing was changed, which an attempt still under way could
            // refute.
            Ok(true) if is_rejected && !self.indeterminate.is_empty() => Err(unknown()),
            Ok(true) => Ok(Next::Return),
            // The error of the decision takes precedence over the failure of this check.
            Err(_) if is_rejected => Ok(Next::Return),
            Err(error) => Err(failure(error, &self.indeterminate)),
        }
    }

    async fn commit(&mut self, mut transaction: Transaction) -> Result<Next, TransactionError> {
        for proof in &self.indeterminate {
            transaction.check(proof.key.clone(), None);
        }
        let (commit, proof) = match transaction.into_commit() {
            // This error asserts that nothing was applied.
            Err(_) if !self.indeterminate.is_empty() => return Err(unknown()),
            built => built?,
        };
        match self.store.commit(commit).await {
            Ok(CommitOutcome::Committed(_)) => Ok(Next::Return),
            Ok(CommitOutcome::Conflict) => Ok(Next::Retry),
            Err(error) => match proof {
                Some(proof) if error.kind() == StoreErrorKind::Unknown => {
                    self.indeterminate.push(proof);
                    Ok(Next::Keep)
                }
                _ => Err(failure(error, &self.indeterminate)),
            },
        }
    }

    /// Waits before the next attempt.
    ///
    /// After the last one it gives up, unless an indeterminate attempt turns out to be committed.
    async fn wait(&mut self) -> Result<Option<usize>, TransactionError> {
        self.env.sleep(self.env.jitter(self.delay_max)).await;
        self.delay_max = (self.delay_max * 2).min(RETRY_DELAY_MAX);
        self.count += 1;
        if self.count < RETRIES_MAX {
            return Ok(None);
        }
        match self.find_committed().await? {
            Some(index) => Ok(Some(index)),
            None if self.indeterminate.is_empty() => Err(TransactionError::Contended),
            None => Err(unknown()),
        }
    }

    /// Returns the indeterminate attempt that turns out to be committed, if any.
    async fn find_committed(&self) -> Result<Option<usize>, TransactionError> {
        if self.indeterminate.is_empty() {
            return Ok(None);
        }
        let keys: Vec<Key> = self
            .indeterminate
            .iter()
            .map(|proof| proof.key.clone())
            .collect();
        let found = self.store.get(&keys).await;
        let found = found.map_err(|error| failure(error, &self.indeterminate))?;
        let is_there = |(entry, proof): (&Option<Entry>, &CommitProof)| {
            entry
                .as_ref()
                .is_some_and(|entry| entry.value == proof.value)
        };
        Ok(found.iter().zip(&self.indeterminate).position(is_there))
    }
}

fn unknown() -> TransactionError {
    let message = "the outcome of a commit is unknown";
    StoreError::new(StoreErrorKind::Unknown, message).into()
}

/// Converts an error of the store.
///
/// Most errors assert that nothing was applied: after an indeterminate attempt, that is uncertain.
fn failure(error: StoreError, indeterminate: &[CommitProof]) -> TransactionError {
    if indeterminate.is_empty() {
        return error.into();
    }
    let message = format!("the outcome of a commit is unknown: {error}");
    StoreError::new(StoreErrorKind::Unknown, message)
        .with_source(error)
        .into()
}
