//! Property tests: the service over the in-memory store against the plain model, alone and in a crowd.
//!
//! `PROPTEST_CASES` sets how much is tried, `PROPTEST_RNG_SEED` with what a run begins.

mod addresses;
mod crowd;
mod late;
mod planted;
mod regressions;
mod seeds;
mod sequential;
mod settling;
mod tenancy;
mod verify;

use std::sync::Arc;

use knowledge_core::store::{Commit, Direction, KeyRange, MemoryStore, Store, StoreExt};

/// An empty store.
async fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}

/// How many cases to run: so many, or what the environment asks for.
#[expect(
    clippy::disallowed_methods,
    reason = "tests are told by the environment how much to try"
)]
fn cases(usual: u32) -> u32 {
    let asked = std::env::var("PROPTEST_CASES").ok();
    asked.and_then(|cases| cases.parse().ok()).unwrap_or(usual)
}

/// A store of its own with the same contents.
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
