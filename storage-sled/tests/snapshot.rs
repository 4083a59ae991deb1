//! A snapshot is the state after one commit, whatever is written while it is read.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{committed, key, open, put, value};
use knowledge_core::store::{
    Commit, CommitOutcome, Direction, KeyEntry, KeyRange, Store, StoreErrorKind,
};
use knowledge_storage_sled::SledSnapshot;

/// Room for everything that these tests write.
const BYTES_MAX: usize = 64 * 1024 * 1024;

fn shown(found: &[KeyEntry]) -> Vec<String> {
    let show = |found: &KeyEntry| {
        let value = String::from_utf8_lossy(&found.entry.value).into_owned();
        format!("{}={value}", found.key)
    };
    found.iter().map(show).collect()
}

/// Everything in it, read in pages of `limit`.
async fn pages(store: &dyn Store, limit: usize) -> Vec<KeyEntry> {
    let (mut rest, mut found) = (KeyRange::all(), Vec::new());
    loop {
        let page = store.scan(&rest, limit, Direction::Forward).await.unwrap();
        let is_last = page.len() < limit;
        found.extend(page);
        match found.last() {
            Some(last) if !is_last => rest = rest.after(&last.key),
            _ => return found,
        }
    }
}

#[tokio::test]
async fn what_is_committed_later_is_not_seen() {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(open(directory.path()));
    for name in ["b", "d", "f"] {
        committed(store.commit(put(name, "old")).await);
    }
    let snapshot = store.snapshot(BYTES_MAX);
    let before = pages(&*store, 10).await;
    let many = ('a'..='z').fold(Commit::builder(), |commit, name| {
        commit.put(key(&format!("c{name}")), "new")
    });
    let change = many
        .delete(key("b"))
        .put(key("d"), "new")
        .put(key("a"), "new")
        .add(key("n"), 1);
    committed(store.commit(change.build().unwrap()).await);
    committed(store.commit(put("b", "again")).await);

    for limit in [1, 2, 3, 100] {
        let found = pages(&snapshot, limit).await;
        assert_eq!(found, before, "pages of {limit}");
    }
    let reverse = snapshot.scan(&KeyRange::all(), 2, Direction::Reverse).await;
    assert_eq!(shown(&reverse.unwrap()), ["f=old", "d=old"]);
    let some = [key("a"), key("b"), key("d"), key("cx"), key("n")];
    let found = snapshot.get(&some).await.unwrap();
    let found: Vec<_> = found.into_iter().map(|e| e.map(|e| e.value)).collect();
    assert_eq!(
        found,
        [None, Some("old".into()), Some("old".into()), None, None]
    );
    assert_eq!(value(&store, "b").await.as_deref(), Some("again"));
}

#[tokio::test]
async fn a_snapshot_takes_no_commit() {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(open(directory.path()));
    let refused = store.snapshot(BYTES_MAX).commit(put("a", "1")).await;
    assert_eq!(refused.unwrap_err().kind(), StoreErrorKind::Invalid);
    assert_eq!(value(&store, "a").await, None);
}

#[tokio::test]
async fn too_many_changes_cost_the_snapshot_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(open(directory.path()));
    committed(store.commit(put("a", &"x".repeat(1_000))).await);
    let (small, large) = (store.snapshot(900), store.snapshot(BYTES_MAX));
    committed(store.commit(put("b", "new")).await);
    assert_eq!(pages(&small, 10).await, pages(&large, 10).await);
    committed(store.commit(put("a", "new")).await);
    let lost = small.get(&[key("z")]).await.unwrap_err();
    assert_eq!(lost.kind(), StoreErrorKind::Unavailable);
    assert!(lost.to_string().contains("900 bytes"), "{lost}");
    let lost = small.scan(&KeyRange::all(), 1, Direction::Forward).await;
    assert_eq!(lost.unwrap_err().kind(), StoreErrorKind::Unavailable);
    committed(store.commit(put("c", "new")).await);
    assert_eq!(pages(&large, 10).await.len(), 1);
}

#[tokio::test]
async fn the_revision_names_the_state() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let empty = store.revision();
    committed(store.commit(put("a", "1")).await);
    let one = store.revision();
    assert_ne!(one, empty);
    let refused = Commit::builder().check(key("a"), None).put(key("a"), "2");
    let refused = store.commit(refused.build().unwrap()).await.unwrap();
    assert_eq!(refused, CommitOutcome::Conflict);
    assert_eq!(store.revision(), one);
    drop(store);
    let store = open(directory.path());
    assert_eq!(store.revision(), one);
    committed(store.commit(put("a", "1")).await);
    assert_ne!(store.revision(), one);
}

const ACCOUNTS: usize = 300;
const TOTAL: i64 = 1_000 * ACCOUNTS as i64;

fn account(number: usize) -> knowledge_core::store::Key {
    key(&format!("account/{number:04}"))
}

/// Moves amounts between accounts, deletes empty ones and makes them anew, until told to stop: their sum stays.
async fn transfer(store: Arc<impl Store>, seed: u64, is_over: Arc<AtomicBool>) -> u64 {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut done = 0;
    while !is_over.load(Ordering::Relaxed) {
        let pair = [
            account(random.usize(..ACCOUNTS)),
            account(random.usize(..ACCOUNTS)),
        ];
        if pair[0] == pair[1] {
            continue;
        }
        let found = store.get(&pair).await.unwrap();
        let amounts: Vec<i64> = found
            .iter()
            .map(|found| found.as_ref().map_or(0, |entry| amount(&entry.value)))
            .collect();
        let moved = if random.bool() {
            amounts[0]
        } else {
            random.i64(0..=amounts[0])
        };
        let mut commit = Commit::builder();
        for ((key, found), new) in pair
            .into_iter()
            .zip(&found)
            .zip([amounts[0] - moved, amounts[1] + moved])
        {
            commit = commit.check(key.clone(), found.as_ref().map(|entry| entry.version));
            commit = match new {
                0 => commit.delete(key),
                new => commit.put(key, new.to_string()),
            };
        }
        let outcome = store.commit(commit.build().unwrap()).await.unwrap();
        done += u64::from(matches!(outcome, CommitOutcome::Committed(_)));
    }
    done
}

fn amount(value: &[u8]) -> i64 {
    std::str::from_utf8(value).unwrap().parse().unwrap()
}

async fn sum(snapshot: &SledSnapshot, page_entries: usize) -> i64 {
    let found = pages(snapshot, page_entries).await;
    found.iter().map(|found| amount(&found.entry.value)).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_every_commit_keeps_holds_in_every_snapshot() {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(open(directory.path()));
    let filled = (0..ACCOUNTS).fold(Commit::builder(), |commit, number| {
        commit.put(account(number), "1000")
    });
    committed(store.commit(filled.build().unwrap()).await);
    let is_over = Arc::new(AtomicBool::new(false));
    let load: Vec<_> = (0..8)
        .map(|seed| tokio::spawn(transfer(Arc::clone(&store), seed, Arc::clone(&is_over))))
        .collect();
    let mut changed = 0;
    // Until enough was written beside them, whatever the machine has else to do.
    for round in 0.. {
        let snapshot = store.snapshot(BYTES_MAX);
        let revision = store.revision();
        assert_eq!(sum(&snapshot, 1 + round % 7).await, TOTAL, "round {round}");
        // Read again, it is the same.
        assert_eq!(pages(&snapshot, 50).await, pages(&snapshot, 9).await);
        changed += usize::from(store.revision() != revision);
        if round >= 40 && changed >= 20 {
            break;
        }
    }
    is_over.store(true, Ordering::Relaxed);
    for task in load {
        assert!(task.await.unwrap() > 0);
    }
}
