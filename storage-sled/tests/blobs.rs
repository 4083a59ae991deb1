//! The files that sled writes beside its log, and never syncs.

use std::fs;
use std::path::Path;

use knowledge_store::{
    Commit, KEY_BYTES_MAX, Key, Store, StoreErrorKind, StoreExt, VALUE_BYTES_MAX,
};
use knowledge_storage_embedded::testing::support::{
    committed, contents, directory, key, open, put, run, seeded,
};
use knowledge_storage_sled::Sled;

/// The largest values in the store.
const LARGE: usize = 1_000;
/// The largest values that fit into one commit, with room for small ones.
const LARGE_PER_COMMIT: usize = 100;

fn blobs(store: &Path) -> usize {
    fs::read_dir(store.join("blobs")).unwrap().count()
}

/// Neighbouring keys of the greatest length.
fn long_key(number: usize) -> Key {
    let mut name = vec![b'k'; KEY_BYTES_MAX - 8];
    name.extend_from_slice(format!("{number:08}").as_bytes());
    Key::new(name).unwrap()
}

#[test]
fn largest_values_stay_in_the_log() {
    run(async {
        let directory = directory();
        let mut rng = seeded();
        let store = open::<Sled>(directory.path());
        for round in 0..2_u8 {
            for group in 0..LARGE / LARGE_PER_COMMIT {
                let mut commit = Commit::builder();
                for i in 0..LARGE_PER_COMMIT {
                    let mut value = vec![round; VALUE_BYTES_MAX];
                    rng.fill(&mut value[1..]);
                    commit = commit.put(long_key(group * LARGE_PER_COMMIT + i), value);
                }
                for i in 0..300 {
                    commit = commit.put(key(&format!("small{group}/{i}")), "value");
                }
                committed(store.commit(commit.build().unwrap()).await);
            }
            // One at a time, anywhere.
            for _ in 0..200 {
                let value = vec![round; rng.usize(1..VALUE_BYTES_MAX)];
                let one = Commit::builder().put(long_key(rng.usize(..LARGE)), value);
                committed(store.commit(one.build().unwrap()).await);
            }
            assert_eq!(blobs(directory.path()), 0, "round {round}");
        }
        let before = contents(&store).await.unwrap();
        drop(store);
        assert_eq!(blobs(directory.path()), 0);
        let store = open::<Sled>(directory.path());
        assert!(contents(&store).await.unwrap() == before);
        assert_eq!(blobs(directory.path()), 0);
    });
}

/// A link to itself cannot be opened, and so not be synced: the commit is not acknowledged.
#[cfg(unix)]
#[test]
fn blob_that_cannot_be_synced_fails_the_commit() {
    run(async {
        let directory = directory();
        let store = open::<Sled>(directory.path());
        committed(store.commit(put("a", "1")).await);
        let blob = directory.path().join("blobs/1");
        fs::write(&blob, "a page").unwrap();
        committed(store.commit(put("a", "2")).await);
        fs::remove_file(&blob).unwrap();
        committed(store.commit(put("a", "3")).await);

        std::os::unix::fs::symlink(&blob, &blob).unwrap();
        let error = store.commit(put("a", "4")).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unknown, "{error}");
        assert!(store.closed_because().is_some());
        assert_eq!(store.stats().sync_failures, 1);
        let error = store.get(&[key("a")]).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    });
}
