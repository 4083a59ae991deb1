//! Locks of directories with several names, processes and generations.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::time::Duration;

use knowledge_store::{Store, StoreErrorKind};

use super::support::{
    assert_committed, child_directory, open, options, put, read_text, spawn_child, temp_directory,
};
use crate::{DirectoryLock, Engine, EngineStore, OpenError, reinstate_directory};

const CHILD: &str = "locking::child_that_holds_a_store";
const LOCK: &str = "knowledge-store.lock";
/// Time for another thread to start waiting for a lock, which takes at most a second.
const HEAD_START: Duration = Duration::from_millis(100);

fn open_error<E: Engine>(path: &Path) -> OpenError {
    EngineStore::<E>::open(path, options::<E>()).expect_err("the store does not open")
}

#[track_caller]
fn assert_in_use<E: Engine>(path: &Path) {
    let error = open_error::<E>(path);
    let own = std::process::id();
    assert!(
        matches!(error, OpenError::InUse { holder: Some(pid), .. } if pid == own),
        "{error}"
    );
}

/// Holds a store until standard input ends. Does nothing outside a child process.
pub async fn child_that_holds_a_store<E: Engine>() {
    let Some(directory) = child_directory() else {
        return;
    };
    let _store = open::<E>(&directory);
    println!("\nopened");
    std::io::stdout().flush().unwrap();
    let _ = std::io::stdin().lock().read_line(&mut String::new());
}

/// A second process is rejected with the id of the process that has the store.
pub async fn second_process_is_rejected_with_the_holder<E: Engine>() {
    let directory = temp_directory();
    let mut child = spawn_child(CHILD, directory.path());
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "opened"));

    let message = open_error::<E>(directory.path()).to_string();
    let expected = format!("is in use by process {}", child.id());
    assert!(message.ends_with(&expected), "{message}");

    drop(child.stdin.take());
    lines.for_each(drop);
    assert!(child.wait().unwrap().success());
    drop(open::<E>(directory.path()));
}

/// A second store of the same process is rejected until the first is dropped.
pub async fn second_store_of_the_process_is_rejected<E: Engine>() {
    let directory = temp_directory();
    let first = open::<E>(directory.path());
    assert_in_use::<E>(directory.path());
    drop(first);
    drop(open::<E>(directory.path()));
}

/// A lock without a holder is retried: a starting child process holds its parent's open files.
pub async fn lock_without_a_holder_is_retried<E: Engine>() {
    let directory = temp_directory();
    drop(open::<E>(directory.path()));
    let lock = fs::File::open(directory.path().join(LOCK)).unwrap();
    lock.lock().unwrap();
    let error = open_error::<E>(directory.path());
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

/// A symbolic link to the directory opens the same store.
pub async fn symlink_opens_the_same_store<E: Engine>() {
    let root = temp_directory();
    let (path, link) = (root.path().join("store"), root.path().join("link"));
    let store = open::<E>(&path);
    assert_committed(store.commit(put("a", "1")).await);
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert_in_use::<E>(&link);
        drop(store);
        let store = open::<E>(&link);
        assert_eq!(read_text(&store, "a").await.as_deref(), Some("1"));
        assert_in_use::<E>(&path);
    }
}

/// A store whose directory is renamed while it is open continues, and is in use at the new path.
pub async fn renamed_store_stays_locked<E: Engine>() {
    let root = temp_directory();
    let (path, moved) = (root.path().join("store"), root.path().join("moved"));
    let store = open::<E>(&path);
    assert_committed(store.commit(put("a", "1")).await);
    fs::rename(&path, &moved).unwrap();
    assert_in_use::<E>(&moved);
    // The old path can hold another store.
    let other = open::<E>(&path);
    assert_eq!(read_text(&other, "a").await, None);
    drop(store);
    let store = open::<E>(&moved);
    assert_eq!(read_text(&store, "a").await.as_deref(), Some("1"));
}

/// An opening that waits for the lock of a replaced directory opens the new one.
pub async fn replaced_directory_is_not_opened<E: Engine>() {
    let root = temp_directory();
    let path = root.path().join("store");
    let (old, new) = (root.path().join("old"), root.path().join("new"));
    for (path, value) in [(&path, "old"), (&new, "new")] {
        assert_committed(open::<E>(path).commit(put("a", value)).await);
    }
    // A lock without a holder, as while the previous holder releases it.
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
    assert_eq!(read_text(&store, "a").await.as_deref(), Some("new"));
    let old = open::<E>(&old);
    assert_eq!(read_text(&old, "a").await.as_deref(), Some("old"));
}

/// A retired directory is rejected under each of its names until it is reinstated.
pub async fn retired_store_is_rejected_under_any_name<E: Engine>() {
    let root = temp_directory();
    let (path, link) = (root.path().join("store"), root.path().join("link"));
    let moved = root.path().join("moved");
    let store = open::<E>(&path);
    assert_committed(store.commit(put("a", "1")).await);
    let mut lock = store.close().unwrap();
    lock.retire().unwrap();
    assert_in_use::<E>(&path);
    fs::rename(&path, &moved).unwrap();
    lock.set_path(&moved);
    assert_eq!(lock.path(), moved);
    drop(lock);
    #[cfg(unix)]
    std::os::unix::fs::symlink(&moved, &link).unwrap();
    for name in [&moved, &link] {
        let error = open_error::<E>(name);
        assert!(matches!(error, OpenError::Replaced { .. }), "{error}");
    }
    // The rejected openings have released the lock.
    reinstate_directory(&moved).unwrap();
    let store = open::<E>(&moved);
    assert_eq!(read_text(&store, "a").await.as_deref(), Some("1"));
}

/// After closing, the directory remains locked until the caller has moved or removed it.
pub async fn close_keeps_the_lock<E: Engine>() {
    let directory = temp_directory();
    let store = open::<E>(directory.path());
    assert_committed(store.commit(put("a", "1")).await);
    let lock = store.close().unwrap();
    assert_in_use::<E>(directory.path());
    let store = EngineStore::<E>::open_locked(lock, options::<E>()).unwrap();
    assert_eq!(read_text(&store, "a").await.as_deref(), Some("1"));
    let lock = store.close().unwrap();
    lock.remove_directory().unwrap();
    assert!(!directory.path().exists());
    let lock = DirectoryLock::acquire(directory.path()).unwrap();
    lock.abandon();
    assert!(!directory.path().exists());
}

/// Closing a store that had closed itself reports an error and releases the directory.
pub async fn failed_store_cannot_be_closed_cleanly<E: Engine>() {
    let directory = temp_directory();
    let is_open = std::sync::atomic::AtomicBool::new(false);
    let options = options::<E>().sync_hook(move || {
        if is_open.swap(true, std::sync::atomic::Ordering::Relaxed) {
            Err(std::io::Error::other("the device is gone"))
        } else {
            Ok(())
        }
    });
    let store = EngineStore::<E>::open(directory.path(), options).unwrap();
    assert!(store.commit(put("a", "1")).await.is_err());
    let error = store.close().unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    drop(open::<E>(directory.path()));
}
