//! Files that sled writes beside its log and never syncs.

use std::fs;
use std::path::Path;

use knowledge_storage_embedded::testing::support::{
    assert_committed, key, open, put, read_all, run, seeded_rng, temp_directory,
};
use knowledge_storage_sled::Sled;
use knowledge_store::{
    Commit, KEY_BYTES_MAX, Key, Store, StoreErrorKind, StoreExt, VALUE_BYTES_MAX,
};

/// Number of the largest values in the store.
const LARGE: usize = 1_000;
/// Number of the largest values in one commit, with space left for small ones.
const LARGE_PER_COMMIT: usize = 100;

fn count_blobs(store: &Path) -> usize {
    fs::read_dir(store.join("blobs")).unwrap().count()
}

/// Returns one of a series of adjacent keys of maximum length.
fn long_key(number: usize) -> Key {
    let mut name = vec![b'k'; KEY_BYTES_MAX - 8];
    name.extend_from_slice(format!("{number:08}").as_bytes());
    Key::new(name).unwrap()
}

#[test]
fn largest_values_stay_in_the_log() {
    run(async {
        let directory = temp_directory();
        let mut rng = seeded_rng();
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
                assert_committed(store.commit(commit.build().unwrap()).await);
            }
            // Single commits, at random keys.
            for _ in 0..200 {
                let value = vec![round; rng.usize(1..VALUE_BYTES_MAX)];
                let one = Commit::builder().put(long_key(rng.usize(..LARGE)), value);
                assert_committed(store.commit(one.build().unwrap()).await);
            }
            assert_eq!(count_blobs(directory.path()), 0, "round {round}");
        }
        let before = read_all(&store).await.unwrap();
        drop(store);
        assert_eq!(count_blobs(directory.path()), 0);
        let store = open::<Sled>(directory.path());
        assert!(read_all(&store).await.unwrap() == before);
        assert_eq!(count_blobs(directory.path()), 0);
    });
}

/// A link to itself cannot be opened and synced: the commit must fail.
#[cfg(unix)]
#[test]
fn blob_that_cannot_be_synced_fails_the_commit() {
    run(async {
        let directory = temp_directory();
        let store = open::<Sled>(directory.path());
        assert_committed(store.commit(put("a", "1")).await);
        let blob = directory.path().join("blobs/1");
        fs::write(&blob, "a page").unwrap();
        assert_committed(store.commit(put("a", "2")).await);
        fs::remove_file(&blob).unwrap();
        assert_committed(store.commit(put("a", "3")).await);

        std::os::unix::fs::symlink(&blob, &blob).unwrap();
        let error = store.commit(put("a", "4")).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unknown, "{error}");
        assert!(store.close_reason().is_some());
        assert_eq!(store.stats().sync_failures, 1);
        let error = store.get(&[key("a")]).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    });
}
