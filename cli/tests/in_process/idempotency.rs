//! `Idempotency-Key`, as the store of the server shows its effects.

use std::sync::Arc;

use knowledge_core::internals::keys;
use knowledge_core::store::{Direction, MemoryStore, StoreExt};
use serde_json::{Value, json};

use crate::support::{InProcess, send_at_once};

#[tokio::test]
async fn concurrent_calls_with_one_key_are_audited_once() {
    let store = Arc::new(MemoryStore::new());
    let server = InProcess::start(store.clone()).await;
    let org = &server.fixture.orgs[0];
    let operation = send_at_once(&server.base_url, org).await;
    let pages = store
        .scan(&keys::audits(org.id), usize::MAX, Direction::Forward)
        .await
        .expect("the audit log");
    let pages: Vec<Value> = pages
        .iter()
        .map(|page| serde_json::from_slice(&page.entry.value).expect("JSON"))
        .filter(|page: &Value| page["actor_id"] == json!(org.members.member.id))
        .collect();
    assert_eq!(pages.len(), 1, "one operation, one page");
    assert_eq!(pages[0]["operation_id"], json!(operation));
}
