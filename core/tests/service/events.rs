//! Tests of the outbox, and of the data that the store never contains.

use std::collections::BTreeMap;

use knowledge_core::access::BaseRole;
use knowledge_core::internals::keys;
use knowledge_core::model::{
    EventType, InboundWebhookUpdate, MemoryId, MemoryUpdate, NewErasure, ReviewStatus,
    SensitivityLabel, WorkspaceAccess,
};
use knowledge_core::service::{
    Caller, ConnectorUpdate, DeleteRole, Endpoint, MemberUpdate, NewRetention, RecallUpdate,
    SyncOutcome, SyncReport,
};
use knowledge_core::store::{Commit, Mutation};
use knowledge_store::faults::{CommitFault, FaultPlan};

use crate::make::{
    DAY, HOUR, MEMBER, VIEWER, create_memory, custom, failure, new_access, new_memory, review,
    sensitivity, set_active,
};
use crate::world::{World, data};
use knowledge_testing::requests::with;

/// A word in the content of each memory and message, and nowhere else.
const CONTENT: &str = "xylophone";

/// Changes and removes the workspace resources of [`everything`]; returns their secrets.
async fn changes_in_the_workspace(world: &World) -> Vec<String> {
    let workspace = world.workspace.id;
    let connector = world.connector(HOUR).await;
    let update = ConnectorUpdate::builder()
        .account_label("other@acme")
        .build();
    world.update_connector(connector, &update).await.unwrap();
    world.delete_connector(connector).await.unwrap();
    let key = world.mcp_key_for("org:acme").await;
    let rotated = world.rotate_mcp_key(key.summary.id, None).await.unwrap();
    world.revoke_mcp_key(key.summary.id).await.unwrap();
    let mut secrets = [key.secret, rotated.secret]
        .map(|secret| secret.unwrap().expose().to_owned())
        .to_vec();

    let id = world.webhook(EventType::ChunkCreated).await.id;
    let update = set_active(false);
    world.update_webhook(id, &update, None).await.unwrap();
    let rotated = world.rotate_webhook(id).await;
    secrets.push(rotated.unwrap().signing_secret);
    world.delete_webhook(id).await.unwrap();

    let inbound = world.inbound_webhook(workspace, "Tickets").await;
    let id = inbound.unwrap().id;
    let update = InboundWebhookUpdate::builder().name("Requests").build();
    world.update_inbound(id, &update, None).await.unwrap();
    let rotated = world.rotate_inbound(id);
    secrets.push(rotated.await.unwrap().signing_secret);
    world.delete_inbound(id).await.unwrap();

    let member = world.member(MEMBER).await;
    let update = MemberUpdate::builder().name("Other").build();
    world.update_member(member, &update, None).await.unwrap();
    secrets
}

/// Executes each operation; returns the secrets in the responses.
pub(crate) async fn everything(world: &World) -> Vec<String> {
    let (service, owner, workspace) = (&world.service, &world.owner, world.workspace.id);
    expired(world).await;
    closed_and_opened(world).await;
    let member = world.member(MEMBER).await;
    let token = world.token(member, Default::default()).await;
    let session = world.session(member).await;
    service
        .provisioning()
        .revoke(world.org.id, session.record.id)
        .await
        .unwrap();
    let mut secrets = vec![
        token.secret.expose().to_owned(),
        session.secret.expose().to_owned(),
    ];

    let memory = with(new_memory("Note"), |new| {
        new.content = CONTENT.to_owned();
        new.source_key = Some("page/1".to_owned());
    });
    let again = with(memory.clone(), |new| {
        new.content = format!("{CONTENT} again");
    });
    for batch in [[memory], [again]] {
        world.ingest_memories(world.source, &batch).await.unwrap();
    }
    let ids = world.memories(2).await;
    world
        .bulk(owner, &ids, review(ReviewStatus::Approved))
        .await
        .unwrap();

    one_by_one(world).await;
    let recall = world.recall_of(&ids).await;
    let subscription = world.subscribe(owner, recall).await;
    let webhook = world.webhook(EventType::ChunkCreated).await;
    let inbound = world.inbound_webhook(workspace, "Forms").await.unwrap();
    let rotated = world.rotate_subscription(subscription.id).await.unwrap();
    secrets.push(rotated.signing_secret);
    for endpoint in [
        Endpoint::Webhook(workspace, webhook.id),
        Endpoint::Subscription(subscription.id),
    ] {
        world.deliver_everything(endpoint).await;
    }
    let last = world.subscribe(owner, recall).await;
    world.delete_subscription(last.id).await.unwrap();
    for secret in [
        last.signing_secret,
        subscription.signing_secret,
        webhook.signing_secret,
        inbound.signing_secret,
    ] {
        secrets.push(secret.unwrap());
    }
    let key = world.mcp_key_for("org:acme").await;
    secrets.push(key.secret.as_ref().unwrap().expose().to_owned());
    world.service.note_use(&key.secret.unwrap().into()).await;

    let connector = world.connector(HOUR).await;
    world
        .report_sync(connector, &failure("no answer"))
        .await
        .unwrap();
    world
        .update_connector(connector, &ConnectorUpdate::paused(true))
        .await
        .unwrap();
    let chat = world.add_chat("Plans").await;
    world.post_message(chat, CONTENT).await.unwrap();

    secrets.extend(changes_in_the_workspace(world).await);
    erased(world, &ids).await;

    let role = world.plain_role(BaseRole::Viewer).await;
    world.assign(member, custom(role.id)).await.unwrap();
    let off = knowledge_core::model::CustomRoleUpdate::builder()
        .is_active(false)
        .build();
    world.update_role(role.id, &off, None).await.unwrap();
    let to = DeleteRole::builder().reassign_to(VIEWER).build();
    world.delete_role(role.id, &to).await.unwrap();
    world.remove_member(member).await.unwrap();
    let closed = world.workspace("closed").await;
    let provisioning = service.provisioning();
    let removed = provisioning.delete_workspace(world.org.id, closed);
    removed.await.unwrap();
    world.maintain().await;
    secrets
}

/// Makes the workspace private and opens it again.
async fn closed_and_opened(world: &World) {
    for access in [WorkspaceAccess::Private, WorkspaceAccess::Open] {
        world.set_access(&new_access(access)).await.unwrap();
    }
}

/// Erases a chat by the retention of its workspace.
async fn expired(world: &World) {
    world.add_chat("Old").await;
    world.time.pass(DAY);
    let new = NewRetention::builder().chat_days(1).build();
    world.set_retention(&new).await.unwrap();
    world.maintain().await;
}

/// Deletes a chat, narrows and deletes a recall, and erases a memory.
async fn erased(world: &World, cited: &[MemoryId]) {
    let chat = world.add_chat("Gone").await;
    world.delete_chat(chat).await.unwrap();
    let recall = world.recall_of(cited).await;
    let used = RecallUpdate::builder().memory_ids(cited[..1].to_vec());
    let narrowed = world.update_recall(recall, &used.build()).await;
    narrowed.unwrap();
    world.delete_recall(recall).await.unwrap();
    let gone = NewErasure::builder().memory_ids(world.memories(1).await);
    let (key, gone) = (world.name("erasure").parse().unwrap(), gone.build());
    world.create_erasure(&key, &gone).await.unwrap();
}

/// Adds, changes and deletes a memory.
async fn one_by_one(world: &World) {
    let new = with(create_memory("Page", world.source), |new| {
        new.content = CONTENT.to_owned();
        new.source_key = Some("page/2".to_owned());
    });
    let id = world.create_memory(&new).await.unwrap().value.summary.id;
    let update = MemoryUpdate::builder()
        .content(format!("{CONTENT} again"))
        .build();
    world.update_memory(id, &update, None).await.unwrap();
    world.delete_memory(id).await.unwrap();
}

/// Returns the types of the events in a commit.
fn events_in(commit: &Commit) -> Vec<EventType> {
    let range = keys::outbox_events();
    let mut types: Vec<EventType> = commit
        .mutations()
        .iter()
        .filter_map(|mutation| match mutation {
            Mutation::Put { key, value } if range.contains(key) => {
                let event: knowledge_core::service::Event = serde_json::from_slice(value).unwrap();
                Some(event.event_type())
            }
            _ => None,
        })
        .collect();
    types.sort();
    types
}

/// Returns the events of `act`, which makes one commit.
async fn announced(world: &World, act: impl AsyncFnOnce()) -> Vec<EventType> {
    let before = world.faults.history().len();
    act().await;
    let history = world.faults.history();
    assert_eq!(
        history.len(),
        before + 1,
        "the change and its events are one commit"
    );
    events_in(&history[before].1)
}

#[tokio::test]
async fn operation_writes_its_events_in_its_own_commit() {
    use EventType::{
        ChunkCreated, ChunkDeleted, ConnectorStatusChanged, IngestCompleted, MemoryUpdated,
    };
    let world = World::with_endpoint().await;
    let owner = &world.owner;
    let named = |content: &str| {
        with(new_memory("Note"), |new| {
            new.content = content.to_owned();
            new.source_key = Some("page/1".to_owned());
        })
    };
    let ingest = async |content: &str| {
        let batch = [named(content)];
        world.ingest_memories(world.source, &batch).await.unwrap();
    };
    let added = announced(&world, async || ingest("one").await).await;
    assert_eq!(added, [ChunkCreated, IngestCompleted]);
    let updated = announced(&world, async || ingest("two").await).await;
    assert_eq!(updated, [MemoryUpdated, IngestCompleted]);

    let ids = world.memories(1).await;
    for change in [
        review(ReviewStatus::Approved),
        sensitivity(SensitivityLabel::Public),
    ] {
        let bulk = async || drop(world.bulk(owner, &ids, change).await.unwrap());
        assert_eq!(announced(&world, bulk).await, [MemoryUpdated]);
    }
    let new = create_memory("Page", world.source);
    let added = async || drop(world.create_memory(&new).await.unwrap());
    assert_eq!(announced(&world, added).await, [ChunkCreated]);
    let renamed = MemoryUpdate::builder().title("Renamed").build();
    for expected in [vec![MemoryUpdated], vec![]] {
        let before = world.events().await.len();
        world.update_memory(ids[0], &renamed, None).await.unwrap();
        let events = world.events().await;
        assert_eq!(events.len() - before, expected.len());
    }
    let deleted = async || world.delete_memory(ids[0]).await.unwrap();
    assert_eq!(announced(&world, deleted).await, [ChunkDeleted]);
    let connector = world.connector(HOUR).await;
    let success = SyncReport::new(SyncOutcome::Success);
    for (report, expected) in [
        (success.clone(), vec![ConnectorStatusChanged]),
        (success, vec![]),
        (failure("no answer"), vec![ConnectorStatusChanged]),
    ] {
        let act = async || {
            world.report_sync(connector, &report).await.unwrap();
        };
        assert_eq!(announced(&world, act).await, expected);
    }
    let pause = async || {
        world
            .update_connector(connector, &ConnectorUpdate::paused(true))
            .await
            .unwrap();
    };
    assert_eq!(announced(&world, pause).await, [ConnectorStatusChanged]);
}

#[tokio::test]
async fn outbox_is_not_written_without_endpoints() {
    let world = World::new().await;
    let ids = world.memories(3).await;
    let change = async |change| drop(world.change(&ids, change).await.unwrap());
    change(sensitivity(SensitivityLabel::Public)).await;
    assert_eq!(world.events().await, []);
    let webhook = world.webhook(EventType::ChunkCreated).await;
    change(sensitivity(SensitivityLabel::Internal)).await;
    assert_eq!(world.events().await.len(), 1);
    world.delete_webhook(webhook.id).await.unwrap();
    change(sensitivity(SensitivityLabel::Confidential)).await;
    assert_eq!(world.events().await.len(), 2);
}

#[tokio::test]
async fn internal_changes_are_not_announced() {
    let world = World::with_endpoint().await;
    everything(&world).await;
    let mut counts: BTreeMap<EventType, usize> = BTreeMap::new();
    for event in world.events().await {
        *counts.entry(event.event_type()).or_default() += 1;
    }
    use EventType::{
        ChunkCreated, ChunkDeleted, ConnectorStatusChanged, IngestCompleted, MemoryUpdated,
    };
    let expected = [
        (ChunkCreated, 4),
        (ChunkDeleted, 2),
        (MemoryUpdated, 3),
        (IngestCompleted, 4),
        (ConnectorStatusChanged, 2),
    ];
    assert_eq!(counts, expected.into());
}

#[tokio::test]
async fn rejected_or_failed_change_announces_nothing() {
    let world = World::with_endpoint().await;
    let ids = world.memories(1).await;
    let viewer = world.caller(VIEWER).await;
    let before = world.events().await;
    world
        .bulk(&viewer, &ids, review(ReviewStatus::Approved))
        .await
        .unwrap_err();
    let batch = [new_memory("Note")];
    let refused = world
        .by(&viewer)
        .ingest_memories(world.source, &batch)
        .await;
    refused.unwrap_err();
    // A rejected item, and none that changes.
    let unknown = [knowledge_core::model::MemoryId(uuid::Uuid::nil())];
    world
        .change(&unknown, review(ReviewStatus::Approved))
        .await
        .unwrap();
    assert_eq!(before.len(), 2);
    for fault in [
        CommitFault::Unavailable,
        CommitFault::Full,
        CommitFault::Close,
    ] {
        let faulty = world
            .served_with(FaultPlan::none().at_commit(1, fault))
            .await;
        let failed = faulty.ingest_memories(world.source, &batch).await;
        failed.unwrap_err();
    }
    assert_eq!(world.events().await, before);
}

#[tokio::test]
async fn event_carries_only_identifiers() {
    let world = World::with_endpoint().await;
    everything(&world).await;
    for event in world.events().await {
        assert_eq!(
            (event.org_id, event.workspace_id),
            (world.org.id, world.workspace.id)
        );
        assert_eq!(
            data(&event)["workspace_id"],
            serde_json::json!(world.workspace.id)
        );
        let text = serde_json::to_string(&event).unwrap();
        assert!(text.len() < 20_000);
        assert!(!text.contains(CONTENT) && !text.contains("Note"), "{text}");
    }
}

/// No index, event or audit entry contains content.
#[tokio::test]
async fn content_is_stored_only_in_its_own_records() {
    let world = World::new().await;
    everything(&world).await;
    let mut families: Vec<String> = Vec::new();
    for (key, value) in world.contents().await {
        if String::from_utf8_lossy(&value).contains(CONTENT) {
            families.push(key.to_string().split('/').next().unwrap().to_owned());
        }
    }
    families.sort();
    assert_eq!(families, ["chat_message", "chat_recent", "content"]);
}

#[tokio::test]
async fn store_contains_no_secret_in_plain_text() {
    let world = World::new().await;
    let secrets = everything(&world).await;
    assert_eq!(secrets.len(), 12);
    let contents = world.contents().await;
    // The written secret, its random part, and the bytes of that, in hexadecimal as well.
    for secret in secrets {
        // The random part may contain underscores.
        let random = secret.splitn(3, '_').last().unwrap();
        let needles = [secret.as_str(), random, &random[..20]];
        for (key, value) in &contents {
            let text = format!("{key} {}", String::from_utf8_lossy(value));
            for needle in needles {
                assert!(!text.contains(needle), "{key} has {needle}");
            }
        }
    }
}

#[tokio::test]
async fn log_contains_no_secret() {
    let world = World::new().await;
    let issued = world.token(world.owner_id, Default::default()).await;
    let caller = Caller::from(issued.secret.clone());
    let debug = format!("{issued:?} {caller:?} {:?}", world.service);
    assert!(!debug.contains(&issued.secret.expose()[40..]));
    let sealing = knowledge_core::service::SealingKey::new(crate::make::SEALING_KEY);
    assert!(!format!("{sealing:?}").contains("42, 42"));
}
