//! Tests of files and entries that another program wrote, and of sled's modes.

use std::time::{Duration, Instant};

use knowledge_storage_embedded::testing;
use knowledge_storage_embedded::testing::support::{
    assert_committed, open, options, put, read_all, read_text, run, temp_directory,
};
use knowledge_storage_sled::{Mode, OpenError, Sled, SledSettings, SledStore};
use knowledge_store::Store;

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
