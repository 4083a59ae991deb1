//! What is kept of events and their deliveries, for how long, and what goes with a deleted endpoint.

use std::time::Duration;

use knowledge_core::model::{EventType, SensitivityLabel};
use knowledge_core::service::PageRequest;
use knowledge_core::internals::keys;

use crate::dispatching::{answer, endpoint};
use crate::make::{ACME, DAY, MEMBER, MILLISECOND};
use crate::world::World;

/// The families that hold what is on its way or was.
const FAMILIES: [&str; 9] = [
    "outbox",
    "expansion",
    "event",
    "delivery",
    "delivery_id",
    "delivery_due",
    "endpoint_due",
    "undelivered",
    "dead_letter",
];

impl World {
    /// How many entries there are of events and deliveries, by family.
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

    /// Delivers everything that is due, each with this answer.
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
async fn what_was_delivered_or_given_up_is_swept_after_its_retention() {
    let world = world().await;
    let told = world.webhook(EventType::ChunkCreated).await;
    let gone = world.webhook(EventType::MemoryUpdated).await;
    let ids = world.memories(2).await;
    world.expand().await;
    world.deliver(204).await;
    world.relabel(&ids, SensitivityLabel::Public).await;
    world.expand().await;
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
        let listed = world.service.list_deliveries(&world.owner, to, None, &all);
        assert_eq!(listed.await.unwrap().data, []);
    }
    world.assert_whole().await;
}

#[tokio::test]
async fn what_is_still_under_way_is_not_swept() {
    let world = world().await;
    world.webhook(EventType::ChunkCreated).await;
    world.memories(1).await;
    world.expand().await;
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
async fn of_a_deleted_endpoint_nothing_is_left() {
    let world = World::new().await;
    let deleted = world.webhook(EventType::ChunkCreated).await;
    // More than one step of maintenance clears, and dead letters among them.
    world.announce(&deleted, 230).await;
    for status in [204, 410] {
        let claimed = world.claim().await.deliveries;
        for claimed in &claimed {
            world.finish(claimed, &answer(status)).await;
        }
    }
    world.assert_whole().await;
    let workspace = world.workspace.id;
    let done = world
        .service
        .delete_webhook(&world.owner, workspace, deleted.id);
    done.await.unwrap();
    assert_eq!(world.family("endpoint").await, []);
    assert_eq!(world.family("endpoint_due").await, []);
    // It is whole before it is cleared too: maintenance knows of it.
    world.assert_whole().await;
    world.maintain().await;
    assert_eq!(world.left().await, [("event", 230)]);
    assert_eq!(world.undelivered().await, 0);
    assert_eq!(
        world
            .counter(keys::disabled_endpoint_count(world.org.id))
            .await,
        0
    );
    world.assert_whole().await;
    world.time.pass(31 * DAY);
    world.maintain().await;
    assert_eq!(world.left().await, []);
    world.assert_whole().await;
}

#[tokio::test]
async fn what_one_endpoint_leaves_does_not_touch_the_others() {
    let world = World::new().await;
    let stays = world.webhook(EventType::ChunkCreated).await;
    let deleted = world.webhook(EventType::ChunkCreated).await;
    world.memories(1).await;
    world.expand().await;
    let workspace = world.workspace.id;
    let done = world
        .service
        .delete_webhook(&world.owner, workspace, deleted.id);
    done.await.unwrap();
    world.maintain().await;
    assert_eq!(world.heard_by(stays.id).await.len(), 1);
    assert_eq!(world.undelivered().await, 1);
    world.assert_whole().await;
    world.deliver(204).await;
    world.time.pass(31 * DAY);
    world.maintain().await;
    assert_eq!(world.left().await, []);
    world.assert_whole().await;
}

#[tokio::test]
async fn what_waits_for_a_member_who_is_removed_is_given_up() {
    let world = World::new().await;
    let ids = world.memories(1).await;
    let recall = world.recall_of(&ids).await;
    let member = world.member(MEMBER).await;
    let subscriber = world.trusted(member);
    world.subscribe(&subscriber, recall).await;
    world.relabel(&ids, SensitivityLabel::Public).await;
    world.expand().await;
    assert_eq!(world.undelivered().await, 1);
    let removed = world.service.remove_member(&world.owner, ACME, member);
    removed.await.unwrap();
    world.maintain().await;
    assert_eq!(world.claim().await.deliveries, []);
    assert_eq!(world.undelivered().await, 0);
    world.relabel(&ids, SensitivityLabel::Internal).await;
    assert_eq!(world.expand().await.deliveries, 0);
    world.assert_whole().await;
}
