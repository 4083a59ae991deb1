//! Corruption of a store that is large enough to have tables.

use std::fs;
use std::path::Path;

use knowledge_storage_embedded::testing::corruption::corrupt_files;
use knowledge_storage_embedded::testing::support::{
    assert_committed, key, list_files, open, options, put, read_text, run, temp_directory,
};
use knowledge_storage_fjall::{Fjall, FjallOptions, FjallStore, OpenError};
use knowledge_storage_sled::{Sled, SledStore};
use knowledge_store::{Commit, Store};

/// Maximum length of values; 1,800 of them fill tables.
const LARGE_BYTES: usize = 24_000;

fn is_table(name: &Path) -> bool {
    name.components().any(|part| part.as_os_str() == "tables")
}

#[test]
fn corrupt_tables_are_detected_or_harmless() {
    run(async {
        let (found, trials) = corrupt_files::<Fjall>(LARGE_BYTES, is_table).await;
        assert!(
            found * 4 > trials,
            "{found} of {trials}: too few detections"
        );
    });
}

#[test]
fn corrupt_journals_are_detected_or_harmless() {
    run(async {
        let is_journal = |name: &Path| name.extension().is_some_and(|name| name == "jnl");
        let (found, trials) = corrupt_files::<Fjall>(1_500, is_journal).await;
        assert!(
            found * 4 > trials,
            "{found} of {trials}: too few detections"
        );
    });
}

/// Number of bytes at the end of a table that contain the count of its sections.
const TABLE_END_BYTES: usize = 512;

/// fjall reserves memory for as many items as a count says, so that a corrupt one aborted the process.
#[test]
fn corrupt_counts_are_detected_before_fjall_opens() {
    run(async {
        let root = temp_directory();
        let path = root.path().join("store");
        assert_committed(open::<Fjall>(&path).commit(put("a", "1")).await);
        let mut names = list_files(&path);
        names.retain(|name| name.starts_with("fjall/keyspaces"));
        let (mut lists, mut tables) = (0, 0);
        for name in names {
            let file = path.join(&name);
            let whole = fs::read(&file).unwrap();
            let first = match is_table(&name) {
                true => whole.len().saturating_sub(TABLE_END_BYTES),
                false => 0,
            };
            for at in first..whole.len() {
                let mut bytes = whole.clone();
                bytes[at] ^= 0xff;
                fs::write(&file, bytes).unwrap();
                let what = format!("{} at {at}", name.display());
                match FjallStore::open(&path, options::<Fjall>()) {
                    Err(OpenError::Corrupt { .. }) => {}
                    Err(error) => panic!("{what}: {error}"),
                    Ok(store) => {
                        assert!(is_table(&name), "{what}: not detected");
                        assert_eq!(read_text(&store, "a").await.as_deref(), Some("1"), "{what}");
                    }
                }
            }
            fs::write(&file, whole).unwrap();
            *(if is_table(&name) {
                &mut tables
            } else {
                &mut lists
            }) += 1;
        }
        // Two trees have a list of levels each, and a file that names it.
        assert_eq!(lists, 4);
        assert!(tables > 0);
        let store = open::<Fjall>(&path);
        assert_eq!(read_text(&store, "a").await.as_deref(), Some("1"));
    });
}

/// Engines reject each other's stores with the right address, and change nothing.
#[test]
fn store_of_the_other_engine_is_rejected() {
    run(async {
        let root = temp_directory();
        let (fjall, sled) = (root.path().join("fjall"), root.path().join("sled"));
        let entry = |name| Commit::builder().put(key(name), "1").build().unwrap();
        assert_committed(open::<Fjall>(&fjall).commit(entry("a")).await);
        assert_committed(open::<Sled>(&sled).commit(put("a", "1")).await);
        let before = list_files(root.path());
        let error = FjallStore::open(&sled, options::<Fjall>()).unwrap_err();
        let name = format!("sled:{}", sled.display());
        assert!(matches!(error, OpenError::OtherEngine { .. }), "{error}");
        assert!(error.to_string().contains(&name), "{error}");
        let error = SledStore::open(&fjall, options::<Sled>()).unwrap_err();
        let name = format!("fjall:{}", fjall.display());
        assert!(matches!(error, OpenError::OtherEngine { .. }), "{error}");
        assert!(error.to_string().contains(&name), "{error}");
        assert_eq!(list_files(root.path()), before);
        drop(open::<Fjall>(&fjall));
        drop(open::<Sled>(&sled));
    });
}

#[test]
fn interrupted_creation_restarts() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    drop(FjallStore::open(&path, FjallOptions::default()).unwrap());
    // The state after a crash before the new database was renamed.
    std::fs::rename(path.join("fjall"), path.join("fjall.new")).unwrap();
    std::fs::write(path.join("fjall.new/0.jnl"), "half").unwrap();
    drop(FjallStore::open(&path, FjallOptions::default()).unwrap());
    assert!(!path.join("fjall.new").exists());
}
