//! A snapshot is the state after one commit, while others write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use knowledge_store::{
    Commit, CommitOutcome, Direction, Key, KeyEntry, KeyRange, Store, StoreErrorKind, StoreExt,
};

use super::support::{assert_committed, key, open, put, read_text, temp_directory};
use crate::{Engine, Snapshot};

/// Memory for all old values of these cases.
const BYTES_MAX: usize = 64 * 1024 * 1024;
const ACCOUNTS: usize = 300;
const TOTAL: i64 = 1_000 * ACCOUNTS as i64;

fn format_entries(found: &[KeyEntry]) -> Vec<String> {
    let show = |found: &KeyEntry| {
        let value = String::from_utf8_lossy(&found.entry.value).into_owned();
        format!("{}={value}", found.key)
    };
    found.iter().map(show).collect()
}

/// Reads everything in a store, in pages of `limit` entries.
///
/// # Panics
/// If it cannot be read.
pub(crate) async fn read_pages(store: &dyn Store, limit: usize) -> Vec<KeyEntry> {
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

/// A snapshot contains only earlier commits, for every kind of read.
pub async fn snapshot_hides_later_commits<E: Engine>() {
    let directory = temp_directory();
    let store = Arc::new(open::<E>(directory.path()));
    for name in ["b", "d", "f"] {
        assert_committed(store.commit(put(name, "old")).await);
    }
    let snapshot = store.snapshot(BYTES_MAX);
    let before = read_pages(&*store, 10).await;
    let many = ('a'..='z').fold(Commit::builder(), |commit, name| {
        commit.put(key(&format!("c{name}")), "new")
    });
    let change = many
        .delete(key("b"))
        .put(key("d"), "new")
        .put(key("a"), "new")
        .add(key("n"), 1);
    assert_committed(store.commit(change.build().unwrap()).await);
    assert_committed(store.commit(put("b", "again")).await);

    for limit in [1, 2, 3, 100] {
        let found = read_pages(&snapshot, limit).await;
        assert_eq!(found, before, "pages of {limit}");
    }
    let reverse = snapshot.scan(&KeyRange::all(), 2, Direction::Reverse).await;
    assert_eq!(format_entries(&reverse.unwrap()), ["f=old", "d=old"]);
    let some = [key("a"), key("b"), key("d"), key("cx"), key("n")];
    let found = snapshot.get(&some).await.unwrap();
    let found: Vec<_> = found.into_iter().map(|e| e.map(|e| e.value)).collect();
    assert_eq!(
        found,
        [None, Some("old".into()), Some("old".into()), None, None]
    );
    assert_eq!(read_text(&*store, "b").await.as_deref(), Some("again"));
}

/// A snapshot is read-only.
pub async fn snapshot_rejects_commits<E: Engine>() {
    let directory = temp_directory();
    let store = Arc::new(open::<E>(directory.path()));
    let rejected = store.snapshot(BYTES_MAX).commit(put("a", "1")).await;
    assert_eq!(rejected.unwrap_err().kind(), StoreErrorKind::Invalid);
    assert_eq!(read_text(&*store, "a").await, None);
}

/// The revision changes with every commit of a change, and with nothing else.
pub async fn revision_changes_with_the_state<E: Engine>() {
    let directory = temp_directory();
    let store = open::<E>(directory.path());
    let empty = store.revision();
    assert_committed(store.commit(put("a", "1")).await);
    let one = store.revision();
    assert_ne!(one, empty);
    let rejected = Commit::builder().check(key("a"), None).put(key("a"), "2");
    let rejected = store.commit(rejected.build().unwrap()).await.unwrap();
    assert_eq!(rejected, CommitOutcome::Conflict);
    assert_eq!(store.revision(), one);
    drop(store);
    let store = open::<E>(directory.path());
    assert_eq!(store.revision(), one);
    assert_committed(store.commit(put("a", "1")).await);
    assert_ne!(store.revision(), one);
}

fn account(number: usize) -> Key {
    key(&format!("account/{number:04}"))
}

fn parse_amount(value: &[u8]) -> i64 {
    std::str::from_utf8(value).unwrap().parse().unwrap()
}

/// Moves amounts between accounts until it is stopped. The total stays the same.
///
/// Empty accounts are deleted, and created again when they receive an amount.
async fn transfer(store: Arc<impl Store>, seed: u64, is_stopped: Arc<AtomicBool>) -> u64 {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut done = 0;
    while !is_stopped.load(Ordering::Relaxed) {
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
            .map(|found| found.as_ref().map_or(0, |entry| parse_amount(&entry.value)))
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

async fn read_sum<E: Engine>(snapshot: &Snapshot<E>, page_entries: usize) -> i64 {
    let found = read_pages(snapshot, page_entries).await;
    found
        .iter()
        .map(|found| parse_amount(&found.entry.value))
        .sum()
}

/// An invariant of all commits holds in every snapshot, and repeated reads are equal.
pub async fn invariants_hold_in_every_snapshot<E: Engine>() {
    let directory = temp_directory();
    let store = Arc::new(open::<E>(directory.path()));
    let filled = (0..ACCOUNTS).fold(Commit::builder(), |commit, number| {
        commit.put(account(number), "1000")
    });
    assert_committed(store.commit(filled.build().unwrap()).await);
    let is_stopped = Arc::new(AtomicBool::new(false));
    let load: Vec<_> = (0..8)
        .map(|seed| tokio::spawn(transfer(Arc::clone(&store), seed, Arc::clone(&is_stopped))))
        .collect();
    let mut changed = 0;
    // Continue until enough was written meanwhile, however busy the machine is.
    for round in 0.. {
        let snapshot = store.snapshot(BYTES_MAX);
        let revision = store.revision();
        assert_eq!(
            read_sum(&snapshot, 1 + round % 7).await,
            TOTAL,
            "round {round}"
        );
        assert_eq!(
            read_pages(&snapshot, 50).await,
            read_pages(&snapshot, 9).await
        );
        changed += usize::from(store.revision() != revision);
        if round >= 40 && changed >= 20 {
            break;
        }
    }
    is_stopped.store(true, Ordering::Relaxed);
    for task in load {
        assert!(task.await.unwrap() > 0);
    }
}
