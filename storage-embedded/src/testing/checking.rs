//! Inconsistent entries, and the check that detects them.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use knowledge_store::{Commit, Entry, Store, StoreErrorKind, StoreExt, Version};

use super::support::{
    assert_committed, copy_directory, key, open, open_engine, options, put, read_all, read_text,
    temp_directory, wait_for_check,
};
use crate::{Change, Changes, CheckState, Engine, EngineStore};

/// Copies a store while it is open, as a kill would leave it.
async fn write_unclean<E: Engine>(path: &Path) {
    let original = temp_directory();
    let store = open::<E>(original.path());
    for group in 0..20 {
        let commit = (0..200).fold(Commit::builder(), |commit, i| {
            commit.put(key(&format!("n{group:02}{i:03}")), "value")
        });
        assert_committed(store.commit(commit.build().unwrap()).await);
    }
    copy_directory(original.path(), path);
}

/// A store that was not closed cleanly is checked while others read and write. After a clean close
/// it is not.
pub async fn unclean_store_is_checked_at_the_next_start<E: Engine>() {
    let root = temp_directory();
    let path = root.path().join("copy");
    write_unclean::<E>(&path).await;
    let store = open::<E>(&path);
    let state = store.stats().check;
    assert!(
        matches!(state, CheckState::Running | CheckState::Passed),
        "{state:?}"
    );
    assert_committed(store.commit(put("meanwhile", "1")).await);
    assert_eq!(read_text(&store, "meanwhile").await.as_deref(), Some("1"));
    assert_eq!(wait_for_check(&store).await, CheckState::Passed);
    drop(store);

    let store = open::<E>(&path);
    assert_eq!(store.stats().check, CheckState::NotNeeded);
    // A check on demand changes the state too.
    let mut seen = Vec::new();
    store.check(|read, of| seen.push((read, of))).unwrap();
    assert_eq!(seen.last(), Some(&(4_001, 4_001)));
    assert!(seen.len() > 2, "progress is reported page by page");
    assert_eq!(store.stats().check, CheckState::Passed);
}

/// A clean close does not hide an earlier unclean one that was never checked.
pub async fn unchecked_store_is_checked_at_a_later_start<E: Engine>() {
    let root = temp_directory();
    let path = root.path().join("copy");
    write_unclean::<E>(&path).await;
    for _ in 0..2 {
        let unchecked = options::<E>().verify_entries(false);
        let store = EngineStore::<E>::open(&path, unchecked).unwrap();
        assert_eq!(store.stats().check, CheckState::NotNeeded);
    }
    let store = open::<E>(&path);
    assert_eq!(wait_for_check(&store).await, CheckState::Passed);
    drop(store);
    let store = open::<E>(&path);
    assert_eq!(store.stats().check, CheckState::NotNeeded);
}

/// Changes that leave the engine intact and the entries inconsistent with the ledger.
fn inconsistent_changes() -> [(&'static str, Change); 4] {
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

/// Writes a store and changes an entry without updating its ledger.
async fn write_inconsistent<E: Engine>(path: &Path, change: Change) {
    let store = open::<E>(path);
    assert_committed(store.commit(put("a", "x")).await);
    assert_committed(store.commit(put("b", "x")).await);
    drop(store);
    let engine = open_engine::<E>(path);
    let ledger = engine.ledger().unwrap().unwrap().to_vec();
    let entries = vec![change];
    engine.apply(&Changes { entries, ledger }).unwrap();
    engine.sync().unwrap();
    engine.publish();
}

/// A failed check on demand closes the store, and the next start checks again.
pub async fn inconsistent_entries_fail_a_check<E: Engine>() {
    for (what, change) in inconsistent_changes() {
        let directory = temp_directory();
        write_inconsistent::<E>(directory.path(), change).await;
        let store = open::<E>(directory.path());
        assert_eq!(store.stats().check, CheckState::NotNeeded, "{what}");
        let error = store.check(|_, _| {}).unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{what}: {error}");
        assert!(store.close_reason().is_some(), "{what}");
        let stats = store.stats();
        let found = (stats.check, stats.corrupt_reads);
        assert_eq!(found, (CheckState::Failed, 1), "{what}");
        let rejected = store.get(&[key("b")]).await.unwrap_err();
        assert_eq!(rejected.kind(), StoreErrorKind::Unavailable, "{what}");
        drop(store);

        let store = open::<E>(directory.path());
        assert_eq!(wait_for_check(&store).await, CheckState::Failed, "{what}");
        assert!(store.close_reason().is_some(), "{what}");
    }
}

/// A failed background check closes the store.
pub async fn inconsistent_entries_fail_the_background_check<E: Engine>() {
    for (what, change) in inconsistent_changes() {
        let directory = temp_directory();
        write_inconsistent::<E>(directory.path(), change).await;
        std::fs::write(directory.path().join("knowledge-store.open"), "").unwrap();
        let store = open::<E>(directory.path());
        assert_eq!(wait_for_check(&store).await, CheckState::Failed, "{what}");
        // The state is set just before the store is closed.
        while store.close_reason().is_none() {
            tokio::task::yield_now().await;
        }
        assert_eq!(store.stats().corrupt_reads, 1, "{what}");
        let rejected = store.commit(put("c", "1")).await.unwrap_err();
        assert_eq!(rejected.kind(), StoreErrorKind::Unavailable, "{what}");
    }
}

/// A check compares one state with its own ledger while others write.
pub async fn check_runs_during_writes<E: Engine>() {
    let directory = temp_directory();
    let store = Arc::new(open::<E>(directory.path()));
    let is_stopped = Arc::new(AtomicBool::new(false));
    let load: Vec<_> = (0..4)
        .map(|task| {
            let (store, is_stopped) = (Arc::clone(&store), Arc::clone(&is_stopped));
            tokio::spawn(async move {
                let mut rng = fastrand::Rng::with_seed(task);
                let mut commits = 0;
                while !is_stopped.load(Ordering::Relaxed) {
                    let mut commit = Commit::builder();
                    for i in 0..20 {
                        let name = key(&format!("n{i:02}{:03}", rng.u32(..200)));
                        commit = if rng.bool() {
                            commit.put(name, "value")
                        } else {
                            commit.delete(name)
                        };
                    }
                    assert_committed(store.commit(commit.build().unwrap()).await);
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
    is_stopped.store(true, Ordering::Relaxed);
    for task in load {
        assert!(task.await.unwrap() > 0);
    }
    let entries = read_all(&*store).await.unwrap().len();
    assert_eq!(store.stats().entries, entries as u64);
}
