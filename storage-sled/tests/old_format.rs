//! Stores of the first format, whose small segments let sled write pages to unsynced files.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use knowledge_storage_embedded::testing::support::{
    assert_committed, key, open, options, put, read_all, read_text, run, temp_directory,
    wait_for_check,
};
use knowledge_storage_embedded::{store_kind, testing};
use knowledge_storage_sled::{CheckState, Mode, OpenError, Sled, SledSettings, SledStore};
use knowledge_store::{Commit, Entry, Key, Store};

const MARK: &str = "knowledge-store.mark";
const MARKER: &str = "knowledge-store.json";
const SEGMENT_BYTES: usize = 16 * 1024 * 1024;

/// Opens sled's files directly. After a store is closed, sled may release them late.
fn open_sled(config: &sled::Config) -> sled::Db {
    let began = Instant::now();
    loop {
        match config.open() {
            Ok(database) => return database,
            Err(error) if began.elapsed() > testing::support::TIME_MAX => panic!("{error}"),
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// Writes a store of format 1.
///
/// It has the same entries and mark, sled's default segment size, and a marker that does not name
/// the engine.
async fn write_old_store(path: &Path) -> Vec<(Key, Entry)> {
    let new = temp_directory();
    let store = open::<Sled>(new.path());
    for group in 0..10 {
        let commit = (0..50).fold(Commit::builder(), |commit, i| {
            commit.put(key(&format!("n{group}{i:03}")), vec![7; 1_000])
        });
        assert_committed(store.commit(commit.build().unwrap()).await);
    }
    let contents = read_all(&store).await.unwrap();
    drop(store);
    let config = sled::Config::new().path(new.path());
    let from = open_sled(&config.segment_size(SEGMENT_BYTES));
    let to = open_sled(&sled::Config::new().path(path));
    for entry in from.iter() {
        let (key, value) = entry.unwrap();
        to.insert(key, value).unwrap();
    }
    to.flush().unwrap();
    fs::copy(new.path().join(MARK), path.join(MARK)).unwrap();
    let marker = r#"{"written_by":"knowledge-storage-sled","format":1}"#;
    fs::write(path.join(MARKER), marker).unwrap();
    contents.into_iter().collect()
}

#[test]
fn old_format_is_rejected_with_the_command() {
    run(async {
        let root = temp_directory();
        let path = root.path().join("old");
        write_old_store(&path).await;
        let kind = store_kind(&path).unwrap().unwrap();
        assert_eq!((kind.engine.as_str(), kind.format), ("sled", 1));
        let error = SledStore::open(&path, options::<Sled>()).unwrap_err();
        assert!(
            matches!(error, OpenError::OldFormat { found: 1, .. }),
            "{error}"
        );
        let command = format!(
            "`knowledge copy --from sled:{} --to sled:NEW-DIR`",
            path.display()
        );
        assert!(error.to_string().contains(&command), "{error}");
    });
}

#[test]
fn old_format_opens_on_request_and_is_checked() {
    run(async {
        let root = temp_directory();
        let path = root.path().join("old");
        let before = write_old_store(&path).await;
        for _ in 0..2 {
            let accepts = options::<Sled>().accept_old_formats(true);
            let store = SledStore::open(&path, accepts).unwrap();
            let found = read_all(&store).await.unwrap();
            assert!(found.into_iter().collect::<Vec<_>>() == before);
            // Stores of the old format do not record how they were closed.
            assert_eq!(wait_for_check(&store).await, CheckState::Passed);
        }
        let kind = store_kind(&path).unwrap().unwrap();
        assert_eq!(kind.format, 1, "the format is unchanged");
    });
}

#[test]
fn mode_can_change_between_openings() {
    run(async {
        let directory = temp_directory();
        let store = open::<Sled>(directory.path());
        assert_committed(store.commit(put("a", "1")).await);
        drop(store);
        let mode = Mode::LowSpace;
        let low_space = options::<Sled>().engine(SledSettings { mode });
        let store = SledStore::open(directory.path(), low_space).unwrap();
        assert_eq!(read_text(&store, "a").await.as_deref(), Some("1"));
    });
}

/// A sled database that is not a store is foreign.
#[test]
fn foreign_sled_database_is_not_changed() {
    let directory = temp_directory();
    let database = sled::open(directory.path()).unwrap();
    database.insert("k", "v").unwrap();
    drop(database);
    let before = testing::support::list_files(directory.path());
    let error = SledStore::open(directory.path(), options::<Sled>()).unwrap_err();
    assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
    assert_eq!(testing::support::list_files(directory.path()), before);
}

/// Entries of unknown form, with valid checksums of sled.
#[test]
fn unknown_entries_are_detected() {
    run(async {
        for (name, stored, is_read) in [("db", "x", true), ("dz", "x", true), ("x", "x", false)] {
            let directory = temp_directory();
            let store = open::<Sled>(directory.path());
            assert_committed(store.commit(put("a", "1")).await);
            assert_committed(store.commit(put("b", "1")).await);
            drop(store);
            let config = sled::Config::new().path(directory.path());
            let database = open_sled(&config.segment_size(SEGMENT_BYTES));
            database.insert(name, stored).unwrap();
            database.flush().unwrap();
            drop(database);
            let store = open::<Sled>(directory.path());
            // Keys outside the entries are never read.
            assert_eq!(read_all(&store).await.is_err(), is_read, "{name}");
            assert_eq!(store.check(|_, _| {}).is_err(), is_read, "{name}");
        }
    });
}
