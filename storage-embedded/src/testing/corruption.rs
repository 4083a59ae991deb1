//! Corruption of a store's files.
//!
//! A corrupt store is rejected, or a check or a read detects it. The store never panics, never
//! returns a wrong value, and never passes a check with fewer commits than were acknowledged.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use knowledge_store::{Commit, Entry, Key, Store, StoreErrorKind};
use tempfile::TempDir;

use super::support::{
    TIME_MAX, assert_committed, copy_directory, key, list_files, open, options, put, read_all,
    seeded_rng, temp_directory,
};
use crate::{Engine, EngineStore, OpenError};

const TRIALS: usize = 120;
/// Time after which no further trial begins.
const TRIALS_TIME_MAX: Duration = Duration::from_secs(30);
/// Maximum length of values in a small store, whose data every engine keeps in its log.
const SMALL_BYTES: usize = 1_500;

type Contents = BTreeMap<Key, Entry>;

/// Writes a store with inserts, overwrites, deletes, a large value and several openings.
async fn write_store<E: Engine>(
    path: &Path,
    value_bytes_max: usize,
    rng: &mut fastrand::Rng,
) -> Contents {
    let mut number = 0;
    for _ in 0..3 {
        let store = open::<E>(path);
        for _ in 0..30 {
            let mut builder = Commit::builder().add(key("total"), 1);
            for _ in 0..20 {
                number += 1;
                let mut value = vec![0; rng.usize(..value_bytes_max)];
                rng.fill(&mut value);
                builder = builder.put(key(&format!("n{number:06}")), value);
            }
            let old = rng.usize(..number);
            builder = builder
                .delete(key(&format!("n{old:06}x")))
                .delete(key(&format!("m{old:06}")));
            assert_committed(store.commit(builder.build().unwrap()).await);
            let again = format!("n{:06}", rng.usize(1..=number));
            let commit = if rng.bool() {
                put(&again, "overwritten")
            } else {
                Commit::builder().delete(key(&again)).build().unwrap()
            };
            assert_committed(store.commit(commit).await);
        }
        let large = Commit::builder()
            .put(key("large"), vec![7; 64 * 1024])
            .build();
        assert_committed(store.commit(large.unwrap()).await);
    }
    let store = open::<E>(path);
    read_all(&store).await.unwrap()
}

/// Point at which corruption was detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detection {
    /// All data is as it was written.
    None,
    /// Opening the store failed.
    OnOpen,
    /// A check or a read failed.
    OnRead,
}

/// Opens a store and reads everything.
async fn read_store<E: Engine>(path: PathBuf, expected: &Contents, what: &str) -> Detection {
    let store = match EngineStore::<E>::open(&path, options::<E>()) {
        Ok(store) => store,
        // A corrupt marker may name another format or engine.
        Err(
            OpenError::Corrupt { .. }
            | OpenError::Io { .. }
            | OpenError::UnknownFormat { .. }
            | OpenError::OtherEngine { .. },
        ) => return Detection::OnOpen,
        Err(error) => panic!("{what}: expected corruption, not {error}"),
    };
    let read = read_all(&store).await;
    for (key, entry) in read.iter().flatten() {
        let written = expected
            .get(key)
            .filter(|written| written.version == entry.version);
        let is_value = written.is_none_or(|written| written.value == entry.value);
        assert!(is_value, "{what}: {key} has another value");
    }
    let checked = store.check(|_, _| {});
    if let Err(error) = &checked {
        let kind = error.kind();
        let is_damage = matches!(kind, StoreErrorKind::Corrupt | StoreErrorKind::Unavailable);
        assert!(is_damage, "{what}: {error}");
    }
    match (read, checked) {
        (Ok(read), Ok(())) => {
            assert!(read == *expected, "{what}: opened with different contents");
            Detection::None
        }
        _ => Detection::OnRead,
    }
}

/// Opens and reads a store on another thread, so that a hang is reported.
fn detect<E: Engine>(path: &Path, expected: &Contents, what: &str) -> Detection {
    let (send, received) = channel();
    let (path, copy, name) = (path.to_owned(), expected.clone(), what.to_owned());
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let found = runtime
            .unwrap()
            .block_on(read_store::<E>(path, &copy, &name));
        let _ = send.send(found);
    });
    let found = received.recv_timeout(TIME_MAX);
    found.unwrap_or_else(|_| panic!("{what}: opening or reading panicked or hung"))
}

/// Kind of corruption of a file.
#[derive(Clone, Copy, Debug)]
enum Corruption {
    Truncated,
    FlippedBit,
    GarbledBytes(usize),
    ZeroedBytes(usize),
    Emptied,
    Removed,
}

fn corrupt(path: &Path, corruption: Corruption, offset: usize, rng: &mut fastrand::Rng) {
    let mut bytes = fs::read(path).unwrap();
    let range = |length: usize| offset..(offset + length).min(bytes.len());
    match corruption {
        Corruption::Truncated => bytes.truncate(offset),
        Corruption::FlippedBit => bytes[offset] ^= 1 << rng.u8(..8),
        Corruption::GarbledBytes(length) => {
            let range = range(length);
            rng.fill(&mut bytes[range]);
        }
        Corruption::ZeroedBytes(length) => {
            let range = range(length);
            bytes[range].fill(0);
        }
        Corruption::Emptied => bytes.clear(),
        Corruption::Removed => return fs::remove_file(path).unwrap(),
    }
    fs::write(path, bytes).unwrap();
}

/// A store, and the number of its copies.
struct Original {
    root: TempDir,
    contents: Contents,
    copies: usize,
}

impl Original {
    async fn write<E: Engine>(value_bytes_max: usize, rng: &mut fastrand::Rng) -> Self {
        let root = temp_directory();
        let path = root.path().join("original");
        let contents = write_store::<E>(&path, value_bytes_max, rng).await;
        let mut original = Self {
            root,
            contents,
            copies: 0,
        };
        let copy = original.copy();
        let found = original.detect::<E>(&copy, "an intact copy");
        assert_eq!(found, Detection::None, "an intact copy");
        original
    }

    fn path(&self) -> PathBuf {
        self.root.path().join("original")
    }

    fn copy(&mut self) -> PathBuf {
        self.copies += 1;
        let copy = self.root.path().join(format!("copy{}", self.copies));
        copy_directory(&self.path(), &copy);
        copy
    }

    /// Opens the corrupt copy twice. Repairs at the first opening must not hide a loss.
    fn detect<E: Engine>(&self, copy: &Path, what: &str) -> Detection {
        let found = detect::<E>(copy, &self.contents, &format!("{what}, first opening"));
        if found != Detection::None {
            detect::<E>(copy, &self.contents, &format!("{what}, second opening"));
        }
        fs::remove_dir_all(copy).unwrap();
        found
    }
}

/// Corrupts files selected by `is_wanted`, weighted by their size.
///
/// Returns the number of detections and of trials.
///
/// # Panics
/// If a corrupt store is not detected.
pub async fn corrupt_files<E: Engine>(
    value_bytes_max: usize,
    is_wanted: impl Fn(&Path) -> bool,
) -> (usize, usize) {
    let mut rng = seeded_rng();
    let mut original = Original::write::<E>(value_bytes_max, &mut rng).await;
    let mut wanted = list_files(&original.path());
    wanted.retain(|name| is_wanted(name));
    let length = |name: &PathBuf| fs::metadata(original.path().join(name)).unwrap().len() as usize;
    let lengths: Vec<usize> = wanted.iter().map(length).collect();
    let total: usize = lengths.iter().sum();
    assert!(total > 0, "no file to corrupt");
    let began = Instant::now();
    let (mut found, mut trials) = (0, 0);
    let read = |name: &PathBuf| fs::read(original.path().join(name)).unwrap();
    let whole: Vec<Vec<u8>> = wanted.iter().map(read).collect();
    while trials < TRIALS && began.elapsed() < TRIALS_TIME_MAX {
        let mut offset = rng.usize(..total);
        let mut file = 0;
        while offset >= lengths[file] {
            offset -= lengths[file];
            file += 1;
        }
        // Skip zeros: engines allocate files ahead of their data.
        if whole[file][offset] == 0 {
            continue;
        }
        let kind = match trials % 5 {
            0 => Corruption::Truncated,
            1 | 2 => Corruption::FlippedBit,
            3 => Corruption::GarbledBytes(rng.usize(1..5_000)),
            _ => Corruption::ZeroedBytes(rng.usize(1..100_000)),
        };
        let copy = original.copy();
        corrupt(&copy.join(&wanted[file]), kind, offset, &mut rng);
        let name = wanted[file].display();
        let what = format!("{name} {kind:?} at {offset} of {}", lengths[file]);
        found += usize::from(original.detect::<E>(&copy, &what) != Detection::None);
        trials += 1;
    }
    println!("{found} of {trials} detected, the others were harmless");
    (found, trials)
}

fn is_own(name: &Path) -> bool {
    name.to_str()
        .is_some_and(|name| name.starts_with("knowledge-store."))
}

/// Corruption anywhere in the engine's files is detected or harmless.
pub async fn corrupt_files_are_detected_or_harmless<E: Engine>() {
    let (found, trials) = corrupt_files::<E>(SMALL_BYTES, |name| !is_own(name)).await;
    assert!(
        found * 4 > trials,
        "{found} of {trials}: too few detections"
    );
}

/// Each kind of corruption of each file is detected or harmless.
pub async fn corruption_of_each_file_is_detected_or_harmless<E: Engine>() {
    let mut rng = seeded_rng();
    let mut original = Original::write::<E>(SMALL_BYTES, &mut rng).await;
    for name in list_files(&original.path()) {
        // The content of the lock file is irrelevant. Without its marker, a store is a foreign
        // directory.
        let text = name.to_str().unwrap();
        if text.ends_with(".lock") {
            continue;
        }
        let length = fs::metadata(original.path().join(&name)).unwrap().len() as usize;
        for kind in [
            Corruption::Emptied,
            Corruption::Removed,
            Corruption::Truncated,
            Corruption::FlippedBit,
            Corruption::FlippedBit,
            Corruption::GarbledBytes(8),
            Corruption::ZeroedBytes(4096),
        ] {
            let is_removed = matches!(kind, Corruption::Removed);
            if text.ends_with(".json") && is_removed {
                continue;
            }
            if length == 0 && !is_removed {
                continue;
            }
            let copy = original.copy();
            let offset = rng.usize(..length.max(1));
            corrupt(&copy.join(&name), kind, offset, &mut rng);
            let what = format!("{text} {kind:?} at {offset} of {length}");
            original.detect::<E>(&copy, &what);
        }
    }
}

/// An older copy of the engine's files, which the engine itself cannot detect, is rejected.
pub async fn older_copy_is_rejected<E: Engine>() {
    let root = temp_directory();
    let (path, older) = (root.path().join("store"), root.path().join("older"));
    let store = open::<E>(&path);
    assert_committed(store.commit(put("a", "1")).await);
    drop(store);
    copy_directory(&path, &older);
    let store = open::<E>(&path);
    assert_committed(store.commit(put("b", "1")).await);
    drop(store);

    let mark = "knowledge-store.mark";
    fs::copy(path.join(mark), older.join(mark)).unwrap();
    let error = EngineStore::<E>::open(&older, options::<E>()).unwrap_err();
    let expected = "commit 2 was acknowledged, but the last commit found is 1";
    assert!(error.to_string().ends_with(expected), "{error}");
}

/// A store without its engine's files is rejected, and not opened as an empty store.
pub async fn missing_engine_files_are_rejected<E: Engine>() {
    let root = temp_directory();
    let path = root.path().join("store");
    let store = open::<E>(&path);
    assert_committed(store.commit(put("a", "1")).await);
    drop(store);
    let copy = root.path().join("copy");
    for removes_directories in [true, false] {
        copy_directory(&path, &copy);
        for name in list_files(&copy).iter().filter(|name| !is_own(name)) {
            fs::remove_file(copy.join(name)).unwrap();
        }
        if removes_directories {
            for entry in fs::read_dir(&copy).unwrap().map(Result::unwrap) {
                if entry.file_type().unwrap().is_dir() {
                    fs::remove_dir_all(entry.path()).unwrap();
                }
            }
        }
        for _ in 0..2 {
            let error = EngineStore::<E>::open(&copy, options::<E>()).unwrap_err();
            assert!(matches!(error, OpenError::Corrupt { .. }), "{error}");
        }
        fs::remove_dir_all(&copy).unwrap();
    }
}
