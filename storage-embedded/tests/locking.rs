//! The lock of a directory, without an engine.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use knowledge_storage_embedded::{DirectoryLock, OpenError, remove_directory};

const LOCK: &str = "knowledge-store.lock";
const REPLACED: &str = "knowledge-store.replaced";

fn list_names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).into_iter().flatten();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    names
}

#[test]
fn abandoned_lock_removes_its_new_directory() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("outer/store");
    DirectoryLock::acquire(&path).unwrap().abandon();
    assert!(!path.exists());

    // Files of others remain.
    let lock = DirectoryLock::acquire(&path).unwrap();
    fs::write(path.join("notes.txt"), "mine").unwrap();
    lock.abandon();
    assert_eq!(list_names(&path), ["notes.txt"]);
}

#[test]
fn abandoned_lock_keeps_an_existing_directory() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("store");
    fs::create_dir(&path).unwrap();
    DirectoryLock::acquire(&path).unwrap().abandon();
    assert_eq!(list_names(&path), [LOCK]);
    DirectoryLock::acquire(&path).unwrap();
}

#[test]
fn lock_names_its_holder_until_it_is_dropped() {
    let root = tempfile::tempdir().unwrap();
    let lock = DirectoryLock::acquire(root.path()).unwrap();
    let holder = fs::read_to_string(root.path().join(LOCK)).unwrap();
    assert_eq!(holder.trim(), std::process::id().to_string());
    drop(lock);
    assert_eq!(fs::read_to_string(root.path().join(LOCK)).unwrap(), "");
}

/// A rejected attempt leaves no holder in the lock file; otherwise the lock would seem to be held.
#[test]
fn rejected_lock_names_no_holder() {
    let root = tempfile::tempdir().unwrap();
    let lock = DirectoryLock::acquire(root.path()).unwrap();
    lock.retire().unwrap();
    drop(lock);
    let error = DirectoryLock::acquire(root.path()).unwrap_err();
    assert!(matches!(error, OpenError::Replaced { .. }), "{error}");
    assert_eq!(fs::read_to_string(root.path().join(LOCK)).unwrap(), "");
}

/// The lock file is removed after all other files.
#[test]
fn lock_file_is_removed_last() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("store");
    let is_stopped = Arc::new(AtomicBool::new(false));
    for _ in 0..10 {
        let lock = DirectoryLock::acquire(&path).unwrap();
        lock.retire().unwrap();
        fs::create_dir_all(path.join("below/it")).unwrap();
        for i in 0..300 {
            fs::write(path.join(format!("{i}")), "x").unwrap();
        }
        is_stopped.store(false, Ordering::Relaxed);
        let watching = std::thread::spawn({
            let (path, is_stopped) = (path.clone(), Arc::clone(&is_stopped));
            move || {
                while !is_stopped.load(Ordering::Relaxed) {
                    if !path.join(LOCK).exists() {
                        assert_eq!(list_names(&path), [""; 0], "files without a lock");
                    }
                }
            }
        });
        lock.remove_directory().unwrap();
        is_stopped.store(true, Ordering::Relaxed);
        watching.join().unwrap();
        assert!(!path.exists());
    }
}

#[test]
fn directory_without_a_lock_is_removed() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("store");
    fs::create_dir(&path).unwrap();
    fs::write(path.join(REPLACED), "").unwrap();
    remove_directory(&path).unwrap();
    assert!(!path.exists());
}

/// Threads that create and remove the same directory hold it one at a time.
#[test]
fn directory_has_one_holder_while_it_is_recreated() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("store");
    let is_held = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (path, is_held) = (path.clone(), Arc::clone(&is_held));
            std::thread::spawn(move || {
                let mut held = 0;
                for _ in 0..200 {
                    match DirectoryLock::acquire(&path) {
                        Ok(lock) => {
                            assert!(!is_held.swap(true, Ordering::SeqCst), "two holders");
                            held += 1;
                            is_held.store(false, Ordering::SeqCst);
                            lock.abandon();
                        }
                        Err(OpenError::InUse { .. } | OpenError::Replaced { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
                held
            })
        })
        .collect();
    let held: usize = threads
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .sum();
    assert!(held > 0);
}
