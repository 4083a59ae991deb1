//! Commits of several processes at once.

use std::collections::HashSet;
use std::sync::Arc;

use futures::future::join_all;
use knowledge_storage_postgres::testing;
use knowledge_store::{Commit, CommitBuilder, Store, StoreErrorKind};

use crate::support::{add, assert_committed, assert_failed, key, open, put, read};

/// Returns a commit that creates 1,000 entries, spread over all lanes.
fn bulk(prefix: &str) -> Commit {
    let keys = (0..1_000).map(|number| key(&format!("{prefix}{number}")));
    let builder = keys.fold(Commit::builder(), |builder: CommitBuilder, key| {
        builder.check(key.clone(), None).put(key, "new")
    });
    builder.build().unwrap()
}

#[test]
fn disjoint_bulk_commits_do_not_conflict() {
    testing::run(|server| async move {
        let database = server.create_database().await;
        let stores = [open(server, &database).await, open(server, &database).await];
        for round in 0..10 {
            let [a, b] = [
                stores[0].commit(bulk(&format!("a{round}-"))),
                stores[1].commit(bulk(&format!("b{round}-"))),
            ];
            let (a, b) = futures::join!(a, b);
            assert_committed(a);
            assert_committed(b);
        }
    });
}

#[test]
fn counters_of_several_processes_are_exact() {
    const STORES: i64 = 3;
    const TASKS: i64 = 4;
    const ROUNDS: i64 = 20;
    testing::run(|server| async move {
        let database = server.create_database().await;
        let mut tasks = Vec::new();
        for _ in 0..STORES {
            let store = Arc::new(open(server, &database).await);
            for _ in 0..TASKS {
                let store = Arc::clone(&store);
                tasks.push(tokio::spawn(async move {
                    let mut versions = Vec::new();
                    for _ in 0..ROUNDS {
                        versions.push(assert_committed(store.commit(add("total", 1)).await));
                    }
                    assert!(versions.is_sorted(), "{versions:?}");
                    versions
                }));
            }
        }
        let mut versions = HashSet::new();
        for task in join_all(tasks).await {
            versions.extend(task.expect("a task ends without a panic"));
        }
        let commits = STORES * TASKS * ROUNDS;
        assert_eq!(versions.len() as i64, commits, "versions are not reused");
        let store = open(server, &database).await;
        assert_eq!(read(&store, "total").await, Some(commits.to_string()));
    });
}

/// Holds a lane, so that commits gather behind it, until the transaction is dropped.
async fn hold_lanes(client: &mut tokio_postgres::Client) -> tokio_postgres::Transaction<'_> {
    let held = client.transaction().await.unwrap();
    let lock = "SELECT lane FROM knowledge_lane ORDER BY lane FOR UPDATE";
    held.batch_execute(lock).await.unwrap();
    held
}

#[test]
fn rejected_commit_does_not_fail_its_group() {
    const COMMITS: usize = 20;
    testing::run(|server| async move {
        let database = server.create_database().await;
        let store = open(server, &database).await;
        let mut client = server.connect(&database).await;
        let reject = "ALTER TABLE knowledge_entry ADD CHECK (value <> 'rejected')";
        client.batch_execute(reject).await.unwrap();
        assert_committed(store.commit(put("x/org/text", "text")).await);

        let held = hold_lanes(&mut client).await;
        let commits = (0..COMMITS).map(|number| match number {
            7 => put("x/org/7", "rejected"),
            11 => add("x/org/text", 1),
            number => put(&format!("x/org/{number}"), "accepted"),
        });
        let running = join_all(commits.map(|commit| store.commit(commit)));
        let release = async {
            // The first commit waits for the lane, and the other ones for the first.
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
            held.rollback().await.unwrap();
        };
        let (outcomes, ()) = futures::join!(running, release);
        for (number, outcome) in outcomes.into_iter().enumerate() {
            match number {
                7 => assert_failed(outcome, StoreErrorKind::Unavailable),
                11 => assert_failed(outcome, StoreErrorKind::Invalid),
                _ => {
                    assert_committed(outcome);
                }
            }
        }
        assert_eq!(read(&store, "x/org/7").await, None);
        assert_eq!(read(&store, "x/org/8").await.as_deref(), Some("accepted"));
    });
}

#[test]
fn waiting_commits_share_a_transaction() {
    const COMMITS: i64 = 50;
    testing::run(|server| async move {
        let database = server.create_database().await;
        let store = open(server, &database).await;
        let mut client = server.connect(&database).await;
        let held = hold_lanes(&mut client).await;
        let running = join_all((0..COMMITS).map(|_| store.commit(add("x/org/n", 1))));
        let release = async {
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
            held.rollback().await.unwrap();
        };
        let (outcomes, ()) = futures::join!(running, release);
        for outcome in outcomes {
            assert_committed(outcome);
        }
        assert_eq!(read(&store, "x/org/n").await, Some(COMMITS.to_string()));
        // Rows that were written by the same transaction have the same `xmin`; the counter was
        // written by the last one, and the lane as often as there were transactions.
        let updates = "SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'knowledge_lane'";
        let updates = crate::support::wait_for("the statistics", || async {
            let row = client.query_one(updates, &[]).await.unwrap();
            Some(row.get::<_, i64>(0)).filter(|updates| *updates > 0)
        });
        assert!(updates.await < COMMITS / 2);
    });
}

#[test]
fn dropped_store_handles_its_commits() {
    testing::run(|server| async move {
        let database = server.create_database().await;
        let store = Arc::new(open(server, &database).await);
        let committing = Arc::clone(&store);
        let commit = tokio::spawn(async move { committing.commit(put("a", "1")).await });
        assert_committed(commit.await.unwrap());
        let store = Arc::into_inner(store).expect("the only reference");
        store.close().await;
        let client = server.connect(&database).await;
        let sessions = "SELECT count(*) FROM pg_stat_activity \
            WHERE datname = current_database() AND application_name = 'knowledge'";
        crate::support::wait_for("the end of all connections", || async {
            let row = client.query_one(sessions, &[]).await.unwrap();
            (row.get::<_, i64>(0) == 0).then_some(())
        })
        .await;
    });
}
