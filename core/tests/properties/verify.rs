//! Verification notices what is missing, what is there too much and what does not count right.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use knowledge_core::service::{
    DIFFERENCES_KEPT_MAX, DifferenceCode, KnowledgeService, Options, SealingKey, Verification,
    Verify,
};
use knowledge_core::store::{Commit, Key, Store};
use knowledge_core::testing::fixture;
use knowledge_core::testing::simulation::{SimulatedTime, contents, simulated_options};
use serde_json::{Value, json};

use crate::memory;

/// Families of which an entry may be missing: nothing has to lead to it.
const OPTIONAL: [&str; 8] = [
    "chat_message",
    "due",
    "expansion",
    "idempotency",
    "inbound_message",
    "last_ingest",
    "mcp_key_use",
    "outbox",
];
/// Families of which an entry need not be there as long as nothing refers to it.
const REFERRED_TO: [&str; 5] = ["audit", "former_member", "source", "mcp_key", "org"];

/// A store with an entry of every family.
async fn complete() -> Arc<dyn Store> {
    let store: Arc<dyn Store> = memory().await;
    let time = SimulatedTime::new();
    let options = Options::new(simulated_options().sealing_key);
    let service = KnowledgeService::open(Arc::clone(&store), time.env(3), options);
    fixture::complete(&service.await.unwrap()).await.unwrap();
    store
}

async fn found(store: &Arc<dyn Store>) -> Verification {
    let key = simulated_options().sealing_key;
    let mut verify = Verify::begin(Arc::clone(store), Some(&key)).await.unwrap();
    while verify.read().await.unwrap() {}
    verify.finish()
}

async fn differing(store: &Arc<dyn Store>) -> BTreeSet<String> {
    let differences = found(store).await.differences;
    differences
        .iter()
        .map(|difference| difference.key.to_string())
        .collect()
}

async fn write(store: &Arc<dyn Store>, commit: knowledge_core::store::CommitBuilder) {
    store.commit(commit.build().unwrap()).await.unwrap();
}

fn family(key: &Key) -> String {
    key.to_string().split('/').next().unwrap().to_owned()
}

#[tokio::test]
async fn whatever_is_missing_is_noticed() {
    let store = complete().await;
    assert_eq!(differing(&store).await, BTreeSet::new());
    let mut noticed = BTreeSet::new();
    let mut tried = BTreeMap::<String, u32>::new();
    for (key, value) in contents(&*store).await.unwrap() {
        let family = family(&key);
        if OPTIONAL.contains(&&*family) || (family.ends_with("_count") && value == "0") {
            continue;
        }
        // Some of each family: every one costs a verification.
        let tried = tried.entry(family.clone()).or_default();
        *tried += 1;
        if *tried > 4 {
            continue;
        }
        write(&store, Commit::builder().delete(key.clone())).await;
        let differences = differing(&store).await;
        if differences.is_empty() {
            assert!(REFERRED_TO.contains(&&*family), "{key} is not missed");
        } else {
            noticed.insert(family);
        }
        write(&store, Commit::builder().put(key, value)).await;
    }
    assert!(noticed.len() >= 30, "{noticed:?}");
    assert_eq!(differing(&store).await, BTreeSet::new());
}

#[tokio::test]
async fn a_counter_that_is_one_off_is_noticed_by_name() {
    let store = complete().await;
    for (key, _) in contents(&*store).await.unwrap() {
        if !family(&key).ends_with("_count") {
            continue;
        }
        write(&store, Commit::builder().add(key.clone(), 1)).await;
        assert_eq!(differing(&store).await, BTreeSet::from([key.to_string()]));
        write(&store, Commit::builder().add(key, -1)).await;
    }
}

#[tokio::test]
async fn whatever_cannot_be_read_is_noticed_in_every_family() {
    let store = complete().await;
    let mut tried = BTreeSet::new();
    for (key, value) in contents(&*store).await.unwrap() {
        if !tried.insert(family(&key)) {
            continue;
        }
        write(&store, Commit::builder().put(key.clone(), "{")).await;
        assert_noticed(&store, DifferenceCode::Unreadable, &key).await;
        write(&store, Commit::builder().put(key.clone(), value)).await;
        let longer = Key::new(format!("{key}/x")).unwrap();
        write(&store, Commit::builder().put(longer.clone(), "null")).await;
        assert_noticed(&store, DifferenceCode::Unreadable, &longer).await;
        write(&store, Commit::builder().delete(longer)).await;
    }
    let layout = include_str!("../../src/store/keys.rs").lines();
    let families = layout.filter_map(|line| line.strip_prefix("//! | `")?.split('`').next());
    let untried: Vec<_> = families.filter(|family| !tried.contains(*family)).collect();
    assert_eq!(untried, Vec::<&str>::new(), "not in the complete store");
}

async fn assert_noticed(store: &Arc<dyn Store>, code: DifferenceCode, key: &Key) {
    let found = found(store).await;
    let mut differences = found.differences.iter();
    let is_noticed = differences.any(|found| found.code == code && found.key == *key);
    assert!(is_noticed, "{code} of {key} in {found:#?}");
}

#[tokio::test]
async fn what_is_of_no_family_is_noticed() {
    let store = complete().await;
    for stray in ["stray/1", "stray", "stray_count", "metas", "\u{e9}"] {
        let stray = Key::new(stray).unwrap();
        write(&store, Commit::builder().put(stray.clone(), "0")).await;
        assert_noticed(&store, DifferenceCode::UnknownFamily, &stray).await;
        assert_eq!(found(&store).await.differences_total, 1);
        write(&store, Commit::builder().delete(stray)).await;
    }
    let stray = Key::new(vec![0xff]).unwrap();
    write(&store, Commit::builder().put(stray.clone(), "0")).await;
    assert_noticed(&store, DifferenceCode::Unreadable, &stray).await;
}

/// A change of one field of an entry of a family, what it is noticed as, and the family that is named for it.
type Planted = (
    &'static str,
    &'static str,
    Value,
    DifferenceCode,
    &'static str,
);

fn planted() -> Vec<Planted> {
    use DifferenceCode::{Count, Mismatch, Missing, NotDue, Sealed, UnknownRole};

    let other = || json!("00000000-0000-7000-8000-000000000001");
    let later = || json!("2099-01-01T00:00:00.000Z");
    vec![
        ("org", "/id", other(), Mismatch, "org"),
        ("org", "/slug", json!("elsewhere"), Missing, "org_slug"),
        ("org_slug", "", other(), Missing, "org"),
        ("workspace", "/id", other(), Mismatch, "workspace"),
        (
            "workspace",
            "/slug",
            json!("elsewhere"),
            Missing,
            "workspace_slug",
        ),
        ("workspace_slug", "", other(), Missing, "workspace"),
        ("member", "/id", other(), Mismatch, "member"),
        (
            "member",
            "/handle",
            json!("elsewhere"),
            Missing,
            "member_handle",
        ),
        ("member", "/role", other(), UnknownRole, "member"),
        ("member_handle", "", other(), Missing, "member"),
        ("workspace_role", "", other(), UnknownRole, "workspace_role"),
        ("role", "/id", other(), Mismatch, "role"),
        ("role", "/org_id", other(), Mismatch, "role"),
        ("role", "/slug", json!("elsewhere"), Missing, "role_slug"),
        ("role", "/workspace_id", other(), Missing, "workspace"),
        ("role_slug", "", other(), Missing, "role"),
        ("role_redirect", "", other(), UnknownRole, "role_redirect"),
        ("credential", "/id", other(), Missing, "credential_id"),
        ("credential", "/member_id", other(), Missing, "member"),
        ("credential", "/expires_at", later(), NotDue, "credential"),
        (
            "credential_id",
            "",
            json!("ab".repeat(32)),
            Missing,
            "credential",
        ),
        ("source", "/id", other(), Mismatch, "source"),
        ("memory", "/workspace_id", other(), Missing, "workspace"),
        ("memory", "/workspace_id", other(), Mismatch, "memory"),
        ("memory", "/source_id", other(), Missing, "source"),
        (
            "memory",
            "/review",
            json!("approved"),
            Count,
            "pending_count",
        ),
        (
            "content",
            "/source_key",
            json!("another name"),
            Mismatch,
            "content",
        ),
        ("content", "/origin_source_id", other(), Missing, "source"),
        ("content", "/origin_source_id", other(), Mismatch, "content"),
        ("content", "/origin_source_id", other(), Missing, "source"),
        ("source_key", "", other(), Missing, "content"),
        ("recall", "/id", other(), Mismatch, "recall"),
        ("recall", "/workspace_id", other(), Missing, "workspace"),
        ("recall", "/memory_ids/0", other(), Missing, "cited_by"),
        ("connector", "/workspace_id", other(), Mismatch, "connector"),
        ("connector", "/id", other(), Mismatch, "connector"),
        (
            "connector_state",
            "/look_at",
            later(),
            NotDue,
            "connector_state",
        ),
        ("mcp_key", "/id", other(), Mismatch, "mcp_key"),
        ("mcp_key", "/expires_at", later(), NotDue, "mcp_key"),
        ("chat", "/workspace_id", other(), Mismatch, "chat"),
        ("chat", "/last_message_at", later(), Missing, "chat_recent"),
        (
            "chat_message",
            "/chat_id",
            other(),
            Mismatch,
            "chat_message",
        ),
        ("chat_recent", "/last_message_at", later(), Mismatch, "chat"),
        ("subscription_id", "", other(), Missing, "subscription"),
        (
            "subscription",
            "/record/recall_id",
            other(),
            Mismatch,
            "subscription",
        ),
        (
            "subscription",
            "/secret",
            json!("AAAA"),
            Sealed,
            "subscription",
        ),
        (
            "webhook",
            "/record/workspace_id",
            other(),
            Mismatch,
            "webhook",
        ),
        ("webhook", "/secret", json!("AAAA"), Sealed, "webhook"),
        (
            "inbound_webhook",
            "/record/id",
            other(),
            Mismatch,
            "inbound_webhook",
        ),
        (
            "inbound_webhook",
            "/secret",
            json!("AAAA"),
            Sealed,
            "inbound_webhook",
        ),
        (
            "meta",
            "/sealing_key",
            json!("0123456789abcdef"),
            Sealed,
            "meta",
        ),
        (
            "meta",
            "/schema",
            json!(u32::MAX),
            DifferenceCode::Unfinished,
            "meta",
        ),
        (
            "meta",
            "/schema",
            json!(u32::MAX - 1),
            DifferenceCode::Unreadable,
            "meta",
        ),
        ("audit_actor", "", other(), Mismatch, "audit"),
        ("idempotency", "/first_audit_id", other(), Missing, "audit"),
        ("idempotency", "/items", json!(161), Missing, "audit"),
        ("idempotency", "/operation_id", other(), Mismatch, "audit"),
        ("idempotency", "/expires_at", later(), NotDue, "idempotency"),
        ("outbox", "/id", other(), Mismatch, "outbox"),
        ("outbox", "/workspace_id", other(), Missing, "workspace"),
        (
            "outbox",
            "/endpoints",
            json!(99),
            Count,
            "endpoint_sequence",
        ),
        ("event", "/event/id", other(), Mismatch, "event"),
        ("event", "/event/org_id", other(), Mismatch, "event"),
        (
            "event",
            "/event/workspace_id",
            other(),
            Missing,
            "workspace",
        ),
        (
            "event",
            "/event/endpoints",
            json!(99),
            Count,
            "endpoint_sequence",
        ),
        ("event", "/endpoints", json!([]), Mismatch, "event"),
        ("event", "/kept_until", later(), NotDue, "event"),
        (
            "endpoint",
            "/place",
            json!({"webhook": other()}),
            Missing,
            "webhook",
        ),
        (
            "endpoint",
            "/place",
            json!({"webhook": other()}),
            Mismatch,
            "endpoint",
        ),
        ("endpoint", "/due", later(), Missing, "endpoint_due"),
        ("endpoint", "/due", json!(null), Mismatch, "endpoint"),
        (
            "endpoint",
            "/sequence",
            json!(99),
            Count,
            "endpoint_sequence",
        ),
        (
            "endpoint_sequence",
            "",
            json!(1),
            Count,
            "endpoint_sequence",
        ),
        (
            "delivery",
            "/delivery/event_id",
            other(),
            Mismatch,
            "delivery",
        ),
        ("delivery", "/delivery/id", other(), Mismatch, "delivery"),
        (
            "delivery",
            "/delivery/status",
            json!("dead"),
            Mismatch,
            "delivery",
        ),
        (
            "delivery",
            "/delivery/status",
            json!("delivered"),
            Mismatch,
            "delivery",
        ),
        (
            "delivery",
            "/delivery/next_attempt_at",
            json!(null),
            Mismatch,
            "delivery",
        ),
        ("delivery", "/due", later(), Mismatch, "delivery"),
        ("delivery_id", "/event", other(), Mismatch, "delivery_id"),
        ("delivery_id", "/endpoint", other(), Mismatch, "delivery_id"),
        ("undelivered", "", other(), Missing, "delivery"),
        (
            "undelivered_count",
            "",
            json!(99),
            Count,
            "undelivered_count",
        ),
        (
            "disabled_endpoint_count",
            "",
            json!(0),
            Count,
            "disabled_endpoint_count",
        ),
        (
            "webhook",
            "/record/disabled_reason",
            json!("failing"),
            Mismatch,
            "webhook",
        ),
        (
            "webhook",
            "/disabled",
            json!("failing"),
            Mismatch,
            "webhook",
        ),
        (
            "due",
            "",
            json!({"expire": {"records": [""], "counter": null}}),
            DifferenceCode::Unreadable,
            "due",
        ),
        (
            "former_member",
            "",
            json!(1),
            DifferenceCode::Unreadable,
            "former_member",
        ),
    ]
}

#[tokio::test]
async fn each_kind_of_damage_is_noticed_for_what_it_is() {
    let store = complete().await;
    for (damaged, field, to, code, named) in planted() {
        let all = contents(&*store).await.unwrap();
        let mut of_family = all.iter().filter(|(key, _)| family(key) == damaged);
        let changed = of_family.find_map(|(key, value)| {
            let mut json: Value = serde_json::from_slice(value).unwrap();
            if damaged == "content" && json["source_key"].is_null() {
                // Nothing leads to it by its name.
                return None;
            }
            *json
                .pointer_mut(field)
                .filter(|now| !now.is_null() && **now != to)? = to.clone();
            Some((key.clone(), value.clone(), json.to_string()))
        });
        let Some((key, before, damaged_value)) = changed else {
            panic!("nothing to damage in {damaged}{field}");
        };
        write(&store, Commit::builder().put(key.clone(), damaged_value)).await;
        let found = found(&store).await;
        let mut differences = found.differences.iter();
        let is_named = differences.any(|found| found.code == code && family(&found.key) == named);
        assert!(
            is_named,
            "{damaged}{field}: {code} of {named} in {found:#?}"
        );
        write(&store, Commit::builder().put(key, before)).await;
    }
    assert_eq!(differing(&store).await, BTreeSet::new());
}

/// The key and the value of the second page of an operation with several.
async fn second_audit_page(store: &Arc<dyn Store>) -> (Key, Key, Bytes) {
    let all = contents(&**store).await.unwrap();
    let pages = all.iter().filter(|(key, _)| family(key) == "audit");
    let pages: Vec<_> = pages.collect();
    let mut pairs = pages.windows(2);
    let pair = pairs.find(|pair| !pair[1].0.to_string().ends_with("0000"));
    let pair = pair.expect("an operation with several pages");
    (pair[0].0.clone(), pair[1].0.clone(), pair[1].1.clone())
}

#[tokio::test]
async fn a_gap_and_an_overlap_in_the_audit_log_are_noticed() {
    let store = complete().await;
    let (first, second, page) = second_audit_page(&store).await;
    let id = u128::from_str_radix(second.to_string().rsplit('/').next().unwrap(), 16).unwrap();
    let prefix = second.to_string().rsplit_once('/').unwrap().0.to_owned();
    let at = |offset: i128| {
        let id = id.wrapping_add_signed(offset);
        Key::new(format!("{prefix}/{id:032x}")).unwrap()
    };
    for moved in [at(-1), at(1)] {
        let commit = Commit::builder().delete(second.clone());
        write(&store, commit.put(moved.clone(), page.clone())).await;
        assert_noticed(&store, DifferenceCode::AuditSequence, &moved).await;
        let commit = Commit::builder().delete(moved);
        write(&store, commit.put(second.clone(), page.clone())).await;
    }
    // Of another operation.
    let mut json: Value = serde_json::from_slice(&page).unwrap();
    json["operation_id"] = json!("00000000-0000-7000-8000-000000000001");
    write(
        &store,
        Commit::builder().put(second.clone(), json.to_string()),
    )
    .await;
    assert_noticed(&store, DifferenceCode::AuditSequence, &second).await;
    write(&store, Commit::builder().put(second.clone(), page)).await;
    write(&store, Commit::builder().delete(first)).await;
    assert_noticed(&store, DifferenceCode::AuditSequence, &second).await;
}

#[tokio::test]
async fn what_must_not_be_there_is_noticed() {
    let store = complete().await;
    let all = contents(&*store).await.unwrap();
    let one_of = |name: &str| {
        let found = all.iter().find(|(key, _)| family(key) == name);
        found
            .map(|(key, value)| (key.to_string(), value.clone()))
            .unwrap()
    };
    for (stands, unexpected) in [
        ("role_redirect", "role"),
        ("role_redirect", "holder_count"),
        ("former_member", "member"),
    ] {
        let (key, _) = one_of(stands);
        let key = Key::new(key.replacen(stands, unexpected, 1)).unwrap();
        let (_, value) = one_of(unexpected);
        write(&store, Commit::builder().put(key.clone(), value)).await;
        assert_noticed(&store, DifferenceCode::Unexpected, &key).await;
        write(&store, Commit::builder().delete(key)).await;
    }
}

#[tokio::test]
async fn secrets_are_opened_with_the_key_and_passed_by_without() {
    let store = complete().await;
    assert_eq!(found(&store).await.secrets, Some(4));
    let other = SealingKey::new([9; 32]);
    let with = async |key: Option<&SealingKey>| {
        let mut verify = Verify::begin(Arc::clone(&store), key).await.unwrap();
        while verify.read().await.unwrap() {}
        verify.finish()
    };
    let without = with(None).await;
    assert_eq!((without.secrets, without.differences_total), (None, 0));
    let wrong = with(Some(&other)).await;
    assert_eq!((wrong.secrets, wrong.differences_total), (Some(0), 5));
}

#[tokio::test]
async fn differences_are_counted_beyond_those_that_are_kept() {
    let store = memory().await;
    let many = (0..DIFFERENCES_KEPT_MAX + 5).fold(Commit::builder(), |commit, number| {
        commit.put(Key::new(format!("stray/{number}")).unwrap(), "1")
    });
    write(&store, many).await;
    let found = found(&store).await;
    assert_eq!(found.differences.len(), DIFFERENCES_KEPT_MAX);
    // The record `meta` is missing too.
    assert_eq!(found.differences_total, DIFFERENCES_KEPT_MAX as u64 + 6);
}
