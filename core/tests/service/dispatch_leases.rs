//! Tests of leases, and of changes of the endpoint during a lease.

use std::time::Duration;

use knowledge_core::model::{DeliveryFailureCode, DeliveryStatus, DisabledReason, EventType};
use knowledge_core::service::{
    AttemptOutcome, ClaimedDelivery, DELIVERY_LEASE, DELIVERY_TIMEOUT, Endpoint,
};

use crate::dispatching::{answer, endpoint, signed_with, webhook};
use crate::make::{DAY, HOUR, MEMBER, MILLISECOND, MINUTE, code, set_active, set_url};
use crate::world::World;

const RENEWAL: Duration = DELIVERY_LEASE.checked_div(2).unwrap();

async fn renew(world: &World, leases: &[&ClaimedDelivery]) -> usize {
    let leases: Vec<_> = leases.iter().map(|claimed| claimed.lease).collect();
    let held = world.renew(&leases).await;
    held.unwrap().len()
}

#[tokio::test]
async fn deliveries_of_crashed_dispatcher_are_due_when_leases_lapse() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    world.announce(&webhook, 3).await;
    let lost = world.claim().await.deliveries;
    assert_eq!(lost.len(), 3);
    world.time.pass(DELIVERY_LEASE - MILLISECOND);
    let early = world.claim().await;
    let next = world.time.now().plus(MILLISECOND);
    assert_eq!((early.deliveries, early.next_due), (Vec::new(), Some(next)));
    world.time.pass(MILLISECOND);
    let again = world.claim().await.deliveries;
    let ids = |claimed: &[ClaimedDelivery]| {
        let mut ids: Vec<_> = claimed.iter().map(|claimed| claimed.request.id).collect();
        ids.sort();
        ids
    };
    assert_eq!(ids(&again), ids(&lost));
    for (again, lost) in again.iter().zip(&lost) {
        assert_ne!(again.lease, lost.lease);
    }
    world.assert_whole().await;
}

#[tokio::test]
async fn late_outcome_of_lost_lease_changes_nothing() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    world.announce(&webhook, 1).await;
    let lost = world.claim_one().await;
    world.time.pass(DELIVERY_LEASE);
    let held = world.claim_one().await;
    for attempt in [answer(200), answer(500), answer(410)] {
        let before = world.contents().await;
        assert_eq!(
            world.finish(&lost, &attempt).await,
            AttemptOutcome::LeaseLost
        );
        assert_eq!(renew(&world, &[&lost]).await, 0);
        assert_eq!(world.contents().await, before);
    }
    assert_eq!(
        world.finish(&held, &answer(200)).await,
        AttemptOutcome::Delivered
    );
    let before = world.contents().await;
    assert_eq!(
        world.finish(&lost, &answer(500)).await,
        AttemptOutcome::LeaseLost
    );
    assert_eq!(world.contents().await, before);
    world.assert_whole().await;
}

#[tokio::test]
async fn attempt_is_recorded_once_however_often_it_is_reported() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    for (attempt, is_dead) in [
        (answer(200), false),
        (answer(500), false),
        (answer(410), true),
    ] {
        world.announce(&webhook, 1).await;
        let claimed = world.claim_one().await;
        let finished = world.finish(&claimed, &attempt).await;
        assert_eq!(matches!(finished, AttemptOutcome::Dead(_)), is_dead);
        let before = world.contents().await;
        assert_eq!(world.finish(&claimed, &attempt).await, finished);
        assert_eq!(
            world.finish(&claimed, &answer(404)).await,
            AttemptOutcome::LeaseLost
        );
        assert_eq!(world.contents().await, before);
    }
}

/// An endpoint that fails already, and is due anyway: a failure changes its state by the lease alone.
#[tokio::test]
async fn attempts_of_failing_endpoint_are_recorded_once() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    world.announce(&webhook, 8).await;
    let claimed = world.claim().await.deliveries;
    assert!(claimed.len() > 4, "{}", claimed.len());
    world.announce(&webhook, 2).await;
    for claimed in &claimed {
        let finished = world.finish(claimed, &answer(500)).await;
        assert!(matches!(finished, AttemptOutcome::Retry(_)));
        let before = world.contents().await;
        assert_eq!(world.finish(claimed, &answer(500)).await, finished);
        assert_eq!(world.contents().await, before);
    }
    world.assert_whole().await;
}

#[tokio::test]
async fn renewed_leases_last_as_long_as_an_exchange() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    world.announce(&webhook, 2).await;
    let claimed = world.claim().await.deliveries;
    let leases: Vec<_> = claimed.iter().collect();
    let begun = world.time.now();
    while world.time.now().since(begun) < DELIVERY_TIMEOUT {
        world.time.pass(RENEWAL);
        assert_eq!(renew(&world, &leases).await, 2);
        assert_eq!(renew(&world, &leases).await, 2);
        assert_eq!(world.claim().await.deliveries, []);
        world.assert_whole().await;
    }
    for claimed in &claimed {
        assert_eq!(
            world.finish(claimed, &answer(200)).await,
            AttemptOutcome::Delivered
        );
        assert_eq!(renew(&world, &[claimed]).await, 0);
    }
    assert_eq!(world.claim().await.next_due, None);
    world.assert_whole().await;
}

#[tokio::test]
async fn leases_are_renewed_in_few_commits() {
    let world = World::new().await;
    let mut webhooks = Vec::new();
    for _ in 0..4 {
        let webhook = webhook(&world).await;
        world.announce(&webhook, 8).await;
        webhooks.push(webhook);
    }
    let claimed = world.claim().await.deliveries;
    assert_eq!(claimed.len(), 32);
    world.time.pass(RENEWAL);
    let before = world.faults.counts();
    assert_eq!(renew(&world, &claimed.iter().collect::<Vec<_>>()).await, 32);
    let after = world.faults.counts();
    assert_eq!(after.commits - before.commits, 1);
    let ranges_read = after.ranges_read - before.ranges_read;
    assert_eq!(
        after.reads - before.reads - ranges_read,
        1,
        "one for all leases"
    );
    world.assert_whole().await;
}

#[tokio::test]
async fn endpoint_disabled_during_attempt_is_not_retried() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    world.announce(&webhook, 2).await;
    let claimed = world.claim().await.deliveries;
    world.announce(&webhook, 1).await;
    world.change_webhook(&webhook, set_active(false)).await;
    assert_eq!(world.claim().await.dead_lettered, 1);
    // Attempts in flight continue, since they may succeed.
    assert_eq!(renew(&world, &claimed.iter().collect::<Vec<_>>()).await, 2);
    assert_eq!(
        world.finish(&claimed[0], &answer(200)).await,
        AttemptOutcome::Delivered
    );
    assert_eq!(
        world.finish(&claimed[1], &answer(500)).await,
        AttemptOutcome::Dead(None)
    );
    assert_eq!(world.undelivered().await, 0);
    world.assert_whole().await;
    let ping = world.ping_endpoint(endpoint(&webhook)).await;
    assert_eq!(code(ping), "endpoint_off");
}

#[tokio::test]
async fn endpoint_deleted_during_attempt_loses_its_deliveries() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    world.announce(&webhook, 3).await;
    let claimed = world.claim().await.deliveries;
    let (workspace, id) = (webhook.workspace_id, webhook.id);
    world.within(workspace).delete_webhook(id).await.unwrap();
    let before = world.contents().await;
    assert_eq!(
        world.finish(&claimed[0], &answer(500)).await,
        AttemptOutcome::LeaseLost
    );
    assert_eq!(
        world.finish(&claimed[1], &answer(200)).await,
        AttemptOutcome::LeaseLost
    );
    assert_eq!(renew(&world, &[&claimed[2]]).await, 0);
    assert_eq!(world.contents().await, before);
    world.time.pass(MINUTE);
    assert_eq!(world.claim().await, Default::default());
    world.maintain().await;
    assert_eq!(
        world.finish(&claimed[2], &answer(500)).await,
        AttemptOutcome::LeaseLost
    );
    assert_eq!(world.undelivered().await, 0);
    world.assert_whole().await;
}

#[tokio::test]
async fn response_of_old_url_does_not_disable_the_new_one() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    world.announce(&webhook, 1).await;
    let claimed = world.claim_one().await;
    world
        .change_webhook(&webhook, set_url("https://example.org/new"))
        .await;
    let ping = world.claim_one().await;
    assert_eq!(ping.event_type, EventType::WebhookPing);
    world.finish(&ping, &answer(204)).await;
    let finished = world.finish(&claimed, &answer(410)).await;
    let AttemptOutcome::Retry(at) = finished else {
        panic!("{finished:?}");
    };
    let (workspace, id) = (webhook.workspace_id, webhook.id);
    let shown = world.within(workspace).get_webhook(id).await;
    assert!(shown.unwrap().value.is_active);
    world.time.set(at);
    let again = world.claim_one().await;
    assert_eq!(again.request.url.as_str(), "https://example.org/new");
    assert_eq!(again.request.id, claimed.request.id);
    assert_eq!(again.request.body, claimed.request.body);
    let finished = world.finish(&again, &answer(410)).await;
    assert_eq!(finished, AttemptOutcome::Dead(Some(DisabledReason::Gone)));
    world.assert_whole().await;
}

#[tokio::test]
async fn new_url_has_its_own_five_days_of_failures() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    world.announce(&webhook, 1).await;
    let claimed = world.claim_one().await;
    world.finish(&claimed, &answer(500)).await;
    world.time.pass(6 * DAY);
    world
        .change_webhook(&webhook, set_url("https://example.org/new"))
        .await;
    let ping = world.claim_one().await;
    assert_eq!(ping.event_type, EventType::WebhookPing);
    world.finish(&ping, &answer(204)).await;
    let claimed = world.claim_one().await;
    let finished = world.finish(&claimed, &answer(500)).await;
    assert!(matches!(finished, AttemptOutcome::Retry(_)), "{finished:?}");
}

#[tokio::test]
async fn rotated_and_previous_secret_sign_for_a_day() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    let old = webhook.signing_secret.clone().unwrap();
    world.announce(&webhook, 1).await;
    let first = world.claim_one().await;
    assert_eq!(signed_with(&first.request, &[&old]), [true]);
    world.finish(&first, &answer(500)).await;
    let (workspace, id) = (webhook.workspace_id, webhook.id);
    let rotated = world.within(workspace).rotate_webhook(id).await.unwrap();
    let new = rotated.signing_secret;
    world.time.pass(HOUR);
    let second = world.claim_one().await;
    assert_eq!(signed_with(&second.request, &[&old, &new]), [true, true]);
    assert_eq!(second.request.signature.split(' ').count(), 2);
    assert_eq!(second.request.id, first.request.id);
    assert_eq!(second.request.body, first.request.body);
    assert_eq!(second.request.timestamp, world.time.now());
    world.finish(&second, &answer(500)).await;
    world.time.set(rotated.previous_secret_expires_at);
    let third = world.claim_one().await;
    assert_eq!(signed_with(&third.request, &[&old, &new]), [false, true]);
    assert_eq!(third.request.signature.split(' ').count(), 1);
}

#[tokio::test]
async fn delivery_body_has_event_and_time() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    let ping = world.ping(&webhook).await;
    world.time.pass(MINUTE);
    let request = world.claim_one().await.request;
    let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!(
        body,
        serde_json::json!({
            "type": "webhook.ping",
            "timestamp": ping.created_at,
            "data": { "workspace_id": webhook.workspace_id, "endpoint_id": webhook.id },
        })
    );
    assert!(
        request
            .body
            .starts_with(br#"{"type":"webhook.ping","timestamp":""#)
    );
    assert_eq!(ping.event_type, EventType::WebhookPing);
}

#[tokio::test]
async fn forward_clock_jump_lapses_leases_and_loses_nothing() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    let waiting = world.announce(&webhook, 1).await.remove(0);
    let claimed = world.claim_one().await;
    world.time.pass(HOUR);
    let again = world.claim_one().await;
    assert_eq!(
        world.finish(&claimed, &answer(200)).await,
        AttemptOutcome::LeaseLost
    );
    let finished = world.finish(&again, &answer(500)).await;
    assert!(matches!(finished, AttemptOutcome::Retry(_)));
    world.time.pass(HOUR);
    let last = world.claim_one().await;
    assert_eq!(last.request.id, waiting.id);
    assert_eq!(
        world.finish(&last, &answer(200)).await,
        AttemptOutcome::Delivered
    );
    world.assert_whole().await;
}

#[tokio::test]
async fn backward_clock_jump_delays_retries_and_loses_nothing() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    world.announce(&webhook, 2).await;
    let mut claimed = world.claim().await.deliveries;
    let finished = world.finish(&claimed.remove(0), &answer(500)).await;
    let AttemptOutcome::Retry(retry) = finished else {
        panic!("{finished:?}");
    };
    let set_back = world.time.now().minus(HOUR);
    world.time.set(set_back);
    // The delivery in flight is renewed by the present clock, and completes.
    assert_eq!(renew(&world, &[&claimed[0]]).await, 1);
    world.assert_whole().await;
    assert_eq!(
        world.finish(&claimed[0], &answer(200)).await,
        AttemptOutcome::Delivered
    );
    // A new event is delivered now; the pending retry waits for the length of the jump in addition.
    let new = world.announce(&webhook, 1).await.remove(0);
    let due = world.claim_one().await;
    assert_eq!(due.request.id, new.id);
    assert_eq!(
        world.finish(&due, &answer(200)).await,
        AttemptOutcome::Delivered
    );
    assert_eq!(world.claim().await.next_due, Some(retry));
    world.time.set(retry);
    let last = world.claim_one().await;
    assert_eq!(
        world.finish(&last, &answer(200)).await,
        AttemptOutcome::Delivered
    );
    assert_eq!(world.undelivered().await, 0);
    world.assert_whole().await;
}

#[tokio::test]
async fn lease_from_before_backward_clock_jump_is_lapsed() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    world.announce(&webhook, 1).await;
    let lost = world.claim_one().await;
    world.time.set(world.time.now().minus(HOUR));
    let new = world.announce(&webhook, 1).await.remove(0);
    let mut claimed = world.claim().await.deliveries;
    assert_eq!(claimed.len(), 2);
    assert_eq!(claimed.remove(0).request.id, new.id);
    assert_eq!(claimed[0].request.id, lost.request.id);
    assert_eq!(
        world.finish(&lost, &answer(500)).await,
        AttemptOutcome::LeaseLost
    );
    assert_eq!(
        world.finish(&claimed[0], &answer(200)).await,
        AttemptOutcome::Delivered
    );
    world.assert_whole().await;
}

#[tokio::test]
async fn subscriber_without_permission_receives_nothing() {
    let world = World::new().await;
    let member = world.member(MEMBER).await;
    let recall = world.recall().await;
    let subscription = world.subscribe(&world.trusted(member), recall).await;
    let endpoint = Endpoint::Subscription(subscription.id);
    let ping = world.ping_endpoint(endpoint).await.unwrap();
    let secret = subscription.signing_secret.unwrap();
    let claimed = world.claim_one().await;
    assert_eq!(signed_with(&claimed.request, &[&secret]), [true]);
    world.finish(&claimed, &answer(200)).await;

    world.redeliver(endpoint, ping.id).await.unwrap();
    world.remove_member(member).await.unwrap();
    let nothing = world.claim().await;
    assert_eq!((nothing.deliveries, nothing.dead_lettered), (Vec::new(), 1));
    let shown = world.get_delivery(endpoint, ping.id).await.unwrap();
    assert_eq!(shown.status, DeliveryStatus::Dead);
    let error = shown.attempts.last().unwrap().error.as_ref().unwrap();
    assert_eq!(error.code, DeliveryFailureCode::EndpointInactive);
    assert_eq!(world.disabled_endpoints().await, 0);
    world.assert_whole().await;
}
