//! A damaged store is refused, or found damaged by a check or a read. It never panics, never answers with another value,
//! and never passes a check with less than was acknowledged.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use knowledge_store::{Commit, Entry, Key, Store, StoreErrorKind};
use tempfile::TempDir;

use super::support::{
    TIME_MAX, committed, contents, copy_directory, directory, files, key, open, options, put,
    seeded,
};
use crate::{Engine, EngineStore, OpenError};

const TRIALS: usize = 120;
/// The time after which no further trial begins.
const TRIALS_TIME_MAX: Duration = Duration::from_secs(30);
/// Values of this length leave a small store, in which every engine keeps its data in its log.
const SMALL_BYTES: usize = 1_500;

type Contents = BTreeMap<Key, Entry>;

/// Writes a store with a life behind it: loads, overwrites, deletes, large values, and several openings.
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
            committed(store.commit(builder.build().unwrap()).await);
            let again = format!("n{:06}", rng.usize(1..=number));
            let commit = match rng.bool() {
                true => put(&again, "overwritten"),
                false => Commit::builder().delete(key(&again)).build().unwrap(),
            };
            committed(store.commit(commit).await);
        }
        let large = Commit::builder()
            .put(key("large"), vec![7; 64 * 1024])
            .build();
        committed(store.commit(large.unwrap()).await);
    }
    let store = open::<E>(path);
    contents(&store).await.unwrap()
}

/// The way in which damage was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Everything is there as it was written.
    Harmless,
    /// The store does not open.
    ByOpening,
    /// The store opens; a check or a read finds it damaged.
    ByReading,
}

/// Opens a store and reads everything.
async fn read_store<E: Engine>(path: PathBuf, expected: &Contents, what: &str) -> Found {
    let store = match EngineStore::<E>::open(&path, options::<E>()) {
        Ok(store) => store,
        // Damage to the marker makes its format or its engine another one.
        Err(
            OpenError::Corrupt { .. }
            | OpenError::Io { .. }
            | OpenError::UnknownFormat { .. }
            | OpenError::OldFormat { .. }
            | OpenError::OtherEngine { .. },
        ) => return Found::ByOpening,
        Err(error) => panic!("{what}: damaged, and not {error}"),
    };
    let read = contents(&store).await;
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
            assert!(read == *expected, "{what}: opened with other contents");
            Found::Harmless
        }
        _ => Found::ByReading,
    }
}

/// Opens and reads on a thread of its own, so that a hang is reported as one.
fn find<E: Engine>(path: &Path, expected: &Contents, what: &str) -> Found {
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
    found.unwrap_or_else(|_| panic!("{what}: opening or reading panicked or hangs"))
}

/// The kinds of damage to a file.
#[derive(Clone, Copy, Debug)]
enum Damage {
    Truncated,
    FlippedBit,
    GarbledBytes(usize),
    ZeroedBytes(usize),
    Emptied,
    Removed,
}

fn damage(path: &Path, damage: Damage, offset: usize, rng: &mut fastrand::Rng) {
    let mut bytes = fs::read(path).unwrap();
    let range = |length: usize| offset..(offset + length).min(bytes.len());
    match damage {
        Damage::Truncated => bytes.truncate(offset),
        Damage::FlippedBit => bytes[offset] ^= 1 << rng.u8(..8),
        Damage::GarbledBytes(length) => {
            let range = range(length);
            rng.fill(&mut bytes[range]);
        }
        Damage::ZeroedBytes(length) => {
            let range = range(length);
            bytes[range].fill(0);
        }
        Damage::Emptied => bytes.clear(),
        Damage::Removed => return fs::remove_file(path).unwrap(),
    }
    fs::write(path, bytes).unwrap();
}

/// A store, and copies of it that are damaged.
struct Original {
    root: TempDir,
    contents: Contents,
    copies: usize,
}

impl Original {
    async fn write<E: Engine>(value_bytes_max: usize, rng: &mut fastrand::Rng) -> Self {
        let root = directory();
        let path = root.path().join("original");
        let contents = write_store::<E>(&path, value_bytes_max, rng).await;
        let mut original = Self {
            root,
            contents,
            copies: 0,
        };
        let copy = original.copy();
        let found = original.find::<E>(&copy, "an undamaged copy");
        assert_eq!(found, Found::Harmless, "an undamaged copy");
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

    /// Opens the damaged copy twice: an engine may tidy up at the first, and must not make a loss look whole by that.
    fn find<E: Engine>(&self, copy: &Path, what: &str) -> Found {
        let found = find::<E>(copy, &self.contents, &format!("{what}, first opening"));
        if found != Found::Harmless {
            find::<E>(copy, &self.contents, &format!("{what}, second opening"));
        }
        fs::remove_dir_all(copy).unwrap();
        found
    }
}

/// Damages files that `is_wanted` chooses, the larger the more often, and returns how often that was found, of how many
/// trials.
///
/// # Panics
/// If a damaged store passes for a whole one.
pub async fn damage_files<E: Engine>(
    value_bytes_max: usize,
    is_wanted: impl Fn(&Path) -> bool,
) -> (usize, usize) {
    let mut rng = seeded();
    let mut original = Original::write::<E>(value_bytes_max, &mut rng).await;
    let mut wanted = files(&original.path());
    wanted.retain(|name| is_wanted(name));
    let length = |name: &PathBuf| fs::metadata(original.path().join(name)).unwrap().len() as usize;
    let lengths: Vec<usize> = wanted.iter().map(length).collect();
    let total: usize = lengths.iter().sum();
    assert!(total > 0, "no file to damage");
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
        // Engines allocate files ahead: there is nothing to damage in the zeros behind their data.
        if whole[file][offset] == 0 {
            continue;
        }
        let kind = match trials % 5 {
            0 => Damage::Truncated,
            1 | 2 => Damage::FlippedBit,
            3 => Damage::GarbledBytes(rng.usize(1..5_000)),
            _ => Damage::ZeroedBytes(rng.usize(1..100_000)),
        };
        let copy = original.copy();
        damage(&copy.join(&wanted[file]), kind, offset, &mut rng);
        let name = wanted[file].display();
        let what = format!("{name} {kind:?} at {offset} of {}", lengths[file]);
        found += usize::from(original.find::<E>(&copy, &what) != Found::Harmless);
        trials += 1;
    }
    println!("{found} of {trials} found, the others were whole");
    (found, trials)
}

fn is_own(name: &Path) -> bool {
    name.to_str()
        .is_some_and(|name| name.starts_with("knowledge-store."))
}

/// Damage anywhere in the engine's files.
pub async fn damaged_files_are_found_or_harmless<E: Engine>() {
    let (found, trials) = damage_files::<E>(SMALL_BYTES, |name| !is_own(name)).await;
    assert!(
        found * 4 > trials,
        "{found} of {trials}: the damage hits nothing"
    );
}

/// Every kind of damage to every file.
pub async fn other_files_are_found_or_harmless<E: Engine>() {
    let mut rng = seeded();
    let mut original = Original::write::<E>(SMALL_BYTES, &mut rng).await;
    for name in files(&original.path()) {
        // Nothing depends on what is in the lock file. Without its marker, a store is a foreign directory.
        let text = name.to_str().unwrap();
        if text.ends_with(".lock") {
            continue;
        }
        let length = fs::metadata(original.path().join(&name)).unwrap().len() as usize;
        for kind in [
            Damage::Emptied,
            Damage::Removed,
            Damage::Truncated,
            Damage::FlippedBit,
            Damage::FlippedBit,
            Damage::GarbledBytes(8),
            Damage::ZeroedBytes(4096),
        ] {
            let is_removed = matches!(kind, Damage::Removed);
            if text.ends_with(".json") && is_removed {
                continue;
            }
            if length == 0 && !is_removed {
                continue;
            }
            let copy = original.copy();
            let offset = rng.usize(..length.max(1));
            damage(&copy.join(&name), kind, offset, &mut rng);
            let what = format!("{text} {kind:?} at {offset} of {length}");
            original.find::<E>(&copy, &what);
        }
    }
}

/// Damage that the engine does not see at all: its own files of an earlier moment.
pub async fn older_copy_is_refused<E: Engine>() {
    let root = directory();
    let (path, older) = (root.path().join("store"), root.path().join("older"));
    let store = open::<E>(&path);
    committed(store.commit(put("a", "1")).await);
    drop(store);
    copy_directory(&path, &older);
    let store = open::<E>(&path);
    committed(store.commit(put("b", "1")).await);
    drop(store);

    let mark = "knowledge-store.mark";
    fs::copy(path.join(mark), older.join(mark)).unwrap();
    let error = EngineStore::<E>::open(&older, options::<E>()).unwrap_err();
    let expected = "commit 2 was acknowledged, but nothing after commit 1 was found";
    assert!(error.to_string().ends_with(expected), "{error}");
}

/// A store whose engine lost all or one of its files is not an empty store.
pub async fn missing_engine_is_refused<E: Engine>() {
    let root = directory();
    let path = root.path().join("store");
    let store = open::<E>(&path);
    committed(store.commit(put("a", "1")).await);
    drop(store);
    let copy = root.path().join("copy");
    for removes_directories in [true, false] {
        copy_directory(&path, &copy);
        for name in files(&copy).iter().filter(|name| !is_own(name)) {
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
