//! A snapshot is the state after one commit, whatever is written while it is read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use knowledge_store::{
    Commit, CommitOutcome, Direction, Key, KeyEntry, KeyRange, Store, StoreErrorKind, StoreExt,
};

use super::support::{committed, directory, key, open, put, value};
use crate::{Engine, Snapshot};

/// Room for everything that these cases write.
const BYTES_MAX: usize = 64 * 1024 * 1024;
const ACCOUNTS: usize = 300;
const TOTAL: i64 = 1_000 * ACCOUNTS as i64;

fn shown(found: &[KeyEntry]) -> Vec<String> {
    let show = |found: &KeyEntry| {
        let value = String::from_utf8_lossy(&found.entry.value).into_owned();
        format!("{}={value}", found.key)
    };
    found.iter().map(show).collect()
}

/// Everything in a store, read in pages of `limit`.
///
/// # Panics
/// If it cannot be read.
pub(crate) async fn pages(store: &dyn Store, limit: usize) -> Vec<KeyEntry> {
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

/// A snapshot shows what was committed before it was taken, in every kind of read.
pub async fn later_commits_are_not_seen<E: Engine>() {
    let directory = directory();
    let store = Arc::new(open::<E>(directory.path()));
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
    assert_eq!(value(&*store, "b").await.as_deref(), Some("again"));
}

/// A snapshot is read-only.
pub async fn commits_are_refused<E: Engine>() {
    let directory = directory();
    let store = Arc::new(open::<E>(directory.path()));
    let refused = store.snapshot(BYTES_MAX).commit(put("a", "1")).await;
    assert_eq!(refused.unwrap_err().kind(), StoreErrorKind::Invalid);
    assert_eq!(value(&*store, "a").await, None);
}

/// The revision changes with every commit that changes something, and with nothing else.
pub async fn revision_names_the_state<E: Engine>() {
    let directory = directory();
    let store = open::<E>(directory.path());
    let empty = store.revision();
    committed(store.commit(put("a", "1")).await);
    let one = store.revision();
    assert_ne!(one, empty);
    let refused = Commit::builder().check(key("a"), None).put(key("a"), "2");
    let refused = store.commit(refused.build().unwrap()).await.unwrap();
    assert_eq!(refused, CommitOutcome::Conflict);
    assert_eq!(store.revision(), one);
    drop(store);
    let store = open::<E>(directory.path());
    assert_eq!(store.revision(), one);
    committed(store.commit(put("a", "1")).await);
    assert_ne!(store.revision(), one);
}

fn account(number: usize) -> Key {
    key(&format!("account/{number:04}"))
}

fn amount(value: &[u8]) -> i64 {
    std::str::from_utf8(value).unwrap().parse().unwrap()
}

/// Moves amounts between accounts, deletes empty ones and creates them again, until told to stop: their sum stays.
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
        let moved = match random.bool() {
            true => amounts[0],
            false => random.i64(0..=amounts[0]),
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

async fn sum<E: Engine>(snapshot: &Snapshot<E>, page_entries: usize) -> i64 {
    let found = pages(snapshot, page_entries).await;
    found.iter().map(|found| amount(&found.entry.value)).sum()
}

/// An invariant that every commit preserves holds in every snapshot, and a snapshot that is read again is the same.
pub async fn invariants_hold_in_every_snapshot<E: Engine>() {
    let directory = directory();
    let store = Arc::new(open::<E>(directory.path()));
    let filled = (0..ACCOUNTS).fold(Commit::builder(), |commit, number| {
        commit.put(account(number), "1000")
    });
    committed(store.commit(filled.build().unwrap()).await);
    let is_over = Arc::new(AtomicBool::new(false));
    let load: Vec<_> = (0..8)
        .map(|seed| tokio::spawn(transfer(Arc::clone(&store), seed, Arc::clone(&is_over))))
        .collect();
    let mut changed = 0;
    // Until enough was written beside them, whatever else the machine has to do.
    for round in 0.. {
        let snapshot = store.snapshot(BYTES_MAX);
        let revision = store.revision();
        assert_eq!(sum(&snapshot, 1 + round % 7).await, TOTAL, "round {round}");
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
