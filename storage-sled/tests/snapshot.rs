//! The bound of the memory that a snapshot takes: sled has no snapshots of its own.

use std::sync::Arc;

use knowledge_store::{Direction, KeyRange, Store, StoreErrorKind, StoreExt};
use knowledge_storage_embedded::testing::support::{
    committed, contents, directory, key, open, put, run,
};
use knowledge_storage_sled::Sled;

#[test]
fn snapshot_is_lost_over_its_bound_and_nothing_else() {
    run(async {
        let directory = directory();
        let store = Arc::new(open::<Sled>(directory.path()));
        committed(store.commit(put("a", &"x".repeat(1_000))).await);
        let (small, large) = (store.snapshot(900), store.snapshot(1024 * 1024));
        committed(store.commit(put("b", "new")).await);
        let (found, expected) = (contents(&small).await, contents(&large).await);
        assert_eq!(found.unwrap(), expected.unwrap());
        committed(store.commit(put("a", "new")).await);
        let lost = small.get(&[key("z")]).await.unwrap_err();
        assert_eq!(lost.kind(), StoreErrorKind::Unavailable);
        assert!(lost.to_string().contains("900 bytes"), "{lost}");
        let lost = small.scan(&KeyRange::all(), 1, Direction::Forward).await;
        assert_eq!(lost.unwrap_err().kind(), StoreErrorKind::Unavailable);
        committed(store.commit(put("c", "new")).await);
        assert_eq!(contents(&large).await.unwrap().len(), 1);
    });
}
