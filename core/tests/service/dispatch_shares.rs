//! Tests of one organisation's share of the deliveries in flight, and of the size of one claim.

use std::collections::BTreeSet;

use knowledge_core::model::EventType;
use knowledge_core::service::{ClaimedDelivery, Endpoint, InFlight};

use crate::dispatching::{ROOM, answer, endpoint, under_way, webhook};
use crate::make::{MILLISECOND, new_workspace};
use crate::world::World;

/// Creates webhooks of another organisation, and pings them.
async fn foreign(world: &World, count: usize) {
    let other = world.stranger("other").await;
    let workspace = other.workspace(&new_workspace("theirs")).await.unwrap().id;
    for _ in 0..count {
        let url = "https://example.org/theirs";
        let webhook = other.webhook(workspace, EventType::ChunkCreated, url).await;
        let id = webhook.unwrap().id;
        world.confirm(id.into()).await;
        let to = Endpoint::Webhook(workspace, id);
        world.by(&other.owner).ping_endpoint(to).await.unwrap();
    }
}

async fn claim(world: &World, room: usize, in_flight: &InFlight) -> Vec<ClaimedDelivery> {
    let now = world.time.now();
    let claimed = world.service.dispatcher().claim(now, room, in_flight).await;
    claimed.unwrap().deliveries
}

#[tokio::test]
async fn org_over_its_share_waits_for_other_due_orgs() {
    let world = World::new().await;
    for _ in 0..8 {
        let webhook = webhook(&world).await;
        world.announce(&webhook, 16).await;
    }
    // The only organisation may use all capacity.
    let mut held = claim(&world, 32, &InFlight::default()).await;
    assert_eq!(held.len(), 32);
    foreign(&world, 8).await;
    // It gets none of the freed capacity while others are due, although their entries are later.
    world.time.pass(MILLISECOND);
    for one in held.drain(..6) {
        world.finish(&one, &answer(200)).await;
    }
    let others = claim(&world, 6, &under_way(&held)).await;
    assert_eq!(others.len(), 6);
    let ours: BTreeSet<_> = held.iter().map(|one| one.lease.endpoint()).collect();
    assert!(
        others
            .iter()
            .all(|one| !ours.contains(&one.lease.endpoint()))
    );
    held.extend(others);
    // It gets the capacity that the others leave.
    for one in held.drain(..10) {
        world.finish(&one, &answer(200)).await;
    }
    world.time.pass(MILLISECOND);
    let mixed = claim(&world, 10, &under_way(&held)).await;
    assert_eq!(mixed.len(), 10);
    let theirs = |one: &&ClaimedDelivery| one.request.url.as_str().ends_with("theirs");
    assert_eq!(mixed.iter().filter(theirs).count(), 2);
    world.assert_whole().await;
}

#[tokio::test]
async fn claim_is_bounded_in_deliveries_and_commits() {
    let world = World::with(|options| options.limits.webhooks_per_workspace_max = 100).await;
    let mut webhooks = Vec::new();
    for _ in 0..50 {
        let webhook = webhook(&world).await;
        world.announce(&webhook, 1).await;
        webhooks.push(webhook);
    }
    let nobody = InFlight::default();
    let before = world.faults.counts().commits;
    let claimed = world
        .service
        .dispatcher()
        .claim(world.time.now(), ROOM, &nobody);
    let claimed = claimed.await.unwrap();
    assert_eq!(world.faults.counts().commits - before, 32);
    assert_eq!((claimed.deliveries.len(), claimed.has_more), (32, true));
    assert_eq!(claim(&world, ROOM, &nobody).await.len(), 18);
    for webhook in &webhooks {
        for _ in 0..10 {
            world.ping_endpoint(endpoint(webhook)).await.unwrap();
        }
    }
    let claimed = world
        .service
        .dispatcher()
        .claim(world.time.now(), ROOM, &nobody);
    let claimed = claimed.await.unwrap();
    assert_eq!((claimed.deliveries.len(), claimed.has_more), (256, true));
    world.assert_whole().await;
}

#[tokio::test]
async fn in_flight_counts_exclude_ended_attempts() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    world.announce(&webhook, 2).await;
    let claimed = world.claim().await.deliveries;
    let mut in_flight = under_way(&claimed);
    let counted = |in_flight: &InFlight| {
        (
            in_flight.len(),
            in_flight.with_endpoint(webhook.id.into()),
            in_flight.of_organization(world.org.id),
        )
    };
    assert_eq!(counted(&in_flight), (2, 2, 2));
    in_flight.end(&claimed[0].lease);
    assert_eq!(counted(&in_flight), (1, 1, 1));
    for _ in 0..2 {
        in_flight.end(&claimed[1].lease);
        assert_eq!(counted(&in_flight), (0, 0, 0));
    }
    assert_eq!(in_flight, InFlight::default());
}
