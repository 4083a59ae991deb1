//! Tests of the retention of events and deliveries, and of the deletion of endpoints.

use std::time::Duration;

use knowledge_core::model::{DeliveryFailure, DeliveryFailureCode, EventType, SensitivityLabel};
use knowledge_core::service::{Attempt, PageRequest};

use crate::dispatching::{answer, endpoint, webhook};
use crate::make::{DAY, MEMBER, MILLISECOND};
use crate::world::World;

/// The families that store pending and past deliveries.
const FAMILIES: [&str; 9] = [
    "outbox",
    "fan_out",
    "event",
    "delivery",
    "delivery_id",
    "delivery_due",
    "endpoint_due",
    "undelivered",
    "dead_letter",
];

impl World {
    /// Returns the number of stored entries of events and deliveries, by family.
    async fn left(&self) -> Vec<(&'static str, usize)> {
        let mut left = Vec::new();
        for family in FAMILIES {
            let count = self.family(family).await.len();
            if count > 0 {
                left.push((family, count));
            }
        }
        left
    }

    /// Delivers everything due, with this response to each.
    async fn deliver(&self, status: u16) {
        loop {
            let claimed = self.claim().await.deliveries;
            if claimed.is_empty() {
                return;
            }
            for claimed in &claimed {
                self.finish(claimed, &answer(status)).await;
            }
        }
    }
}

const RETENTION: Duration = Duration::from_secs(9 * 24 * 60 * 60);

async fn world() -> World {
    World::with(|options| options.limits.delivery_retention = RETENTION).await
}

#[tokio::test]
async fn completed_deliveries_are_purged_after_retention() {
    let world = world().await;
    let told = world.webhook(EventType::ChunkCreated).await;
    let gone = world.webhook(EventType::MemoryUpdated).await;
    let ids = world.memories(2).await;
    world.fan_out().await;
    world.deliver(204).await;
    world.relabel(&ids, SensitivityLabel::Public).await;
    world.fan_out().await;
    world.deliver(410).await;
    world.assert_whole().await;
    let kept = world.left().await;
    let counts = [
        ("event", 2),
        ("delivery", 2),
        ("delivery_id", 2),
        ("dead_letter", 1),
    ];
    assert_eq!(kept, counts);

    world.time.pass(RETENTION - MILLISECOND);
    world.maintain().await;
    assert_eq!(world.left().await, kept);
    world.time.pass(MILLISECOND);
    world.maintain().await;
    assert_eq!(world.left().await, []);
    assert_eq!(world.planned().await, 0);
    assert_eq!(world.undelivered().await, 0);
    for webhook in [&told, &gone] {
        let (to, all) = (endpoint(webhook), PageRequest::default());
        let listed = world.list_deliveries(to, None, &all);
        assert_eq!(listed.await.unwrap().data, []);
    }
    world.assert_whole().await;
}

#[tokio::test]
async fn pending_deliveries_are_not_purged() {
    let world = world().await;
    world.webhook(EventType::ChunkCreated).await;
    world.memories(1).await;
    world.fan_out().await;
    let kept = world.left().await;
    world.time.pass(RETENTION);
    world.maintain().await;
    assert_eq!(world.left().await, kept);
    world.assert_whole().await;
    world.deliver(204).await;
    world.time.pass(DAY);
    world.maintain().await;
    assert_eq!(world.left().await, []);
    world.assert_whole().await;
}

#[tokio::test]
async fn deleted_endpoint_leaves_no_deliveries() {
    let world = World::new().await;
    let deleted = world.webhook(EventType::ChunkCreated).await;
    // Enough for several steps of maintenance, with some dead letters.
    world.announce(&deleted, 230).await;
    for status in [204, 410] {
        let claimed = world.claim().await.deliveries;
        for claimed in &claimed {
            world.finish(claimed, &answer(status)).await;
        }
    }
    world.assert_whole().await;
    world.delete_webhook(deleted.id).await.unwrap();
    assert_eq!(world.family("endpoint").await, []);
    assert_eq!(world.family("endpoint_due").await, []);
    // The store is consistent even before maintenance has deleted them.
    world.assert_whole().await;
    world.maintain().await;
    assert_eq!(world.left().await, [("event", 230)]);
    assert_eq!(world.undelivered().await, 0);
    assert_eq!(world.disabled_endpoints().await, 0);
    world.assert_whole().await;
    world.time.pass(31 * DAY);
    world.maintain().await;
    assert_eq!(world.left().await, []);
    world.assert_whole().await;
}

#[tokio::test]
async fn deleted_endpoint_does_not_affect_other_endpoints() {
    let world = World::new().await;
    let stays = world.webhook(EventType::ChunkCreated).await;
    let deleted = world.webhook(EventType::ChunkCreated).await;
    world.memories(1).await;
    world.fan_out().await;
    world.delete_webhook(deleted.id).await.unwrap();
    world.maintain().await;
    assert_eq!(world.queued_events(stays.id).await.len(), 1);
    assert_eq!(world.undelivered().await, 1);
    world.assert_whole().await;
    world.deliver(204).await;
    world.time.pass(31 * DAY);
    world.maintain().await;
    assert_eq!(world.left().await, []);
    world.assert_whole().await;
}

#[tokio::test]
async fn deliveries_to_removed_member_are_discarded() {
    let world = World::new().await;
    let ids = world.memories(1).await;
    let recall = world.recall_of(&ids).await;
    let member = world.member(MEMBER).await;
    let subscriber = world.trusted(member);
    world.subscribe(&subscriber, recall).await;
    world.relabel(&ids, SensitivityLabel::Public).await;
    world.fan_out().await;
    assert_eq!(world.undelivered().await, 1);
    world.remove_member(member).await.unwrap();
    world.maintain().await;
    assert_eq!(world.claim().await.deliveries, []);
    assert_eq!(world.undelivered().await, 0);
    world.relabel(&ids, SensitivityLabel::Internal).await;
    assert_eq!(world.fan_out().await.deliveries, 0);
    world.assert_whole().await;
}

/// The difference would show which names a private network has.
#[tokio::test]
async fn delivery_does_not_show_whether_name_resolves() {
    let world = World::new().await;
    let to = webhook(&world).await;
    let mut shown = Vec::new();
    for (code, message) in [
        (
            DeliveryFailureCode::DnsFailed,
            "the name could not be resolved",
        ),
        (
            DeliveryFailureCode::DnsFailed,
            "resolving the name timed out",
        ),
        (
            DeliveryFailureCode::AddressRefused,
            "the name resolves to an address inside",
        ),
    ] {
        let ping = world.ping(&to).await;
        let attempt = Attempt {
            duration: Duration::from_millis(20),
            outcome: Err(DeliveryFailure {
                code,
                message: message.to_owned(),
            }),
        };
        world.finish(&world.claim_one().await, &attempt).await;
        let mut attempts = world.delivery(&to, ping.id).await.attempts;
        shown.push(attempts.remove(0).error.unwrap());
    }
    assert_eq!(shown[0].code, DeliveryFailureCode::AddressRefused);
    assert!(
        shown.iter().all(|failure| *failure == shown[0]),
        "{shown:?}"
    );
}
