//! A damaged store is refused with a clear error: it never panics, and it never opens with less than was acknowledged.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use common::{committed, key, open, options, put};
use knowledge_core::store::{Commit, Direction, Entry, Key, KeyRange, Store};
use knowledge_storage_sled::{OpenError, SledStore};
use tempfile::TempDir;

/// Long for an opening of a small store on a busy machine.
const OPENING_TIME_MAX: Duration = Duration::from_secs(30);
const TRIALS: usize = 120;

type Contents = Vec<(Key, Entry)>;

async fn contents(store: &SledStore) -> Result<Contents, String> {
    let found = store
        .scan(&KeyRange::all(), usize::MAX, Direction::Forward)
        .await
        .map_err(|error| error.to_string())?;
    Ok(found
        .into_iter()
        .map(|found| (found.key, found.entry))
        .collect())
}

/// Writes a store with a life behind it: loads, overwrites, deletes, large values, and several openings.
async fn write_store(path: &Path, rng: &mut fastrand::Rng) -> Contents {
    let mut number = 0;
    for _ in 0..3 {
        let store = open(path);
        for _ in 0..30 {
            let mut builder = Commit::builder().add(key("total"), 1);
            for _ in 0..20 {
                number += 1;
                let mut value = vec![0; rng.usize(..1_500)];
                rng.fill(&mut value);
                builder = builder.put(key(&format!("n{number:06}")), value);
            }
            let old = rng.usize(..number);
            builder = builder
                .delete(key(&format!("n{old:06}x")))
                .delete(key(&format!("m{old:06}")));
            committed(store.commit(builder.build().unwrap()).await);
            let again = format!("n{:06}", rng.usize(1..=number));
            match rng.bool() {
                true => committed(store.commit(put(&again, "overwritten")).await),
                false => {
                    let delete = Commit::builder().delete(key(&again)).build();
                    committed(store.commit(delete.unwrap()).await)
                }
            };
        }
        let large = Commit::builder()
            .put(key("large"), vec![7; 64 * 1024])
            .build();
        committed(store.commit(large.unwrap()).await);
        drop(store);
    }
    let store = open(path);
    contents(&store).await.unwrap()
}

fn copy_directory(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_directory(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

/// Opens a store and reads everything, on a thread of its own, so that a hang is told as one.
fn open_and_read(path: PathBuf) -> Result<Contents, String> {
    let (send, received) = channel();
    std::thread::spawn(move || {
        let outcome = match SledStore::open(&path, options()) {
            Ok(store) => {
                let runtime = tokio::runtime::Builder::new_current_thread().build();
                runtime.unwrap().block_on(contents(&store))
            }
            // One bit of the marker makes the format another number.
            Err(
                error @ (OpenError::Corrupt { .. }
                | OpenError::Io { .. }
                | OpenError::UnknownFormat { .. }),
            ) => Err(error.to_string()),
            Err(error) => panic!("a damaged store is something else: {error}"),
        };
        let _ = send.send(outcome);
    });
    received
        .recv_timeout(OPENING_TIME_MAX)
        .expect("opening panicked or hangs")
}

/// What can happen to a file.
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
        Damage::Removed => {
            fs::remove_file(path).unwrap();
            return;
        }
    }
    fs::write(path, bytes).unwrap();
}

struct Original {
    root: TempDir,
    contents: Contents,
    copies: usize,
}

impl Original {
    async fn write(rng: &mut fastrand::Rng) -> Self {
        let root = tempfile::tempdir().unwrap();
        let contents = write_store(&root.path().join("original"), rng).await;
        Self {
            root,
            contents,
            copies: 0,
        }
    }

    fn copy(&mut self) -> PathBuf {
        self.copies += 1;
        let copy = self.root.path().join(format!("copy{}", self.copies));
        copy_directory(&self.root.path().join("original"), &copy);
        copy
    }

    /// Whether the damaged copy is refused. It may be intact where the damage hit nothing that counts; anything else
    /// fails.
    fn is_refused(&self, copy: &Path, what: &str) -> bool {
        let is_refused = |attempt| match open_and_read(copy.to_owned()) {
            Ok(contents) => {
                assert!(
                    contents == self.contents,
                    "{what}, {attempt}: opened with other contents"
                );
                false
            }
            Err(_) => true,
        };
        let refused = is_refused("first opening");
        if refused {
            // The first attempt lets sled tidy up; that must not make a loss look whole.
            is_refused("second opening");
        }
        fs::remove_dir_all(copy).unwrap();
        refused
    }
}

fn seeded() -> fastrand::Rng {
    let seed = std::env::var("STORE_TEST_SEED").ok();
    let seed = seed.map_or_else(|| fastrand::u64(..), |seed| seed.parse().unwrap());
    println!("STORE_TEST_SEED={seed}");
    fastrand::Rng::with_seed(seed)
}

#[tokio::test]
async fn a_damaged_database_is_refused_or_whole() {
    let mut rng = seeded();
    let mut original = Original::write(&mut rng).await;
    let began = Instant::now();
    let (mut refused, mut trials) = (0, 0);
    while trials < TRIALS && began.elapsed() < Duration::from_secs(40) {
        let copy = original.copy();
        let file = copy.join("db");
        let length = fs::metadata(&file).unwrap().len() as usize;
        let kind = match trials % 5 {
            0 => Damage::Truncated,
            1 | 2 => Damage::FlippedBit,
            3 => Damage::GarbledBytes(rng.usize(1..5_000)),
            _ => Damage::ZeroedBytes(rng.usize(1..100_000)),
        };
        let offset = rng.usize(..length);
        damage(&file, kind, offset, &mut rng);
        let what = format!("db {kind:?} at {offset} of {length}");
        refused += usize::from(original.is_refused(&copy, &what));
        trials += 1;
    }
    println!("{refused} of {trials} refused, the others were whole");
    assert!(
        refused * 4 > trials,
        "{refused} of {trials}: the damage hits nothing"
    );
}

#[tokio::test]
async fn every_other_file_is_refused_or_whole() {
    let mut rng = seeded();
    let mut original = Original::write(&mut rng).await;
    let names: Vec<PathBuf> = fs::read_dir(original.root.path().join("original"))
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_type().unwrap().is_file())
        .map(|entry| entry.file_name().into())
        // Nothing depends on what is in the lock file. Without its marker, a store is a foreign directory.
        .filter(|name: &PathBuf| !name.to_str().unwrap().ends_with(".lock"))
        .collect();
    for name in names {
        let length = fs::metadata(original.root.path().join("original").join(&name))
            .unwrap()
            .len();
        for kind in [
            Damage::Emptied,
            Damage::Removed,
            Damage::Truncated,
            Damage::FlippedBit,
            Damage::FlippedBit,
            Damage::GarbledBytes(8),
            Damage::ZeroedBytes(4096),
        ] {
            if name.to_str().unwrap().ends_with(".json") && matches!(kind, Damage::Removed) {
                continue;
            }
            let copy = original.copy();
            let offset = rng.usize(..length as usize);
            damage(&copy.join(&name), kind, offset, &mut rng);
            let what = format!("{} {kind:?} at {offset} of {length}", name.display());
            let refused = original.is_refused(&copy, &what);
            if name.to_str() == Some("db") && matches!(kind, Damage::Emptied | Damage::Removed) {
                assert!(refused, "{what}");
            }
        }
    }
}

/// Damage that sled does not see at all: its own file of an earlier moment.
#[tokio::test]
async fn an_older_copy_of_the_database_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("store");
    let store = open(&path);
    committed(store.commit(put("a", "1")).await);
    drop(store);
    let older = root.path().join("older");
    copy_directory(&path, &older);
    let store = open(&path);
    committed(store.commit(put("b", "1")).await);
    drop(store);

    fs::copy(
        path.join("knowledge-store.mark"),
        older.join("knowledge-store.mark"),
    )
    .unwrap();
    let error = SledStore::open(&older, options()).unwrap_err().to_string();
    let expected = "commit 2 was acknowledged, but nothing after commit 1 was found";
    assert!(error.ends_with(expected), "{error}");
}

/// Entries changed behind the ledger's back, with sled's checksums in order.
/// Opens what sled stores. It may take sled a moment to let go of the file of a store that was closed.
fn open_raw(path: &Path) -> sled::Db {
    let began = Instant::now();
    loop {
        match sled::Config::new().path(path).open() {
            Ok(database) => return database,
            Err(error) if began.elapsed() > Duration::from_secs(20) => panic!("{error}"),
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

#[tokio::test]
async fn entries_that_do_not_add_up_are_refused() {
    type Change = fn(&sled::Db);
    let changes: [(&str, Change); 5] = [
        ("missing", |database| drop(database.remove("da").unwrap())),
        ("left over", |database| {
            drop(
                database
                    .insert("dz", b"\0\0\0\0\0\0\0\x01x".as_slice())
                    .unwrap(),
            );
        }),
        ("older", |database| {
            drop(
                database
                    .insert("db", b"\0\0\0\0\0\0\0\x01x".as_slice())
                    .unwrap(),
            );
        }),
        ("too short", |database| {
            drop(database.insert("db", "x").unwrap());
        }),
        ("not ours", |database| {
            drop(database.insert("x", "x").unwrap());
        }),
    ];
    for (what, change) in changes {
        let directory = tempfile::tempdir().unwrap();
        let store = open(directory.path());
        committed(store.commit(put("a", "1")).await);
        committed(store.commit(put("b", "1")).await);
        drop(store);
        let database = open_raw(directory.path());
        change(&database);
        database.flush().unwrap();
        drop(database);
        let error = SledStore::open(directory.path(), options()).unwrap_err();
        assert!(
            matches!(error, OpenError::Corrupt { .. }),
            "{what}: {error}"
        );
    }
}
