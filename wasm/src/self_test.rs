//! A self-test of the engine.

use std::sync::Arc;

use knowledge_core::store::{
    Commit, CommitOutcome, Direction, Key, KeyRange, MemoryStore, Store, StoreExt,
    TransactionError, transact,
};
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsError, UnwrapThrowExt};

use crate::env;

/// What [`self_test`] has seen.
#[derive(Debug)]
#[wasm_bindgen]
pub struct SelfTest {
    ids: Vec<String>,
    at: f64,
}

#[wasm_bindgen]
impl SelfTest {
    /// The identifiers that were made, one for each entry, in the order in which the store returned them.
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn ids(&self) -> Vec<String> {
        self.ids.clone()
    }

    /// The host's time at the start, in milliseconds since the Unix epoch.
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn at(&self) -> f64 {
        self.at
    }
}

/// Runs `entries` transactions over an in-memory store. Each writes an entry of its own and counts; then a commit that
/// read an older state has to be refused, and the entries and the counter are read back.
///
/// # Errors
/// Says what the host lacks, what the engine got wrong, or which error it met.
#[wasm_bindgen(js_name = selfTest)]
pub async fn self_test(entries: u32) -> Result<SelfTest, JsError> {
    let env = env::host()?;
    let at = env.now();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let prefix = key("self-test/");
    let counter = key("self-test-entries");

    for _ in 0..entries {
        let id = env.uuid_at(at).to_string();
        let counter = &counter;
        transact(&store, &env, |mut transaction| {
            let id = &id;
            async move {
                let count = transaction
                    .guard(counter)
                    .await
                    .map_err(TransactionError::from)?;
                transaction.create_unique(key(&format!("self-test/{id}")), id);
                transaction.add(counter.clone(), 1);
                transaction.done::<_, TransactionError>(count)
            }
        })
        .await?;
    }

    // The counter stands at some version now, so this has read something older.
    let stale = Commit::builder()
        .check(key("self-test-stale"), None)
        .check(counter.clone(), None)
        .put(key("self-test-stale"), "0")
        .build()?;
    let refused = store.commit(stale).await? == CommitOutcome::Conflict;
    if refused != (entries > 0) {
        return Err(JsError::new("a stale commit was applied"));
    }

    let found = store
        .scan_as::<String>(&KeyRange::prefix(&prefix), usize::MAX, Direction::Forward)
        .await?;
    let counted = store.counter(&counter).await?;
    if counted != i64::from(entries) || found.len() != entries as usize {
        return Err(JsError::new("the entries differ from their count"));
    }
    Ok(SelfTest {
        ids: found.into_iter().map(|(_, id)| id.value).collect(),
        #[allow(
            clippy::cast_precision_loss,
            reason = "below 2^53 until the year 287396"
        )]
        at: at.as_millis() as f64,
    })
}

fn key(text: &str) -> Key {
    Key::new(text.as_bytes().to_vec()).expect_throw("a key of the self-test is short")
}
