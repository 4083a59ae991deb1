//! Functions shared by the cases.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use super::harness::{Harness, Task};
use crate::{
    Commit, CommitBuilder, CommitOutcome, Direction, Entry, InvalidCommit, Key, KeyRange,
    MaybeSend, Store, StoreError, StoreErrorKind, StoreExt, Version,
};

/// Failure of a case: expected and actual behaviour.
#[derive(Debug)]
pub(super) struct Failure(String);

pub(super) type Outcome<T = ()> = Result<T, Failure>;

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self(format!("the store failed ({:?}): {error}", error.kind()))
    }
}

impl From<InvalidCommit> for Failure {
    fn from(error: InvalidCommit) -> Self {
        Self(format!("the case itself is invalid: {error}"))
    }
}

pub(super) fn fail<T>(message: impl Into<String>) -> Outcome<T> {
    Err(Failure(message.into()))
}

/// Fails with `what` unless `holds` is true.
pub(super) fn expect(holds: bool, what: impl fmt::Display) -> Outcome {
    if holds {
        Ok(())
    } else {
        fail(format!("expected that {}", cut(what.to_string())))
    }
}

pub(super) fn expect_eq<T: PartialEq + fmt::Debug>(
    what: impl fmt::Display,
    came: &T,
    expected: &T,
) -> Outcome {
    if came == expected {
        Ok(())
    } else {
        fail(format!(
            "{what}: expected {}, got {}",
            shortened(expected),
            shortened(came)
        ))
    }
}

fn shortened(value: &impl fmt::Debug) -> String {
    cut(format!("{value:?}"))
}

fn cut(mut message: String) -> String {
    const CHARS_MAX: usize = 400;
    if let Some((end, _)) = message.char_indices().nth(CHARS_MAX) {
        message.truncate(end);
        message.push('…');
    }
    message
}

/// Context of one run of one case.
pub(super) struct CaseContext<'h> {
    harness: &'h dyn Harness,
}

impl<'h> CaseContext<'h> {
    pub(super) fn new(harness: &'h dyn Harness) -> Self {
        Self { harness }
    }

    pub(super) async fn open(&self) -> Arc<dyn Store> {
        self.harness.open().await
    }

    pub(super) async fn reopen(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        self.harness.reopen(store).await
    }

    /// Runs the futures concurrently; the first failure among them fails the case.
    pub(super) async fn concurrently<F>(&self, futures: impl IntoIterator<Item = F>) -> Outcome
    where
        F: Future<Output = Outcome> + MaybeSend + 'static,
    {
        let failures = Arc::new(Mutex::new(Vec::new()));
        let tasks = futures.into_iter().map(|future| {
            let failures = Arc::clone(&failures);
            let task = async move {
                if let Err(failure) = future.await {
                    failures
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(failure);
                }
            };
            Box::pin(task) as Task<'static>
        });
        self.harness.run_concurrently(tasks.collect()).await;
        let mut failures = failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.is_empty() {
            Ok(())
        } else {
            Err(failures.swap_remove(0))
        }
    }
}

pub(super) fn key(bytes: impl AsRef<[u8]>) -> Key {
    Key::new(bytes.as_ref()).expect("the keys of the cases are valid")
}

pub(super) fn numbered(prefix: &str, number: usize) -> Key {
    key(format!("{prefix}{number:06}"))
}

/// Commits and expects success.
pub(super) async fn commit(store: &dyn Store, builder: CommitBuilder) -> Outcome<Version> {
    match store.commit(builder.build()?).await? {
        CommitOutcome::Committed(version) => Ok(version),
        CommitOutcome::Conflict => fail("a commit whose checks hold returned a conflict"),
    }
}

/// Commits and expects a conflict.
pub(super) async fn conflict(store: &dyn Store, builder: CommitBuilder, why: &str) -> Outcome {
    match store.commit(builder.build()?).await? {
        CommitOutcome::Conflict => Ok(()),
        CommitOutcome::Committed(_) => fail(format!("expected a conflict: {why}")),
    }
}

/// Commits and expects an error of the kind `Invalid`.
pub(super) async fn invalid(store: &dyn Store, builder: CommitBuilder, why: &str) -> Outcome {
    match store.commit(builder.build()?).await {
        Err(error) if error.kind() == StoreErrorKind::Invalid => Ok(()),
        answer => fail(format!("{why}: expected the error Invalid, got {answer:?}")),
    }
}

pub(super) async fn put(store: &dyn Store, key: &Key, value: &str) -> Outcome<Version> {
    let value = value.as_bytes().to_vec();
    commit(store, Commit::builder().put(key.clone(), value)).await
}

pub(super) async fn delete(store: &dyn Store, key: &Key) -> Outcome<Version> {
    commit(store, Commit::builder().delete(key.clone())).await
}

pub(super) async fn add(store: &dyn Store, key: &Key, delta: i64) -> Outcome<Version> {
    commit(store, Commit::builder().add(key.clone(), delta)).await
}

pub(super) async fn get(store: &dyn Store, key: &Key) -> Outcome<Option<Entry>> {
    let mut found = store.get(std::slice::from_ref(key)).await?;
    expect_eq("results of a get of one key", &found.len(), &1)?;
    Ok(found.remove(0))
}

/// Returns the entry under a key that must exist.
pub(super) async fn entry(store: &dyn Store, key: &Key) -> Outcome<Entry> {
    match get(store, key).await? {
        Some(entry) => Ok(entry),
        None => fail(format!("expected an entry under {key}, found none")),
    }
}

pub(super) async fn expect_value(store: &dyn Store, key: &Key, value: &str) -> Outcome {
    let found = entry(store, key).await?;
    expect_eq(
        format_args!("the value under {key}"),
        &found.value.escape_ascii().to_string(),
        &value.to_owned(),
    )
}

pub(super) async fn expect_absent(store: &dyn Store, key: &Key) -> Outcome {
    let found = get(store, key).await?;
    expect_eq(format_args!("the entry under {key}"), &found, &None)
}

/// Returns the keys of one scan.
pub(super) async fn scan_keys(
    store: &dyn Store,
    range: &KeyRange,
    limit: usize,
    direction: Direction,
) -> Outcome<Vec<Key>> {
    let found = store.scan(range, limit, direction).await?;
    Ok(found.into_iter().map(|found| found.key).collect())
}

/// Returns the whole contents of a store.
pub(super) async fn contents(store: &dyn Store) -> Outcome<Vec<(Key, Entry)>> {
    let found = store
        .scan(&KeyRange::all(), usize::MAX, Direction::Forward)
        .await?;
    Ok(found
        .into_iter()
        .map(|found| (found.key, found.entry))
        .collect())
}
