//! The turns of endpoints: while anything waits one comes, and in time.

use std::time::Duration;

use knowledge_core::model::{
    Delivery, DeliveryStatus, DisabledReason, EndpointId, Timestamp, Webhook, WebhookUpdate,
};
use knowledge_core::service::{ClaimedDelivery, DELIVERY_LEASE, Finished, InFlight};
use knowledge_core::internals::keys;
use knowledge_core::store::{Commit, Store, StoreExt};
use serde_json::Value;

use crate::dispatching::{answer, webhook};
use crate::make::{DAY, HOUR, MILLISECOND, MINUTE};
use crate::world::World;

const SECOND: Duration = Duration::from_secs(1);

async fn switch(world: &World, webhook: &Webhook, is_active: bool) {
    let switched = WebhookUpdate {
        is_active: Some(is_active),
        ..WebhookUpdate::default()
    };
    let (workspace, id) = (webhook.workspace_id, webhook.id);
    let updated = world
        .service
        .update_webhook(&world.owner, workspace, id, &switched, None);
    updated.await.unwrap();
}

async fn renew(world: &World, claimed: &ClaimedDelivery) {
    let now = world.time.now();
    let held = world.service.renew_leases(now, &[claimed.lease]).await;
    assert_eq!(held.unwrap(), [claimed.lease]);
}

/// The turn of an endpoint.
async fn turn(world: &World, webhook: &Webhook) -> Option<Timestamp> {
    let key = keys::endpoint(world.org.id, webhook.id.into());
    let state: Value = world.read(&key).await.unwrap();
    state["due"].as_str().map(|due| due.parse().unwrap())
}

/// Has the lease be renewed by another process right after the next claim of this one has seen its place in the queue.
fn renew_meanwhile(world: &World, other: &World, webhook: &Webhook, claimed: &ClaimedDelivery) {
    let key = keys::delivery(world.org.id, webhook.id.into(), claimed.lease.event());
    let (service, lease, now) = (other.service.clone(), claimed.lease, world.time.now());
    world.probe.before_read(key, async move {
        let held = service.renew_leases(now, &[lease]).await;
        assert_eq!(held.unwrap(), [lease]);
    });
}

#[tokio::test]
async fn a_lease_renewed_while_its_endpoint_is_switched_off_has_a_turn_when_it_lapses() {
    let world = World::new().await;
    let other = world.served_with(Default::default()).await;
    let webhook = webhook(&world).await;
    world.announce(&webhook, 1).await;
    let claimed = world.claim_one().await;
    world.time.pass(SECOND);
    switch(&world, &webhook, false).await;
    renew_meanwhile(&world, &other, &webhook, &claimed);
    world.claim().await;
    assert!(world.probe.has_happened());
    world.assert_whole().await;
    // The other process crashes.
    world.time.pass(DELIVERY_LEASE);
    assert_eq!(world.claim().await.given_up, 1);
    assert_eq!(world.undelivered().await, 0);
    world.assert_whole().await;
}

#[tokio::test]
async fn a_lapsed_lease_renewed_while_it_is_claimed_has_a_turn_when_it_lapses() {
    let world = World::new().await;
    let other = world.served_with(Default::default()).await;
    let webhook = webhook(&world).await;
    world.announce(&webhook, 1).await;
    let claimed = world.claim_one().await;
    // A turn that came before, for what was under way beside it.
    let state = keys::endpoint(world.org.id, webhook.id.into());
    world.time.pass(DELIVERY_LEASE);
    move_turn(&world, &webhook, world.time.now().minus(MILLISECOND)).await;
    renew_meanwhile(&world, &other, &webhook, &claimed);
    assert_eq!(world.claim().await.deliveries, []);
    assert!(world.probe.has_happened());
    world.assert_whole().await;
    let stored: Value = world.read(&state).await.unwrap();
    assert_ne!(stored["due"], Value::Null);
    world.time.pass(DELIVERY_LEASE);
    let again = world.claim_one().await;
    assert_eq!(again.request.id, claimed.request.id);
    world.assert_whole().await;
}

/// Moves the turn of an endpoint: one that is earlier than it need be may come in vain.
async fn move_turn(world: &World, webhook: &Webhook, to: Timestamp) {
    let (org, endpoint) = (world.org.id, EndpointId::from(webhook.id));
    let key = keys::endpoint(org, endpoint);
    let mut state: Value = world.read(&key).await.unwrap();
    let before = state["due"].as_str().unwrap().parse().unwrap();
    state["due"] = serde_json::json!(to);
    let commit = Commit::builder()
        .put(key, state.to_string())
        .delete(keys::endpoint_due(before, org, endpoint))
        .put(keys::endpoint_due(to, org, endpoint), "null");
    let moved = world.faults.commit(commit.build().unwrap()).await;
    moved.unwrap();
}

#[tokio::test]
async fn what_a_crashed_dispatcher_had_is_not_pushed_behind_the_renewals_of_another() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    world.announce(&webhook, 1).await;
    let held = world.claim_one().await;
    world.time.pass(SECOND);
    world.announce(&webhook, 1).await;
    // Claimed by a dispatcher that crashes.
    let crashed = world.claim_one().await;
    let lapses = world.time.now().plus(DELIVERY_LEASE);
    while world.time.now() < lapses {
        world.time.pass(SECOND);
        renew(&world, &held).await;
        assert!(turn(&world, &webhook).await.unwrap() <= lapses);
        world.assert_whole().await;
    }
    let again = world.claim_one().await;
    assert_eq!(again.request.id, crashed.request.id);
    world.assert_whole().await;
}

#[tokio::test]
async fn a_lone_lease_that_is_renewed_brings_no_vain_turns() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    world.announce(&webhook, 2).await;
    let held = world.claim().await.deliveries;
    for _ in 0..6 {
        world.time.pass(DELIVERY_LEASE / 2);
        let now = world.time.now();
        let leases = [held[0].lease, held[1].lease];
        world.service.renew_leases(now, &leases).await.unwrap();
        let due = turn(&world, &webhook).await;
        assert_eq!(due, Some(now.plus(DELIVERY_LEASE)));
        let before = world.faults.counts().commits;
        assert_eq!(world.claim().await.deliveries, []);
        assert_eq!(world.faults.counts().commits, before);
    }
}

#[tokio::test]
async fn a_lease_renewed_after_the_clock_was_set_back_lapses_earlier() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    world.announce(&webhook, 1).await;
    let claimed = world.claim_one().await;
    world.time.set(world.time.now().minus(2 * SECOND));
    renew(&world, &claimed).await;
    world.assert_whole().await;
    world.time.pass(DELIVERY_LEASE);
    assert_eq!(world.claim_one().await.request.id, claimed.request.id);
    world.assert_whole().await;
}

#[tokio::test]
async fn with_an_endpoint_that_is_switched_off_its_retries_are_given_up_at_once() {
    for (reason, status, before) in [
        (DisabledReason::Gone, 410, Duration::ZERO),
        (DisabledReason::Failing, 500, 5 * DAY),
    ] {
        let world = World::new().await;
        let webhook = webhook(&world).await;
        let waiting = world.announce(&webhook, 1).await.remove(0);
        let failed = world.claim_one().await;
        world.finish(&failed, &answer(500)).await;
        if before > MINUTE {
            world.time.pass(before - MINUTE);
            let failed = world.claim_one().await;
            world.finish(&failed, &answer(500)).await;
            world.time.pass(MINUTE);
        }
        world.announce(&webhook, 1).await;
        let last = world.claim_one().await;
        let finished = world.finish(&last, &answer(status)).await;
        assert_eq!(finished, Finished::Dead(Some(reason)));
        world.assert_whole().await;
        let shown = world.delivery(&webhook, waiting.id).await;
        assert!(shown.next_attempt_at.unwrap() > world.time.now());
        world.time.pass(MILLISECOND);
        let drained = world.claim().await;
        assert_eq!((drained.given_up, drained.deliveries), (1, Vec::new()));
        let shown = world.delivery(&webhook, waiting.id).await;
        assert_eq!(shown.status, DeliveryStatus::Dead);
        assert_eq!(world.undelivered().await, 0);
        world.assert_whole().await;
    }
}

#[tokio::test]
async fn what_was_queued_while_the_clock_was_years_ahead_does_not_wait_for_years() {
    let world = World::new().await;
    let (new, held, failed) = (
        webhook(&world).await,
        webhook(&world).await,
        webhook(&world).await,
    );
    let right = world.time.now();
    world.time.pass(3 * 365 * DAY);
    world.announce(&held, 1).await;
    world.claim_one().await;
    world.announce(&failed, 1).await;
    let claimed = world.claim_one().await;
    world.finish(&claimed, &answer(500)).await;
    world.announce(&new, 1).await;
    world.time.set(right.plus(HOUR));
    // What is due by the right clock as well does not hide it.
    world.announce(&new, 1).await;
    let mut delivered = 0;
    for _ in 0..3 {
        for one in world.claim().await.deliveries {
            assert_eq!(world.finish(&one, &answer(200)).await, Finished::Delivered);
            delivered += 1;
        }
        world.time.pass(MILLISECOND);
    }
    assert_eq!(delivered, 4);
    assert_eq!(world.undelivered().await, 0);
    assert_eq!(world.claim().await, Default::default());
    world.assert_whole().await;
}

#[tokio::test]
async fn a_ping_comes_first_at_its_endpoint_and_not_before_other_endpoints() {
    let world = World::new().await;
    let (first, second) = (webhook(&world).await, webhook(&world).await);
    world.announce(&second, 2).await;
    world.time.pass(SECOND);
    world.announce(&first, 1).await;
    world.time.pass(SECOND);
    let now = world.time.now();
    // What the second waits for is put off behind the others.
    let nobody = InFlight::default();
    let claimed = world.service.claim_deliveries(now, 1, &nobody);
    assert_eq!(claimed.await.unwrap().deliveries.len(), 1);
    assert_eq!(turn(&world, &second).await, Some(now.plus(MILLISECOND)));
    let ping = world.ping(&second).await;
    assert_eq!(turn(&world, &second).await, Some(now));
    world.assert_whole().await;
    let claimed = world.claim().await.deliveries;
    let ids: Vec<_> = claimed.iter().map(|one| one.lease.endpoint()).collect();
    let (first, second) = (EndpointId::from(first.id), EndpointId::from(second.id));
    assert_eq!(ids, [first, second, second]);
    assert_eq!(claimed[1].request.id, ping.id);
    world.assert_whole().await;
}

/// The places of a queue.
async fn places(world: &World, webhook: &Webhook) -> Vec<Timestamp> {
    let range = keys::deliveries_due(world.org.id, webhook.id.into());
    let found = world.faults.inner().scan_all(&range).await.unwrap();
    let at = |key| keys::parse_delivery_due(key).unwrap().0;
    found.iter().map(|found| at(&found.key)).collect()
}

async fn damage(world: &World, webhook: &Webhook, delivery: &Delivery) {
    let key = keys::delivery(world.org.id, webhook.id.into(), delivery.event_id);
    world.overwrite(key, "\"damaged\"".to_owned()).await;
}

#[tokio::test]
async fn what_cannot_be_read_is_put_aside_once() {
    for is_off in [false, true] {
        let world = World::new().await;
        let webhook = webhook(&world).await;
        let made = world.announce(&webhook, 3).await;
        damage(&world, &webhook, &made[0]).await;
        // It waits at two more places: one of them where it would be put aside.
        let now = world.time.now();
        for at in [now.minus(MINUTE), now.plus(5 * MINUTE)] {
            let (org, endpoint) = (world.org.id, webhook.id.into());
            let place = keys::delivery_due(org, endpoint, at, made[0].event_id);
            world.overwrite(place, "null".to_owned()).await;
        }
        if is_off {
            switch(&world, &webhook, false).await;
        }
        for _ in 0..3 {
            world.claim().await;
            world.time.pass(MILLISECOND);
        }
        let aside = async || {
            let mut places = places(&world, &webhook).await;
            places.retain(|at| *at > now.plus(2 * MINUTE));
            places
        };
        let before = aside().await;
        assert_eq!(
            before,
            [5 * MINUTE, 5 * MINUTE + MILLISECOND].map(|aside| now.plus(aside))
        );
        // Turns that come meanwhile do not write it again.
        world.time.pass(MINUTE);
        move_turn(&world, &webhook, world.time.now()).await;
        world.claim().await;
        assert_eq!(aside().await, before);
    }
}

#[tokio::test]
async fn a_turn_that_comes_after_what_waits_is_a_difference() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    world.announce(&webhook, 2).await;
    let now = world.time.now();
    let nobody = InFlight::default();
    // Put off behind the others that are due: as it should be, and no later.
    let claimed = world.service.claim_deliveries(now, 1, &nobody).await;
    assert_eq!(claimed.unwrap().deliveries.len(), 1);
    assert_eq!(turn(&world, &webhook).await, Some(now.plus(MILLISECOND)));
    world.assert_whole().await;
    move_turn(&world, &webhook, now.plus(2 * MILLISECOND)).await;
    let differences = world.service.verify().await.unwrap().differences;
    let [difference] = differences.as_slice() else {
        panic!("{differences:?}");
    };
    let state = keys::endpoint(world.org.id, webhook.id.into());
    assert_eq!(difference.key, state);
}
