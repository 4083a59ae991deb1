//! Tests of the effects of a response: retry schedule and disabled endpoints.

use std::time::Duration;

use knowledge_core::internals::keys;
use knowledge_core::model::{
    DeliveryFailureCode, DeliveryStatus, DisabledReason, EventType, Webhook,
};
use knowledge_core::service::{Attempt, AttemptOutcome, AuditAction};

use crate::audit::entry_of;
use crate::dispatching::{answer, answer_later, endpoint, silence, webhook};
use crate::make::{DAY, HOUR, MILLISECOND, MINUTE, set_active};
use crate::world::World;

const SECOND: Duration = Duration::from_secs(1);
const DELAYS: [Duration; 9] = [
    Duration::from_secs(5),
    Duration::from_secs(5 * 60),
    Duration::from_secs(30 * 60),
    Duration::from_secs(2 * 3_600),
    Duration::from_secs(5 * 3_600),
    Duration::from_secs(10 * 3_600),
    Duration::from_secs(14 * 3_600),
    Duration::from_secs(20 * 3_600),
    Duration::from_secs(24 * 3_600),
];

/// Makes the due attempt and returns its outcome.
async fn fail(world: &World, attempt: &Attempt) -> AttemptOutcome {
    let claimed = world.claim_one().await;
    world.finish(&claimed, attempt).await
}

/// Returns the delay until the next attempt, which must exist.
async fn wait_after(world: &World, attempt: &Attempt) -> Duration {
    match fail(world, attempt).await {
        AttemptOutcome::Retry(at) => at.since(world.time.now()),
        other => panic!("{other:?}"),
    }
}

async fn read(world: &World, webhook: &Webhook) -> Webhook {
    let (workspace, id) = (webhook.workspace_id, webhook.id);
    let read = world.within(workspace).get_webhook(id).await;
    read.unwrap().value
}

#[tokio::test]
async fn delivery_has_ten_attempts_by_schedule() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    let delivery = world.announce(&webhook, 1).await.remove(0);
    let mut made = Vec::new();
    for planned in DELAYS {
        made.push(world.time.now());
        let wait = wait_after(&world, &silence()).await;
        assert!(
            (planned.mul_f64(0.8)..=planned.mul_f64(1.2)).contains(&wait),
            "{wait:?} for {planned:?}"
        );
        let shown = world.delivery(&webhook, delivery.id).await;
        assert_eq!(shown.status, DeliveryStatus::Pending);
        let next = world.time.now().plus(wait);
        assert_eq!(shown.next_attempt_at, Some(next));
        world.time.set(next.minus(MILLISECOND));
        let early = world.claim().await;
        assert_eq!((early.deliveries, early.next_due), (Vec::new(), Some(next)));
        world.time.set(next);
    }
    made.push(world.time.now());
    assert_eq!(fail(&world, &silence()).await, AttemptOutcome::Dead(None));
    let shown = world.delivery(&webhook, delivery.id).await;
    assert_eq!(shown.status, DeliveryStatus::Dead);
    assert_eq!(shown.next_attempt_at, None);
    let times: Vec<_> = shown.attempts.iter().map(|attempt| attempt.at).collect();
    assert_eq!(times, made);
    for attempt in &shown.attempts {
        let error = attempt.error.as_ref().unwrap();
        assert_eq!(error.code, DeliveryFailureCode::TimedOut);
        assert_eq!((attempt.status, attempt.duration_ms), (None, 15_000));
    }
    assert!(read(&world, &webhook).await.is_active);
    assert_eq!(world.undelivered().await, 0);
    world.time.pass(10 * DAY);
    assert_eq!(world.claim().await.deliveries, []);
    world.assert_whole().await;
}

#[tokio::test]
async fn retry_delays_are_jittered_by_a_fifth() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    let mut waits = Vec::new();
    for _ in 0..100 {
        world.announce(&webhook, 1).await;
        waits.push(wait_after(&world, &answer(500)).await);
        let other = world.announce(&webhook, 1).await;
        let claimed = world.claim_one().await;
        assert_eq!(claimed.request.id, other[0].id);
        assert_eq!(
            world.finish(&claimed, &answer(200)).await,
            AttemptOutcome::Delivered
        );
    }
    let within = |from: u64, to: u64| {
        let range = Duration::from_millis(from)..Duration::from_millis(to);
        waits.iter().filter(|wait| range.contains(*wait)).count()
    };
    assert_eq!(within(4_000, 6_001), 100);
    for fifth in 0..5 {
        let from = 4_000 + fifth * 400;
        assert!(within(from, from + 400) > 0, "{waits:?}");
    }
}

#[tokio::test]
async fn retry_after_extends_delay_up_to_twice_the_plan() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    let cases = [
        (429, SECOND, 4_000..6_001),
        (503, 9 * SECOND, 9_000..9_001),
        (429, 11 * SECOND, 10_000..10_001),
        (503, 10 * 365 * DAY, 10_000..10_001),
        (429, Duration::MAX, 10_000..10_001),
    ];
    for (status, asked, range) in cases {
        world.announce(&webhook, 1).await;
        let wait = wait_after(&world, &answer_later(status, asked)).await;
        assert!(range.contains(&wait.as_millis()), "{wait:?} for {asked:?}");
        world.time.pass(wait);
        assert_eq!(fail(&world, &answer(200)).await, AttemptOutcome::Delivered);
    }
    world.assert_whole().await;
}

#[tokio::test]
async fn responses_other_than_2xx_are_failures() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    for status in [200, 201, 204, 299] {
        world.announce(&webhook, 1).await;
        assert_eq!(
            fail(&world, &answer(status)).await,
            AttemptOutcome::Delivered
        );
    }
    for status in [
        100, 199, 300, 301, 307, 308, 400, 404, 409, 429, 500, 503, 599,
    ] {
        world.announce(&webhook, 1).await;
        let wait = wait_after(&world, &answer(status)).await;
        world.time.pass(wait);
        assert_eq!(fail(&world, &answer(200)).await, AttemptOutcome::Delivered);
    }
}

#[tokio::test]
async fn gone_response_disables_endpoint_at_once() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    let waiting = world.announce(&webhook, 3).await;
    let claimed = world.claim().await.deliveries;
    world.announce(&webhook, 2).await;
    let reason = Some(DisabledReason::Gone);
    assert_eq!(
        world.finish(&claimed[0], &answer(410)).await,
        AttemptOutcome::Dead(reason)
    );
    let shown = read(&world, &webhook).await;
    assert_eq!((shown.is_active, shown.disabled_reason), (false, reason));
    assert_eq!(shown.updated_at, world.time.now());
    assert_eq!(world.disabled_endpoints().await, 1);
    let entry = entry_of(&world, AuditAction::WebhookDisable).await;
    assert_eq!((entry.actor_id, entry.credential_id), (None, None));
    assert_eq!(entry.resource.id, webhook.id.0);
    assert_eq!(entry.before.unwrap()["is_active"], true);
    assert_eq!(entry.after.unwrap()["disabled_reason"], "gone");
    world.assert_whole().await;

    // Queued deliveries are dead-lettered; those in flight may still succeed, and are not retried.
    let drained = world.claim().await;
    assert_eq!((drained.deliveries, drained.dead_lettered), (Vec::new(), 2));
    assert_eq!(
        world.finish(&claimed[1], &answer(200)).await,
        AttemptOutcome::Delivered
    );
    assert_eq!(
        world.finish(&claimed[2], &answer(410)).await,
        AttemptOutcome::Dead(None)
    );
    assert_eq!(world.undelivered().await, 0);
    assert_eq!(world.disabled_endpoints().await, 1);
    let dead_lettered = world.claim().await;
    assert_eq!(dead_lettered.deliveries, []);
    let ids: Vec<_> = waiting.iter().map(|delivery| delivery.id).collect();
    assert!(ids.contains(&claimed[0].request.id));
    world.assert_whole().await;

    // Once enabled again, it receives later events, and the dead letters on request.
    let updated = world.change_webhook(&webhook, set_active(true)).await;
    assert_eq!(updated.disabled_reason, None);
    assert_eq!(world.disabled_endpoints().await, 0);
    let again = world.redeliver_dead(endpoint(&webhook));
    assert_eq!(again.await.unwrap().redelivered, 4);
    assert_eq!(world.claim().await.deliveries.len(), 4);
    world.assert_whole().await;
}

#[tokio::test]
async fn endpoint_is_disabled_after_five_days_of_only_failures() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    // A success after an hour of failures restarts the five days.
    world.announce(&webhook, 1).await;
    let wait = wait_after(&world, &answer(500)).await;
    world.time.pass(HOUR.max(wait));
    assert_eq!(fail(&world, &answer(200)).await, AttemptOutcome::Delivered);
    let mut first = None;
    loop {
        world.announce(&webhook, 1).await;
        match fail(&world, &answer(500)).await {
            AttemptOutcome::Dead(Some(reason)) => {
                assert_eq!(reason, DisabledReason::Failing);
                break;
            }
            _ => first = first.or(Some(world.time.now())),
        }
        let failing_for = world.time.now().since(first.unwrap());
        assert!(failing_for < 5 * DAY, "{failing_for:?}");
        // Older deliveries would be attempted first, and only new ones matter here.
        drop_waiting(&world, &webhook).await;
        world.time.pass(5 * HOUR);
    }
    let failing_for = world.time.now().since(first.unwrap());
    assert!((5 * DAY..5 * DAY + 6 * HOUR).contains(&failing_for));
    let shown = read(&world, &webhook).await;
    assert_eq!(shown.disabled_reason, Some(DisabledReason::Failing));
    assert!(!shown.is_active);
    world.claim().await;
    assert_eq!(world.undelivered().await, 0);
    world.assert_whole().await;
}

/// Drops pending retries: the owner disables the endpoint and enables it again.
async fn drop_waiting(world: &World, webhook: &Webhook) {
    let key = keys::endpoint(world.org.id, webhook.id.into());
    let before: serde_json::Value = world.read(&key).await.unwrap();
    for is_active in [false, true] {
        world.change_webhook(webhook, set_active(is_active)).await;
        world.claim().await;
    }
    // This update also resets the failures, which is not under test.
    let mut after: serde_json::Value = world.read(&key).await.unwrap();
    after["failing_since"] = before["failing_since"].clone();
    world.overwrite(key, after.to_string()).await;
}

#[tokio::test]
async fn endpoint_stays_enabled_with_successes_between_failures() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    for _ in 0..12 {
        world.announce(&webhook, 2).await;
        let failed = world.claim().await.deliveries;
        let finished = world.finish(&failed[0], &answer(500)).await;
        assert!(matches!(finished, AttemptOutcome::Retry(_)), "{finished:?}");
        for succeeded in &failed[1..] {
            assert_eq!(
                world.finish(succeeded, &answer(200)).await,
                AttemptOutcome::Delivered
            );
        }
        world.time.pass(12 * HOUR);
        while let Some(due) = world.claim().await.deliveries.first() {
            world.finish(due, &answer(200)).await;
            world.time.pass(MINUTE);
        }
    }
    assert!(read(&world, &webhook).await.is_active);
    world.assert_whole().await;
}

#[tokio::test]
async fn ping_is_attempted_once_and_never_disables_endpoint() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    for attempt in [answer(410), answer(500), silence()] {
        let ping = world.ping(&webhook).await;
        let claimed = world.claim_one().await;
        assert_eq!(claimed.event_type, EventType::WebhookPing);
        assert_eq!(
            world.finish(&claimed, &attempt).await,
            AttemptOutcome::Dead(None)
        );
        let shown = world.delivery(&webhook, ping.id).await;
        assert_eq!(
            (shown.status, shown.attempts.len()),
            (DeliveryStatus::Dead, 1)
        );
        world.time.pass(4 * DAY);
    }
    let shown = read(&world, &webhook).await;
    assert_eq!((shown.is_active, shown.disabled_reason), (true, None));
    world.assert_whole().await;
}

#[tokio::test]
async fn successful_ping_enables_endpoint_again() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    world.announce(&webhook, 1).await;
    fail(&world, &answer(410)).await;
    world.claim().await;
    world.ping(&webhook).await;
    let claimed = world.claim_one().await;
    assert_eq!(
        world.finish(&claimed, &answer(500)).await,
        AttemptOutcome::Dead(None)
    );
    assert!(!read(&world, &webhook).await.is_active);
    world.time.pass(MINUTE);
    world.ping(&webhook).await;
    let claimed = world.claim_one().await;
    assert_eq!(
        world.finish(&claimed, &answer(200)).await,
        AttemptOutcome::Delivered
    );
    let shown = read(&world, &webhook).await;
    assert_eq!((shown.is_active, shown.disabled_reason), (true, None));
    assert_eq!(world.disabled_endpoints().await, 0);
    let entry = entry_of(&world, AuditAction::WebhookEnable).await;
    assert_eq!(entry.actor_id, None);
    world.announce(&webhook, 1).await;
    assert_eq!(fail(&world, &answer(200)).await, AttemptOutcome::Delivered);
    world.assert_whole().await;
}

#[tokio::test]
async fn delivery_keeps_last_twenty_attempts() {
    let world = World::new().await;
    let webhook = webhook(&world).await;
    let delivery = world.announce(&webhook, 1).await.remove(0);
    let mut made = Vec::new();
    for _ in 0..25 {
        let again = world.redeliver(endpoint(&webhook), delivery.id);
        again.await.unwrap();
        made.push(world.time.now());
        fail(&world, &answer(500)).await;
        world.time.pass(SECOND);
    }
    let shown = world.delivery(&webhook, delivery.id).await;
    let times: Vec<_> = shown.attempts.iter().map(|attempt| attempt.at).collect();
    assert_eq!(times, made[5..]);
}
