//! What the tests of this crate share.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

use std::path::Path;
use std::process::{Child, Command, Stdio};

use knowledge_core::store::{
    Commit, CommitOutcome, Direction, Key, KeyRange, Store, StoreError, Version,
};
use knowledge_storage_sled::{SledOptions, SledStore};

pub fn key(name: &str) -> Key {
    Key::new(name.as_bytes().to_vec()).unwrap()
}

pub fn put(name: &str, value: &str) -> Commit {
    let value = value.as_bytes().to_vec();
    Commit::builder().put(key(name), value).build().unwrap()
}

/// A small cache, so that tests also read from the disk.
pub fn options() -> SledOptions {
    SledOptions::default().cache_capacity_bytes(8 * 1024 * 1024)
}

pub fn open(path: &Path) -> SledStore {
    SledStore::open(path, options()).unwrap()
}

pub async fn value(store: &SledStore, name: &str) -> Option<String> {
    let found = store.get(&[key(name)]).await.unwrap().remove(0);
    found.map(|entry| String::from_utf8(entry.value.to_vec()).unwrap())
}

pub async fn keys(store: &SledStore, range: &KeyRange, direction: Direction) -> Vec<Key> {
    let found = store.scan(range, usize::MAX, direction).await.unwrap();
    found.into_iter().map(|found| found.key).collect()
}

pub fn committed(outcome: Result<CommitOutcome, StoreError>) -> Version {
    match outcome.unwrap() {
        CommitOutcome::Committed(version) => version,
        CommitOutcome::Conflict => panic!("a conflict"),
    }
}

/// The directory that a child process is told to work in; `None` in the test run itself.
pub fn child_directory() -> Option<std::path::PathBuf> {
    std::env::var_os("STORE_TEST_DIRECTORY").map(Into::into)
}

/// Runs one ignored test of this binary as a process of its own, in a directory.
pub fn spawn_child(test: &str, directory: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            test,
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .env("STORE_TEST_DIRECTORY", directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}
