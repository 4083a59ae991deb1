//! The memory limit of a snapshot: sled has no native snapshots.

use std::sync::Arc;

use knowledge_storage_embedded::testing::support::{
    assert_committed, key, open, put, read_all, run, temp_directory,
};
use knowledge_storage_sled::Sled;
use knowledge_store::{Direction, KeyRange, Store, StoreErrorKind, StoreExt};

#[test]
fn snapshot_over_its_limit_is_lost_without_other_effects() {
    run(async {
        let directory = temp_directory();
        let store = Arc::new(open::<Sled>(directory.path()));
        assert_committed(store.commit(put("a", &"x".repeat(1_000))).await);
        let (small, large) = (store.snapshot(900), store.snapshot(1024 * 1024));
        assert_committed(store.commit(put("b", "new")).await);
        let (found, expected) = (read_all(&small).await, read_all(&large).await);
        assert_eq!(found.unwrap(), expected.unwrap());
        assert_committed(store.commit(put("a", "new")).await);
        let lost = small.get(&[key("z")]).await.unwrap_err();
        assert_eq!(lost.kind(), StoreErrorKind::Unavailable);
        assert!(lost.to_string().contains("900 bytes"), "{lost}");
        let lost = small.scan(&KeyRange::all(), 1, Direction::Forward).await;
        assert_eq!(lost.unwrap_err().kind(), StoreErrorKind::Unavailable);
        assert_committed(store.commit(put("c", "new")).await);
        assert_eq!(read_all(&large).await.unwrap().len(), 1);
    });
}
