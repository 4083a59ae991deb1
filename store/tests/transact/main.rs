//! Tests of the transaction layer over stores that conflict, fail or leave an outcome unknown.

mod reads;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use knowledge_store::Timestamp;
use knowledge_store::env::Env;
use knowledge_store::faults::{CommitFault, FaultPlan, FaultStore};
use knowledge_store::{
    Commit, CommitOutcome, Found, Key, MemoryStore, Prepared, RETRIES_MAX, Read, Store, StoreError,
    StoreErrorKind, StoreExt, Transaction, TransactionError, VALUE_BYTES_MAX, transact,
};

fn env() -> Env {
    Env::new(|| Timestamp::UNIX_EPOCH, |buffer: &mut [u8]| buffer.fill(7))
}

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

fn faulty(plan: FaultPlan) -> (Arc<FaultStore>, Arc<dyn Store>) {
    let faults = Arc::new(FaultStore::new(Arc::new(MemoryStore::new()), plan));
    (Arc::clone(&faults), faults)
}

/// Returns a plan that injects one fault into each of the first `count` commits.
fn first(count: u32, fault: CommitFault) -> FaultPlan {
    (1..=u64::from(count)).fold(FaultPlan::none(), |plan, number| {
        plan.at_commit(number, fault)
    })
}

type Outcome<T> = Result<T, TransactionError>;

/// A decision that records each attempt under a key of its own.
struct Step {
    attempts: AtomicU32,
    has_witness: bool,
}

impl Step {
    fn new(has_witness: bool) -> Self {
        Self {
            attempts: AtomicU32::new(0),
            has_witness,
        }
    }

    /// Increments the counter `total` and returns the number of the attempt.
    async fn run(&self, store: &Arc<dyn Store>) -> Outcome<u32> {
        transact(store, &env(), |mut transaction| async move {
            let attempt = self.attempts.fetch_add(1, Ordering::SeqCst) + 1;
            transaction.add(key("total"), 1);
            if self.has_witness {
                transaction.create_unique(key(&format!("witness/{attempt}")), &attempt);
            }
            Ok(transaction.done(attempt))
        })
        .await
    }

    fn attempts(&self) -> u32 {
        self.attempts.load(Ordering::SeqCst)
    }
}

async fn total(faults: &FaultStore) -> i64 {
    faults.inner().counter(&key("total")).await.unwrap()
}

fn store_error<T: std::fmt::Debug>(outcome: Outcome<T>) -> StoreErrorKind {
    match outcome {
        Err(TransactionError::Store(error)) => error.kind(),
        other => panic!("not an error of the store: {other:?}"),
    }
}

async fn put(store: &dyn Store, name: &str, value: &str) {
    let commit = Commit::builder().put(key(name), value.to_owned());
    store.commit(commit.build().unwrap()).await.unwrap();
}

#[tokio::test]
async fn conflict_is_retried_with_fresh_reads() {
    let (faults, store) = faulty(FaultPlan::none());
    put(&*store, "n", "1").await;
    let attempts = AtomicU32::new(0);
    let (seen, inner) = (&attempts, faults.inner());
    let sum: Outcome<i64> = transact(&store, &env(), |mut transaction| async move {
        let n: i64 = transaction.get(&key("n")).await?.unwrap();
        if seen.fetch_add(1, Ordering::SeqCst) == 0 {
            put(&**inner, "n", "10").await;
        }
        transaction.put(key("n"), &(n + 1));
        Ok(transaction.done(n + 1))
    })
    .await;
    assert_eq!(sum.unwrap(), 11);
    assert_eq!(attempts.load(Ordering::SeqCst), 2);
    assert_eq!(faults.inner().counter(&key("n")).await.unwrap(), 11);
}

#[tokio::test]
async fn conflict_retries_are_bounded() {
    let (faults, store) = faulty(first(RETRIES_MAX - 1, CommitFault::Conflict));
    let step = Step::new(true);
    assert_eq!(step.run(&store).await.unwrap(), RETRIES_MAX);
    assert_eq!(total(&faults).await, 1);

    let (faults, store) = faulty(first(RETRIES_MAX, CommitFault::Conflict));
    let step = Step::new(true);
    let outcome = step.run(&store).await;
    assert!(matches!(outcome, Err(TransactionError::Contended)));
    assert_eq!((step.attempts(), total(&faults).await), (RETRIES_MAX, 0));
}

#[tokio::test]
async fn indeterminate_commit_that_was_applied_is_detected() {
    let (faults, store) = faulty(first(1, CommitFault::LostApplied));
    let step = Step::new(true);
    assert_eq!(
        step.run(&store).await.unwrap(),
        1,
        "what the first attempt said"
    );
    assert_eq!(total(&faults).await, 1);
    assert_eq!(faults.counts().commits, 1);
}

#[tokio::test]
async fn indeterminate_commit_that_was_not_applied_is_retried() {
    let (faults, store) = faulty(first(1, CommitFault::LostNotApplied));
    let step = Step::new(true);
    assert_eq!(step.run(&store).await.unwrap(), 2);
    assert_eq!(total(&faults).await, 1);
}

#[tokio::test]
async fn delayed_commit_is_not_applied_twice() {
    for lost in 1..4 {
        let (faults, store) = faulty(first(lost, CommitFault::LostAppliedLater));
        let step = Step::new(true);
        step.run(&store).await.unwrap();
        // Delayed commits arrive with these calls.
        for _ in 0..lost {
            store.get(&[]).await.unwrap();
        }
        assert_eq!(total(&faults).await, 1, "after {lost} lost responses");
    }
}

#[tokio::test]
async fn applied_commit_succeeds_although_next_attempt_is_rejected() {
    let (faults, store) = faulty(first(1, CommitFault::LostApplied));
    let slug_is_taken = || TransactionError::Contended;
    let outcome = transact(&store, &env(), |mut transaction| async move {
        // The second attempt finds the key that the first one wrote.
        if transaction.get::<u32>(&key("slug")).await?.is_some() {
            return Err(slug_is_taken());
        }
        transaction.create_unique(key("slug"), &1);
        Ok(transaction.done("made"))
    })
    .await;
    assert_eq!(outcome.unwrap(), "made");
    assert_eq!(faults.counts().commits, 1);
}

#[tokio::test]
async fn indeterminate_commit_without_proof_is_an_error() {
    for fault in [CommitFault::LostApplied, CommitFault::LostNotApplied] {
        let (faults, store) = faulty(first(1, fault));
        let step = Step::new(false);
        assert_eq!(store_error(step.run(&store).await), StoreErrorKind::Unknown);
        assert_eq!((step.attempts(), faults.counts().commits), (1, 1));
    }
}

#[tokio::test]
async fn indeterminate_commits_beyond_retries_are_reported_as_such() {
    let (faults, store) = faulty(first(RETRIES_MAX, CommitFault::LostNotApplied));
    let step = Step::new(true);
    assert_eq!(store_error(step.run(&store).await), StoreErrorKind::Unknown);
    assert_eq!((step.attempts(), total(&faults).await), (RETRIES_MAX, 0));
}

#[tokio::test]
async fn failure_after_indeterminate_commit_is_indeterminate() {
    // The second commit fails, and with `Close` every later read does too.
    for second in [
        CommitFault::Unavailable,
        CommitFault::Full,
        CommitFault::Close,
    ] {
        let plan = FaultPlan::none()
            .at_commit(1, CommitFault::LostNotApplied)
            .at_commit(2, second);
        let (_, store) = faulty(plan);
        let outcome = Step::new(true).run(&store).await;
        assert_eq!(store_error(outcome), StoreErrorKind::Unknown, "{second:?}");
    }
    let (faults, store) = faulty(first(1, CommitFault::LostApplied));
    let closing = &faults;
    let outcome: Outcome<()> = transact(&store, &env(), |mut transaction| async move {
        if closing.counts().commits > 0 {
            closing.close();
        }
        transaction.create_unique(key("witness"), &1);
        Ok(transaction.done(()))
    })
    .await;
    assert_eq!(store_error(outcome), StoreErrorKind::Unknown);
}

#[tokio::test]
async fn store_failure_is_returned_without_retry() {
    for (fault, kind) in [
        (CommitFault::Unavailable, StoreErrorKind::Unavailable),
        (CommitFault::Full, StoreErrorKind::Full),
    ] {
        let (faults, store) = faulty(first(1, fault));
        let step = Step::new(true);
        assert_eq!(store_error(step.run(&store).await), kind);
        assert_eq!((step.attempts(), total(&faults).await), (1, 0));
    }
}

#[tokio::test]
async fn rejected_decision_writes_nothing() {
    let (faults, store) = faulty(FaultPlan::none());
    let outcome: Outcome<()> = transact(&store, &env(), |mut transaction| async move {
        transaction.put(key("k"), &1);
        transaction.add(key("total"), 1);
        Err(TransactionError::Contended)
    })
    .await;
    assert!(outcome.is_err());
    assert_eq!((faults.counts().commits, total(&faults).await), (0, 0));
}

#[tokio::test]
async fn transaction_without_writes_commits_nothing() {
    let (faults, store) = faulty(FaultPlan::none());
    let outcome: Outcome<Option<u32>> = transact(&store, &env(), |mut transaction| async move {
        transaction.add(key("total"), 1);
        transaction.add(key("total"), -1);
        let read = transaction.get(&key("k")).await?;
        Ok(transaction.done(read))
    })
    .await;
    assert_eq!(outcome.unwrap(), None);
    assert_eq!(faults.counts().commits, 0);
}

#[tokio::test]
async fn additions_to_one_counter_are_merged() {
    let faults = FaultStore::new(Arc::new(MemoryStore::new()), FaultPlan::none()).recording();
    let faults = Arc::new(faults);
    let store: Arc<dyn Store> = Arc::clone(&faults) as _;
    let outcome: Outcome<()> = transact(&store, &env(), |mut transaction| async move {
        transaction.add(key("total"), 2);
        transaction.add(key("other"), 0);
        transaction.add(key("total"), 3);
        Ok(transaction.done(()))
    })
    .await;
    outcome.unwrap();
    assert_eq!(total(&faults).await, 5);
    assert_eq!(faults.history()[0].1.mutations().len(), 1);
}

#[tokio::test]
async fn created_key_must_not_exist() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    put(&*store, "taken", "1").await;
    let outcome: Outcome<()> = transact(&store, &env(), |mut transaction| async move {
        transaction.create(key("taken"), &2);
        Ok(transaction.done(()))
    })
    .await;
    assert!(matches!(outcome, Err(TransactionError::Contended)));
    assert_eq!(store.counter(&key("taken")).await.unwrap(), 1);
}

#[tokio::test]
async fn oversized_commit_has_its_own_error() {
    let (faults, store) = faulty(FaultPlan::none());
    let outcome: Outcome<()> = transact(&store, &env(), |mut transaction| async move {
        transaction.put(key("k"), &"x".repeat(VALUE_BYTES_MAX));
        Ok(transaction.done(()))
    })
    .await;
    assert!(matches!(outcome, Err(TransactionError::Invalid(_))));
    assert_eq!(faults.counts().commits, 0);
}

#[tokio::test]
async fn value_of_unexpected_type_is_an_error() {
    let (_, store) = faulty(FaultPlan::none());
    put(&*store, "k", "\"text\"").await;
    let outcome: Outcome<Option<u32>> = transact(&store, &env(), |mut transaction| async move {
        let read = transaction.get(&key("k")).await?;
        Ok(transaction.done(read))
    })
    .await;
    assert_eq!(store_error(outcome), StoreErrorKind::Corrupt);
}

/// Returns an environment whose random bytes, and so its delays, differ from call to call.
fn jittery() -> Env {
    let state = AtomicU64::new(1);
    let fill = move |buffer: &mut [u8]| {
        for byte in buffer {
            let x = state.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::SeqCst);
            *byte = (x.wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 56) as u8;
        }
    };
    Env::new(|| Timestamp::UNIX_EPOCH, fill)
}

async fn increment(store: &Arc<dyn Store>, env: &Env) -> Outcome<i64> {
    transact(store, env, |mut transaction| async move {
        let n = transaction.get(&key("n")).await?.unwrap_or(0) + 1;
        transaction.put(key("n"), &n);
        Ok(transaction.done(n))
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_increments_are_all_applied() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let env = jittery();
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (store, env) = (Arc::clone(&store), env.clone());
            tokio::spawn(async move {
                let mut done = Vec::new();
                for _ in 0..100 {
                    match increment(&store, &env).await {
                        Ok(n) => done.push(n),
                        Err(TransactionError::Contended) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
                done
            })
        })
        .collect();
    let mut seen = Vec::new();
    for task in tasks {
        seen.extend(task.await.unwrap());
    }
    seen.sort_unstable();
    let all: Vec<i64> = (1..=i64::try_from(seen.len()).unwrap()).collect();
    assert_eq!(seen, all, "each number once");
    assert_eq!(store.counter(&key("n")).await.unwrap(), all.len() as i64);
}

/// Reads only, since a transaction outside `transact` never commits.
#[tokio::test]
async fn transaction_outside_transact_changes_nothing() {
    let (faults, store) = faulty(FaultPlan::none());
    let mut transaction = Transaction::begin(store);
    transaction.put(key("k"), &1);
    let prepared: Prepared<()> = transaction.done(());
    drop(prepared);
    assert_eq!(faults.counts().commits, 0);
}

/// The first attempt may be applied, so that the error of the second one must not deny it.
#[tokio::test]
async fn oversized_commit_after_a_lost_response_is_unknown() {
    let (_, store) = faulty(first(1, CommitFault::LostNotApplied));
    let attempts = AtomicU32::new(0);
    let outcome: Outcome<()> = transact(&store, &env(), |mut transaction| {
        let attempt = attempts.fetch_add(1, Ordering::SeqCst);
        async move {
            transaction.create_unique(key("k"), &attempt);
            let bytes = if attempt == 0 { 1 } else { VALUE_BYTES_MAX };
            transaction.put(key("large"), &"x".repeat(bytes));
            Ok(transaction.done(()))
        }
    })
    .await;
    let Err(TransactionError::Store(error)) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(error.kind(), StoreErrorKind::Unknown);
    assert_eq!(attempts.load(Ordering::SeqCst), 2);
}

#[tokio::test]
#[should_panic(expected = "the sum has 64 bits")]
async fn additions_to_one_counter_do_not_wrap_around() {
    let (_, store) = faulty(FaultPlan::none());
    let mut transaction = Transaction::begin(store);
    transaction.add(key("total"), i64::MAX);
    transaction.add(key("total"), 1);
}

/// Store that returns no places for keys.
struct Placeless;

#[async_trait::async_trait]
impl Store for Placeless {
    async fn read(&self, reads: &[Read<'_>]) -> Result<Vec<Found>, StoreError> {
        let found = |read: &Read<'_>| match read {
            Read::Keys(_) => Found::Keys(Vec::new()),
            Read::Range { .. } => Found::Range(Vec::new()),
        };
        Ok(reads.iter().map(found).collect())
    }

    async fn commit(&self, _: Commit) -> Result<CommitOutcome, StoreError> {
        Ok(CommitOutcome::Conflict)
    }
}

#[tokio::test]
async fn store_that_returns_too_few_places_is_corrupt() {
    let store: Arc<dyn Store> = Arc::new(Placeless);
    let mut transaction = Transaction::begin(Arc::clone(&store));
    let prefetched = transaction.prefetch(vec![key("k")], Vec::new()).await;
    let read = transaction.get::<u32>(&key("k")).await;
    let got = store.get(&[key("k")]).await;
    for error in [prefetched.unwrap_err(), read.unwrap_err(), got.unwrap_err()] {
        assert_eq!(error.kind(), StoreErrorKind::Corrupt);
    }
}
