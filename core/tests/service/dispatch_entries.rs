//! Tests of the entries that deliveries change, which are most of their cost.

use std::collections::BTreeSet;

use knowledge_core::model::DeliveryStatus;
use knowledge_core::service::{
    AttemptOutcome, DELIVERY_LEASE, IN_FLIGHT_PER_ENDPOINT_MAX, InFlight,
};

use crate::dispatching::{answer, endpoint, under_way, webhook};
use crate::make::{MILLISECOND, MINUTE};
use crate::world::World;

/// Returns the families with changed entries, once for each entry.
async fn changed<T>(world: &World, change: impl Future<Output = T>) -> (Vec<String>, T) {
    let before = world.contents().await;
    let result = change.await;
    let after = world.contents().await;
    let keys: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let changed = keys
        .into_iter()
        .filter(|key| before.get(key) != after.get(key));
    let family = |key: &str| key.split('/').next().unwrap_or_default().to_owned();
    (
        changed.map(|key| family(&key.to_string())).collect(),
        result,
    )
}

#[tokio::test]
async fn claim_changes_no_entries_of_its_deliveries() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    world.announce(&webhook, 8).await;
    world.time.pass(MILLISECOND);
    let (families, claimed) = changed(&world, world.claim()).await;
    assert_eq!(claimed.deliveries.len(), 8);
    // Its entry in the ready queue moves.
    assert_eq!(families, ["endpoint", "endpoint_due", "endpoint_due"]);
    world.assert_whole().await;

    let (families, finished) =
        changed(&world, world.finish(&claimed.deliveries[0], &answer(204))).await;
    assert_eq!(finished, AttemptOutcome::Delivered);
    assert_eq!(families, ["delivery", "delivery_due", "undelivered_count"]);
    world.assert_whole().await;
}

#[tokio::test]
async fn renewal_changes_no_entries_of_its_deliveries() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    world.announce(&webhook, 4).await;
    let claimed = world.claim().await.deliveries;
    world.time.pass(DELIVERY_LEASE / 2);
    let leases: Vec<_> = claimed.iter().map(|claimed| claimed.lease).collect();
    let renewal = world.renew(&leases);
    let (families, held) = changed(&world, renewal).await;
    assert_eq!(held.unwrap().len(), 4);
    assert_eq!(families, ["endpoint", "endpoint_due", "endpoint_due"]);
    world.assert_whole().await;
}

#[tokio::test]
async fn second_dispatcher_claims_what_the_first_has_not_leased() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    let made = world.announce(&webhook, 20).await;
    let mut all = BTreeSet::new();
    let mut batches = Vec::new();
    for expected in [IN_FLIGHT_PER_ENDPOINT_MAX, IN_FLIGHT_PER_ENDPOINT_MAX, 4, 0] {
        world.time.pass(MILLISECOND);
        // Each dispatcher knows of its own deliveries only.
        let claimed = world.claim().await.deliveries;
        assert_eq!(claimed.len(), expected);
        all.extend(claimed.iter().map(|claimed| claimed.request.id));
        batches.push(claimed);
        world.assert_whole().await;
    }
    assert_eq!(all, made.iter().map(|made| made.id).collect());
    // An expired lease is taken over; the others are not.
    let renewed = &batches[1];
    world.time.pass(DELIVERY_LEASE / 2);
    let leases: Vec<_> = renewed.iter().map(|claimed| claimed.lease).collect();
    assert_eq!(world.renew(&leases).await.unwrap().len(), renewed.len());
    world.time.pass(DELIVERY_LEASE / 2);
    let mut again = Vec::new();
    for _ in 0..3 {
        let in_flight = under_way(&again);
        let claimed = world
            .service
            .dispatcher()
            .claim(world.time.now(), 256, &in_flight);
        again.extend(claimed.await.unwrap().deliveries);
        world.time.pass(MILLISECOND);
    }
    let expected: BTreeSet<_> = batches[0].iter().map(|lost| lost.request.id).collect();
    let taken: BTreeSet<_> = again.iter().map(|claimed| claimed.request.id).collect();
    assert_eq!(taken, expected);
    for (claimed, outcome) in [
        (&batches[0][0], AttemptOutcome::LeaseLost),
        (&again[0], AttemptOutcome::Delivered),
        (&renewed[0], AttemptOutcome::Delivered),
    ] {
        assert_eq!(world.finish(claimed, &answer(204)).await, outcome);
    }
    world.assert_whole().await;
}

#[tokio::test]
async fn redelivered_event_is_leased_again_after_a_completed_lease() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    let made = world.announce(&webhook, 1).await.remove(0);
    let first = world.claim_one().await;
    assert_eq!(
        world.finish(&first, &answer(204)).await,
        AttemptOutcome::Delivered
    );
    let again = world.redeliver(endpoint(&webhook), made.id);
    assert_eq!(again.await.unwrap().status, DeliveryStatus::Pending);
    world.assert_whole().await;
    let second = world.claim_one().await;
    assert_ne!(second.lease, first.lease);
    assert_eq!(
        world.finish(&first, &answer(500)).await,
        AttemptOutcome::LeaseLost
    );
    assert_eq!(
        world.finish(&second, &answer(204)).await,
        AttemptOutcome::Delivered
    );
    world.assert_whole().await;
}

#[tokio::test]
async fn only_deliveries_that_are_attempted_again_are_indexed_by_event() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    let indexed = async || world.family("undelivered").await.len();
    let oldest = async || {
        world
            .service
            .dispatcher()
            .outbox_status()
            .await
            .unwrap()
            .oldest
    };
    assert_eq!(oldest().await, None);
    let made = world.announce(&webhook, 2).await;
    let since = Some(made[0].created_at);
    assert_eq!((indexed().await, oldest().await), (0, since));
    let claimed = world.claim().await.deliveries;
    assert_eq!((indexed().await, oldest().await), (0, since));
    assert_eq!(
        world.finish(&claimed[1], &answer(204)).await,
        AttemptOutcome::Delivered
    );
    let finished = world.finish(&claimed[0], &answer(500)).await;
    let AttemptOutcome::Retry(at) = finished else {
        panic!("{finished:?}");
    };
    world.time.pass(MILLISECOND);
    // It waits behind later events, but is the oldest.
    world.announce(&webhook, 1).await;
    assert_eq!((indexed().await, oldest().await), (1, since));
    world.assert_whole().await;
    world.time.set(at.plus(MINUTE));
    for claimed in world.claim().await.deliveries {
        world.finish(&claimed, &answer(204)).await;
    }
    world.time.pass(MILLISECOND);
    let nobody = InFlight::default();
    let claimed = world
        .service
        .dispatcher()
        .claim(world.time.now(), 8, &nobody)
        .await;
    for claimed in claimed.unwrap().deliveries {
        world.finish(&claimed, &answer(204)).await;
    }
    assert_eq!((indexed().await, oldest().await), (0, None));
    world.assert_whole().await;
}
