//! Tests of claims: selection, order and leases.

use std::collections::{BTreeMap, BTreeSet};

use knowledge_core::internals::keys;
use knowledge_core::model::{DeliveryFailureCode, DeliveryStatus, EndpointId, EventType, Webhook};
use knowledge_core::service::{
    AttemptOutcome, ClaimedDelivery, DELIVERY_LEASE, IN_FLIGHT_PER_ENDPOINT_MAX, InFlight,
    PageRequest,
};
use knowledge_core::store::Key;
use knowledge_store::faults::CallCounts;
use serde_json::Value;

use crate::dispatching::{answer, endpoint, signed_with, under_way, webhook};
use crate::make::{MILLISECOND, MINUTE, set_active};
use crate::world::World;

#[tokio::test]
async fn due_delivery_is_claimed_signed_and_delivered() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    let delivery = world.announce(&webhook, 1).await.remove(0);
    assert_eq!(delivery.status, DeliveryStatus::Pending);
    let claimed = world.claim_one().await;
    assert_eq!(claimed.event_type, EventType::WebhookPing);
    let request = &claimed.request;
    assert_eq!(request.id, delivery.id);
    assert_eq!(request.url, webhook.url);
    assert_eq!(request.timestamp, world.time.now());
    assert!(signed_with(request, &[webhook.signing_secret.as_ref().unwrap()]) == [true]);
    world.assert_whole().await;

    // No other claim gets it before the lease lapses.
    let again = world.claim().await;
    assert_eq!(again.deliveries, []);
    assert_eq!(again.next_due, Some(world.time.now().plus(DELIVERY_LEASE)));
    assert_eq!(
        world.finish(&claimed, &answer(204)).await,
        AttemptOutcome::Delivered
    );
    let delivered = world.delivery(&webhook, delivery.id).await;
    assert_eq!(delivered.status, DeliveryStatus::Delivered);
    assert_eq!(delivered.next_attempt_at, None);
    assert_eq!(delivered.attempts.len(), 1);
    assert_eq!(delivered.attempts[0].status, Some(204));
    assert_eq!(delivered.attempts[0].duration_ms, 20);
    assert_eq!(world.undelivered().await, 0);
    world.time.pass(MILLISECOND);
    assert_eq!(world.claim().await, Default::default());
    world.assert_whole().await;
}

#[tokio::test]
async fn endpoint_has_at_most_eight_deliveries_in_flight() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    world.announce(&webhook, 20).await;
    let claimed = world.claim().await.deliveries;
    assert_eq!(claimed.len(), IN_FLIGHT_PER_ENDPOINT_MAX);
    let mut in_flight = under_way(&claimed);
    world.time.pass(MILLISECOND);
    let none = world.claim_beside(&in_flight).await;
    assert_eq!((none.deliveries, none.has_more), (Vec::new(), false));
    for ended in &claimed[..3] {
        world.finish(ended, &answer(200)).await;
        in_flight.end(&ended.lease);
    }
    assert_eq!(world.claim_beside(&in_flight).await.deliveries.len(), 3);
    world.assert_whole().await;
}

#[tokio::test]
async fn failing_endpoint_has_one_delivery_in_flight() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    world.announce(&webhook, 20).await;
    let mut claimed = world.claim().await.deliveries;
    while let Some(failed) = claimed.pop() {
        let finished = world.finish(&failed, &answer(500)).await;
        assert!(matches!(finished, AttemptOutcome::Retry(_)));
        world.time.pass(MILLISECOND);
        let more = world.claim_beside(&under_way(&claimed)).await;
        assert_eq!(more.deliveries.len(), usize::from(claimed.is_empty()));
    }
    // It succeeds, so several others follow at once.
    world.time.pass(DELIVERY_LEASE);
    let one = world.claim_one().await;
    assert_eq!(
        world.finish(&one, &answer(200)).await,
        AttemptOutcome::Delivered
    );
    world.time.pass(MILLISECOND);
    let several = world.claim().await.deliveries;
    assert_eq!(several.len(), IN_FLIGHT_PER_ENDPOINT_MAX);
    world.assert_whole().await;
}

#[tokio::test]
async fn claim_respects_capacity() {
    let world = World::new().await;
    for _ in 0..3 {
        let webhook = webhook(&world).await;
        world.announce(&webhook, 5).await;
    }
    let claim = async |room: usize| {
        let (now, nobody) = (world.time.now(), InFlight::default());
        let claimed = world.service.dispatcher().claim(now, room, &nobody);
        claimed.await.unwrap()
    };
    let first = claim(7).await;
    assert_eq!((first.deliveries.len(), first.has_more), (7, true));
    assert_eq!(first.next_due, None);
    let second = claim(100).await;
    assert_eq!((second.deliveries.len(), second.has_more), (5, false));
    let next = world.time.now().plus(MILLISECOND);
    assert_eq!(second.next_due, Some(next));
    world.time.set(next);
    assert_eq!(claim(100).await.deliveries.len(), 3);
    world.assert_whole().await;
}

#[tokio::test]
async fn claims_rotate_among_endpoints() {
    let world = World::with(|options| options.limits.webhooks_per_workspace_max = 100).await;
    let mut webhooks = Vec::new();
    for _ in 0..100 {
        webhooks.push(webhook(&world).await);
    }
    // The first endpoints have long queues, the last one arrived last.
    for (index, webhook) in webhooks.iter().enumerate() {
        world
            .announce(webhook, if index < 10 { 30 } else { 3 })
            .await;
        world.time.pass(MILLISECOND);
    }
    let mut turns: BTreeMap<EndpointId, u32> = BTreeMap::new();
    for round in 0..100 {
        let (now, nobody) = (world.time.now(), InFlight::default());
        let claimed = world.service.dispatcher().claim(now, 3, &nobody);
        let claimed = claimed.await.unwrap().deliveries;
        assert_eq!(claimed.len(), 3);
        let claimed_of: BTreeSet<_> = claimed.iter().map(|one| one.lease.endpoint()).collect();
        for endpoint in claimed_of {
            *turns.entry(endpoint).or_default() += 1;
        }
        for one in &claimed {
            world.finish(one, &answer(200)).await;
        }
        let most = turns.values().copied().max().unwrap();
        assert!(most == 1 || turns.len() == 100, "round {round}: {turns:?}");
        world.time.pass(MILLISECOND);
    }
    assert_eq!(turns.len(), 100);
    world.assert_whole().await;
}

#[tokio::test]
async fn dead_endpoint_with_long_queue_does_not_delay_others() {
    let world = World::new().await;
    let (dead, slow) = (webhook(&world).await, webhook(&world).await);
    world.announce(&slow, 10).await;
    world.announce_thousands(&dead, 10_000).await;
    let lone = webhook(&world).await;
    world.announce(&lone, 1).await;
    assert_eq!(world.undelivered().await, 10_011);
    // The very next claim returns the deliveries of the other endpoints.
    world.probe.take_reads();
    let before = world.faults.counts();
    let claimed = world.claim().await.deliveries;
    let of = |webhook: &Webhook, claimed: &[ClaimedDelivery]| {
        let endpoint = webhook.id.into();
        let of_it = |one: &&ClaimedDelivery| one.lease.endpoint() == endpoint;
        claimed.iter().filter(of_it).count()
    };
    assert_eq!(
        [
            of(&dead, &claimed),
            of(&slow, &claimed),
            of(&lone, &claimed)
        ],
        [8, 8, 1]
    );
    // Its cost does not depend on the length of the queue.
    let counts = world.faults.counts();
    assert_eq!(counts.commits - before.commits, 3);
    assert!(world.probe.take_reads().count() < 100);
    for one in &claimed {
        let is_dead = one.lease.endpoint() == dead.id.into();
        world
            .finish(one, &answer(if is_dead { 503 } else { 200 }))
            .await;
    }
    world.time.pass(MILLISECOND);
    world.announce(&lone, 1).await;
    let claimed = world.claim().await.deliveries;
    assert_eq!(
        [
            of(&dead, &claimed),
            of(&slow, &claimed),
            of(&lone, &claimed)
        ],
        [1, 2, 1]
    );
}

#[tokio::test]
async fn queue_of_inactive_endpoint_is_dead_lettered() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    let waiting = world.announce(&webhook, 450).await;
    let late = world.claim().await.deliveries.remove(0);
    world.finish(&late, &answer(500)).await;
    world.change_webhook(&webhook, set_active(false)).await;
    // Of the eight claimed ones, seven are still in flight and one waits for its retry.
    let mut dead_lettered = 0;
    while world.undelivered().await > 7 {
        let claimed = world.claim().await;
        assert!(claimed.dead_lettered > 0 && claimed.deliveries.is_empty());
        dead_lettered += claimed.dead_lettered;
        world.time.pass(MILLISECOND);
    }
    assert_eq!(dead_lettered, 443);
    world.assert_whole().await;
    world.time.pass(DELIVERY_LEASE);
    assert_eq!(world.claim().await.dead_lettered, 7);
    assert_eq!(world.undelivered().await, 0);
    let shown = world.delivery(&webhook, waiting[0].id).await;
    assert_eq!(shown.status, DeliveryStatus::Dead);
    let error = shown.attempts.last().unwrap().error.as_ref().unwrap();
    assert_eq!(error.code, DeliveryFailureCode::EndpointInactive);
    world.time.pass(MINUTE);
    assert_eq!(world.claim().await, Default::default());
    world.assert_whole().await;
}

#[tokio::test]
async fn delivery_takes_few_store_calls() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    world.announce(&webhook, 1).await;
    let before = world.faults.counts();
    let claimed = world.claim_one().await;
    let claiming = world.faults.counts();
    assert_eq!(
        world.finish(&claimed, &answer(200)).await,
        AttemptOutcome::Delivered
    );
    let finishing = world.faults.counts();
    let calls = |from: &CallCounts, to: &CallCounts| {
        [
            to.reads - from.reads,
            to.ranges_read - from.ranges_read,
            to.commits - from.commits,
        ]
    };
    assert_eq!(calls(&before, &claiming), [4, 2, 1]);
    assert_eq!(calls(&claiming, &finishing), [2, 1, 1]);
}

/// Overwrites an entry with an unreadable value.
async fn corrupt(world: &World, key: Key) {
    world.overwrite(key, "\"corrupt\"".to_owned()).await;
}

#[tokio::test]
async fn corrupt_entries_do_not_block_other_endpoints() {
    let world = World::new().await;
    let org = world.org.id;
    let mut webhooks = Vec::new();
    for _ in 0..6 {
        let webhook = webhook(&world).await;
        world.announce(&webhook, 3).await;
        webhooks.push(webhook);
    }
    let [sound, delivery, event, secret, record, state] = webhooks.as_slice() else {
        panic!("six webhooks");
    };
    let first = async |webhook: &Webhook| {
        let page = PageRequest::default();
        let endpoint = endpoint(webhook);
        let listed = world.list_deliveries(endpoint, None, &page);
        listed.await.unwrap().data.remove(0)
    };
    let (of_delivery, of_event) = (first(delivery).await, first(event).await);
    corrupt(
        &world,
        keys::delivery(org, delivery.id.into(), of_delivery.event_id),
    )
    .await;
    corrupt(&world, keys::event(org, of_event.event_id)).await;
    let key = keys::webhook(org, secret.workspace_id, secret.id);
    let mut stored: Value = world.read(&key).await.unwrap();
    stored["secret"] = "AAAA".into();
    world.overwrite(key, stored.to_string()).await;
    corrupt(&world, keys::webhook(org, record.workspace_id, record.id)).await;
    corrupt(&world, keys::endpoint(org, state.id.into())).await;
    // A ready entry whose endpoint no longer exists.
    let nobody = EndpointId(uuid::Uuid::nil());
    let stray = keys::endpoint_due(world.time.now(), org, nobody);
    world.overwrite(stray.clone(), "null".to_owned()).await;

    let claimed = world.claim().await;
    let of = |webhook: &Webhook| {
        let endpoint = webhook.id.into();
        let mut claimed = claimed.deliveries.iter();
        let claimed = claimed.by_ref();
        claimed
            .filter(|one| one.lease.endpoint() == endpoint)
            .count()
    };
    assert_eq!(of(sound), 3);
    assert_eq!(of(delivery), 2);
    assert_eq!((of(event), claimed.dead_lettered), (2, 1));
    assert_eq!((of(secret), of(record), of(state)), (0, 0, 0));
    assert_eq!(world.read::<()>(&stray).await, None);
    let dead_lettered = world.delivery(event, of_event.id).await;
    assert_eq!(dead_lettered.status, DeliveryStatus::Dead);
    let error = dead_lettered.attempts[0].error.as_ref().unwrap();
    assert_eq!(error.code, DeliveryFailureCode::EventUnreadable);

    // Claims do not spin: a corrupt endpoint is due again minutes later, and resumes once repaired.
    for one in &claimed.deliveries {
        world.finish(one, &answer(200)).await;
    }
    let idle = world.claim().await;
    assert_eq!((idle.deliveries, idle.has_more), (Vec::new(), false));
    assert_eq!(idle.next_due, Some(world.time.now().plus(5 * MINUTE)));
    let rotated = world.within(secret.workspace_id).rotate_webhook(secret.id);
    rotated.await.unwrap();
    world.time.pass(5 * MINUTE);
    let claimed = world.claim().await.deliveries;
    assert_eq!(claimed.len(), 3);
    assert!(
        claimed
            .iter()
            .all(|one| one.lease.endpoint() == secret.id.into())
    );
}
