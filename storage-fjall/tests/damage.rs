//! Damage to a store that is large enough for tables.

use std::path::Path;

use knowledge_store::{Commit, Store};
use knowledge_storage_embedded::testing::damage::damage_files;
use knowledge_storage_embedded::testing::support::{
    committed, directory, files, key, open, options, put, run,
};
use knowledge_storage_fjall::{Fjall, FjallOptions, FjallStore, OpenError};
use knowledge_storage_sled::{Sled, SledStore};

/// Values of up to this length make tables of 1,800 of them.
const LARGE_BYTES: usize = 24_000;

fn is_table(name: &Path) -> bool {
    name.components().any(|part| part.as_os_str() == "tables")
}

#[test]
fn damaged_tables_are_found_or_harmless() {
    run(async {
        let (found, trials) = damage_files::<Fjall>(LARGE_BYTES, is_table).await;
        assert!(
            found * 4 > trials,
            "{found} of {trials}: the damage hits nothing"
        );
    });
}

#[test]
fn damaged_journals_are_found_or_harmless() {
    run(async {
        let is_journal = |name: &Path| name.extension().is_some_and(|name| name == "jnl");
        let (found, trials) = damage_files::<Fjall>(1_500, is_journal).await;
        assert!(
            found * 4 > trials,
            "{found} of {trials}: the damage hits nothing"
        );
    });
}

/// Engines refuse each other's stores by name, and change nothing.
#[test]
fn store_of_the_other_engine_is_refused() {
    run(async {
        let root = directory();
        let (fjall, sled) = (root.path().join("fjall"), root.path().join("sled"));
        let entry = |name| Commit::builder().put(key(name), "1").build().unwrap();
        committed(open::<Fjall>(&fjall).commit(entry("a")).await);
        committed(open::<Sled>(&sled).commit(put("a", "1")).await);
        let before = files(root.path());
        let error = FjallStore::open(&sled, options::<Fjall>()).unwrap_err();
        let name = format!("sled:{}", sled.display());
        assert!(matches!(error, OpenError::OtherEngine { .. }), "{error}");
        assert!(error.to_string().contains(&name), "{error}");
        let error = SledStore::open(&fjall, options::<Sled>()).unwrap_err();
        let name = format!("fjall:{}", fjall.display());
        assert!(matches!(error, OpenError::OtherEngine { .. }), "{error}");
        assert!(error.to_string().contains(&name), "{error}");
        assert_eq!(files(root.path()), before);
        drop(open::<Fjall>(&fjall));
        drop(open::<Sled>(&sled));
    });
}

#[test]
fn creation_that_was_interrupted_begins_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    drop(FjallStore::open(&path, FjallOptions::default()).unwrap());
    // As a crash leaves it before the new database got its name.
    std::fs::rename(path.join("fjall"), path.join("fjall.new")).unwrap();
    std::fs::write(path.join("fjall.new/0.jnl"), "half").unwrap();
    drop(FjallStore::open(&path, FjallOptions::default()).unwrap());
    assert!(!path.join("fjall.new").exists());
}
