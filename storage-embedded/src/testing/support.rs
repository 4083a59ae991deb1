//! Helpers of the test cases.

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

/// Time limit of a wait, long enough for a busy machine.
pub const TIME_MAX: Duration = Duration::from_secs(60);
/// Size of the cache in bytes, so small that cases also read from the disk.
pub const CACHE_BYTES: u64 = 8 * 1024 * 1024;
/// Environment variable with the directory of a child process.
const CHILD_DIRECTORY: &str = "STORE_TEST_DIRECTORY";

/// Runs a case on several threads.
///
/// # Panics
/// If the case panics.
pub fn run(case: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build();
    runtime.expect("a runtime starts").block_on(case);
}

/// Creates a directory that is removed on drop.
///
/// # Panics
/// If it cannot be created.
#[must_use]
pub fn temp_directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory can be created")
}

/// Returns a key of the given name.
///
/// # Panics
/// If it is too long.
#[must_use]
pub fn key(name: &str) -> Key {
    Key::new(name.as_bytes()).expect("a valid key")
}

/// Returns a commit that puts one value.
///
/// # Panics
/// If the value is too long.
#[must_use]
pub fn put(name: &str, value: &str) -> Commit {
    let value = value.as_bytes().to_vec();
    let commit = Commit::builder().put(key(name), value).build();
    commit.expect("a valid commit")
}

/// Asserts that a commit succeeded, and returns its version.
///
/// # Panics
/// If it did not.
#[track_caller]
pub fn assert_committed(outcome: Result<CommitOutcome, StoreError>) -> Version {
    match outcome.expect("the store works") {
        CommitOutcome::Committed(version) => version,
        CommitOutcome::Conflict => panic!("a conflict"),
    }
}

/// Returns the options of the test cases.
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

/// Opens the engine of a closed store, without the store.
///
/// # Panics
/// If it does not open.
#[must_use]
pub fn open_engine<E: Engine>(path: &Path) -> E {
    let options = EngineOptions {
        cache_bytes: CACHE_BYTES,
        settings: E::Settings::default(),
    };
    let began = Instant::now();
    loop {
        match E::open(path, &options) {
            Ok(engine) => return engine,
            // An engine may release its files late.
            Err(_) if began.elapsed() < TIME_MAX => std::thread::sleep(Duration::from_millis(5)),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Reads the value of one key as text.
///
/// # Panics
/// If it cannot be read.
pub async fn read_text(store: &impl Store, name: &str) -> Option<String> {
    let found = store.get(&[key(name)]).await.expect("the store works");
    let found = found.into_iter().next().flatten();
    found.map(|entry| String::from_utf8(entry.value.to_vec()).expect("text"))
}

/// Reads everything in a store.
///
/// # Errors
/// Errors of the store.
pub async fn read_all(store: &impl Store) -> Result<BTreeMap<Key, Entry>, StoreError> {
    let found = store
        .scan(&KeyRange::all(), usize::MAX, Direction::Forward)
        .await?;
    Ok(found
        .into_iter()
        .map(|found| (found.key, found.entry))
        .collect())
}

/// Waits for the background check and returns its state.
///
/// # Panics
/// If it does not end in time.
pub async fn wait_for_check<E: Engine>(store: &EngineStore<E>) -> CheckState {
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

/// Lists all files in a directory and its subdirectories, by relative path.
///
/// # Panics
/// If they cannot be listed.
#[must_use]
pub fn list_files(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![PathBuf::new()];
    while let Some(below) = waiting.pop() {
        let entries = fs::read_dir(path.join(&below)).expect("a directory");
        for entry in entries.map(|entry| entry.expect("an entry")) {
            let name = below.join(entry.file_name());
            if entry.file_type().expect("a type").is_dir() {
                waiting.push(name);
            } else {
                found.push(name);
            }
        }
    }
    found.sort_unstable();
    found
}

/// Copies a directory. Trailing zeros of a file become a hole, as in preallocated logs.
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

/// Returns a random number generator and prints its seed; `STORE_TEST_SEED` repeats a run.
///
/// # Panics
/// If the variable is not a number.
#[must_use]
pub fn seeded_rng() -> fastrand::Rng {
    let seed = std::env::var("STORE_TEST_SEED").ok();
    let seed = seed.map_or_else(|| fastrand::u64(..), |seed| seed.parse().expect("a number"));
    println!("STORE_TEST_SEED={seed}");
    fastrand::Rng::with_seed(seed)
}

/// Returns the directory of this child process; `None` in the parent test process.
#[must_use]
pub fn child_directory() -> Option<PathBuf> {
    std::env::var_os(CHILD_DIRECTORY).map(Into::into)
}

/// Runs one test of this binary as a child process, in a directory.
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
