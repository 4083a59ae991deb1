//! Tests of ready entries: each endpoint with queued deliveries has one, and in time.

use std::time::Duration;

use knowledge_core::internals::keys;
use knowledge_core::model::{
    Delivery, DeliveryStatus, DisabledReason, EndpointId, Timestamp, Webhook,
};
use knowledge_core::service::{AttemptOutcome, ClaimedDelivery, DELIVERY_LEASE, InFlight};
use knowledge_core::store::{Commit, Store, StoreExt};
use serde_json::Value;

use crate::dispatching::{answer, webhook};
use crate::make::{DAY, HOUR, MILLISECOND, MINUTE, set_active};
use crate::world::World;

const SECOND: Duration = Duration::from_secs(1);

async fn switch(world: &World, webhook: &Webhook, is_active: bool) {
    world.change_webhook(webhook, set_active(is_active)).await;
}

async fn renew(world: &World, claimed: &ClaimedDelivery) {
    let now = world.time.now();
    let held = world
        .service
        .dispatcher()
        .renew_leases(now, &[claimed.lease])
        .await;
    assert_eq!(held.unwrap(), [claimed.lease]);
}

/// Returns the time of an endpoint's ready entry.
async fn ready_time(world: &World, webhook: &Webhook) -> Option<Timestamp> {
    let key = keys::endpoint(world.org.id, webhook.id.into());
    let state: Value = world.read(&key).await.unwrap();
    state["due"].as_str().map(|due| due.parse().unwrap())
}

/// Makes another process renew the lease once the next claim has read its place in the queue.
fn renew_meanwhile(world: &World, other: &World, webhook: &Webhook, claimed: &ClaimedDelivery) {
    let key = keys::webhook(world.org.id, webhook.workspace_id, webhook.id);
    let (service, lease, now) = (other.service.clone(), claimed.lease, world.time.now());
    world.probe.before_read(key, async move {
        let held = service.dispatcher().renew_leases(now, &[lease]).await;
        assert_eq!(held.unwrap(), [lease]);
    });
}

#[tokio::test]
async fn lease_renewed_while_endpoint_is_disabled_has_ready_entry() {
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
    assert_eq!(world.claim().await.dead_lettered, 1);
    assert_eq!(world.undelivered().await, 0);
    world.assert_whole().await;
}

#[tokio::test]
async fn lapsed_lease_renewed_during_claim_has_ready_entry() {
    let world = World::new().await;
    let other = world.served_with(Default::default()).await;
    let webhook = webhook(&world).await;
    world.announce(&webhook, 1).await;
    let claimed = world.claim_one().await;
    // An earlier ready entry, of another delivery in flight.
    let state = keys::endpoint(world.org.id, webhook.id.into());
    world.time.pass(DELIVERY_LEASE);
    move_ready_entry(&world, &webhook, world.time.now().minus(MILLISECOND)).await;
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

/// Moves the ready entry of an endpoint; one that is early causes only a no-op.
async fn move_ready_entry(world: &World, webhook: &Webhook, to: Timestamp) {
    let (org, endpoint) = (world.org.id, EndpointId::from(webhook.id));
    let key = keys::endpoint(org, endpoint);
    let mut state: Value = world.read(&key).await.unwrap();
    let before = state["due"].as_str().unwrap().parse().unwrap();
    state["due"] = serde_json::json!(to);
    let commit = Commit::builder()
        .put(key, state.to_string())
        .delete(keys::endpoint_due(before, org, endpoint))
        .put(keys::endpoint_due(to, org, endpoint), "null");
    world.faults.commit(commit.build().unwrap()).await.unwrap();
}

#[tokio::test]
async fn renewals_do_not_postpone_deliveries_of_crashed_dispatcher() {
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
        assert!(ready_time(&world, &webhook).await.unwrap() <= lapses);
        world.assert_whole().await;
    }
    let again = world.claim_one().await;
    assert_eq!(again.request.id, crashed.request.id);
    world.assert_whole().await;
}

#[tokio::test]
async fn renewed_leases_cause_no_early_ready_entries() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    world.announce(&webhook, 2).await;
    let held = world.claim().await.deliveries;
    for _ in 0..6 {
        world.time.pass(DELIVERY_LEASE / 2);
        let now = world.time.now();
        let leases = [held[0].lease, held[1].lease];
        world
            .service
            .dispatcher()
            .renew_leases(now, &leases)
            .await
            .unwrap();
        let due = ready_time(&world, &webhook).await;
        assert_eq!(due, Some(now.plus(DELIVERY_LEASE)));
        let before = world.faults.counts().commits;
        assert_eq!(world.claim().await.deliveries, []);
        assert_eq!(world.faults.counts().commits, before);
    }
}

#[tokio::test]
async fn lease_renewed_after_backward_clock_jump_lapses_earlier() {
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
async fn retries_are_dead_lettered_once_endpoint_is_disabled() {
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
        assert_eq!(finished, AttemptOutcome::Dead(Some(reason)));
        world.assert_whole().await;
        let shown = world.delivery(&webhook, waiting.id).await;
        assert!(shown.next_attempt_at.unwrap() > world.time.now());
        world.time.pass(MILLISECOND);
        let drained = world.claim().await;
        assert_eq!((drained.dead_lettered, drained.deliveries), (1, Vec::new()));
        let shown = world.delivery(&webhook, waiting.id).await;
        assert_eq!(shown.status, DeliveryStatus::Dead);
        assert_eq!(world.undelivered().await, 0);
        world.assert_whole().await;
    }
}

#[tokio::test]
async fn deliveries_queued_by_a_clock_far_ahead_are_not_delayed() {
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
    // Deliveries that are due by the right clock do not hide those.
    world.announce(&new, 1).await;
    let mut delivered = 0;
    for _ in 0..3 {
        for one in world.claim().await.deliveries {
            assert_eq!(
                world.finish(&one, &answer(200)).await,
                AttemptOutcome::Delivered
            );
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
async fn ping_precedes_other_deliveries_of_its_endpoint_only() {
    let world = World::new().await;
    let (first, second) = (webhook(&world).await, webhook(&world).await);
    world.announce(&second, 2).await;
    world.time.pass(SECOND);
    world.announce(&first, 1).await;
    world.time.pass(SECOND);
    let now = world.time.now();
    // The queue of the second endpoint is deferred behind the others.
    let nobody = InFlight::default();
    let claimed = world.service.dispatcher().claim(now, 1, &nobody);
    assert_eq!(claimed.await.unwrap().deliveries.len(), 1);
    assert_eq!(
        ready_time(&world, &second).await,
        Some(now.plus(MILLISECOND))
    );
    let ping = world.ping(&second).await;
    assert_eq!(ready_time(&world, &second).await, Some(now));
    world.assert_whole().await;
    let claimed = world.claim().await.deliveries;
    let ids: Vec<_> = claimed.iter().map(|one| one.lease.endpoint()).collect();
    let (first, second) = (EndpointId::from(first.id), EndpointId::from(second.id));
    assert_eq!(ids, [first, second, second]);
    assert_eq!(claimed[1].request.id, ping.id);
    world.assert_whole().await;
}

/// Returns the times of the entries of a queue.
async fn queue_times(world: &World, webhook: &Webhook) -> Vec<Timestamp> {
    let range = keys::deliveries_due(world.org.id, webhook.id.into());
    let found = world.faults.inner().scan_all(&range).await.unwrap();
    let at = |key| keys::parse_delivery_due(key).unwrap().0;
    found.iter().map(|found| at(&found.key)).collect()
}

async fn corrupt(world: &World, webhook: &Webhook, delivery: &Delivery) {
    let key = keys::delivery(world.org.id, webhook.id.into(), delivery.event_id);
    world.overwrite(key, "\"corrupt\"".to_owned()).await;
}

#[tokio::test]
async fn corrupt_delivery_is_quarantined_once() {
    for is_off in [false, true] {
        let world = World::new().await;
        let webhook = webhook(&world).await;
        let made = world.announce(&webhook, 3).await;
        corrupt(&world, &webhook, &made[0]).await;
        // It is queued at two more times, one of which is that of the quarantine.
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
            let mut times = queue_times(&world, &webhook).await;
            times.retain(|at| *at > now.plus(2 * MINUTE));
            times
        };
        let before = aside().await;
        assert_eq!(
            before,
            [5 * MINUTE, 5 * MINUTE + MILLISECOND].map(|aside| now.plus(aside))
        );
        // Later ready entries do not write it again.
        world.time.pass(MINUTE);
        move_ready_entry(&world, &webhook, world.time.now()).await;
        world.claim().await;
        assert_eq!(aside().await, before);
    }
}

#[tokio::test]
async fn ready_entry_later_than_its_queue_is_a_difference() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    world.announce(&webhook, 2).await;
    let now = world.time.now();
    let nobody = InFlight::default();
    // Deferred behind the other due endpoints, but no later.
    let claimed = world.service.dispatcher().claim(now, 1, &nobody).await;
    assert_eq!(claimed.unwrap().deliveries.len(), 1);
    assert_eq!(
        ready_time(&world, &webhook).await,
        Some(now.plus(MILLISECOND))
    );
    world.assert_whole().await;
    move_ready_entry(&world, &webhook, now.plus(2 * MILLISECOND)).await;
    let differences = world.service.verify().await.unwrap().differences;
    let [difference] = differences.as_slice() else {
        panic!("{differences:?}");
    };
    let state = keys::endpoint(world.org.id, webhook.id.into());
    assert_eq!(difference.key, state);
}
