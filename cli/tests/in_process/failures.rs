//! Responses when the store fails: the server's library over a fault-injecting store.

use std::sync::Arc;

use knowledge_core::internals::keys;
use knowledge_core::model::RoleId;
use knowledge_core::store::{Commit, Key, MemoryStore, Store};
use knowledge_store::faults::{FaultPlan, FaultRates, FaultStore};
use knowledge_testing::fixture::OrgFixture;
use serde_json::json;

use crate::support::{Call, InProcess, Operation, bulk_with_key, error, get, new_key, post};

/// Starts a server whose store fails as `plan` says, once told to.
async fn failing(plan: FaultPlan) -> (InProcess, Arc<FaultStore>) {
    let store = Arc::new(FaultStore::new(Arc::new(MemoryStore::new()), plan));
    store.disable_faults();
    let server = InProcess::start(store.clone()).await;
    (server, store)
}

/// Returns a plan in which each commit conflicts.
fn contention() -> FaultPlan {
    let rates = FaultRates {
        conflict: 1.0,
        ..FaultRates::default()
    };
    FaultPlan::seeded(1, rates)
}

/// Returns the operations on an organisation; the requests of all that write commit.
fn operations(org: &OrgFixture) -> Vec<Operation> {
    let mut operations = Operation::all(org);
    let rename = json!({ "name": "Renamed" });
    let update = operations
        .iter_mut()
        .find(|operation| operation.name == "update role");
    let update = update.expect("the operation");
    update.call = update.call.clone().json(&rename);
    operations
}

#[tokio::test]
async fn contention_yields_documented_conflict() {
    let (server, store) = failing(contention()).await;
    let org = &server.fixture.orgs[0];
    store.enable_faults();
    for operation in operations(org) {
        let answer = operation.call.clone().send_to(&server.base_url).await;
        let expected = match operation.name {
            "bulk update" | "update role" | "delete role" => (409, "conflict"),
            "dashboard" | "list roles" => {
                assert_eq!(answer.status, 200, "{}", operation.name);
                continue;
            }
            _ => (503, "unavailable"),
        };
        let shown = (answer.status.as_u16(), &*operation.error_of(&answer).0);
        assert_eq!(shown, expected, "{}", operation.name);
    }
    let calls = operations(org);
    insta::assert_snapshot!(error(&calls[0].call.clone().send_to(&server.base_url).await), @"409 conflict: concurrent modification; nothing was changed, try again");
    insta::assert_snapshot!(error(&calls[6].call.clone().send_to(&server.base_url).await), @"503 unavailable in headers: the service is unavailable; try again in 1 s [retry-after: 1]");
}

#[tokio::test]
async fn conflict_leaves_nothing_behind() {
    let (server, store) = failing(contention()).await;
    let org = &server.fixture.orgs[0];
    let body = json!({
        "memoryIds": [org.main.memories.internal[0]],
        "reviewStatus": "approved",
    });
    let key = new_key();
    let send = || bulk_with_key(&org.members.member.token, &key, &body).send_to(&server.base_url);
    store.enable_faults();
    assert_eq!(send().await.status, 409);
    store.disable_faults();
    assert_eq!(send().await.json()["replayed"], false);
    store.enable_faults();
    // A replay requires no commit.
    assert_eq!(send().await.json()["replayed"], true);
}

#[tokio::test]
async fn unavailable_store_yields_503() {
    let (server, store) = failing(FaultPlan::none()).await;
    let org = &server.fixture.orgs[0];
    store.close();
    for operation in operations(org) {
        let answer = operation.call.clone().send_to(&server.base_url).await;
        assert_eq!(answer.status, 503, "{}", operation.name);
        assert_eq!(answer.header("retry-after"), "1", "{}", operation.name);
        assert_eq!(
            operation.error_of(&answer).0,
            "unavailable",
            "{}",
            operation.name
        );
    }
    let calls = operations(org);
    insta::assert_snapshot!(error(&calls[0].call.clone().send_to(&server.base_url).await), @r#"503 unavailable: the service is unavailable; try again in 1 s {"retry_after_seconds":1} [retry-after: 1]"#);
    insta::assert_snapshot!(error(&calls[1].call.clone().send_to(&server.base_url).await), @"503 unavailable in headers: the service is unavailable; try again in 1 s [retry-after: 1]");
}

#[tokio::test]
async fn store_failure_in_the_middle_of_a_request_yields_503() {
    let rates = FaultRates {
        unavailable: 1.0,
        ..FaultRates::default()
    };
    let (server, store) = failing(FaultPlan::seeded(1, rates)).await;
    let org = &server.fixture.orgs[0];
    store.enable_faults();
    for operation in operations(org) {
        let answer = operation.call.clone().send_to(&server.base_url).await;
        let expected = if matches!(operation.name, "dashboard" | "list roles") {
            200
        } else {
            503
        };
        assert_eq!(answer.status, expected, "{}", operation.name);
    }
    store.disable_faults();
    for operation in operations(org) {
        let answer = operation.call.clone().send_to(&server.base_url).await;
        assert!(answer.status.is_success(), "{}: {answer:?}", operation.name);
    }
}

/// Returns the key of a record that the operation requires.
fn record_behind(operation: &str, org: &OrgFixture) -> Key {
    let role = |role: RoleId| keys::role(org.id, role);
    match operation {
        "bulk update" => keys::memory(org.id, org.main.memories.internal[0]),
        "delete role" => role(org.roles.unheld),
        "update role" => role(org.roles.guest),
        "list roles" => role(org.roles.keeper),
        "subscribe" => keys::recall(org.id, org.recall),
        _ => keys::workspace(org.id, org.main.id),
    }
}

#[tokio::test]
async fn corrupt_record_yields_500() {
    let (server, store) = failing(FaultPlan::none()).await;
    for (index, operation) in operations(&server.fixture.orgs[0]).iter().enumerate() {
        // Each operation gets its corrupt record in its own organisation.
        let org = &server.fixture.orgs[index];
        let operation = operations(org)
            .into_iter()
            .find(|other| other.name == operation.name)
            .expect("the same operation");
        let damage = Commit::builder().put(record_behind(operation.name, org), "damaged by a test");
        store
            .commit(damage.build().expect("a commit"))
            .await
            .expect("committed");
        let answer = operation.call.clone().send_to(&server.base_url).await;
        assert_eq!(answer.status, 500, "{}", operation.name);
        let (code, message) = operation.error_of(&answer);
        assert_eq!((&*code, &*message), ("internal", "internal error"));
        match operation.name {
            "bulk update" => {
                insta::assert_snapshot!(error(&answer), @"500 internal: internal error");
            }
            "dashboard" => {
                insta::assert_snapshot!(error(&answer), @"500 internal in headers: internal error");
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn nothing_shows_what_an_erasure_has_not_removed() {
    let (server, store) = failing(FaultPlan::none()).await;
    let org = &server.fixture.orgs[0];
    // The steps stop at this record.
    let damaged = keys::content(org.id, org.side.memories.internal[0]);
    let damage = Commit::builder().put(damaged, "damaged by a test");
    let damage = damage.build().expect("a commit");
    store.commit(damage).await.expect("committed");
    let owner = &org.members.owner.token;
    let send = async |call: Call| call.bearer(owner).send_to(&server.base_url).await;
    let erase = post("/v1/erasures").key(&new_key());
    let erased = send(erase.json(&json!({ "sourceId": org.sources[0] }))).await;
    assert_eq!(erased.status, 201);
    let receipt = erased.json();
    assert_eq!(receipt["status"], "running");
    let memories = format!("/v1/workspaces/{}/memories", org.main.id);
    assert_eq!(send(get(&memories)).await.json()["data"], json!([]));
    let hidden = [
        format!("/v1/memories/{}", org.main.memories.internal[0]),
        format!("/v1/recalls/{}", org.recall),
    ];
    for path in hidden {
        assert_eq!(send(get(&path)).await.status, 404, "{path}");
    }
    let new = json!({ "sourceId": org.sources[0], "title": "New", "content": "New." });
    let added = send(post(&memories).json(&new)).await;
    assert_eq!(added.status, 503);
    let receipt = format!("/v1/erasures/{}", receipt["id"].as_str().expect("an id"));
    assert_eq!(send(get(&receipt)).await.json()["status"], "running");
}
