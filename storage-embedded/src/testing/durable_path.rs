//! Nothing is answered and nothing is read before it is on the disk, and nothing at all after a sync has failed.

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

use super::support::{TIME_MAX, committed, contents, directory, key, open, options, put, value};
use crate::{Engine, EngineStore, StoreStats};

/// Time for a commit to reach the commit thread.
const HAND_OVER: Duration = Duration::from_millis(50);

type Answer = Result<CommitOutcome, StoreErrorKind>;

/// A store whose syncs wait until they are told how to end.
struct Gated<E: Engine> {
    store: Arc<EngineStore<E>>,
    began: Receiver<()>,
    ends: Sender<io::Result<()>>,
    _directory: TempDir,
}

impl<E: Engine> Gated<E> {
    fn open() -> Self {
        let directory = directory();
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

    /// Hands in a commit; its answer is awaited on a task.
    fn commit(&self, commit: Commit) -> tokio::task::JoinHandle<Answer> {
        let store = Arc::clone(&self.store);
        tokio::spawn(async move { store.commit(commit).await.map_err(|error| error.kind()) })
    }

    fn wait_for_sync(&self) {
        tokio::task::block_in_place(|| self.began.recv_timeout(TIME_MAX).unwrap());
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

/// A group that is with the engine and not synced is neither answered nor read, and nobody waits for it.
pub async fn changes_are_hidden_until_their_sync_returns<E: Engine>() {
    let gated = Gated::<E>::open();
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
    let mut answer = gated.commit(change.build().unwrap());
    gated.wait_for_sync();
    tokio::time::sleep(HAND_OVER).await;
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
    let names: Vec<_> = contents(store).await.unwrap().into_keys().collect();
    let expected = ["a", "changed", "counted", "created", "m", "z"].map(key);
    assert_eq!(names, expected);
}

/// Statistics once the files were measured, which is after the answer to a commit.
async fn measured<E: Engine>(store: &EngineStore<E>) -> StoreStats {
    let began = Instant::now();
    loop {
        let stats = store.stats();
        if stats.disk_bytes > 0 || began.elapsed() >= TIME_MAX {
            return stats;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Commits that come during a sync make one group, and are counted as one.
pub async fn waiting_commits_share_a_sync<E: Engine>() {
    let gated = Gated::<E>::open();
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
    tokio::time::sleep(HAND_OVER).await;
    gated.end_sync(Ok(()));
    assert!(first.await.unwrap().is_ok());

    gated.wait_for_sync();
    assert!(waiting.iter().all(|answer| !answer.is_finished()));
    // A conflict reports what is stored, and waits until that is durable.
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
    let stats = measured(store).await;
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

/// After a failed sync the outcome of its group is unknown, and everything else is refused.
pub async fn failed_sync_closes_the_store<E: Engine>() {
    let gated = Gated::<E>::open();
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
    tokio::time::sleep(HAND_OVER).await;
    gated.end_sync(Err(io::Error::other("the device is gone")));

    assert_eq!(first.await.unwrap(), Err(StoreErrorKind::Unknown));
    for answer in behind {
        // Certainly not applied: they came to the thread after the store was closed.
        assert_eq!(answer.await.unwrap(), Err(StoreErrorKind::Unavailable));
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
    let reason = store.closed_because().unwrap();
    assert!(reason.contains("the device is gone"), "{reason}");
    // Those behind it were refused, and are no failures of the device.
    assert_eq!(store.stats().sync_failures, 1);
}

/// A store that closed itself has everything that was acknowledged when it is opened again, and is checked.
pub async fn closed_store_opens_again<E: Engine>() {
    let directory = directory();
    let store = open::<E>(directory.path());
    committed(store.commit(put("kept", "1")).await);
    drop(store);

    let fails = Arc::new(AtomicBool::new(false));
    let is_failing = Arc::clone(&fails);
    let options = options::<E>().sync_hook(move || match is_failing.load(Ordering::Relaxed) {
        true => Err(io::Error::other("the device is gone")),
        false => Ok(()),
    });
    let store = EngineStore::<E>::open(directory.path(), options).unwrap();
    fails.store(true, Ordering::Relaxed);
    let unknown = store.commit(put("unknown", "1")).await.unwrap_err();
    assert_eq!(unknown.kind(), StoreErrorKind::Unknown);
    drop(store);

    let store = open::<E>(directory.path());
    assert_eq!(value(&store, "kept").await.as_deref(), Some("1"));
    // It was written, if not synced: here it is found, after a power cut it might not be.
    assert_eq!(value(&store, "unknown").await.as_deref(), Some("1"));
    committed(store.commit(put("more", "1")).await);
    let checked = super::support::finished_check(&store).await;
    assert_eq!(checked, crate::CheckState::Passed);
}

/// A write that does not end closes the store, also if it ends after all: an engine may wait for ever after an error of
/// the device.
pub async fn endless_write_closes_the_store<E: Engine>() {
    let directory = directory();
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
            let answer = store.commit(put("a", "1")).await;
            answer.map_err(|error| error.kind())
        }
    });
    tokio::task::block_in_place(|| began.recv_timeout(TIME_MAX).unwrap());
    let began = Instant::now();
    while store.closed_because().is_none() {
        assert!(began.elapsed() < TIME_MAX, "the store stays open");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(store.closed_because(), Some("a write timed out"));
    let late = store.commit(put("b", "1")).await.unwrap_err();
    assert_eq!(late.kind(), StoreErrorKind::Unavailable);

    drop(hangs);
    assert_eq!(waiting.await.unwrap(), Err(StoreErrorKind::Unknown));
    assert!(store.get(&[key("a")]).await.is_err());
}

/// With too little space commits are refused, and reads are not.
pub async fn full_disk_refuses_only_commits<E: Engine>() {
    let directory = directory();
    let store = open::<E>(directory.path());
    committed(store.commit(put("a", "1")).await);
    drop(store);

    let options = options::<E>().free_bytes_min(u64::MAX);
    let store = EngineStore::<E>::open(directory.path(), options).unwrap();
    let error = store.commit(put("a", "2")).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Full);
    assert_eq!(value(&store, "a").await.as_deref(), Some("1"));
    assert_eq!(store.closed_because(), None);
    drop(store);
    let store = open::<E>(directory.path());
    committed(store.commit(put("a", "2")).await);
}

/// Once there is space again commits are accepted, without a restart.
pub async fn disk_with_room_again_takes_commits<E: Engine>() {
    let directory = directory();
    let free = Arc::new(AtomicU64::new(1_000));
    let reported = Arc::clone(&free);
    let options = options::<E>()
        .free_bytes_min(1_000)
        .free_bytes_with(move |_| Ok(reported.load(Ordering::SeqCst)));
    let store = EngineStore::<E>::open(directory.path(), options).unwrap();
    committed(store.commit(put("a", "1")).await);
    free.store(999, Ordering::SeqCst);
    assert_eq!(store.stats().disk_free_bytes, Some(999));
    let error = store.commit(put("a", "2")).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Full);
    let shown = error.to_string();
    let path = directory.path().to_str().unwrap();
    assert!(shown.contains(path), "{shown}");
    let numbers = "999 bytes are free, 1000 have to stay free";
    assert!(shown.contains(numbers), "{shown}");
    assert_eq!(value(&store, "a").await.as_deref(), Some("1"));

    free.store(1_000, Ordering::SeqCst);
    committed(store.commit(put("a", "3")).await);
    assert_eq!(value(&store, "a").await.as_deref(), Some("3"));
    drop(store);
    let store = open::<E>(directory.path());
    assert_eq!(value(&store, "a").await.as_deref(), Some("3"));
}

/// A commit that was polled once is written, although its future is dropped and the store with it.
pub async fn commit_is_written_although_nobody_waits<E: Engine>() {
    let directory = directory();
    let store = open::<E>(directory.path());
    {
        let mut commit = std::pin::pin!(store.commit(put("a", "1")));
        let _ = futures::poll!(&mut commit);
    }
    drop(store);
    let store = open::<E>(directory.path());
    assert_eq!(value(&store, "a").await.as_deref(), Some("1"));
}

/// A snapshot that is taken during a sync does not hold the group that is being synced.
pub async fn snapshot_holds_only_synced_commits<E: Engine>() {
    let gated = Gated::<E>::open();
    gated.commit_now(put("a", "synced")).await;
    let answer = gated.commit(put("a", "on its way"));
    gated.wait_for_sync();
    let during = gated.store.snapshot(1024 * 1024);
    assert_eq!(value(&during, "a").await.as_deref(), Some("synced"));
    gated.end_sync(Ok(()));
    answer.await.unwrap().unwrap();
    assert_eq!(value(&during, "a").await.as_deref(), Some("synced"));
    let after = gated.store.snapshot(1024 * 1024);
    assert_eq!(value(&after, "a").await.as_deref(), Some("on its way"));
}

/// The largest commits and single entries, alone and many at once, are there when the store is opened again.
pub async fn large_and_small_groups_are_kept<E: Engine>() {
    let directory = directory();
    let store = Arc::new(open::<E>(directory.path()));
    let bulk = |name: &str, value: &[u8], count: usize| {
        let commit = (0..count).fold(Commit::builder(), |commit, i| {
            commit.put(key(&format!("{name}{i:06}")), value.to_vec())
        });
        commit.build().unwrap()
    };
    committed(
        store
            .commit(bulk("many", b"value", COMMIT_MUTATIONS_MAX))
            .await,
    );
    committed(
        store
            .commit(bulk("large", &[7; VALUE_BYTES_MAX], 100))
            .await,
    );
    let tasks = (0..40).map(|task| {
        let store = Arc::clone(&store);
        let commit = match task % 4 {
            0 => bulk(&format!("task{task}/"), &[1; 1_000], COMMIT_MUTATIONS_MAX),
            _ => put(&format!("small{task}"), "1"),
        };
        tokio::spawn(async move { committed(store.commit(commit).await) })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    // Overwritten and deleted in bulk.
    committed(
        store
            .commit(bulk("many", b"again", COMMIT_MUTATIONS_MAX))
            .await,
    );
    let deleted = (0..COMMIT_MUTATIONS_MAX).fold(Commit::builder(), |commit, i| {
        commit.delete(key(&format!("task0/{i:06}")))
    });
    committed(store.commit(deleted.build().unwrap()).await);
    let before = contents(&*store).await.unwrap();
    assert_eq!(before.len(), COMMIT_MUTATIONS_MAX * 10 + 100 + 30);
    store.check(|_, _| {}).unwrap();
    drop(store);
    let store = open::<E>(directory.path());
    assert!(contents(&store).await.unwrap() == before);
    store.check(|_, _| {}).unwrap();
}
