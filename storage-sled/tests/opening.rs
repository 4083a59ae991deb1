//! Whose directory it is, and what is in it when it is opened again.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use common::{child_directory, committed, open, options, put, spawn_child, value};
use knowledge_core::store::Store;
use knowledge_storage_sled::{Mode, OpenError, SledStore};

/// Every file of a directory with its contents.
fn files(path: &Path) -> BTreeMap<String, Option<Vec<u8>>> {
    let entries = fs::read_dir(path).unwrap().map(Result::unwrap);
    entries
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read(entry.path()).ok())
        })
        .collect()
}

fn refusal(path: &Path) -> OpenError {
    SledStore::open(path, options()).expect_err("the store must not open")
}

#[tokio::test]
async fn a_store_is_made_where_there_is_nothing_and_found_again() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("not/there/yet");
    let store = open(&path);
    assert_eq!(store.stats().entries, 0);
    let first = committed(store.commit(put("a", "1")).await);
    drop(store);

    let store = SledStore::open(&path, options().mode(Mode::LowSpace)).unwrap();
    assert_eq!(value(&store, "a").await.as_deref(), Some("1"));
    assert_eq!(store.stats().entries, 1);
    let second = committed(store.commit(put("a", "2")).await);
    assert!(second > first);
}

/// As a process that is just being started holds what its parent had open.
#[test]
fn a_lock_in_nobodys_name_is_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path()));
    let lock = fs::File::open(directory.path().join("knowledge-store.lock")).unwrap();
    lock.lock().unwrap();
    let error = refusal(directory.path());
    assert!(
        matches!(error, OpenError::InUse { holder: None, .. }),
        "{error}"
    );
    let holding = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(50));
        drop(lock);
    });
    drop(open(directory.path()));
    holding.join().unwrap();
}

#[cfg(unix)]
#[test]
fn a_new_directory_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;

    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("outer/store");
    drop(open(&path));
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn a_directory_of_other_files_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("notes.txt"), "mine").unwrap();
    fs::create_dir(directory.path().join("photos")).unwrap();
    let before = files(directory.path());
    let error = refusal(directory.path());
    assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
    assert_eq!(files(directory.path()), before);
}

/// A database of sled's that is not a store is foreign too.
#[test]
fn somebody_elses_sled_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let database = sled::open(directory.path()).unwrap();
    database.insert("k", "v").unwrap();
    drop(database);
    let before = files(directory.path());
    let error = refusal(directory.path());
    assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
    assert_eq!(files(directory.path()), before);
}

#[test]
fn a_file_is_no_directory() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, "x").unwrap();
    let error = refusal(&path);
    assert!(matches!(error, OpenError::Io { .. }), "{error}");
}

#[test]
fn the_root_of_a_fresh_file_system_is_empty_enough() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("lost+found")).unwrap();
    open(directory.path());
}

/// A crash while a store was being made leaves some of its files, but no marker.
#[test]
fn a_store_that_was_never_finished_is_made_again() {
    let directory = tempfile::tempdir().unwrap();
    for name in [
        "knowledge-store.lock",
        "knowledge-store.mark",
        "knowledge-store.json.new",
    ] {
        fs::write(directory.path().join(name), "half").unwrap();
    }
    assert!(!SledStore::is_at(directory.path()));
    drop(open(directory.path()));
    assert!(SledStore::is_at(directory.path()));
    open(directory.path());
}

#[test]
fn another_format_is_named() {
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path()));
    let marker = directory.path().join("knowledge-store.json");
    fs::write(&marker, r#"{"format":2,"more":"later"}"#).unwrap();
    let error = refusal(directory.path());
    let message = error.to_string();
    assert!(
        matches!(
            error,
            OpenError::UnknownFormat {
                found: 2,
                known: 1,
                ..
            }
        ),
        "{error}"
    );
    assert!(message.contains("has the storage format 2, this program knows format 1"));
}

#[test]
fn a_second_store_in_the_process_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let first = open(directory.path());
    let error = refusal(directory.path());
    let own = std::process::id();
    assert!(
        matches!(error, OpenError::InUse { holder: Some(pid), .. } if pid == own),
        "{error}"
    );
    drop(first);
    open(directory.path());
}

#[test]
#[ignore = "run as a process of its own by the test below"]
fn child_that_holds_a_store() {
    let Some(directory) = child_directory() else {
        return;
    };
    let _store = open(&directory);
    println!("\nopened");
    std::io::stdout().flush().unwrap();
    // Until the parent closes the pipe.
    let _ = std::io::stdin().lock().read_line(&mut String::new());
}

#[test]
fn a_second_process_is_refused_and_told_who_holds_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut child = spawn_child("child_that_holds_a_store", directory.path());
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "opened"));

    let error = refusal(directory.path());
    let message = error.to_string();
    assert!(
        message.ends_with(&format!("is in use by process {}", child.id())),
        "{message}"
    );

    drop(child.stdin.take());
    lines.for_each(drop);
    assert!(child.wait().unwrap().success());
    open(directory.path());
}
