//! Entries that do not add up, and the check that finds them.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use knowledge_store::{Commit, Entry, Store, StoreErrorKind, StoreExt, Version};

use super::support::{
    committed, contents, copy_directory, directory, finished_check, key, open, open_engine,
    options, put, value,
};
use crate::{Change, Changes, CheckState, Engine, EngineStore};

/// Leaves the copy of a store that is open, as after a kill.
async fn write_unclean<E: Engine>(path: &Path) {
    let original = directory();
    let store = open::<E>(original.path());
    for group in 0..20 {
        let commit = (0..200).fold(Commit::builder(), |commit, i| {
            commit.put(key(&format!("n{group:02}{i:03}")), "value")
        });
        committed(store.commit(commit.build().unwrap()).await);
    }
    copy_directory(original.path(), path);
}

/// A store that was not closed cleanly is checked once it is open, while others read and write; after a clean end it
/// is not.
pub async fn unclean_end_is_checked_at_the_next_start<E: Engine>() {
    let root = directory();
    let path = root.path().join("copy");
    write_unclean::<E>(&path).await;
    let store = open::<E>(&path);
    let state = store.stats().check;
    assert!(
        matches!(state, CheckState::Running | CheckState::Passed),
        "{state:?}"
    );
    committed(store.commit(put("meanwhile", "1")).await);
    assert_eq!(value(&store, "meanwhile").await.as_deref(), Some("1"));
    assert_eq!(finished_check(&store).await, CheckState::Passed);
    drop(store);

    let store = open::<E>(&path);
    assert_eq!(store.stats().check, CheckState::NotNeeded);
    // Checked on demand, the state says so too.
    let mut seen = Vec::new();
    store.check(|read, of| seen.push((read, of))).unwrap();
    assert_eq!(seen.last(), Some(&(4_001, 4_001)));
    assert!(seen.len() > 2, "progress is reported page by page");
    assert_eq!(store.stats().check, CheckState::Passed);
}

/// A clean end does not hide that the end before it was unclean and never checked.
pub async fn unchecked_store_is_checked_at_a_later_start<E: Engine>() {
    let root = directory();
    let path = root.path().join("copy");
    write_unclean::<E>(&path).await;
    for _ in 0..2 {
        let unchecked = options::<E>().verify_entries(false);
        let store = EngineStore::<E>::open(&path, unchecked).unwrap();
        assert_eq!(store.stats().check, CheckState::NotNeeded);
    }
    let store = open::<E>(&path);
    assert_eq!(finished_check(&store).await, CheckState::Passed);
    drop(store);
    let store = open::<E>(&path);
    assert_eq!(store.stats().check, CheckState::NotNeeded);
}

/// Changes that leave a whole engine, and entries that do not add up.
fn wrong_changes() -> [(&'static str, Change); 4] {
    let entry = |version| Entry {
        value: "x".into(),
        version: Version::new(version).unwrap(),
    };
    let change = |name, before, after| Change {
        key: key(name),
        before,
        after,
    };
    [
        ("missing", change("a", Some(entry(1)), None)),
        ("left over", change("c", None, Some(entry(1)))),
        ("older", change("b", Some(entry(2)), Some(entry(1)))),
        ("newer", change("b", Some(entry(2)), Some(entry(9)))),
    ]
}

/// Writes a store and changes an entry behind the back of its ledger.
async fn write_wrong<E: Engine>(path: &Path, change: Change) {
    let store = open::<E>(path);
    committed(store.commit(put("a", "x")).await);
    committed(store.commit(put("b", "x")).await);
    drop(store);
    let engine = open_engine::<E>(path);
    let ledger = engine.ledger().unwrap().unwrap().to_vec();
    let entries = vec![change];
    engine.apply(&Changes { entries, ledger }).unwrap();
    engine.sync().unwrap();
    engine.publish();
}

/// A check on demand closes the store, and the next start checks again.
pub async fn wrong_entries_are_found_by_a_check<E: Engine>() {
    for (what, change) in wrong_changes() {
        let directory = directory();
        write_wrong::<E>(directory.path(), change).await;
        let store = open::<E>(directory.path());
        assert_eq!(store.stats().check, CheckState::NotNeeded, "{what}");
        let error = store.check(|_, _| {}).unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{what}: {error}");
        assert!(store.closed_because().is_some(), "{what}");
        let stats = store.stats();
        let found = (stats.check, stats.corrupt_reads);
        assert_eq!(found, (CheckState::Failed, 1), "{what}");
        let refused = store.get(&[key("b")]).await.unwrap_err();
        assert_eq!(refused.kind(), StoreErrorKind::Unavailable, "{what}");
        drop(store);

        let store = open::<E>(directory.path());
        assert_eq!(finished_check(&store).await, CheckState::Failed, "{what}");
        assert!(store.closed_because().is_some(), "{what}");
    }
}

/// The check in the background closes the store.
pub async fn wrong_entries_are_found_after_an_unclean_end<E: Engine>() {
    for (what, change) in wrong_changes() {
        let directory = directory();
        write_wrong::<E>(directory.path(), change).await;
        std::fs::write(directory.path().join("knowledge-store.open"), "").unwrap();
        let store = open::<E>(directory.path());
        assert_eq!(finished_check(&store).await, CheckState::Failed, "{what}");
        // The state is set a moment before the store is closed.
        while store.closed_because().is_none() {
            tokio::task::yield_now().await;
        }
        assert_eq!(store.stats().corrupt_reads, 1, "{what}");
        let refused = store.commit(put("c", "1")).await.unwrap_err();
        assert_eq!(refused.kind(), StoreErrorKind::Unavailable, "{what}");
    }
}

/// A check compares one state with its own ledger, whatever is written meanwhile.
pub async fn check_runs_beside_writers<E: Engine>() {
    let directory = directory();
    let store = Arc::new(open::<E>(directory.path()));
    let is_over = Arc::new(AtomicBool::new(false));
    let load: Vec<_> = (0..4)
        .map(|task| {
            let (store, is_over) = (Arc::clone(&store), Arc::clone(&is_over));
            tokio::spawn(async move {
                let mut rng = fastrand::Rng::with_seed(task);
                let mut commits = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let mut commit = Commit::builder();
                    for i in 0..20 {
                        let name = key(&format!("n{i:02}{:03}", rng.u32(..200)));
                        commit = match rng.bool() {
                            true => commit.put(name, "value"),
                            false => commit.delete(name),
                        };
                    }
                    committed(store.commit(commit.build().unwrap()).await);
                    commits += 1;
                }
                commits
            })
        })
        .collect();
    let checked = Arc::clone(&store);
    let checks = tokio::task::spawn_blocking(move || {
        let mut changed = 0;
        for round in 0.. {
            let before = checked.revision();
            checked.check(|_, _| {}).unwrap();
            changed += usize::from(checked.revision() != before);
            if round >= 40 && changed >= 20 {
                break;
            }
        }
    });
    checks.await.unwrap();
    is_over.store(true, Ordering::Relaxed);
    for task in load {
        assert!(task.await.unwrap() > 0);
    }
    let entries = contents(&*store).await.unwrap().len();
    assert_eq!(store.stats().entries, entries as u64);
}
