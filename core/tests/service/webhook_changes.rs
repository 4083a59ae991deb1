//! Tests of webhooks in both directions: list, read, update, delete and secret rotation.

use knowledge_core::Error;
use knowledge_core::internals::keys;
use knowledge_core::model::{
    DisabledReason, EventType, InboundWebhook, InboundWebhookUpdate, Webhook, WebhookId,
    WebhookUpdate,
};
use knowledge_core::service::{AuditAction, DifferenceCode, IfMatch, PageRequest, WithEtag};
use knowledge_core::store::Commit;
use serde_json::Value;

use crate::audit::{entries, entry_of};
use crate::dispatching::{answer, endpoint};
use crate::make::{DAY, MEMBER, MILLISECOND, MINUTE, code, problem, set_active, set_url};
use crate::world::World;

async fn register(world: &World) -> Webhook {
    world.webhook(EventType::ChunkCreated).await
}

async fn register_inbound(world: &World) -> InboundWebhook {
    let created = world.inbound_webhook(world.workspace.id, "Forms");
    created.await.unwrap()
}

async fn update(
    world: &World,
    webhook: WebhookId,
    update: WebhookUpdate,
    if_match: Option<&IfMatch>,
) -> Result<WithEtag<Webhook>, Error> {
    world.update_webhook(webhook, &update, if_match).await
}

async fn assert_whole(world: &World) {
    let differences = world.service.verify().await.unwrap().differences;
    assert!(differences.is_empty(), "{differences:?}");
}

#[tokio::test]
async fn webhook_secret_is_shown_only_on_creation() {
    let world = World::new().await;
    let page = PageRequest::default();
    let (webhook, inbound) = (register(&world).await, register_inbound(&world).await);
    assert!(webhook.signing_secret.is_some() && inbound.signing_secret.is_some());
    let listed = world.list_webhooks(&page).await;
    let read = world.get_webhook(webhook.id).await.unwrap().value;
    let shown = Webhook {
        signing_secret: None,
        confirmation: read.confirmation,
        ..webhook
    };
    assert_eq!(read, shown);
    assert!(read.confirmation.is_some());
    assert_eq!(listed.unwrap().data, [shown]);
    let listed = world.list_inbound(&page).await;
    let read = world.get_inbound(inbound.id).await;
    let shown = InboundWebhook {
        signing_secret: None,
        ..inbound
    };
    assert_eq!(read.unwrap().value, shown);
    assert_eq!(listed.unwrap().data, [shown]);
}

#[tokio::test]
async fn webhook_update_changes_only_named_fields() {
    let world = World::new().await;
    let before = register(&world).await;
    world.time.pass(MINUTE);
    let same = update(&world, before.id, WebhookUpdate::default(), None).await;
    let same = same.unwrap();
    assert_eq!(same.value.updated_at, before.created_at);
    let off = set_active(false);
    let tags = IfMatch::Tags(vec![same.etag]);
    let changed = update(&world, before.id, off.clone(), Some(&tags)).await;
    let changed = changed.unwrap().value;
    assert_eq!((changed.is_active, changed.url), (false, before.url));
    assert_eq!(changed.updated_at, world.time.now());
    let stale = update(&world, before.id, off, Some(&tags)).await;
    assert_eq!(code(stale), "precondition_failed");
    let elsewhere = WebhookUpdate::builder()
        .url("https://example.org/".parse().unwrap())
        .event_type(EventType::MemoryUpdated)
        .build();
    let changed = update(&world, before.id, elsewhere, None).await.unwrap();
    assert_eq!(changed.value.event_type, EventType::MemoryUpdated);
    assert!(!changed.value.is_active);
    let plain = set_url("http://example.org/");
    let refused = update(&world, before.id, plain, None).await;
    assert_eq!(problem(refused), "url invalid_value");
    assert_whole(&world).await;
}

#[tokio::test]
async fn webhook_disabled_by_service_can_be_disabled_by_owner() {
    let world = World::new().await;
    let made = register(&world).await;
    world.announce(&made, 1).await;
    world.finish(&world.claim_one().await, &answer(410)).await;
    let read = async || world.get_webhook(made.id).await.unwrap().value;
    assert_eq!(read().await.disabled_reason, Some(DisabledReason::Gone));
    let disabled = async || world.disabled_endpoints().await;
    assert_eq!(disabled().await, 1);
    // An update of other fields leaves it disabled.
    let elsewhere = set_url("https://example.org/");
    update(&world, made.id, elsewhere, None).await.unwrap();
    assert_eq!(read().await.disabled_reason, Some(DisabledReason::Gone));
    let tried = world.ping(&made).await;
    let under_way = world.claim_one().await;
    assert_eq!(under_way.request.id, tried.id);

    world.time.pass(MILLISECOND);
    let off = set_active(false);
    let switched = update(&world, made.id, off.clone(), None).await.unwrap();
    let switched = switched.value;
    assert_eq!(
        (switched.is_active, switched.disabled_reason),
        (false, None)
    );
    assert_eq!(disabled().await, 0);
    let mut updates = entries(&world).await;
    updates.retain(|entry| entry.action == AuditAction::WebhookUpdate);
    let last = updates.into_iter().max_by_key(|entry| entry.id).unwrap();
    assert_eq!(last.before.unwrap()["disabled_reason"], "gone");
    assert_eq!(last.after.unwrap()["disabled_reason"], Value::Null);
    // No ping enables it, whether in flight or later.
    world.finish(&under_way, &answer(204)).await;
    assert_eq!(read().await, switched);
    let refused = world.ping_endpoint(endpoint(&made)).await;
    assert_eq!(code(refused), "endpoint_off");
    // It receives no events either.
    world.memories(1).await;
    assert_eq!(world.fan_out().await.deliveries, 0);
    world.time.pass(MINUTE);
    let again = update(&world, made.id, off, None).await.unwrap().value;
    assert_eq!(again, switched);
    assert_whole(&world).await;
}

#[tokio::test]
async fn renamed_inbound_webhook_keeps_its_url() {
    let world = World::new().await;
    let before = register_inbound(&world).await;
    let rename = async |name: &str| {
        let update = InboundWebhookUpdate::builder()
            .name(name.to_owned())
            .build();
        world.update_inbound(before.id, &update, None).await
    };
    let after = rename("Tickets").await.unwrap().value;
    assert_eq!((&*after.name, after.url), ("Tickets", before.url.clone()));
    assert_eq!(problem(rename("").await), "name too_small");
}

#[tokio::test]
async fn deleted_webhook_is_gone_and_releases_its_quota() {
    let world = World::with(|options| {
        options.limits.webhooks_per_workspace_max = 1;
        options.limits.inbound_webhooks_per_workspace_max = 1;
    })
    .await;
    let (webhook, inbound) = (register(&world).await.id, register_inbound(&world).await.id);
    world.delete_webhook(webhook).await.unwrap();
    assert_eq!(code(world.delete_webhook(webhook).await), "not_found");
    world.delete_inbound(inbound).await.unwrap();
    assert_eq!(code(world.delete_inbound(inbound).await), "not_found");
    for action in [
        AuditAction::WebhookDelete,
        AuditAction::InboundWebhookDelete,
    ] {
        let entry = entry_of(&world, action).await;
        assert_eq!(entry.after, None);
    }
    assert_whole(&world).await;
    register(&world).await;
    register_inbound(&world).await;
}

/// Returns the number of secrets in the record under a key.
async fn secrets(world: &World, key: &knowledge_core::store::Key) -> usize {
    let stored: Value = world.read(key).await.unwrap();
    1 + usize::from(stored.get("previous").is_some())
}

#[tokio::test]
async fn rotated_secret_is_valid_at_once_and_old_one_for_a_day() {
    let world = World::new().await;
    let workspace = world.workspace.id;
    let (webhook, inbound) = (register(&world).await, register_inbound(&world).await);
    let rotated = world.rotate_webhook(webhook.id).await.unwrap();
    assert_ne!(
        Some(&rotated.signing_secret),
        webhook.signing_secret.as_ref()
    );
    let tomorrow = world.time.now().plus(DAY);
    assert_eq!(rotated.previous_secret_expires_at, tomorrow);
    let key = keys::webhook(world.org.id, workspace, webhook.id);
    assert_eq!(secrets(&world, &key).await, 2);
    let rotated = world.rotate_inbound(inbound.id).await.unwrap();
    assert_ne!(
        Some(&rotated.signing_secret),
        inbound.signing_secret.as_ref()
    );
    let key = keys::inbound_webhook(world.org.id, workspace, inbound.id);
    assert_eq!(secrets(&world, &key).await, 2);
    for action in [
        AuditAction::WebhookRotateSecret,
        AuditAction::InboundWebhookRotateSecret,
    ] {
        entry_of(&world, action).await;
    }
    // An update keeps both.
    let off = set_active(false);
    update(&world, webhook.id, off, None).await.unwrap();
    let key = keys::webhook(world.org.id, workspace, webhook.id);
    assert_eq!(secrets(&world, &key).await, 2);
    assert_whole(&world).await;
}

#[tokio::test]
async fn verify_opens_previous_secret_as_well() {
    let world = World::new().await;
    let (workspace, webhook) = (world.workspace.id, register(&world).await.id);
    world.rotate_webhook(webhook).await.unwrap();
    assert_eq!(world.service.verify().await.unwrap().secrets, Some(2));
    let key = keys::webhook(world.org.id, workspace, webhook);
    let mut stored: Value = world.read(&key).await.unwrap();
    stored["previous"]["secret"] = "AAAA".into();
    let corrupt = Commit::builder().put(key.clone(), stored.to_string());
    let store = world.faults.inner();
    store.commit(corrupt.build().unwrap()).await.unwrap();
    let found = world.service.verify().await.unwrap().differences;
    let found: Vec<_> = found.iter().map(|found| (found.code, &found.key)).collect();
    assert_eq!(found, [(DifferenceCode::Sealed, &key)]);
}

#[tokio::test]
async fn webhook_is_found_only_in_its_workspace_with_webhook_manage() {
    let world = World::new().await;
    let (webhook, sales) = (register(&world).await.id, world.workspace("sales").await);
    let read = world.within(sales).get_webhook(webhook).await;
    assert_eq!(code(read), "not_found");
    let member = world.caller(MEMBER).await;
    let read = world.by(&member).get_webhook(webhook).await;
    assert_eq!(code(read), "forbidden");
}
