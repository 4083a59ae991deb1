//! Tests of stores that earlier schemas wrote and the present one opens.

use std::sync::Arc;
use std::time::Duration;

use knowledge_core::access::Credential;
use knowledge_core::dump::{CredentialPolicy, Restore};
use knowledge_core::env::Env;
use knowledge_core::internals::keys;
use knowledge_core::model::{
    BulkUpdate, ChatId, ChatMessageId, EventId, EventType, MemberId, MemoryChange, MemoryId, OrgId,
    Quota, Timestamp, WorkspaceId,
};
use knowledge_core::service::{
    Attempt, AttemptOutcome, AuditFilter, ClaimedDelivery, DeliveryResponse, DifferenceCode,
    InFlight, KnowledgeService, Options, PageRequest, SCHEMA, SealingKey, Verification, Verify,
};
use knowledge_core::store::{Commit, Key, KeyRange, MemoryStore, Store, StoreExt};
use knowledge_store::faults::{CommitFault, FaultPlan, FaultStore};
use serde::Deserialize;
use serde_json::{Value, json};

/// The counters of schema 1.
const GLOBAL: [&str; 2] = ["undelivered_count", "disabled_endpoint_count"];

/// The responses of the program of an earlier schema.
#[derive(Deserialize)]
struct Answers {
    now: Timestamp,
    org: OrgId,
    member: MemberId,
    other_org: Option<OrgId>,
    idempotency_key: String,
    request: Request,
    result: Value,
    memories: Vec<Value>,
    audit: Vec<Value>,
    #[serde(default)]
    undelivered: u64,
    #[serde(default)]
    disabled_endpoints: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    memory_ids: Vec<MemoryId>,
    #[serde(flatten)]
    change: MemoryChange,
}

fn answers() -> Answers {
    serde_json::from_str(include_str!("stored/schema-1.json")).unwrap()
}

fn answers_of_schema_2() -> Answers {
    serde_json::from_str(include_str!("stored/schema-2.json")).unwrap()
}

async fn restored() -> Arc<dyn Store> {
    restored_from(include_bytes!("stored/schema-1.dump")).await
}

async fn restored_from(dump: &[u8]) -> Arc<dyn Store> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let policy = CredentialPolicy::Keep;
    let restore = Restore::begin(Arc::clone(&store), None, policy).await;
    let mut restore = restore.unwrap();
    for line in dump.split_inclusive(|byte| *byte == b'\n') {
        restore.take(line).await.unwrap();
    }
    restore.finish().await.unwrap();
    store
}

fn env() -> Env {
    let (now, random) = (
        answers().now,
        std::sync::Mutex::new(fastrand::Rng::with_seed(9)),
    );
    Env::new(
        move || now,
        move |buffer: &mut [u8]| random.lock().unwrap().fill(buffer),
    )
}

async fn open(store: &Arc<dyn Store>) -> KnowledgeService {
    let options = Options::new(SealingKey::new([7; 32]));
    KnowledgeService::open(Arc::clone(store), env(), options)
        .await
        .unwrap()
}

async fn verified(store: &Arc<dyn Store>) -> Verification {
    let key = SealingKey::new([7; 32]);
    let mut verify = Verify::begin(Arc::clone(store), Some(&key)).await.unwrap();
    while verify.read().await.unwrap() {}
    verify.finish()
}

async fn put(store: &Arc<dyn Store>, key: Key, value: &str) {
    let commit = Commit::builder().put(key, value.to_owned());
    store.commit(commit.build().unwrap()).await.unwrap();
}

/// Returns the counters of the organisations: pending deliveries and disabled endpoints.
async fn counters(store: &Arc<dyn Store>) -> [[i64; 2]; 2] {
    let answers = answers();
    let mut counters = [[0; 2]; 2];
    for (counters, org) in counters
        .iter_mut()
        .zip([answers.org, answers.other_org.unwrap()])
    {
        for (counter, key) in counters.iter_mut().zip([
            keys::undelivered_count(org),
            keys::disabled_endpoint_count(org),
        ]) {
            *counter = store.counter(&key).await.unwrap();
        }
    }
    counters
}

async fn assert_upgraded(store: &Arc<dyn Store>) {
    assert_eq!(counters(store).await, [[5, 1], [2, 1]]);
    let old = GLOBAL.map(|name| Key::new(name).unwrap());
    assert_eq!(store.get(&old).await.unwrap(), [None, None]);
    let meta: Value = store.get_as(&keys::meta()).await.unwrap().unwrap().value;
    assert_eq!(meta["schema"], SCHEMA);
    assert_eq!(verified(store).await.differences, []);
}

#[tokio::test]
async fn schema_1_store_verifies_before_and_after_its_upgrade() {
    let store = restored().await;
    assert_eq!(verified(&store).await.differences, []);
    let service = open(&store).await;
    assert_upgraded(&store).await;
    let (status, answers) = (service.outbox_status().await.unwrap(), answers());
    assert_eq!(status.undelivered, answers.undelivered);
    assert_eq!(status.disabled_endpoints, answers.disabled_endpoints);
    open(&store).await;
    assert_upgraded(&store).await;
}

#[tokio::test]
async fn schema_1_counters_are_verified_before_the_upgrade() {
    for name in GLOBAL {
        let store = restored().await;
        let key = Key::new(name).unwrap();
        put(&store, key.clone(), "99").await;
        let found = verified(&store).await.differences;
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(
            (found[0].code, &found[0].key),
            (DifferenceCode::Count, &key)
        );
    }
}

#[tokio::test]
async fn global_counters_are_unreadable_after_the_upgrade() {
    let store = restored().await;
    open(&store).await;
    for name in GLOBAL {
        put(&store, Key::new(name).unwrap(), "0").await;
    }
    let found = verified(&store).await.differences;
    let codes: Vec<_> = found.iter().map(|found| found.code).collect();
    assert_eq!(codes, [DifferenceCode::Unreadable; 2]);
}

#[tokio::test]
async fn schema_1_operation_ids_in_actor_entries_are_verified() {
    let store = restored().await;
    let org = answers().org;
    let marks = keys::audits_of(org, answers().member);
    let mark = store.scan_all(&marks).await.unwrap().remove(0).key;
    put(&store, mark, &json!(org).to_string()).await;
    let found = verified(&store).await.differences;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].code, DifferenceCode::Mismatch);
}

/// Chats of schema 1 do not name their participants.
#[tokio::test]
async fn schema_1_chats_exist_for_their_authors() {
    let store = restored().await;
    let (org, creator) = (answers().org, answers().member);
    let workspace = store.scan_all(&keys::workspaces(org)).await.unwrap();
    let workspace = WorkspaceId(keys::last_id(&workspace[0].key).unwrap());
    let [author, second] = [8, 9].map(|number| MemberId(uuid::Uuid::from_u128(number)));
    let at = answers().now;
    // More than one commit of the upgrade changes.
    for number in 1..=150 {
        let chat = ChatId(uuid::Uuid::from_u128(number));
        let record = json!({
            "id": chat, "workspace_id": workspace, "title": "Plans", "created_by": creator,
            "created_at": at, "last_message_at": at,
        });
        let key = keys::chat(org, workspace, chat);
        put(&store, key, &record.to_string()).await;
        let recent = json!({
            "session_id": chat, "title": "Plans", "last_message_at": at, "snippet": "Hello.",
        });
        let key = keys::chat_recent(org, workspace, at, chat);
        put(&store, key, &recent.to_string()).await;
        for (index, author_id) in [author, creator, second, author].into_iter().enumerate() {
            let id = ChatMessageId(uuid::Uuid::from_u128(number * 10 + index as u128));
            let message = json!({
                "id": id, "chat_id": chat, "author_id": author_id, "content": "Hello.",
                "created_at": at,
            });
            let key = keys::chat_message(org, chat, id);
            put(&store, key, &message.to_string()).await;
        }
    }
    assert_eq!(verified(&store).await.differences, []);
    let service = open(&store).await;
    assert_upgraded(&store).await;
    let caller = Credential::Trusted {
        org,
        member: creator,
    };
    let page = PageRequest::builder().limit(200).build();
    let listed = service.list_chats(&caller, workspace, &page).await.unwrap();
    assert_eq!(listed.data.len(), 150);
    for chat in listed.data {
        assert_eq!(chat.participants, [creator, author, second]);
    }
    let dashboard = service.get_dashboard_summary(&caller, workspace).await;
    assert_eq!(dashboard.unwrap().value.recent_chats[0].snippet, "Hello.");
}

/// An interrupted upgrade left counters of organisations, and the earlier program kept counting.
#[tokio::test]
async fn interrupted_upgrade_is_repeated() {
    let store = restored().await;
    let (org, idle) = (answers().org, OrgId(uuid::Uuid::from_u128(1)));
    put(&store, keys::undelivered_count(org), "77").await;
    put(&store, keys::undelivered_count(idle), "3").await;
    assert_eq!(verified(&store).await.differences, []);
    open(&store).await;
    assert_upgraded(&store).await;
    let idle = store.counter(&keys::undelivered_count(idle)).await;
    assert_eq!(idle.unwrap(), 0);
}

#[tokio::test]
async fn upgrade_of_many_organizations_takes_several_commits() {
    let store = restored().await;
    let orgs = 5_000;
    let mut commit = Commit::builder();
    for number in 1..=orgs {
        let org = OrgId(uuid::Uuid::from_u128(number));
        let event = EventId(uuid::Uuid::from_u128(number));
        let endpoint = uuid::Uuid::from_u128(number).into();
        let mark = keys::undelivered(event, endpoint);
        commit = commit.put(mark, json!(org).to_string());
        if number % 1_000 == 0 {
            store.commit(commit.build().unwrap()).await.unwrap();
            commit = Commit::builder();
        }
    }
    let service = open(&store).await;
    assert_eq!(counters(&store).await, [[5, 1], [2, 1]]);
    let undelivered = service.outbox_status().await.unwrap().undelivered;
    assert_eq!(u128::from(undelivered), orgs + 7);
}

#[tokio::test]
async fn failed_upgrade_leaves_schema_1() {
    let inner = restored().await;
    let plan = FaultPlan::none().at_commit(1, CommitFault::Unavailable);
    let store: Arc<dyn Store> = Arc::new(FaultStore::new(Arc::clone(&inner), plan));
    let options = Options::new(SealingKey::new([7; 32]));
    let refused = KnowledgeService::open(Arc::clone(&store), env(), options).await;
    refused.unwrap_err();
    let meta: Value = inner.get_as(&keys::meta()).await.unwrap().unwrap().value;
    assert_eq!(meta["schema"], 1);
    assert_eq!(verified(&inner).await.differences, []);
    open(&store).await;
    assert_upgraded(&inner).await;
}

#[tokio::test]
async fn schema_1_store_yields_same_responses_after_upgrade() {
    let service = open(&restored().await).await;
    let audited = assert_same_responses(&service, answers()).await;
    assert_eq!(audited, answers().audit.len());
}

/// Adds the fields of audit entries that later programs have, which are `null` in earlier entries.
fn with_later_fields(entry: &Value) -> Value {
    let mut entry = entry.clone();
    for field in ["client_address", "inbound_webhook_id", "request_id"] {
        entry[field] = Value::Null;
    }
    entry
}

/// Asserts that the responses are those of the program of the earlier schema.
///
/// Returns the number of audit entries, of which the newest are compared.
async fn assert_same_responses(service: &KnowledgeService, answers: Answers) -> usize {
    let owner = Credential::Trusted {
        org: answers.org,
        member: answers.member,
    };
    let key = answers.idempotency_key.parse().unwrap();
    let request = BulkUpdate::builder()
        .memory_ids(answers.request.memory_ids.clone())
        .change(answers.request.change.clone())
        .build();
    let mut expected = answers.result;
    expected["replayed"] = json!(true);
    let replay = service
        .bulk_update_memories(&owner, &key, &request)
        .await
        .unwrap();
    assert_eq!(json!(replay), expected);

    let mut audit = Vec::new();
    let (everything, mut page) = (AuditFilter::default(), PageRequest::default());
    loop {
        let found = service.list_audit_entries(&owner, &everything, &page);
        let found = found.await.unwrap();
        audit.extend(found.data);
        page.cursor = found.next_cursor;
        if page.cursor.is_none() {
            break;
        }
    }
    let expected: Vec<Value> = answers.audit.iter().map(with_later_fields).collect();
    let newest = &audit[..expected.len()];
    assert_eq!(json!(newest), json!(expected));
    for expected in &expected {
        let id = serde_json::from_value(expected["id"].clone()).unwrap();
        let found = service.get_audit_entry(&owner, id).await.unwrap();
        assert_eq!(json!(found), *expected);
    }
    for expected in &answers.memories {
        let id = serde_json::from_value(expected["id"].clone()).unwrap();
        let found = service.get_memory(&owner, id).await.unwrap();
        assert_eq!(json!(found.value), *expected);
    }
    audit.len()
}

/// Returns the number of keys in a range.
async fn count(store: &Arc<dyn Store>, range: KeyRange) -> usize {
    store.scan_all(&range).await.unwrap().len()
}

/// Asserts that the counters of the quotas are those of the entries.
async fn assert_usage(store: &Arc<dyn Store>, org: OrgId) {
    for (quota, expected) in [
        (Quota::Memories, count(store, keys::memories(org)).await),
        (Quota::Recalls, count(store, keys::recalls(org)).await),
        (Quota::Sources, count(store, keys::sources(org)).await),
        (Quota::Members, count(store, keys::members(org)).await),
    ] {
        let counter = store.counter(&keys::usage(org, quota)).await.unwrap();
        assert_eq!(usize::try_from(counter).unwrap(), expected, "{quota}");
        assert!(expected > 0, "{quota}");
    }
    for quota in [Quota::Chats, Quota::ChatMessages, Quota::Endpoints] {
        let counter = store.counter(&keys::usage(org, quota)).await.unwrap();
        assert!(counter > 0, "{quota}");
    }
}

#[tokio::test]
async fn schema_2_store_yields_same_responses_after_upgrade() {
    let store = restored_from(include_bytes!("stored/schema-2.dump")).await;
    assert_eq!(verified(&store).await.differences, []);
    let org = answers_of_schema_2().org;
    // An interrupted upgrade left this counter, and the earlier program went on.
    put(&store, keys::usage(org, Quota::Recalls), "77").await;
    assert_eq!(verified(&store).await.differences, []);
    let service = open(&store).await;
    assert_usage(&store, org).await;
    let meta: Value = store.get_as(&keys::meta()).await.unwrap().unwrap().value;
    assert_eq!(meta["schema"], SCHEMA);
    assert_eq!(verified(&store).await.differences, []);
    assert_same_responses(&service, answers_of_schema_2()).await;
    open(&store).await;
    assert_usage(&store, org).await;
}

#[tokio::test]
async fn failed_upgrade_leaves_schema_2() {
    let inner = restored_from(include_bytes!("stored/schema-2.dump")).await;
    let plan = FaultPlan::none().at_commit(1, CommitFault::Unavailable);
    let store: Arc<dyn Store> = Arc::new(FaultStore::new(Arc::clone(&inner), plan));
    let options = Options::new(SealingKey::new([7; 32]));
    let refused = KnowledgeService::open(Arc::clone(&store), env(), options).await;
    refused.unwrap_err();
    let meta: Value = inner.get_as(&keys::meta()).await.unwrap().unwrap().value;
    assert_eq!(meta["schema"], 2);
    assert_eq!(verified(&inner).await.differences, []);
    open(&store).await;
    assert_usage(&inner, answers_of_schema_2().org).await;
}

#[tokio::test]
async fn endpoints_of_earlier_schemas_keep_receiving_without_a_ping() {
    let schema_1 = include_bytes!("stored/schema-1.dump").as_slice();
    let schema_2 = include_bytes!("stored/schema-2.dump").as_slice();
    for (dump, org) in [
        (schema_1, answers().org),
        (schema_2, answers_of_schema_2().org),
    ] {
        let service = open(&restored_from(dump).await).await;
        let (operator, page) = (service.provisioning(), PageRequest::default());
        let listed = operator.list_endpoints(org, None, &page).await.unwrap();
        assert!(!listed.data.is_empty());
        assert!(listed.data.iter().all(|endpoint| endpoint.is_confirmed));
        // What was waiting is claimed, and nothing else.
        let later = answers().now.plus(Duration::from_secs(6 * 3_600));
        let nothing = InFlight::default();
        let claimed = service.claim_deliveries(later, 100, &nothing).await;
        let claimed = claimed.unwrap().deliveries;
        assert!(!claimed.is_empty());
        let is_ping = |one: &ClaimedDelivery| one.event_type == EventType::WebhookPing;
        assert!(!claimed.iter().any(is_ping), "{claimed:?}");
    }
}

#[tokio::test]
async fn deliveries_leased_in_schema_3_are_due_when_their_leases_expire() {
    let store = restored_from(include_bytes!("stored/schema-3.dump")).await;
    assert_eq!(verified(&store).await.differences, []);
    let (deliveries, mut expiries) = (Key::new("delivery/").unwrap(), Vec::new());
    let deliveries = KeyRange::prefix(&deliveries);
    for found in store.scan_all(&deliveries).await.unwrap() {
        let delivery: Value = serde_json::from_slice(&found.entry.value).unwrap();
        if delivery["is_leased"] == true {
            let due: Timestamp = serde_json::from_value(delivery["due"].clone()).unwrap();
            expiries.push(due);
        }
    }
    assert_eq!(expiries.len(), 6);
    let service = open(&store).await;
    let meta: Value = store.get_as(&keys::meta()).await.unwrap().unwrap().value;
    assert_eq!(meta["schema"], SCHEMA);
    assert_eq!(verified(&store).await.differences, []);

    let (first, last) = (
        expiries.iter().min().unwrap(),
        expiries.iter().max().unwrap(),
    );
    let early = first.minus(Duration::from_millis(1));
    let nobody = InFlight::default();
    let claimed = service.claim_deliveries(early, 256, &nobody).await.unwrap();
    assert_eq!(claimed.deliveries, []);
    let claimed = service.claim_deliveries(*last, 256, &nobody).await.unwrap();
    assert_eq!(claimed.deliveries.len(), 6);
    assert_eq!(verified(&store).await.differences, []);
    for claimed in claimed.deliveries {
        let attempt = Attempt {
            duration: Duration::ZERO,
            outcome: Ok(DeliveryResponse {
                status: 204,
                retry_after: None,
            }),
        };
        let finished = service
            .finish_delivery(*last, &claimed.lease, &attempt)
            .await;
        assert_eq!(finished.unwrap(), AttemptOutcome::Delivered);
    }
    assert_eq!(service.outbox_status().await.unwrap().undelivered, 0);
    assert_eq!(verified(&store).await.differences, []);
}
