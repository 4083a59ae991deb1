//! Helpers that the cases share.

use std::collections::BTreeMap;
use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use knowledge_store::{
    Commit, CommitOutcome, Direction, Entry, Key, KeyRange, Store, StoreError, StoreExt, Version,
};

use crate::{CheckState, Engine, EngineOptions, EngineStore, StoreOptions};

/// Long for anything that a case waits for, also on a busy machine.
pub const TIME_MAX: Duration = Duration::from_secs(60);
/// A small cache, so that cases also read from the disk.
const CACHE_BYTES: u64 = 8 * 1024 * 1024;
/// The variable that tells a child process its directory.
const CHILD_DIRECTORY: &str = "STORE_TEST_DIRECTORY";

/// Runs a case on several threads.
///
/// # Panics
/// If the case does.
pub fn run(case: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build();
    runtime.expect("a runtime starts").block_on(case);
}

/// A directory that is removed with the answer.
///
/// # Panics
/// If it cannot be created.
#[must_use]
pub fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory can be created")
}

/// A key of this name.
///
/// # Panics
/// If it is too long.
#[must_use]
pub fn key(name: &str) -> Key {
    Key::new(name.as_bytes().to_vec()).expect("a valid key")
}

/// A commit that puts one value.
///
/// # Panics
/// If the value is too long.
#[must_use]
pub fn put(name: &str, value: &str) -> Commit {
    let value = value.as_bytes().to_vec();
    let commit = Commit::builder().put(key(name), value).build();
    commit.expect("a valid commit")
}

/// The version of a commit that has to succeed.
///
/// # Panics
/// If it did not.
#[track_caller]
pub fn committed(outcome: Result<CommitOutcome, StoreError>) -> Version {
    match outcome.expect("the store works") {
        CommitOutcome::Committed(version) => version,
        CommitOutcome::Conflict => panic!("a conflict"),
    }
}

/// The options of the cases.
#[must_use]
pub fn options<E: Engine>() -> StoreOptions<E::Settings> {
    StoreOptions::default().cache_bytes(CACHE_BYTES)
}

/// Opens a store.
///
/// # Panics
/// If it does not open.
#[track_caller]
#[must_use]
pub fn open<E: Engine>(path: &Path) -> EngineStore<E> {
    EngineStore::open(path, options::<E>()).expect("the store opens")
}

/// Opens the engine of a store that is closed, behind the store's back.
///
/// # Panics
/// If it does not open.
#[must_use]
pub fn open_engine<E: Engine>(path: &Path) -> E {
    let options = EngineOptions {
        cache_bytes: CACHE_BYTES,
        format: E::FORMAT,
        settings: E::Settings::default(),
    };
    let began = Instant::now();
    loop {
        match E::open(path, &options) {
            Ok(engine) => return engine,
            // An engine may take a moment to let go of its files.
            Err(_) if began.elapsed() < TIME_MAX => std::thread::sleep(Duration::from_millis(5)),
            Err(error) => panic!("{error}"),
        }
    }
}

/// The value of one key as text.
///
/// # Panics
/// If it cannot be read.
pub async fn value(store: &impl Store, name: &str) -> Option<String> {
    let found = store.get(&[key(name)]).await.expect("the store works");
    let found = found.into_iter().next().flatten();
    found.map(|entry| String::from_utf8(entry.value.to_vec()).expect("text"))
}

/// Everything in a store.
///
/// # Errors
/// Those of the store.
pub async fn contents(store: &impl Store) -> Result<BTreeMap<Key, Entry>, StoreError> {
    let found = store
        .scan(&KeyRange::all(), usize::MAX, Direction::Forward)
        .await?;
    Ok(found
        .into_iter()
        .map(|found| (found.key, found.entry))
        .collect())
}

/// Waits for the check in the background, and returns how it ended.
///
/// # Panics
/// If it does not end.
pub async fn finished_check<E: Engine>(store: &EngineStore<E>) -> CheckState {
    let began = Instant::now();
    loop {
        match store.stats().check {
            CheckState::Running if began.elapsed() < TIME_MAX => {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            CheckState::Running => panic!("the check does not end"),
            state => return state,
        }
    }
}

/// Every file of a directory and below, relative to it.
///
/// # Panics
/// If they cannot be listed.
#[must_use]
pub fn files(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![PathBuf::new()];
    while let Some(below) = waiting.pop() {
        let entries = fs::read_dir(path.join(&below)).expect("a directory");
        for entry in entries.map(|entry| entry.expect("an entry")) {
            let name = below.join(entry.file_name());
            match entry.file_type().expect("a type").is_dir() {
                true => waiting.push(name),
                false => found.push(name),
            }
        }
    }
    found.sort_unstable();
    found
}

/// Copies a directory. Zeros at the end of a file become a hole, as they are in logs that are allocated ahead.
///
/// # Panics
/// If it cannot be copied.
pub fn copy_directory(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory can be created");
    for entry in fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy_directory(&entry.path(), &target);
            continue;
        }
        let bytes = fs::read(entry.path()).expect("a readable file");
        let used = bytes
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |at| at + 1);
        fs::write(&target, &bytes[..used]).expect("a writable file");
        let file = fs::OpenOptions::new().write(true).open(&target);
        let extended = file.and_then(|file| file.set_len(bytes.len() as u64));
        extended.expect("a file can be extended");
    }
}

/// A random number generator whose seed is printed; `STORE_TEST_SEED` repeats a run.
///
/// # Panics
/// If the variable is no number.
#[must_use]
pub fn seeded() -> fastrand::Rng {
    let seed = std::env::var("STORE_TEST_SEED").ok();
    let seed = seed.map_or_else(|| fastrand::u64(..), |seed| seed.parse().expect("a number"));
    println!("STORE_TEST_SEED={seed}");
    fastrand::Rng::with_seed(seed)
}

/// The directory that a child process is told to work in; `None` in the test run itself.
#[must_use]
pub fn child_directory() -> Option<PathBuf> {
    std::env::var_os(CHILD_DIRECTORY).map(Into::into)
}

/// Runs one test of this binary as a process of its own, in a directory.
///
/// # Panics
/// If it does not start.
#[must_use]
pub fn spawn_child(test: &str, directory: &Path) -> Child {
    let binary = std::env::current_exe().expect("a binary");
    Command::new(binary)
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD_DIRECTORY, directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("a child process starts")
}
