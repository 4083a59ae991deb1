//! Snapshots: one point in time in any number of reads, while others write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use knowledge_storage_postgres::testing;
use knowledge_store::{
    Commit, CommitBuilder, Direction, KeyEntry, KeyRange, Store, StoreErrorKind, StoreExt,
};

use crate::support::{assert_committed, assert_failed, key, open, put, wait_for};

const ROW: usize = 500;
const PAGE: usize = 20;

/// Returns the n-th state of a row of entries that one commit writes.
fn row(round: usize) -> Commit {
    let entries = 0..ROW;
    let builder = entries.fold(Commit::builder(), |builder: CommitBuilder, number| {
        let value = round.to_string().into_bytes();
        builder.put(key(&format!("row/{number:03}")), value)
    });
    builder.build().expect("a valid commit")
}

/// Reads all entries in pages of a fixed size.
async fn pages(store: &dyn Store) -> Vec<KeyEntry> {
    let (mut rest, mut all) = (KeyRange::all(), Vec::new());
    loop {
        let page = store.scan(&rest, PAGE, Direction::Forward).await.unwrap();
        let Some(last) = page.last() else {
            return all;
        };
        rest = rest.after(&last.key);
        all.extend(page);
    }
}

#[test]
fn pages_of_a_snapshot_are_one_point_in_time() {
    testing::run(|server| async move {
        let database = server.create_database().await;
        let store = Arc::new(open(server, &database).await);
        assert_committed(store.commit(row(0)).await);
        let is_over = Arc::new(AtomicBool::new(false));
        let writer = {
            let (store, is_over) = (Arc::clone(&store), Arc::clone(&is_over));
            tokio::spawn(async move {
                let mut round = 0;
                while !is_over.load(Ordering::SeqCst) {
                    round += 1;
                    assert_committed(store.commit(row(round)).await);
                }
                round
            })
        };
        for _ in 0..10 {
            let before = store.get(&[key("row/000")]).await.unwrap();
            let snapshot = store.snapshot().await.unwrap();
            let found = pages(&snapshot).await;
            assert_eq!(found.len(), ROW);
            let first = &found[0].entry;
            assert!(found.iter().all(|found| found.entry == *first));
            assert!(first.version >= before[0].as_ref().unwrap().version);
            // Writers did not wait for it, and it does not see what they wrote since.
            let written = first.version;
            wait_for("a later commit", || async {
                let now = store.get(&[key("row/000")]).await.unwrap();
                (now[0].as_ref().unwrap().version > written).then_some(())
            })
            .await;
            assert_eq!(pages(&snapshot).await, found);
            assert!(!snapshot.is_current().await.unwrap());
        }
        is_over.store(true, Ordering::SeqCst);
        assert!(writer.await.unwrap() > 0);
    });
}

#[test]
fn snapshot_is_current_until_a_commit() {
    testing::run(|server| async move {
        let database = server.create_database().await;
        let (store, other) = (open(server, &database).await, open(server, &database).await);
        let snapshot = store.snapshot().await.unwrap();
        assert!(snapshot.is_current().await.unwrap());
        let rejected = snapshot.commit(put("a", "1")).await;
        assert_failed(rejected, StoreErrorKind::Invalid);
        assert!(snapshot.is_current().await.unwrap());
        assert_committed(other.commit(put("a", "1")).await);
        assert!(!snapshot.is_current().await.unwrap());
        assert_eq!(pages(&snapshot).await, []);
    });
}

#[test]
fn lost_snapshot_fails_rather_than_see_another_state() {
    testing::run(|server| async move {
        let database = server.create_database().await;
        let store = open(server, &database).await;
        assert_committed(store.commit(put("a", "1")).await);
        let snapshot = store.snapshot().await.unwrap();
        let client = server.connect("postgres").await;
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
            WHERE datname = $1 AND state = 'idle in transaction'";
        assert_eq!(client.execute(end, &[&database]).await.unwrap(), 1);
        for _ in 0..2 {
            let error = snapshot.get(&[key("a")]).await.unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Unavailable);
            assert!(
                error.to_string().starts_with("the snapshot is lost"),
                "{error}"
            );
        }
        assert_eq!(pages(&store).await.len(), 1);
    });
}
