//! Commits are acknowledged and visible only once they are durable, and never after a failed sync.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::FutureExt;
use knowledge_store::{
    COMMIT_MUTATIONS_MAX, Commit, CommitOutcome, Direction, KeyRange, Store, StoreErrorKind,
    StoreExt, VALUE_BYTES_MAX, Version,
};
use tempfile::TempDir;

use super::support::{
    TIME_MAX, assert_committed, key, open, options, put, read_all, read_text, temp_directory,
};
use crate::{Engine, EngineStore, StoreStats};

/// Time for a commit to reach the commit thread.
const SUBMIT_TIME: Duration = Duration::from_millis(50);

type CommitResult = Result<CommitOutcome, StoreErrorKind>;

/// A store whose syncs block until the test ends them.
struct GatedStore<E: Engine> {
    store: Arc<EngineStore<E>>,
    began: Receiver<()>,
    ends: Sender<io::Result<()>>,
    _directory: TempDir,
}

impl<E: Engine> GatedStore<E> {
    fn open() -> Self {
        let directory = temp_directory();
        let (begin, began) = channel();
        let (ends, end) = channel::<io::Result<()>>();
        let (begin, end) = (Mutex::new(begin), Mutex::new(end));
        ends.send(Ok(())).unwrap();
        let options = options::<E>().sync_hook(move || {
            begin.lock().unwrap().send(()).unwrap();
            end.lock().unwrap().recv().unwrap_or(Ok(()))
        });
        let store = Arc::new(EngineStore::open(directory.path(), options).unwrap());
        began.recv().unwrap();
        Self {
            store,
            began,
            ends,
            _directory: directory,
        }
    }

    /// Submits a commit from a task that awaits its result.
    fn commit(&self, commit: Commit) -> tokio::task::JoinHandle<CommitResult> {
        let store = Arc::clone(&self.store);
        tokio::spawn(async move { store.commit(commit).await.map_err(|error| error.kind()) })
    }

    fn wait_for_sync(&self) {
        tokio::task::block_in_place(|| self.began.recv_timeout(TIME_MAX).unwrap());
    }

    fn end_sync(&self, result: io::Result<()>) {
        self.ends.send(result).unwrap();
    }

    async fn commit_now(&self, commit: Commit) -> Version {
        let reply = self.commit(commit);
        self.wait_for_sync();
        self.end_sync(Ok(()));
        match reply.await.unwrap() {
            Ok(CommitOutcome::Committed(version)) => version,
            other => panic!("{other:?}"),
        }
    }
}

/// An applied but unsynced group is neither acknowledged nor visible, and blocks no reader.
pub async fn changes_are_hidden_until_their_sync_returns<E: Engine>() {
    let gated = GatedStore::<E>::open();
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
    let before = store.scan(&all, usize::MAX, Direction::Forward).await;
    let before = before.unwrap();

    let change = Commit::builder()
        .put(key("changed"), "new")
        .delete(key("deleted"))
        .put(key("created"), "new")
        .add(key("counted"), 1);
    let mut reply = gated.commit(change.build().unwrap());
    gated.wait_for_sync();
    tokio::time::sleep(SUBMIT_TIME).await;
    assert!(
        (&mut reply).now_or_never().is_none(),
        "acknowledged before the sync"
    );
    assert_eq!(read_text(store, "changed").await.as_deref(), Some("old"));
    assert_eq!(read_text(store, "deleted").await.as_deref(), Some("old"));
    assert_eq!(read_text(store, "created").await, None);
    assert_eq!(read_text(store, "counted").await, None);
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
        reply.await.unwrap(),
        Ok(CommitOutcome::Committed(_))
    ));
    assert_eq!(read_text(store, "changed").await.as_deref(), Some("new"));
    let names: Vec<_> = read_all(store).await.unwrap().into_keys().collect();
    let expected = ["a", "changed", "counted", "created", "m", "z"].map(key);
    assert_eq!(names, expected);
}

/// Returns the statistics after the first measurement of the files, which follows a commit.
async fn wait_for_measurement<E: Engine>(store: &EngineStore<E>) -> StoreStats {
    let began = Instant::now();
    loop {
        let stats = store.stats();
        if stats.disk_bytes > 0 || began.elapsed() >= TIME_MAX {
            return stats;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Commits submitted during a sync form one group, which is counted once.
pub async fn waiting_commits_share_a_sync<E: Engine>() {
    let gated = GatedStore::<E>::open();
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
    tokio::time::sleep(SUBMIT_TIME).await;
    gated.end_sync(Ok(()));
    assert!(first.await.unwrap().is_ok());

    gated.wait_for_sync();
    assert!(waiting.iter().all(|reply| !reply.is_finished()));
    // A conflict reports stored data and waits until that is durable.
    assert!(
        !conflict.is_finished(),
        "a conflict was reported before its group was durable"
    );
    gated.end_sync(Ok(()));
    for reply in waiting {
        assert!(matches!(
            reply.await.unwrap(),
            Ok(CommitOutcome::Committed(_))
        ));
    }
    assert_eq!(conflict.await.unwrap(), Ok(CommitOutcome::Conflict));
    let stats = wait_for_measurement(store).await;
    assert_eq!((stats.groups, stats.commits, stats.conflicts), (2, 21, 1));
    let groups: Vec<_> = stats
        .group_commits
        .buckets()
        .map(|(_, count)| count)
        .collect();
    // The first commit, then the twenty that waited for it: a conflict is not counted.
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

/// After a failed sync the outcome of its group is unknown, and all other calls are rejected.
pub async fn failed_sync_closes_the_store<E: Engine>() {
    let gated = GatedStore::<E>::open();
    let store = &*gated.store;
    let stale = gated.commit_now(put("a", "1")).await;
    gated.commit_now(put("a", "2")).await;

    let first = gated.commit(put("a", "3"));
    gated.wait_for_sync();
    let check = Commit::builder()
        .check(key("a"), Some(stale))
        .put(key("b"), "1");
    let later = [
        gated.commit(put("c", "1")),
        gated.commit(check.build().unwrap()),
    ];
    tokio::time::sleep(SUBMIT_TIME).await;
    gated.end_sync(Err(io::Error::other("the device is gone")));

    assert_eq!(first.await.unwrap(), Err(StoreErrorKind::Unknown));
    for reply in later {
        // They reached the thread after the store was closed, and so were not applied.
        assert_eq!(reply.await.unwrap(), Err(StoreErrorKind::Unavailable));
    }
    let unavailable = Err(StoreErrorKind::Unavailable);
    let get = store.get(&[key("a")]).await.map(drop);
    assert_eq!(get.map_err(|error| error.kind()), unavailable);
    let scan = store.scan(&KeyRange::all(), 1, Direction::Forward).await;
    assert_eq!(scan.map(drop).map_err(|error| error.kind()), unavailable);
    let commit = store.commit(put("d", "1")).await.map(drop);
    assert_eq!(commit.map_err(|error| error.kind()), unavailable);
    let check = store.check(|_, _| {});
    assert_eq!(check.map_err(|error| error.kind()), unavailable);
    let reason = store.close_reason().unwrap();
    assert!(reason.contains("the device is gone"), "{reason}");
    // The rejected commits are no failures of the device.
    assert_eq!(store.stats().sync_failures, 1);
}

/// A store that closed itself keeps all acknowledged commits when reopened, and is checked.
pub async fn closed_store_opens_again<E: Engine>() {
    let directory = temp_directory();
    let store = open::<E>(directory.path());
    assert_committed(store.commit(put("kept", "1")).await);
    drop(store);

    let fails = Arc::new(AtomicBool::new(false));
    let is_failing = Arc::clone(&fails);
    let options = options::<E>().sync_hook(move || {
        if is_failing.load(Ordering::Relaxed) {
            Err(io::Error::other("the device is gone"))
        } else {
            Ok(())
        }
    });
    let store = EngineStore::<E>::open(directory.path(), options).unwrap();
    fails.store(true, Ordering::Relaxed);
    let unknown = store.commit(put("unknown", "1")).await.unwrap_err();
    assert_eq!(unknown.kind(), StoreErrorKind::Unknown);
    drop(store);

    let store = open::<E>(directory.path());
    assert_eq!(read_text(&store, "kept").await.as_deref(), Some("1"));
    // It was written but not synced: it is found here, but may be lost in a power loss.
    assert_eq!(read_text(&store, "unknown").await.as_deref(), Some("1"));
    assert_committed(store.commit(put("more", "1")).await);
    let checked = super::support::wait_for_check(&store).await;
    assert_eq!(checked, crate::CheckState::Passed);
}

/// A hung write closes the store, even if it completes later.
///
/// After a device error an engine may block for ever.
pub async fn hung_write_closes_the_store<E: Engine>() {
    let directory = temp_directory();
    let (hangs, hang) = channel::<()>();
    let (begin, began) = channel();
    let (hang, begin, syncs) = (Mutex::new(hang), Mutex::new(begin), AtomicU32::new(0));
    let options = options::<E>()
        .write_time_max(Duration::from_millis(100))
        .sync_hook(move || {
            if syncs.fetch_add(1, Ordering::Relaxed) == 1 {
                let _ = begin.lock().unwrap().send(());
                let _ = hang.lock().unwrap().recv();
            }
            Ok(())
        });
    let store = Arc::new(EngineStore::<E>::open(directory.path(), options).unwrap());
    let waiting = tokio::spawn({
        let store = Arc::clone(&store);
        async move {
            let reply = store.commit(put("a", "1")).await;
            reply.map_err(|error| error.kind())
        }
    });
    tokio::task::block_in_place(|| began.recv_timeout(TIME_MAX).unwrap());
    let began = Instant::now();
    while store.close_reason().is_none() {
        assert!(began.elapsed() < TIME_MAX, "the store is still open");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(store.close_reason(), Some("a write timed out"));
    let late = store.commit(put("b", "1")).await.unwrap_err();
    assert_eq!(late.kind(), StoreErrorKind::Unavailable);

    drop(hangs);
    assert_eq!(waiting.await.unwrap(), Err(StoreErrorKind::Unknown));
    assert!(store.get(&[key("a")]).await.is_err());
}

/// Without enough free space, commits are rejected and reads are not.
pub async fn full_disk_rejects_only_commits<E: Engine>() {
    let directory = temp_directory();
    let store = open::<E>(directory.path());
    assert_committed(store.commit(put("a", "1")).await);
    drop(store);

    let options = options::<E>().free_bytes_min(u64::MAX);
    let store = EngineStore::<E>::open(directory.path(), options).unwrap();
    let error = store.commit(put("a", "2")).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Full);
    assert_eq!(read_text(&store, "a").await.as_deref(), Some("1"));
    assert_eq!(store.close_reason(), None);
    drop(store);
    let store = open::<E>(directory.path());
    assert_committed(store.commit(put("a", "2")).await);
}

/// Commits are accepted again once there is free space, without a restart.
pub async fn freed_disk_accepts_commits<E: Engine>() {
    let directory = temp_directory();
    let free = Arc::new(AtomicU64::new(1_000));
    let reported = Arc::clone(&free);
    let options = options::<E>()
        .free_bytes_min(1_000)
        .free_bytes_with(move |_| Ok(reported.load(Ordering::SeqCst)));
    let store = EngineStore::<E>::open(directory.path(), options).unwrap();
    assert_committed(store.commit(put("a", "1")).await);
    free.store(999, Ordering::SeqCst);
    assert_eq!(store.stats().disk_free_bytes, Some(999));
    let error = store.commit(put("a", "2")).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Full);
    let message = error.to_string();
    let path = directory.path().to_str().unwrap();
    assert!(message.contains(path), "{message}");
    let numbers = "999 bytes are free, 1000 are required";
    assert!(message.contains(numbers), "{message}");
    assert_eq!(read_text(&store, "a").await.as_deref(), Some("1"));

    free.store(1_000, Ordering::SeqCst);
    assert_committed(store.commit(put("a", "3")).await);
    assert_eq!(read_text(&store, "a").await.as_deref(), Some("3"));
    drop(store);
    let store = open::<E>(directory.path());
    assert_eq!(read_text(&store, "a").await.as_deref(), Some("3"));
}

/// A commit that was polled once is written even if its future and then the store are dropped.
pub async fn commit_is_written_if_its_future_is_dropped<E: Engine>() {
    let directory = temp_directory();
    let store = open::<E>(directory.path());
    {
        let mut commit = std::pin::pin!(store.commit(put("a", "1")));
        let _ = futures::poll!(&mut commit);
    }
    drop(store);
    let store = open::<E>(directory.path());
    assert_eq!(read_text(&store, "a").await.as_deref(), Some("1"));
}

/// A snapshot taken during a sync does not contain the group being synced.
pub async fn snapshot_holds_only_synced_commits<E: Engine>() {
    let gated = GatedStore::<E>::open();
    gated.commit_now(put("a", "synced")).await;
    let reply = gated.commit(put("a", "pending"));
    gated.wait_for_sync();
    let during = gated.store.snapshot(1024 * 1024);
    assert_eq!(read_text(&during, "a").await.as_deref(), Some("synced"));
    gated.end_sync(Ok(()));
    reply.await.unwrap().unwrap();
    assert_eq!(read_text(&during, "a").await.as_deref(), Some("synced"));
    let after = gated.store.snapshot(1024 * 1024);
    assert_eq!(read_text(&after, "a").await.as_deref(), Some("pending"));
}

/// The largest commits and single entries, sequential and concurrent, survive reopening.
pub async fn large_and_small_groups_are_durable<E: Engine>() {
    let directory = temp_directory();
    let store = Arc::new(open::<E>(directory.path()));
    let bulk = |name: &str, value: &[u8], count: usize| {
        let commit = (0..count).fold(Commit::builder(), |commit, i| {
            commit.put(key(&format!("{name}{i:06}")), value.to_vec())
        });
        commit.build().unwrap()
    };
    assert_committed(
        store
            .commit(bulk("many", b"value", COMMIT_MUTATIONS_MAX))
            .await,
    );
    assert_committed(
        store
            .commit(bulk("large", &[7; VALUE_BYTES_MAX], 100))
            .await,
    );
    let tasks = (0..40).map(|task| {
        let store = Arc::clone(&store);
        let commit = match task % 4 {
            0 => bulk(&format!("task{task}/"), &[1; 250], COMMIT_MUTATIONS_MAX),
            _ => put(&format!("small{task}"), "1"),
        };
        tokio::spawn(async move { assert_committed(store.commit(commit).await) })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    // Bulk overwrites and deletes.
    assert_committed(
        store
            .commit(bulk("many", b"again", COMMIT_MUTATIONS_MAX))
            .await,
    );
    let deleted = (0..COMMIT_MUTATIONS_MAX).fold(Commit::builder(), |commit, i| {
        commit.delete(key(&format!("task0/{i:06}")))
    });
    assert_committed(store.commit(deleted.build().unwrap()).await);
    let before = read_all(&*store).await.unwrap();
    assert_eq!(before.len(), COMMIT_MUTATIONS_MAX * 10 + 100 + 30);
    store.check(|_, _| {}).unwrap();
    drop(store);
    let store = open::<E>(directory.path());
    assert!(read_all(&store).await.unwrap() == before);
    store.check(|_, _| {}).unwrap();
}
