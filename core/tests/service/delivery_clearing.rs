//! Tests of the purge of deliveries, with corrupt entries and interrupted commits.

use knowledge_core::internals::keys;
use knowledge_core::model::{DeliveryStatus, EndpointId, EventType, Webhook};
use knowledge_core::store::Key;
use knowledge_store::faults::{CommitFault, FaultPlan};
use serde_json::Value;

use crate::dispatching::{answer, endpoint, webhook};
use crate::make::{DAY, HOUR, MILLISECOND};
use crate::world::World;

/// The families whose entries all belong to a delivery.
const FAMILIES: [&str; 6] = [
    "delivery",
    "delivery_id",
    "delivery_due",
    "endpoint_due",
    "undelivered",
    "dead_letter",
];

async fn assert_nothing_is_left(world: &World) {
    for family in FAMILIES {
        assert_eq!(world.family(family).await, [], "{family}");
    }
    assert_eq!(world.undelivered().await, 0);
    assert_eq!(world.disabled_endpoints().await, 0);
    world.assert_whole().await;
}

async fn delete(world: &World, webhook: &Webhook) {
    let workspace = webhook.workspace_id;
    let deleted = world.within(workspace).delete_webhook(webhook.id);
    deleted.await.unwrap();
}

#[tokio::test]
async fn late_redelivery_is_purged_once_completed() {
    let world = World::new().await;
    let retention = world.service.limits().delivery_retention;
    let to = webhook(&world).await;
    world.memories(1).await;
    world.fan_out().await;
    let claimed = world.claim_one().await;
    world.finish(&claimed, &answer(204)).await;
    world.time.pass(retention - MILLISECOND);
    let id = claimed.request.id;
    let again = world.redeliver(endpoint(&to), id);
    assert_eq!(again.await.unwrap().status, DeliveryStatus::Pending);
    world.time.pass(HOUR);
    world.maintain().await;
    // The delivery is still stored, and pending.
    world.assert_whole().await;
    let claimed = world.claim_one().await;
    assert_eq!(claimed.request.id, id);
    world.finish(&claimed, &answer(204)).await;
    world.time.pass(DAY - MILLISECOND);
    world.maintain().await;
    assert_eq!(world.family("delivery").await.len(), 1);
    world.time.pass(MILLISECOND);
    world.maintain().await;
    // The ready entry may be stale once.
    assert_eq!(world.claim().await.deliveries, []);
    assert_eq!(world.family("event").await, []);
    assert_eq!(world.planned().await, 0);
    assert_nothing_is_left(&world).await;
}

/// Corrupts a delivery of an endpoint with this status.
async fn corrupt(world: &World, of: &Webhook, status: &str) {
    let endpoint = EndpointId::from(of.id);
    let is_of = |key: &Key, value: &[u8]| {
        // Another delivery may already be corrupt.
        let stored: Value = serde_json::from_slice(value).unwrap_or_default();
        keys::deliveries(world.org.id, endpoint).contains(key)
            && stored["delivery"]["status"] == status
    };
    let mut stored = world.contents().await.into_iter();
    let found = stored.find(|(key, value)| is_of(key, value));
    let (key, _) = found.expect("a delivery to overwrite");
    world.overwrite(key, "{".to_owned()).await;
}

#[tokio::test]
async fn corrupt_deliveries_are_deleted_with_their_endpoint() {
    let world = World::new().await;
    let deleted = webhook(&world).await;
    world.announce(&deleted, 3).await;
    for claimed in world.claim().await.deliveries {
        world.finish(&claimed, &answer(410)).await;
    }
    corrupt(&world, &deleted, "dead").await;
    let other = webhook(&world).await;
    world.announce(&other, 230).await;
    corrupt(&world, &other, "pending").await;
    for webhook in [&deleted, &other] {
        delete(&world, webhook).await;
    }
    world.maintain().await;
    assert_eq!(world.family("event").await.len(), 233);
    assert_nothing_is_left(&world).await;
}

#[tokio::test]
async fn corrupt_deliveries_are_purged_with_their_event() {
    let world = World::new().await;
    let webhook = world.webhook(EventType::ChunkCreated).await;
    world.webhook(EventType::ChunkCreated).await;
    world.memories(1).await;
    world.fan_out().await;
    corrupt(&world, &webhook, "pending").await;
    let claimed = world.claim_one().await;
    world.finish(&claimed, &answer(204)).await;
    assert_eq!(world.undelivered().await, 1);
    world.time.pass(world.service.limits().delivery_retention);
    world.maintain().await;
    assert_eq!(world.claim().await.deliveries, []);
    assert_eq!(world.family("event").await, []);
    assert_nothing_is_left(&world).await;
}

#[tokio::test]
async fn interrupted_purge_resumes_after_any_commit() {
    let world = World::new().await;
    let deleted = webhook(&world).await;
    world.announce(&deleted, 420).await;
    delete(&world, &deleted).await;
    for fault in [
        CommitFault::Close,
        CommitFault::LostApplied,
        CommitFault::LostNotApplied,
        CommitFault::LostAppliedLater,
    ] {
        let mut cut = 0;
        for number in 1.. {
            let twin = world.copy(FaultPlan::none().at_commit(number, fault)).await;
            let mut done = twin.service.maintain(twin.time.now()).await;
            while done.as_ref().is_ok_and(|done| done.has_more) {
                done = twin.service.maintain(twin.time.now()).await;
            }
            if done.is_ok() {
                break;
            }
            cut += 1;
            let next = twin.served_with(FaultPlan::none()).await;
            next.assert_whole().await;
            next.maintain().await;
            assert_eq!(next.family("event").await.len(), 420);
            assert_nothing_is_left(&next).await;
        }
        // Three steps, each followed by a commit that requeues or removes its task.
        assert!(cut >= 6, "{cut}");
    }
    assert_eq!(world.family("delivery_due").await.len(), 420);
}
