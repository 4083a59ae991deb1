//! Test that the program opens what its schema stores, from a dump, and reads what it contains.
//!
//! Schema 1 is the only one so far. A change of the stored form that a released program would not
//! read needs a new schema, an upgrade in `KnowledgeService::open`, and a dump of schema 1 here, as
//! the last program of that schema wrote it.

use std::collections::BTreeMap;
use std::sync::Arc;

use knowledge_core::access::Credential;
use knowledge_core::dump::{CredentialPolicy, Export, Restore};
use knowledge_core::internals::keys;
use knowledge_core::model::{EventType, MemoryFilter, ReviewStatus, SensitivityLabel, WorkspaceId};
use knowledge_core::service::{
    AuditFilter, Caller, InFlight, KnowledgeService, PageRequest, SCHEMA, SealingKey, Verify,
};
use knowledge_core::store::{MemoryStore, Store, StoreExt};
use knowledge_testing::requests::{
    new_chat, new_memory, new_organization, new_recall, new_workspace, review, sensitivity,
};
use knowledge_testing::seed::{Seed, confirm};
use knowledge_testing::simulation::{SimulatedTime, simulated_options};
use serde_json::Value;

async fn open(store: &Arc<dyn Store>, time: &SimulatedTime) -> KnowledgeService {
    let opened = KnowledgeService::open(Arc::clone(store), time.env(3), simulated_options());
    opened.await.unwrap()
}

/// Creates a store with memories, a recall, a chat, two endpoints and deliveries.
async fn created(time: &SimulatedTime) -> Arc<dyn Store> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let service = open(&store, time).await;
    let organization = new_organization("acme", "owner");
    let seed = Seed::new(&service, &organization).await.unwrap();
    let workspace = seed.workspace(&new_workspace("team")).await.unwrap().id;
    let source = seed.source("Wiki", "confluence").await.unwrap();
    let url = "https://example.org/hook";
    let webhook = seed.webhook(workspace, EventType::MemoryUpdated, url).await;
    confirm(&service, webhook.unwrap().id.into()).await.unwrap();
    let new = ["One", "Two"].map(new_memory);
    let memories = seed.ingest(workspace, source, &new).await.unwrap();
    let approved = review(ReviewStatus::Approved);
    let approval = seed.bulk_update("k-0", &memories, approved).await;
    assert_eq!(approval.unwrap().summary.failed, 0);
    let recall = seed
        .recall(workspace, &new_recall(&memories))
        .await
        .unwrap();
    let subscription = seed.subscription(recall, url).await.unwrap();
    confirm(&service, subscription.into()).await.unwrap();
    seed.chat(workspace, &new_chat("Plans")).await.unwrap();
    let public = sensitivity(SensitivityLabel::Public);
    let relabelled = seed.bulk_update("k-1", &memories[..1], public).await;
    assert_eq!(relabelled.unwrap().summary.failed, 0);
    while service
        .dispatcher()
        .fan_out(time.now())
        .await
        .unwrap()
        .has_more
    {}
    store
}

async fn dumped(store: &Arc<dyn Store>) -> Vec<u8> {
    let mut dump = Vec::new();
    let mut export = Export::begin(Arc::clone(store)).await.unwrap();
    while export.read(&mut dump).await.unwrap() {}
    dump
}

async fn restored(dump: &[u8]) -> Arc<dyn Store> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let restore = Restore::begin(Arc::clone(&store), None, CredentialPolicy::Keep);
    let mut restore = restore.await.unwrap();
    for line in dump.split_inclusive(|byte| *byte == b'\n') {
        restore.take(line).await.unwrap();
    }
    restore.finish().await.unwrap();
    store
}

async fn assert_verified(store: &Arc<dyn Store>) {
    let key: SealingKey = simulated_options().sealing_key;
    let mut verify = Verify::begin(Arc::clone(store), Some(&key)).await.unwrap();
    while verify.read().await.unwrap() {}
    assert_eq!(verify.finish().differences, []);
}

#[tokio::test]
async fn dump_of_the_schema_opens_with_its_contents() {
    let time = SimulatedTime::new();
    let store = restored(&dumped(&created(&time).await).await).await;
    let meta: Value = store.get_as(&keys::meta()).await.unwrap().unwrap().value;
    assert_eq!(meta["schema"], SCHEMA);
    assert_verified(&store).await;
    let service = open(&store, &time).await;
    assert_verified(&store).await;

    let page = PageRequest::default();
    let orgs = service.provisioning().list_organizations(&page).await;
    let org = orgs.unwrap().data.remove(0).id;
    let members = service.provisioning().list_members(org, &page).await;
    let member = members.unwrap().data.remove(0).id;
    let owner = Caller::new(Credential::Trusted { org, member });
    let workspaces = store.scan_all(&keys::workspaces(org)).await.unwrap();
    let workspace = WorkspaceId(keys::last_id(&workspaces[0].key).unwrap());
    let filter = MemoryFilter::default();
    let listed = service.memories().list(&owner, workspace, &filter, &page);
    let listed = listed.await.unwrap().data.into_iter();
    let memories: BTreeMap<_, _> = listed
        .map(|memory| (memory.title.unwrap(), memory.sensitivity_label))
        .collect();
    let expected = [
        ("One".to_owned(), SensitivityLabel::Public),
        ("Two".to_owned(), SensitivityLabel::Internal),
    ];
    assert_eq!(memories, BTreeMap::from(expected));
    let filter = AuditFilter::default();
    let audited = service.audit_log().list(&owner, &filter, &page).await;
    assert!(audited.unwrap().data.len() > 5);
    let nothing = InFlight::default();
    let claimed = service.dispatcher().claim(time.now(), 10, &nothing).await;
    let claimed = claimed.unwrap().deliveries;
    let mut types: Vec<_> = claimed.iter().map(|one| one.event_type).collect();
    types.sort_by_key(|of| of.as_str());
    // Of the approval and of the relabelling, which also changed what the recall cites.
    let expected = [
        EventType::CitationChanged,
        EventType::MemoryUpdated,
        EventType::MemoryUpdated,
    ];
    assert_eq!(types, expected);
    assert_verified(&store).await;
}
