//! Tests of the removal of workspaces and organisations by the operator.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use knowledge_core::access::{Credential, CredentialKind, Secret};
use knowledge_core::env::Env;
use knowledge_core::internals::keys;
use knowledge_core::model::{
    AudienceLabel, ErasureStatus, EventType, InboundWebhookId, NewErasure, NewInboundWebhook,
    OrgId, Quota, WorkspaceId,
};
use knowledge_core::service::{
    AuditAction, AuditFilter, Caller, InFlight, KnowledgeService, Options, PageRequest, SealingKey,
    SignedMessage, SigningSecret, Verify,
};
use knowledge_core::store::{Key, MemoryStore, Store};
use knowledge_testing::fixture::{OrgFixture, complete};
use serde_json::{Value, json};

use crate::admin::{ask, get};
use crate::make::{ACME, SEALING_KEY, code, new_chat, new_memory, new_workspace};
use crate::world::{World, seeded};
use knowledge_store::faults::{CommitFault, FaultPlan};
use knowledge_testing::requests::{MEMBER, VIEWER, new_organization, with};

type Contents = BTreeMap<Key, Bytes>;

/// Creates an organisation with an entry of every kind besides that of the world.
async fn world_with_complete() -> (World, Contents, OrgFixture) {
    // Without events of its own, which would be fanned out together with the others.
    let world = World::new().await;
    world.approved_memories(3).await;
    let before = world.contents().await;
    let org = complete(&world.service).await.unwrap();
    (world, before, org)
}

/// Returns the entries that name an organisation in key or value.
fn of(org: OrgId, contents: &Contents) -> Contents {
    let (simple, text) = (org.0.simple().to_string(), org.to_string());
    let is_theirs = |key: &Key, value: &Bytes| {
        key.to_string().contains(&simple) || String::from_utf8_lossy(value).contains(&text)
    };
    let found = contents.iter().filter(|(key, value)| is_theirs(key, value));
    let owned = found.map(|(key, value)| (key.clone(), value.clone()));
    owned.collect()
}

/// Returns the entries without those that bound pings to a host, which a removal leaves in force.
fn without_host_pings(mut contents: Contents) -> Contents {
    contents.retain(|key, value| {
        let is_task = String::from_utf8_lossy(value).contains("host_pings/");
        !is_task && !key.to_string().starts_with("host_pings/")
    });
    contents
}

/// Verifies the store after each commit from the first one given, as a crash would leave it, and
/// that maintenance completes the removal from there.
async fn assert_every_step_is_whole(world: &World, first: usize, end: &Contents) {
    let history = world.faults.history();
    assert!(history.len() > first + 3, "several steps");
    let key = SealingKey::new(SEALING_KEY);
    for kept in first..=history.len() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        for (_, commit) in &history[..kept] {
            store.commit(commit.clone()).await.unwrap();
        }
        let mut verify = Verify::begin(Arc::clone(&store), [&key]).await.unwrap();
        while verify.read().await.unwrap() {}
        assert_eq!(verify.finish().differences, [], "after commit {kept}");
        // Completing from each state takes long, so some of them suffice.
        if kept <= first || !(kept - first).is_multiple_of(5) {
            continue;
        }
        let time = world.time.clone();
        let env = Env::new(move || time.now(), seeded(Arc::new(AtomicU64::new(7))));
        let options = Options::new(SealingKey::new(SEALING_KEY));
        let service = KnowledgeService::open(Arc::clone(&store), env, options);
        let service = service.await.unwrap();
        while service.maintain(world.time.now()).await.unwrap().has_more {}
        let left = without_host_pings(contents_of(&*store).await);
        let left: BTreeSet<Key> = left.into_keys().collect();
        let wanted: BTreeSet<Key> = without_host_pings(end.clone()).into_keys().collect();
        let not_due = |key: &&Key| !key.to_string().starts_with("due/");
        let left: BTreeSet<&Key> = left.iter().filter(not_due).collect();
        let wanted: BTreeSet<&Key> = wanted.iter().filter(not_due).collect();
        assert_eq!(left, wanted, "after commit {kept}");
    }
}

async fn contents_of(store: &dyn Store) -> Contents {
    use knowledge_core::store::{KeyRange, StoreExt};
    let found = store.scan_all(&KeyRange::all()).await.unwrap();
    found
        .into_iter()
        .map(|found| (found.key, found.entry.value))
        .collect()
}

/// Sends a message to an inbound webhook of an organisation, and returns the code of the error.
async fn post(
    service: &KnowledgeService,
    org: OrgId,
    (webhook, secret): &(InboundWebhookId, SigningSecret),
) -> String {
    let (id, sent_at, body) = ("msg_1", service.env().now(), b"{}".as_slice());
    let signature = secret.sign(id, sent_at, body);
    let timestamp = sent_at.as_seconds().to_string();
    let message = SignedMessage {
        id: id.as_bytes(),
        timestamp: timestamp.as_bytes(),
        signature: signature.as_bytes(),
        body,
    };
    match service
        .inbound_webhooks()
        .verify_message(org, *webhook, &message)
        .await
    {
        Ok(_) => "verified".to_owned(),
        Err(error) => error.code().to_owned(),
    }
}

async fn inbound(
    service: &KnowledgeService,
    owner: &Caller,
    workspace: WorkspaceId,
) -> (InboundWebhookId, SigningSecret) {
    let new = NewInboundWebhook::builder().name("Help desk").build();
    let created = service
        .inbound_webhooks()
        .create(owner, workspace, &new)
        .await;
    let created = created.unwrap();
    let secret = created.signing_secret.unwrap().parse().unwrap();
    (created.id, secret)
}

/// Asserts that nothing is sent to endpoints of an organisation.
async fn assert_nothing_is_sent(world: &World, org: OrgId) {
    let now = world.time.now().plus(Duration::from_secs(60 * 60));
    world.time.set(now);
    while world
        .service
        .dispatcher()
        .fan_out(now)
        .await
        .unwrap()
        .has_more
    {}
    let claimed = world
        .service
        .dispatcher()
        .claim(now, 64, &InFlight::default())
        .await
        .unwrap();
    for claimed in &claimed.deliveries {
        let endpoints = keys::endpoint(org, claimed.lease.endpoint());
        let state = world.read::<Value>(&endpoints).await;
        assert!(state.is_none(), "{:?}", claimed.lease);
    }
}

#[tokio::test]
async fn removed_organization_leaves_nothing() {
    let (world, before, org) = world_with_complete().await;
    let service = &world.service;
    let webhook = inbound(service, &org.trusted_owner(), org.main.id).await;
    assert_eq!(post(service, org.id, &webhook).await, "verified");
    let token = Caller::new(org.members.viewer.token.parse::<Secret>().unwrap());
    let bearer = CredentialKind::Bearer;
    service.authenticate(&token, bearer).await.unwrap();
    let first = world.faults.history().len();

    let path = format!("/orgs/{}", org.slug);
    let (status, _) = ask(&world, Method::DELETE, &path, Value::Null).await;
    assert_eq!(status, 204);

    let known = service.authenticate(&token, bearer).await;
    assert_eq!(code(known), "unauthenticated");
    let memory = org.main.memories.internal[0];
    let read = world.by(&org.trusted_owner()).get_memory(memory).await;
    assert_eq!(code(read), "unauthenticated");
    assert_eq!(post(service, org.id, &webhook).await, "not_found");
    let (status, _) = ask(&world, Method::GET, &path, Value::Null).await;
    assert_eq!(status, 404);
    let (status, _) = ask(&world, Method::DELETE, &path, Value::Null).await;
    assert_eq!(status, 404);
    assert_eq!(
        get(&world, "/orgs").await["data"].as_array().unwrap().len(),
        1
    );
    world.assert_whole().await;

    world.maintain().await;
    let left = without_host_pings(world.contents().await);
    assert_eq!(
        left.keys().collect::<Vec<_>>(),
        before.keys().collect::<Vec<_>>()
    );
    assert_eq!(left, before);
    world.assert_whole().await;
    assert_every_step_is_whole(&world, first, &before).await;
}

#[tokio::test]
async fn slug_of_removed_organization_is_free() {
    let world = World::new().await;
    let globex = world.stranger("globex").await;
    let provisioning = world.service.provisioning();
    provisioning
        .delete_organization(globex.org.id)
        .await
        .unwrap();
    let again = world.stranger("globex").await;
    assert_ne!(again.org.id, globex.org.id);
    let unknown = provisioning.delete_organization(globex.org.id).await;
    assert_eq!(code(unknown), "not_found");
    world.maintain().await;
    world.assert_whole().await;
    let found = provisioning.organization("globex").await.unwrap();
    assert_eq!(found, Some(again.org));
}

#[tokio::test]
async fn removal_of_the_only_organization_leaves_an_empty_store() {
    let world = World::with_endpoint().await;
    world.recall().await;
    let provisioning = world.service.provisioning();
    provisioning
        .delete_organization(world.org.id)
        .await
        .unwrap();
    world.maintain().await;
    let left: Vec<String> = world
        .contents()
        .await
        .into_keys()
        .map(|key| key.to_string())
        .collect();
    assert_eq!(left, ["meta"]);
    world.assert_whole().await;
}

#[tokio::test]
async fn nothing_is_delivered_for_what_was_removed() {
    let (world, _, org) = world_with_complete().await;
    let provisioning = world.service.provisioning();
    let main = org.main.id;
    provisioning.delete_workspace(org.id, main).await.unwrap();
    assert_nothing_is_sent(&world, org.id).await;
    world.assert_whole().await;
    provisioning.delete_organization(org.id).await.unwrap();
    assert_nothing_is_sent(&world, org.id).await;
    world.maintain().await;
    let left = of(org.id, &world.contents().await);
    assert_eq!(left.keys().collect::<Vec<_>>(), Vec::<&Key>::new());
    world.assert_whole().await;
}

#[tokio::test]
async fn removed_workspace_is_invisible_at_once_and_leaves_its_traces_only() {
    let (world, before, org) = world_with_complete().await;
    let service = &world.service;
    let (owner, main) = (&org.trusted_owner(), org.main.id);
    let webhook = inbound(service, owner, main).await;
    let first = world.faults.history().len();

    let path = format!("/orgs/{}/workspaces/{}", org.slug, org.main.slug);
    let (status, _) = ask(&world, Method::DELETE, &path, Value::Null).await;
    assert_eq!(status, 204);

    let shown = get(&world, &format!("/orgs/{}", org.slug)).await;
    let removing = shown["removing"].as_array().unwrap();
    assert!(removing.contains(&json!(main)), "{removing:?}");
    let (status, _) = ask(&world, Method::DELETE, &path, Value::Null).await;
    assert_eq!(status, 404);
    for memory in [org.main.memories.internal[79], org.main.memories.private[0]] {
        assert_eq!(code(world.by(owner).get_memory(memory).await), "not_found");
    }
    assert_eq!(
        code(world.by(owner).get_recall(org.recall).await),
        "not_found"
    );
    let late = new_chat("Late");
    let added = world.by(owner).within(main).create_chat(&late).await;
    assert_eq!(code(added), "not_found");
    assert_eq!(post(service, org.id, &webhook).await, "not_found");
    let memory = org.main.memories.internal[0];
    let erased = NewErasure::builder().memory_ids(vec![memory]).build();
    let key = "late".parse().unwrap();
    let erased = world.by(owner).create_erasure(&key, &erased).await;
    assert_eq!(erased.unwrap().erasure.not_found, 1);
    let side = org.side.memories.internal[0];
    assert!(world.by(owner).get_memory(side).await.is_ok());
    world.assert_whole().await;

    world.maintain().await;
    let shown = get(&world, &format!("/orgs/{}", org.slug)).await;
    assert_eq!(shown["removing"], Value::Null);
    world.assert_whole().await;
    let left = world.contents().await;
    let simple = main.0.simple().to_string();
    let named = left.keys().map(ToString::to_string);
    let named: Vec<String> = named.filter(|key| key.contains(&simple)).collect();
    assert_eq!(named, Vec::<String>::new(), "keys with the workspace");
    let text = main.to_string();
    let families: BTreeSet<String> = left
        .iter()
        .filter(|(_, value)| String::from_utf8_lossy(value).contains(&text))
        .map(|(key, _)| keys::family_name(&key.to_string()).to_owned())
        .collect();
    // Nothing was fanned out here.
    let kept = [
        "audit",
        "event",
        "former_workspace",
        "inbound_webhook_id",
        "outbox",
    ];
    let others = families
        .iter()
        .filter(|family| !kept.contains(&family.as_str()));
    assert_eq!(others.collect::<Vec<_>>(), Vec::<&String>::new());
    let memories = world.counter(keys::usage(org.id, Quota::Memories)).await;
    let counted = left
        .keys()
        .filter(|key| keys::memories(org.id).contains(key));
    assert_eq!(memories, i64::try_from(counted.count()).unwrap());
    // The other organisation is untouched, byte for byte.
    assert_eq!(of(world.org.id, &left), of(world.org.id, &before));
    let end = left;
    assert_every_step_is_whole(&world, first, &end).await;

    let page = PageRequest::default();
    let deletions = AuditFilter::builder().action(AuditAction::WorkspaceDelete);
    let deletions = deletions.build();
    let listed = world.by(owner).list_audit_log(&deletions, &page).await;
    let listed = listed.unwrap().data;
    let deleted = listed.iter().filter(|entry| entry.resource.id == main.0);
    assert_eq!(deleted.count(), 1);
}

#[tokio::test]
async fn slug_of_removed_workspace_stays_taken() {
    let world = World::new().await;
    let (service, org) = (&world.service, world.org.id);
    let provisioning = service.provisioning();
    let other = world.workspace("other").await;
    let label: AudienceLabel = "workspace:research".parse().unwrap();
    let shared = with(new_memory("Shared"), |new| new.audience_tag = Some(label));
    let ids = world.ingest(other, world.source, &[shared]).await.unwrap();
    let research = world.workspace.id;
    provisioning.delete_workspace(org, research).await.unwrap();
    for is_cleared in [false, true] {
        let new = new_workspace("research");
        let again = provisioning.create_workspace(org, &new).await;
        assert_eq!(code(again), "slug_taken", "{is_cleared}");
        let by_slug = provisioning.workspace(org, "research").await.unwrap();
        assert_eq!(by_slug, None);
        world.maintain().await;
    }
    assert!(world.get_memory(ids[0]).await.is_ok());
    let unknown = provisioning.delete_workspace(org, research).await;
    assert_eq!(code(unknown), "not_found");
    world.assert_whole().await;
    // Another organisation may use it.
    let globex = new_organization("globex", "hank");
    let (globex, _) = provisioning.create_organization(&globex).await.unwrap();
    let new = new_workspace("research");
    let made = provisioning.create_workspace(globex.id, &new).await;
    made.unwrap();
    assert_ne!(globex.slug, ACME);
}

/// A change that was decided before the removal is not committed after it.
#[tokio::test]
async fn no_change_overtakes_a_removal() {
    let world = World::with_endpoint().await;
    let memories = world.approved_memories(450).await;
    for _ in 0..3 {
        world.recall_of(&memories[..20]).await;
    }
    world.webhook(EventType::ChunkDeleted).await;
    let org = world.org.id;
    let provisioning = world.service.provisioning();
    let late = new_chat("Late");
    let (removed, created) = futures::join!(
        provisioning.delete_workspace(org, world.workspace.id),
        world.create_chat(&late)
    );
    removed.unwrap();
    drop(created);
    world.maintain().await;
    world.assert_whole().await;
    for quota in [
        Quota::Memories,
        Quota::Recalls,
        Quota::Chats,
        Quota::Endpoints,
    ] {
        assert_eq!(world.counter(keys::usage(org, quota)).await, 0, "{quota:?}");
    }
}

/// The only chat of an organisation that may have no other.
#[tokio::test]
async fn removal_works_at_a_quota_and_makes_room() {
    let world = World::with(|options| options.limits.chats_per_org_max = 1).await;
    let (service, other) = (&world.service, world.workspace("other").await);
    world.add_chat("Only").await;
    let further = new_chat("Further");
    let added = world.within(other).create_chat(&further).await;
    assert_eq!(code(added), "quota_exceeded");
    let provisioning = service.provisioning();
    let removed = provisioning.delete_workspace(world.org.id, world.workspace.id);
    removed.await.unwrap();
    world.maintain().await;
    world.within(other).create_chat(&further).await.unwrap();
    world.assert_whole().await;
}

/// An erasure that a removal overtakes is completed, or deleted with its organisation.
#[tokio::test]
async fn erasure_ends_with_what_it_would_have_erased() {
    for is_organization in [false, true] {
        let world = World::with_endpoint().await;
        let memories = world.approved_memories(201).await;
        world.recall_of(&memories[200..]).await;
        let plan = FaultPlan::none().at_commit(3, CommitFault::Unavailable);
        let failing = world.served_with(plan).await;
        let source = NewErasure::builder().source_id(world.source).build();
        let key = "erasure".parse().unwrap();
        let erasure = failing.create_erasure(&key, &source).await.unwrap().erasure;
        assert_eq!(erasure.status, ErasureStatus::Running);
        let (org, provisioning) = (world.org.id, world.service.provisioning());
        if is_organization {
            provisioning.delete_organization(org).await.unwrap();
        } else {
            let removed = provisioning.delete_workspace(org, world.workspace.id);
            removed.await.unwrap();
        }
        world.assert_whole().await;
        world.maintain().await;
        world.assert_whole().await;
        if is_organization {
            let left = world.contents().await;
            let left: Vec<_> = left.keys().map(ToString::to_string).collect();
            assert_eq!(left, ["meta"]);
        } else {
            let receipt = world.get_erasure(erasure.id).await;
            assert_eq!(receipt.unwrap().status, ErasureStatus::Completed);
            let usage = keys::usage(org, Quota::Memories);
            assert_eq!(world.counter(usage).await, 0);
        }
    }
}

/// Roles and labels of a removed workspace end with it, before and after its data are deleted.
#[tokio::test]
async fn roles_and_labels_end_with_the_workspace() {
    let world = World::new().await;
    let (service, org) = (&world.service, world.org.id);
    let (research, other) = (world.workspace.id, world.workspace("other").await);
    let member = world.member(MEMBER).await;
    let role = Some(VIEWER);
    world.assign_in(member, research, role).await.unwrap();
    let viewer = Caller::new(Credential::Trusted { org, member });
    let label: AudienceLabel = "workspace:research".parse().unwrap();
    let shared = with(new_memory("Shared"), |new| new.audience_tag = Some(label));
    let ids = world.ingest(other, world.source, &[shared]).await.unwrap();
    world.approve(&ids).await;
    world.by(&viewer).get_memory(ids[0]).await.unwrap();
    let provisioning = service.provisioning();
    provisioning.delete_workspace(org, research).await.unwrap();
    for _ in 0..2 {
        let found = world.by(&viewer).get_memory(ids[0]).await;
        assert_eq!(code(found), "not_found");
        let details = world.get_member(member).await.unwrap();
        assert_eq!(details.value.workspace_roles, []);
        let path = format!("/orgs/{ACME}/members");
        let members = get(&world, &path).await;
        for member in members["data"].as_array().unwrap() {
            assert_eq!(member["workspace_roles"], json!([]));
        }
        world.maintain().await;
    }
    assert_eq!(world.counter(keys::holder_count(org, VIEWER)).await, 0);
    world.assert_whole().await;
}
