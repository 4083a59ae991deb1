//! Corruption of a store that is large enough to have tables.

use std::path::Path;

use knowledge_storage_embedded::testing::corruption::corrupt_files;
use knowledge_storage_embedded::testing::support::{
    assert_committed, key, list_files, open, options, put, run, temp_directory,
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
