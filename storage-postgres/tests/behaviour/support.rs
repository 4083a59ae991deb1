//! Helpers of the tests.

use std::future::Future;
use std::time::{Duration, Instant};

use knowledge_storage_postgres::testing::Server;
use knowledge_storage_postgres::{PostgresOptions, PostgresStore};
use knowledge_store::{
    Commit, CommitOutcome, Key, Store, StoreError, StoreErrorKind, StoreExt, Version,
};

/// Time limit of a wait, long enough for a busy machine.
const TIME_MAX: Duration = Duration::from_secs(60);

pub(crate) fn key(name: &str) -> Key {
    Key::new(name.as_bytes()).expect("a valid key")
}

pub(crate) fn put(name: &str, value: &str) -> Commit {
    let builder = Commit::builder().put(key(name), value.as_bytes().to_vec());
    builder.build().expect("a valid commit")
}

pub(crate) fn add(name: &str, delta: i64) -> Commit {
    let builder = Commit::builder().add(key(name), delta);
    builder.build().expect("a valid commit")
}

/// Returns options of a database over the Unix socket.
pub(crate) fn options(server: &Server, database: &str) -> PostgresOptions {
    PostgresOptions::new(&server.socket(database)).expect("a valid connection string")
}

pub(crate) async fn open(server: &Server, database: &str) -> PostgresStore {
    open_with(options(server, database)).await
}

pub(crate) async fn open_with(options: PostgresOptions) -> PostgresStore {
    PostgresStore::open(options).await.expect("the store opens")
}

#[track_caller]
pub(crate) fn assert_committed(outcome: Result<CommitOutcome, StoreError>) -> Version {
    match outcome {
        Ok(CommitOutcome::Committed(version)) => version,
        other => panic!("expected a commit, got {other:?}"),
    }
}

#[track_caller]
pub(crate) fn assert_failed(outcome: Result<CommitOutcome, StoreError>, kind: StoreErrorKind) {
    match outcome {
        Err(error) if error.kind() == kind => {}
        other => panic!("expected {kind:?}, got {other:?}"),
    }
}

/// Returns the value of a key as text.
pub(crate) async fn read(store: &PostgresStore, name: &str) -> Option<String> {
    let found = store.get(&[key(name)]).await.expect("the store reads");
    let found = found.into_iter().next().flatten();
    found.map(|entry| String::from_utf8(entry.value.to_vec()).expect("text"))
}

/// Repeats an attempt until it returns something.
pub(crate) async fn wait_for<T, F: Future<Output = Option<T>>>(
    what: &str,
    attempt: impl Fn() -> F,
) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = attempt().await {
            return found;
        }
        assert!(began.elapsed() < TIME_MAX, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Repeats a commit that is not applied until it is.
pub(crate) async fn commit_when_possible(store: &PostgresStore, commit: &Commit) -> Version {
    let committed = wait_for("a commit", || async {
        match store.commit(commit.clone()).await {
            Ok(CommitOutcome::Committed(version)) => Some(version),
            Err(error) if error.kind() == StoreErrorKind::Unavailable => None,
            other => panic!("{other:?}"),
        }
    });
    committed.await
}
