//! Nothing is answered and nothing is read before it is on the disk, and nothing at all after a sync has failed.

mod common;

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{committed, key, keys, options, put, value};
use futures::FutureExt;
use knowledge_core::store::{
    Commit, CommitOutcome, Direction, KeyRange, Store, StoreErrorKind, Version,
};
use knowledge_storage_sled::SledStore;
use tempfile::TempDir;

/// A store whose syncs wait to be told how they end.
struct Gated {
    store: Arc<SledStore>,
    began: Receiver<()>,
    ends: Sender<io::Result<()>>,
    _directory: TempDir,
}

impl Gated {
    fn open() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (begin, began) = channel();
        let (ends, end) = channel::<io::Result<()>>();
        let (begin, end) = (Mutex::new(begin), Mutex::new(end));
        ends.send(Ok(())).unwrap();
        let options = options().sync_with(move |file: &File| {
            begin.lock().unwrap().send(()).unwrap();
            end.lock().unwrap().recv().unwrap_or(Ok(()))?;
            file.sync_data()
        });
        let store = Arc::new(SledStore::open(directory.path(), options).unwrap());
        began.recv().unwrap();
        Self {
            store,
            began,
            ends,
            _directory: directory,
        }
    }

    /// Hands in a commit; its answer is awaited on a task.
    fn commit(&self, commit: Commit) -> tokio::task::JoinHandle<Answer> {
        let store = Arc::clone(&self.store);
        tokio::spawn(async move { store.commit(commit).await.map_err(|error| error.kind()) })
    }

    fn wait_for_sync(&self) {
        tokio::task::block_in_place(|| self.began.recv_timeout(Duration::from_secs(10)).unwrap());
    }

    fn end_sync(&self, how: io::Result<()>) {
        self.ends.send(how).unwrap();
    }

    async fn commit_now(&self, commit: Commit) -> Version {
        let answer = self.commit(commit);
        self.wait_for_sync();
        self.end_sync(Ok(()));
        match answer.await.unwrap() {
            Ok(CommitOutcome::Committed(version)) => version,
            other => panic!("{other:?}"),
        }
    }
}

type Answer = Result<CommitOutcome, StoreErrorKind>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_seen_before_its_sync_returns() {
    let gated = Gated::open();
    let store = &*gated.store;
    gated.commit_now(put("changed", "old")).await;
    gated.commit_now(put("deleted", "old")).await;
    let neighbours = ["a", "m", "z"]
        .into_iter()
        .fold(Commit::builder(), |builder, name| {
            builder.put(key(name), "still")
        });
    gated.commit_now(neighbours.build().unwrap()).await;
    let all = KeyRange::all();
    let before = store
        .scan(&all, usize::MAX, Direction::Forward)
        .await
        .unwrap();

    let change = Commit::builder()
        .put(key("changed"), "new")
        .delete(key("deleted"))
        .put(key("created"), "new")
        .add(key("counted"), 1);
    let mut answer = gated.commit(change.build().unwrap());
    gated.wait_for_sync();
    // sled holds the group by now; readers must not know, and must not wait.
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(
        (&mut answer).now_or_never().is_none(),
        "answered before the sync"
    );
    assert_eq!(value(store, "changed").await.as_deref(), Some("old"));
    assert_eq!(value(store, "deleted").await.as_deref(), Some("old"));
    assert_eq!(value(store, "created").await, None);
    assert_eq!(value(store, "counted").await, None);
    for limit in [1, 2, 3, 4, 5, usize::MAX] {
        let mut expected = before.clone();
        expected.truncate(limit);
        let found = store.scan(&all, limit, Direction::Forward).await.unwrap();
        assert_eq!(found, expected, "limit {limit}");
        let mut expected: Vec<_> = before.iter().rev().cloned().collect();
        expected.truncate(limit);
        let found = store.scan(&all, limit, Direction::Reverse).await.unwrap();
        assert_eq!(found, expected, "limit {limit}, reverse");
    }

    gated.end_sync(Ok(()));
    assert!(matches!(
        answer.await.unwrap(),
        Ok(CommitOutcome::Committed(_))
    ));
    assert_eq!(value(store, "changed").await.as_deref(), Some("new"));
    let names: Vec<_> = ["a", "changed", "counted", "created", "m", "z"]
        .map(key)
        .into();
    assert_eq!(keys(store, &all, Direction::Forward).await, names);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_that_wait_share_a_sync() {
    let gated = Gated::open();
    let first = gated.commit(put("first", "1"));
    gated.wait_for_sync();
    let store = &gated.store;
    let waiting: Vec<_> = (0..20)
        .map(|i| gated.commit(put(&format!("w{i}"), "1")))
        .collect();
    let conflict = Commit::builder()
        .check(key("first"), None)
        .put(key("x"), "1");
    let conflict = gated.commit(conflict.build().unwrap());
    tokio::time::sleep(Duration::from_millis(50)).await;
    gated.end_sync(Ok(()));
    assert!(first.await.unwrap().is_ok());

    gated.wait_for_sync();
    assert!(waiting.iter().all(|answer| !answer.is_finished()));
    // Also a conflict tells of what stands, and waits for it to be durable.
    assert!(
        !conflict.is_finished(),
        "a conflict was answered before its group"
    );
    gated.end_sync(Ok(()));
    for answer in waiting {
        assert!(matches!(
            answer.await.unwrap(),
            Ok(CommitOutcome::Committed(_))
        ));
    }
    assert_eq!(conflict.await.unwrap(), Ok(CommitOutcome::Conflict));
    let stats = store.stats();
    assert_eq!((stats.groups, stats.commits, stats.conflicts), (2, 21, 1));
    let groups: Vec<_> = stats
        .group_commits
        .buckets()
        .map(|(_, count)| count)
        .collect();
    // The first by itself, then the twenty that waited for it: a conflict is no commit.
    assert_eq!(groups[..6], [1, 1, 1, 1, 1, 2]);
    assert_eq!(
        (stats.group_commits.count(), stats.group_commits.sum()),
        (2, 21)
    );
    assert_eq!((stats.sync_micros.count(), stats.sync_failures), (2, 0));
    assert!(stats.disk_free_bytes.is_some_and(|bytes| bytes > 0));
    assert_eq!(stats.entries, 21);
    assert!(stats.sync_time_last > Duration::ZERO && stats.disk_bytes > 0);
    assert!(stats.sync_time_total > stats.sync_time_last);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_sync_closes_the_store() {
    let gated = Gated::open();
    let store = &*gated.store;
    let stale = gated.commit_now(put("a", "1")).await;
    gated.commit_now(put("a", "2")).await;

    let first = gated.commit(put("a", "3"));
    gated.wait_for_sync();
    let check = Commit::builder()
        .check(key("a"), Some(stale))
        .put(key("b"), "1");
    let behind = [
        gated.commit(put("c", "1")),
        gated.commit(check.build().unwrap()),
    ];
    tokio::time::sleep(Duration::from_millis(50)).await;
    gated.end_sync(Err(io::Error::other("the device is gone")));

    assert_eq!(first.await.unwrap(), Err(StoreErrorKind::Unknown));
    for answer in behind {
        // Certainly not applied: they came to the thread after the store was closed.
        assert_eq!(answer.await.unwrap(), Err(StoreErrorKind::Unavailable));
    }
    let unavailable = Err(StoreErrorKind::Unavailable);
    let get = store.get(&[key("a")]).await.map(drop);
    assert_eq!(get.map_err(|error| error.kind()), unavailable);
    let scan = store
        .scan(&KeyRange::all(), 1, Direction::Forward)
        .await
        .map(drop);
    assert_eq!(scan.map_err(|error| error.kind()), unavailable);
    let commit = store.commit(put("d", "1")).await.map(drop);
    assert_eq!(commit.map_err(|error| error.kind()), unavailable);
    assert!(
        store
            .closed_because()
            .unwrap()
            .contains("the device is gone")
    );
    // Those behind it were refused, and are no failures of the device.
    assert_eq!(store.stats().sync_failures, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_store_can_be_opened_again() {
    let directory = tempfile::tempdir().unwrap();
    let store = common::open(directory.path());
    committed(store.commit(put("kept", "1")).await);
    drop(store);

    let fails = Arc::new(AtomicBool::new(false));
    let is_failing = Arc::clone(&fails);
    let options =
        options().sync_with(
            move |file: &File| match is_failing.load(Ordering::Relaxed) {
                true => Err(io::Error::other("the device is gone")),
                false => file.sync_data(),
            },
        );
    let store = SledStore::open(directory.path(), options).unwrap();
    fails.store(true, Ordering::Relaxed);
    let unknown = store.commit(put("unknown", "1")).await.unwrap_err();
    assert_eq!(unknown.kind(), StoreErrorKind::Unknown);
    drop(store);

    let store = common::open(directory.path());
    assert_eq!(value(&store, "kept").await.as_deref(), Some("1"));
    // It was written, if not synced: here it is found, after a power cut it might not be.
    assert_eq!(value(&store, "unknown").await.as_deref(), Some("1"));
    committed(store.commit(put("more", "1")).await);
}

/// sled may wait for ever after an error of the device: a write that does not end closes the store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_never_ends_closes_the_store() {
    let directory = tempfile::tempdir().unwrap();
    let (hangs, hang) = channel::<()>();
    let (hang, syncs) = (Mutex::new(hang), AtomicU32::new(0));
    let options = options()
        .write_time_max(Duration::from_millis(100))
        .sync_with(move |file: &File| {
            if syncs.fetch_add(1, Ordering::Relaxed) == 1 {
                let _ = hang.lock().unwrap().recv();
            }
            file.sync_data()
        });
    let store = Arc::new(SledStore::open(directory.path(), options).unwrap());
    let waiting = tokio::spawn({
        let store = Arc::clone(&store);
        async move {
            store
                .commit(put("a", "1"))
                .await
                .map_err(|error| error.kind())
        }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(value(&store, "a").await, None);
    tokio::time::sleep(Duration::from_millis(100)).await;
    let late = store.commit(put("b", "1")).await.unwrap_err();
    assert_eq!(late.kind(), StoreErrorKind::Unavailable);
    assert_eq!(store.closed_because(), Some("a write does not end"));

    // Even if it ends after all, nothing is told as committed any more.
    drop(hangs);
    assert_eq!(waiting.await.unwrap(), Err(StoreErrorKind::Unknown));
    assert!(store.get(&[key("a")]).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_is_nearly_full_refuses_commits_alone() {
    let directory = tempfile::tempdir().unwrap();
    let store = common::open(directory.path());
    committed(store.commit(put("a", "1")).await);
    drop(store);

    let options = options().free_bytes_min(u64::MAX);
    let store = SledStore::open(directory.path(), options).unwrap();
    let error = store.commit(put("a", "2")).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Full);
    assert_eq!(value(&store, "a").await.as_deref(), Some("1"));
    assert_eq!(store.closed_because(), None);
    drop(store);
    committed(common::open(directory.path()).commit(put("a", "2")).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_with_room_again_takes_commits_again() {
    let directory = tempfile::tempdir().unwrap();
    let free = Arc::new(AtomicU64::new(1_000));
    let told = Arc::clone(&free);
    let options = options()
        .free_bytes_min(1_000)
        .free_bytes_with(move |_| Ok(told.load(Ordering::SeqCst)));
    let store = SledStore::open(directory.path(), options).unwrap();
    committed(store.commit(put("a", "1")).await);
    free.store(999, Ordering::SeqCst);
    assert_eq!(store.stats().disk_free_bytes, Some(999));
    let error = store.commit(put("a", "2")).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Full);
    let shown = error.to_string();
    assert!(
        shown.contains(directory.path().to_str().unwrap()),
        "{shown}"
    );
    assert!(
        shown.contains("999 bytes are free, 1000 have to stay free"),
        "{shown}"
    );
    assert_eq!(value(&store, "a").await.as_deref(), Some("1"));

    free.store(1_000, Ordering::SeqCst);
    committed(store.commit(put("a", "3")).await);
    assert_eq!(value(&store, "a").await.as_deref(), Some("3"));
    drop(store);
    let store = common::open(directory.path());
    assert_eq!(value(&store, "a").await.as_deref(), Some("3"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_handed_in_is_written_although_nobody_waits() {
    let directory = tempfile::tempdir().unwrap();
    let store = common::open(directory.path());
    {
        let mut commit = std::pin::pin!(store.commit(put("a", "1")));
        let _ = futures::poll!(&mut commit);
    }
    drop(store);
    let store = common::open(directory.path());
    assert_eq!(value(&store, "a").await.as_deref(), Some("1"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_holds_nothing_that_was_not_synced_when_it_was_taken() {
    let gated = Gated::open();
    gated.commit_now(put("a", "synced")).await;
    let answer = gated.commit(put("a", "on its way"));
    gated.wait_for_sync();
    let during = gated.store.snapshot(1024 * 1024);
    let value_in = async |snapshot: &knowledge_storage_sled::SledSnapshot| {
        let found = snapshot.get(&[key("a")]).await.unwrap().remove(0);
        found.unwrap().value
    };
    assert_eq!(value_in(&during).await, "synced");
    gated.end_sync(Ok(()));
    answer.await.unwrap().unwrap();
    assert_eq!(value_in(&during).await, "synced");
    assert_eq!(
        value_in(&gated.store.snapshot(1024 * 1024)).await,
        "on its way"
    );
}
