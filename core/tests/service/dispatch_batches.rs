//! Tests of attempts that are completed together, and of endpoints that answer quickly.

use std::collections::BTreeMap;
use std::time::Duration;

use knowledge_core::internals::keys;
use knowledge_core::model::{DeliveryStatus, Webhook};
use knowledge_core::service::{
    Attempt, AttemptOutcome, ClaimedDelivery, DELIVERY_LEASE, DeliveryLease,
    IN_FLIGHT_PER_ENDPOINT_MAX, IN_FLIGHT_PER_QUICK_ENDPOINT_MAX, InFlight, QUICK_RESPONSE_MAX,
};
use knowledge_core::store::{Commit, Store};
use knowledge_store::faults::{CommitFault, FaultPlan};

use crate::dispatching::{answer, under_way, webhook};
use crate::make::{MILLISECOND, MINUTE};
use crate::world::World;

const DELIVERED: Option<AttemptOutcome> = Some(AttemptOutcome::Delivered);

/// Returns attempts of these deliveries with this status.
fn ended(claimed: &[ClaimedDelivery], status: u16) -> Vec<(DeliveryLease, Attempt)> {
    let ended = claimed.iter().map(|one| (one.lease, answer(status)));
    ended.collect()
}

/// Completes attempts of these deliveries with this status together.
async fn finish_all(
    world: &World,
    claimed: &[ClaimedDelivery],
    status: u16,
) -> Vec<Option<AttemptOutcome>> {
    let (now, ended) = (world.time.now(), ended(claimed, status));
    let finished = world.service.dispatcher().finish_batch(now, &ended);
    finished.await.unwrap()
}

async fn status(world: &World, of: &Webhook, claimed: &ClaimedDelivery) -> DeliveryStatus {
    world.delivery(of, claimed.request.id).await.status
}

#[tokio::test]
async fn successful_attempts_are_completed_in_one_commit() {
    let world = World::new().await;
    let webhooks = [webhook(&world).await, webhook(&world).await];
    for webhook in &webhooks {
        world.announce(webhook, 10).await;
    }
    let claimed = world.claim().await.deliveries;
    assert_eq!(claimed.len(), 2 * IN_FLIGHT_PER_ENDPOINT_MAX);
    let before = world.faults.counts();
    let finished = finish_all(&world, &claimed, 204).await;
    assert_eq!(finished, vec![DELIVERED; claimed.len()]);
    let after = world.faults.counts();
    assert_eq!(after.commits - before.commits, 1);
    assert_eq!(world.undelivered().await, 4);
    for webhook in &webhooks {
        let theirs = |one: &&ClaimedDelivery| one.lease.endpoint() == webhook.id.into();
        let one = claimed.iter().find(theirs).unwrap();
        let shown = world.delivery(webhook, one.request.id).await;
        assert_eq!(shown.status, DeliveryStatus::Delivered);
        assert_eq!(shown.attempts.len(), 1);
        assert_eq!(shown.attempts[0].status, Some(204));
    }
    world.assert_whole().await;

    // The rest is due, and nothing afterwards.
    world.time.pass(MILLISECOND);
    let rest = world.claim().await.deliveries;
    assert_eq!(rest.len(), 4);
    let finished = finish_all(&world, &rest, 200).await;
    assert_eq!(finished, [DELIVERED; 4]);
    assert_eq!(world.claim().await, Default::default());
    world.assert_whole().await;
}

#[tokio::test]
async fn last_lease_of_a_batch_leaves_no_ready_entry() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    world.announce(&webhook, 3).await;
    let claimed = world.claim().await.deliveries;
    let finished = finish_all(&world, &claimed[..2], 200).await;
    assert_eq!(finished, [DELIVERED; 2]);
    // The third one is in flight until its lease expires.
    let lapse = world.time.now().plus(DELIVERY_LEASE);
    assert_eq!(world.claim().await.next_due, Some(lapse));
    world.assert_whole().await;
    let finished = finish_all(&world, &claimed[2..], 200).await;
    assert_eq!(finished, [DELIVERED]);
    assert_eq!(world.claim().await, Default::default());
    world.assert_whole().await;
}

#[tokio::test]
async fn attempt_that_needs_more_holds_up_no_other() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    world.announce(&webhook, 5).await;
    let claimed = world.claim().await.deliveries;
    let [sound, failed, lost, corrupt, deleted] = claimed.as_slice() else {
        panic!("five deliveries");
    };
    // Another claim of the third one follows the expiry of its lease.
    world.time.pass(DELIVERY_LEASE);
    let others = [sound, failed, corrupt, deleted].map(|one| one.lease);
    assert_eq!(world.renew(&others).await.unwrap().len(), 4);
    let again = world.claim().await.deliveries;
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].request.id, lost.request.id);
    let key =
        |one: &ClaimedDelivery| keys::delivery(world.org.id, webhook.id.into(), one.lease.event());
    world
        .overwrite(key(corrupt), "\"corrupt\"".to_owned())
        .await;
    let delete = Commit::builder().delete(key(deleted)).build().unwrap();
    world.faults.commit(delete).await.unwrap();
    let mut attempts = ended(&claimed, 200);
    attempts[1].1 = answer(500);
    attempts.push(attempts[0].clone());

    let now = world.time.now();
    let finished = world
        .service
        .dispatcher()
        .finish_batch(now, &attempts)
        .await
        .unwrap();
    assert_eq!(finished, [DELIVERED, None, None, None, None, None]);
    assert_eq!(
        status(&world, &webhook, sound).await,
        DeliveryStatus::Delivered
    );
    for one in [failed, lost] {
        assert_eq!(status(&world, &webhook, one).await, DeliveryStatus::Pending);
    }
    // One by one they have the outcomes that they have without others.
    let outcome = world.finish(lost, &answer(200)).await;
    assert_eq!(outcome, AttemptOutcome::LeaseLost);
    assert_eq!(
        world.finish(sound, &answer(200)).await,
        AttemptOutcome::Delivered
    );
    let retried = world.finish(failed, &answer(500)).await;
    assert!(matches!(retried, AttemptOutcome::Retry(_)));
}

#[tokio::test]
async fn ping_is_completed_by_itself() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    world.ping(&webhook).await;
    let claimed = world.claim().await.deliveries;
    let finished = finish_all(&world, &claimed, 200).await;
    assert_eq!(finished, [None]);
}

#[tokio::test]
async fn batch_ends_the_failures_of_its_endpoint() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    world.announce(&webhook, 12).await;
    let mut claimed = world.claim().await.deliveries;
    let failed = claimed.remove(0);
    world.finish(&failed, &answer(500)).await;
    let finished = finish_all(&world, &claimed, 200).await;
    assert_eq!(finished, vec![DELIVERED; 7]);
    // Several are in flight again.
    world.time.pass(MILLISECOND);
    assert_eq!(world.claim().await.deliveries.len(), 4);
    world.assert_whole().await;
}

#[tokio::test]
async fn batch_is_completed_once_despite_failed_commits() {
    for fault in [
        CommitFault::Conflict,
        CommitFault::Unavailable,
        CommitFault::LostApplied,
        CommitFault::LostNotApplied,
    ] {
        let world = World::new().await;
        let webhook = webhook(&world).await;
        world.announce(&webhook, 4).await;
        let claimed = world.claim().await.deliveries;
        let twin = world.copy(FaultPlan::none().at_commit(1, fault)).await;
        let attempts = ended(&claimed, 200);
        let now = twin.time.now();
        if twin
            .service
            .dispatcher()
            .finish_batch(now, &attempts)
            .await
            .is_err()
        {
            for one in &claimed {
                let outcome = twin.finish(one, &answer(200)).await;
                assert_eq!(outcome, AttemptOutcome::Delivered, "{fault:?}");
            }
        }
        assert_eq!(twin.faults.counts().faults, 1, "{fault:?}");
        for one in &claimed {
            let shown = twin.delivery(&webhook, one.request.id).await;
            assert_eq!(shown.status, DeliveryStatus::Delivered, "{fault:?}");
            assert_eq!(shown.attempts.len(), 1, "{fault:?}");
        }
        assert_eq!(twin.undelivered().await, 0, "{fault:?}");
        twin.assert_whole().await;
    }
}

/// Returns an attempt with this status and duration.
fn answer_after(duration: Duration, status: u16) -> Attempt {
    Attempt {
        duration,
        ..answer(status)
    }
}

#[tokio::test]
async fn quick_endpoint_may_have_more_in_flight() {
    let world = World::new().await;
    let (quick, slow) = (webhook(&world).await, webhook(&world).await);
    for webhook in [&quick, &slow] {
        world.announce(webhook, 200).await;
    }
    let mut in_flight = InFlight::default();
    let mut most = BTreeMap::new();
    for _ in 0..5 {
        let claimed = world.claim_beside(&in_flight).await.deliveries;
        in_flight = under_way_again(in_flight, &claimed);
        for one in &claimed {
            let endpoint = one.lease.endpoint();
            most.insert(endpoint, in_flight.with_endpoint(endpoint));
        }
        for one in &claimed {
            let is_quick = one.lease.endpoint() == quick.id.into();
            let duration = if is_quick {
                QUICK_RESPONSE_MAX
            } else {
                QUICK_RESPONSE_MAX + MILLISECOND
            };
            in_flight.note_attempt(&one.lease, &answer_after(duration, 200));
            in_flight.end(&one.lease);
        }
        finish_all(&world, &claimed, 200).await;
        world.time.pass(MILLISECOND);
    }
    assert_eq!(most[&quick.id.into()], IN_FLIGHT_PER_QUICK_ENDPOINT_MAX);
    assert_eq!(most[&slow.id.into()], IN_FLIGHT_PER_ENDPOINT_MAX);
    assert_eq!(in_flight.len(), 0);
    world.assert_whole().await;
}

/// Counts these deliveries in addition.
fn under_way_again(mut in_flight: InFlight, claimed: &[ClaimedDelivery]) -> InFlight {
    for one in claimed {
        in_flight.begin(&one.lease);
    }
    in_flight
}

#[tokio::test]
async fn failure_or_delay_ends_the_larger_maximum() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    world.announce(&webhook, 1).await;
    let claimed = world.claim().await.deliveries;
    let lease = &claimed[0].lease;
    for last in [answer(500), answer_after(MINUTE, 200)] {
        let mut in_flight = under_way(&claimed);
        for _ in 0..3 {
            in_flight.note_attempt(lease, &answer(200));
        }
        let max = in_flight.max_with_endpoint(lease.endpoint());
        assert_eq!(max, IN_FLIGHT_PER_ENDPOINT_MAX + 3);
        in_flight.note_attempt(lease, &last);
        let max = in_flight.max_with_endpoint(lease.endpoint());
        assert_eq!(max, IN_FLIGHT_PER_ENDPOINT_MAX);
    }
}
