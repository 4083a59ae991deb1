//! Property tests: the service over the in-memory store against the plain model, alone and in a crowd.
//!
//! `PROPTEST_CASES` sets how much is tried, `PROPTEST_RNG_SEED` with what a run begins.

mod regressions;
mod sequential;

use std::sync::Arc;

use knowledge_core::store::{MemoryStore, Store};

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
