//! Several names, processes and generations of a directory.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::time::Duration;

use knowledge_store::{Store, StoreErrorKind};

use super::support::{
    child_directory, committed, directory, open, options, put, spawn_child, value,
};
use crate::{DirectoryLock, Engine, EngineStore, OpenError, reinstate_directory};

const CHILD: &str = "locking::child_that_holds_a_store";
const LOCK: &str = "knowledge-store.lock";
/// Time for another thread to begin waiting for a lock; it waits for a second.
const HEAD_START: Duration = Duration::from_millis(100);

fn refusal<E: Engine>(path: &Path) -> OpenError {
    EngineStore::<E>::open(path, options::<E>()).expect_err("the store must not open")
}

#[track_caller]
fn assert_in_use<E: Engine>(path: &Path) {
    let error = refusal::<E>(path);
    let own = std::process::id();
    assert!(
        matches!(error, OpenError::InUse { holder: Some(pid), .. } if pid == own),
        "{error}"
    );
}

/// In a child process: holds a store until its input ends. Elsewhere it does nothing.
pub async fn child_that_holds_a_store<E: Engine>() {
    let Some(directory) = child_directory() else {
        return;
    };
    let _store = open::<E>(&directory);
    println!("\nopened");
    std::io::stdout().flush().unwrap();
    let _ = std::io::stdin().lock().read_line(&mut String::new());
}

/// Another process is refused, and told which one has the store.
pub async fn second_process_is_refused_with_the_holder<E: Engine>() {
    let directory = directory();
    let mut child = spawn_child(CHILD, directory.path());
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "opened"));

    let message = refusal::<E>(directory.path()).to_string();
    let expected = format!("is in use by process {}", child.id());
    assert!(message.ends_with(&expected), "{message}");

    drop(child.stdin.take());
    lines.for_each(drop);
    assert!(child.wait().unwrap().success());
    drop(open::<E>(directory.path()));
}

/// A second store of the same process is refused, until the first is dropped.
pub async fn second_store_of_the_process_is_refused<E: Engine>() {
    let directory = directory();
    let first = open::<E>(directory.path());
    assert_in_use::<E>(directory.path());
    drop(first);
    drop(open::<E>(directory.path()));
}

/// A lock in nobody's name is waited for: a process that is being started holds what its parent had open.
pub async fn unnamed_lock_is_waited_for<E: Engine>() {
    let directory = directory();
    drop(open::<E>(directory.path()));
    let lock = fs::File::open(directory.path().join(LOCK)).unwrap();
    lock.lock().unwrap();
    let error = refusal::<E>(directory.path());
    assert!(
        matches!(error, OpenError::InUse { holder: None, .. }),
        "{error}"
    );
    let holding = std::thread::spawn(move || {
        std::thread::sleep(HEAD_START);
        drop(lock);
    });
    drop(open::<E>(directory.path()));
    holding.join().unwrap();
}

/// A symbolic link to the directory leads to the same store.
pub async fn two_names_are_one_store<E: Engine>() {
    let root = directory();
    let (path, link) = (root.path().join("store"), root.path().join("link"));
    let store = open::<E>(&path);
    committed(store.commit(put("a", "1")).await);
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert_in_use::<E>(&link);
        drop(store);
        let store = open::<E>(&link);
        assert_eq!(value(&store, "a").await.as_deref(), Some("1"));
        assert_in_use::<E>(&path);
    }
}

/// A store whose directory is renamed while it is open is in use under its new name, and goes on.
pub async fn renamed_store_stays_locked<E: Engine>() {
    let root = directory();
    let (path, moved) = (root.path().join("store"), root.path().join("moved"));
    let store = open::<E>(&path);
    committed(store.commit(put("a", "1")).await);
    fs::rename(&path, &moved).unwrap();
    assert_in_use::<E>(&moved);
    // Another store in its old place is another store.
    let other = open::<E>(&path);
    assert_eq!(value(&other, "a").await, None);
    drop(store);
    let store = open::<E>(&moved);
    assert_eq!(value(&store, "a").await.as_deref(), Some("1"));
}

/// Whoever waits for the lock of a directory that is replaced meanwhile gets the new one.
pub async fn replaced_directory_is_not_opened<E: Engine>() {
    let root = directory();
    let path = root.path().join("store");
    let (old, new) = (root.path().join("old"), root.path().join("new"));
    for (path, value) in [(&path, "old"), (&new, "new")] {
        committed(open::<E>(path).commit(put("a", value)).await);
    }
    // Without a name in it, as while its holder lets go.
    let lock = fs::File::open(path.join(LOCK)).unwrap();
    lock.lock().unwrap();
    let waiting = std::thread::spawn({
        let path = path.clone();
        move || open::<E>(&path)
    });
    std::thread::sleep(HEAD_START);
    fs::rename(&path, &old).unwrap();
    fs::rename(&new, &path).unwrap();
    drop(lock);
    let store = waiting.join().unwrap();
    assert_eq!(value(&store, "a").await.as_deref(), Some("new"));
    let old = open::<E>(&old);
    assert_eq!(value(&old, "a").await.as_deref(), Some("old"));
}

/// A directory that was retired is refused under each of its names, until it is reinstated.
pub async fn retired_store_is_refused_under_any_name<E: Engine>() {
    let root = directory();
    let (path, link) = (root.path().join("store"), root.path().join("link"));
    let moved = root.path().join("moved");
    let store = open::<E>(&path);
    committed(store.commit(put("a", "1")).await);
    let mut lock = store.close().unwrap();
    lock.retire().unwrap();
    assert_in_use::<E>(&path);
    fs::rename(&path, &moved).unwrap();
    lock.moved_to(&moved);
    assert_eq!(lock.path(), moved);
    drop(lock);
    #[cfg(unix)]
    std::os::unix::fs::symlink(&moved, &link).unwrap();
    for name in [&moved, &link] {
        let error = refusal::<E>(name);
        assert!(matches!(error, OpenError::Replaced { .. }), "{error}");
    }
    // Also a lock in the name of the refused is let go.
    reinstate_directory(&moved).unwrap();
    let store = open::<E>(&moved);
    assert_eq!(value(&store, "a").await.as_deref(), Some("1"));
}

/// Between closing and what is done with the directory nobody else opens it.
pub async fn closing_keeps_the_lock<E: Engine>() {
    let directory = directory();
    let store = open::<E>(directory.path());
    committed(store.commit(put("a", "1")).await);
    let lock = store.close().unwrap();
    assert_in_use::<E>(directory.path());
    let store = EngineStore::<E>::open_locked(lock, options::<E>()).unwrap();
    assert_eq!(value(&store, "a").await.as_deref(), Some("1"));
    let lock = store.close().unwrap();
    lock.remove_directory().unwrap();
    assert!(!directory.path().exists());
    let lock = DirectoryLock::acquire(directory.path()).unwrap();
    lock.abandon();
    assert!(!directory.path().exists());
}

/// Closing reports a store that had closed itself, and lets go of it.
pub async fn failed_store_does_not_close_cleanly<E: Engine>() {
    let directory = directory();
    let is_open = std::sync::atomic::AtomicBool::new(false);
    let options = options::<E>().sync_hook(move || {
        match is_open.swap(true, std::sync::atomic::Ordering::Relaxed) {
            true => Err(std::io::Error::other("the device is gone")),
            false => Ok(()),
        }
    });
    let store = EngineStore::<E>::open(directory.path(), options).unwrap();
    assert!(store.commit(put("a", "1")).await.is_err());
    let error = store.close().unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    drop(open::<E>(directory.path()));
}
