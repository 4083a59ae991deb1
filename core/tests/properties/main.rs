//! Property tests of the service over the in-memory store.
//!
//! It is compared with the plain model, sequentially and concurrently.
//!
//! `PROPTEST_CASES` sets the number of cases, `PROPTEST_RNG_SEED` the seed.

mod addresses;
mod concurrent;
mod fuzzed;
mod late;
mod non_interference;
mod ownership;
mod planted;
mod regressions;
mod seeds;
mod sequential;
mod settling;
mod tenancy;
mod verify;

use std::sync::Arc;

use knowledge_core::store::{Commit, Direction, KeyRange, MemoryStore, Store, StoreExt};

/// Creates an empty store.
async fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}

/// Returns the number of cases: `usual`, unless the environment sets another.
#[expect(
    clippy::disallowed_methods,
    reason = "the environment sets the number of cases"
)]
fn cases(usual: u32) -> u32 {
    let asked = std::env::var("PROPTEST_CASES").ok();
    asked.and_then(|cases| cases.parse().ok()).unwrap_or(usual)
}

/// Copies a store.
async fn copy(store: &dyn Store) -> Arc<dyn Store> {
    let copy = MemoryStore::new();
    let all = store
        .scan(&KeyRange::all(), usize::MAX, Direction::Forward)
        .await
        .unwrap();
    for chunk in all.chunks(4_000) {
        let commit = chunk.iter().fold(Commit::builder(), |commit, found| {
            commit.put(found.key.clone(), found.entry.value.clone())
        });
        copy.commit(commit.build().unwrap()).await.unwrap();
    }
    Arc::new(copy)
}
