//! Properties of verification: it detects missing, unexpected and miscounted entries.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use knowledge_core::internals::keys::{self, FAMILIES};
use knowledge_core::service::{
    DIFFERENCES_KEPT_MAX, DifferenceCode, KnowledgeService, Options, SealingKey, Verification,
    Verify,
};
use knowledge_core::store::{Commit, Key, Store, StoreExt};
use knowledge_testing::fixture;
use knowledge_testing::simulation::{SimulatedTime, contents, simulated_options};
use serde_json::{Value, json};

use crate::memory;
use crate::planted::planted;

/// Families whose entries may be missing, since nothing has to refer to them.
const OPTIONAL: [&str; 18] = [
    "activity",
    "audit_bytes",
    "chat_message",
    "credential_use",
    "due",
    "ended_credential",
    "erased_key",
    "fan_out",
    "host_pings",
    "idempotency",
    "inbound_message",
    "invitation",
    "last_ingest",
    "mcp_key_use",
    "member_refusals",
    "memory_change",
    "memory_change_number",
    "url_confirmation",
];
/// Families whose entries may be missing unless something refers to them.
const REFERRED_TO: [&str; 7] = [
    "audit",
    "former_member",
    "former_org",
    "former_workspace",
    "source",
    "mcp_key",
    "org",
];

/// Creates a store with an entry of each family.
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
async fn verify_detects_missing_entries() {
    let store = complete().await;
    assert_eq!(differing(&store).await, BTreeSet::new());
    let mut noticed = BTreeSet::new();
    let mut tried = BTreeMap::<String, u32>::new();
    for (key, value) in contents(&*store).await.unwrap() {
        let family = family(&key);
        let is_counter = family.ends_with("_count") || family == "usage";
        if OPTIONAL.contains(&&*family) || (is_counter && value == "0") {
            continue;
        }
        // Only some entries of each family: each one costs a verification.
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
async fn verify_names_counter_that_is_off_by_one() {
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
async fn verify_detects_unreadable_entries_in_each_family() {
    let store = complete().await;
    add_moves(&store).await;
    assert_eq!(found(&store).await.differences, []);
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
    let families = FAMILIES.iter().map(|family| family.name);
    let untried: Vec<_> = families.filter(|family| !tried.contains(*family)).collect();
    assert_eq!(untried, Vec::<&str>::new(), "not in the complete store");
}

/// Adds the entries of moves between partitions, which exist only while there is one.
async fn add_moves(store: &Arc<dyn Store>) {
    let orgs = store.scan_all(&keys::orgs()).await.unwrap();
    let org: Value = serde_json::from_slice(&orgs[0].entry.value).unwrap();
    let id = serde_json::from_value(org["id"].clone()).unwrap();
    let placement = json!({ "slug": org["slug"], "partition": "eu" });
    let hold = json!({ "from": "home", "to": "eu" });
    let commit = Commit::builder()
        .put(keys::placement(id), placement.to_string())
        .put(
            keys::partition_identity(),
            r#"{"name":"home","others":["eu"]}"#,
        )
        .put(keys::hold(id), hold.to_string());
    write(store, commit).await;
}

async fn assert_noticed(store: &Arc<dyn Store>, code: DifferenceCode, key: &Key) {
    let found = found(store).await;
    let mut differences = found.differences.iter();
    let is_noticed = differences.any(|found| found.code == code && found.key == *key);
    assert!(is_noticed, "{code} of {key} in {found:#?}");
}

#[tokio::test]
async fn verify_detects_entries_of_unknown_families() {
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

#[tokio::test]
async fn verify_classifies_each_kind_of_damage() {
    let store = complete().await;
    for (damaged, field, to, code, named) in planted() {
        let all = contents(&*store).await.unwrap();
        let mut of_family = all.iter().filter(|(key, _)| family(key) == damaged);
        let changed = of_family.find_map(|(key, value)| {
            let mut json: Value = serde_json::from_slice(value).unwrap();
            if damaged == "content" && json["source_key"].is_null() {
                // No other entry refers to it by name.
                return None;
            }
            if damaged == "delivery" && json["delivery"]["event_type"] == "webhook.ping" {
                // It is delivered, so no other entry depends on its state.
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

/// Returns the key and the value of the second page of an operation with several.
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
async fn verify_detects_gap_and_overlap_in_audit_log() {
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
    // A page of another operation.
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
async fn verify_detects_entries_that_must_not_exist() {
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
async fn verify_detects_a_running_erasure_that_hides_nothing() {
    let store = complete().await;
    let all = contents(&*store).await.unwrap();
    let found = all.iter().find(|(key, _)| family(key) == "erasure");
    let (place, receipt) = found.map(|(key, value)| (key.clone(), value)).unwrap();
    let mut stored: Value = serde_json::from_slice(receipt).unwrap();
    stored["receipt"]["status"] = json!("running");
    stored["receipt"]["completed_at"] = Value::Null;
    stored["work"] = json!({ "phase": "memories" });
    let erasure = stored["receipt"]["id"].clone();
    let of = place.to_string().split('/').nth(1).unwrap().to_owned();
    let owner = all
        .iter()
        .find(|(key, _)| key.to_string() == format!("org/{of}"));
    let (owner, organization) = owner.map(|(key, value)| (key.clone(), value)).unwrap();
    let mut hiding: Value = serde_json::from_slice(organization).unwrap();
    let org = hiding["id"].clone();
    hiding["erasing"] = json!({ erasure.as_str().unwrap(): stored["receipt"]["scope"] });
    let task = all.iter().find(|(key, _)| family(key) == "due").unwrap().0;
    let task = task.to_string().rsplit_once('/').unwrap().0.to_owned();
    let task = Key::new(format!("{task}/{:032x}", u128::MAX)).unwrap();
    let due = json!({ "erasure": { "org": org, "erasure": erasure } });
    let running = Commit::builder()
        .put(place, stored.to_string())
        .put(owner.clone(), hiding.to_string())
        .put(task, due.to_string());
    write(&store, running).await;
    assert_eq!(differing(&store).await, BTreeSet::new());
    let unhidden = Commit::builder().put(owner.clone(), organization.clone());
    write(&store, unhidden).await;
    assert_noticed(&store, DifferenceCode::Mismatch, &owner).await;
    assert_eq!(self::found(&store).await.differences_total, 1);
}

#[tokio::test]
async fn verify_detects_a_private_workspace_that_is_open_to_callers() {
    let store = complete().await;
    let all = contents(&*store).await.unwrap();
    let parsed = |value: &Bytes| serde_json::from_slice::<Value>(value).unwrap();
    let is_private = |value: &Bytes| parsed(value)["access"] == "private";
    let found = all
        .iter()
        .find(|(key, value)| family(key) == "workspace" && is_private(value));
    let (workspace, _) = found.unwrap();
    let names_one = |value: &Bytes| parsed(value).get("private").is_some();
    let found = all
        .iter()
        .find(|(key, value)| family(key) == "org" && names_one(value));
    let (owner, organization) = found.unwrap();
    let mut unnamed = parsed(organization);
    unnamed["private"] = json!([]);
    let opened = Commit::builder().put(owner.clone(), unnamed.to_string());
    write(&store, opened).await;
    assert_noticed(&store, DifferenceCode::Mismatch, workspace).await;
    assert_eq!(self::found(&store).await.differences_total, 1);
}

#[tokio::test]
async fn verify_opens_secrets_only_with_sealing_key() {
    let store = complete().await;
    assert_eq!(found(&store).await.secrets, Some(6));
    let other = SealingKey::new([9; 32]);
    let with = async |key: Option<&SealingKey>| {
        let mut verify = Verify::begin(Arc::clone(&store), key).await.unwrap();
        while verify.read().await.unwrap() {}
        verify.finish()
    };
    let without = with(None).await;
    assert_eq!((without.secrets, without.differences_total), (None, 0));
    let wrong = with(Some(&other)).await;
    assert_eq!((wrong.secrets, wrong.differences_total), (Some(0), 7));
}

#[tokio::test]
async fn verify_counts_differences_beyond_those_it_keeps() {
    let store = memory().await;
    let many = (0..DIFFERENCES_KEPT_MAX + 5).fold(Commit::builder(), |commit, number| {
        commit.put(Key::new(format!("stray/{number}")).unwrap(), "1")
    });
    write(&store, many).await;
    let found = found(&store).await;
    assert_eq!(found.differences.len(), DIFFERENCES_KEPT_MAX);
    // The record `meta` is missing as well.
    assert_eq!(found.differences_total, DIFFERENCES_KEPT_MAX as u64 + 6);
}
