//! Tests of the confirmation of endpoints: before its URL has answered a ping, an endpoint receives
//! nothing but pings.

use knowledge_core::model::{DeliveryStatus, DisabledReason, EventType, Webhook};
use knowledge_core::service::{AttemptOutcome, Endpoint, PageRequest};
use knowledge_store::faults::FaultPlan;

use crate::dispatching::{answer, endpoint, silence};
use crate::make::{
    ADMIN, HOUR, MILLISECOND, MINUTE, new_subscription, new_webhook, set_active, set_url,
};
use crate::world::World;

pub(crate) const URL: &str = "https://example.com/hook";

/// Creates a webhook that is not confirmed.
pub(crate) async fn unconfirmed(world: &World) -> Webhook {
    let new = new_webhook(URL);
    world.create_webhook(&new).await.unwrap()
}

pub(crate) async fn shown(world: &World, webhook: &Webhook) -> Webhook {
    let workspace = webhook.workspace_id;
    let found = world.within(workspace).get_webhook(webhook.id);
    found.await.unwrap().value
}

/// Sends what is due, with this status as the answer, and returns the types of the events.
pub(crate) async fn send(world: &World, status: u16) -> Vec<EventType> {
    let mut sent = Vec::new();
    loop {
        world.fan_out().await;
        let claimed = world.claim().await.deliveries;
        if claimed.is_empty() {
            return sent;
        }
        for claimed in claimed {
            sent.push(claimed.event_type);
            world.finish(&claimed, &answer(status)).await;
        }
        world.time.pass(MILLISECOND);
    }
}

#[tokio::test]
async fn silent_endpoint_receives_only_pings_whatever_happens() {
    let world = World::new().await;
    let to = unconfirmed(&world).await;
    assert!(!to.is_confirmed);
    let mut pings = 0;
    for round in 0..60_usize {
        world.memories(1).await;
        match round % 6 {
            0 => {
                let moved = set_url(&format!("https://example.com/{round}"));
                drop(world.change_webhook(&to, moved).await);
            }
            1 => drop(world.change_webhook(&to, set_active(false)).await),
            2 => drop(world.change_webhook(&to, set_active(true)).await),
            3 => drop(world.ping(&to).await),
            4 => {
                world.rotate_webhook(to.id).await.unwrap();
                // It is inactive if its pings failed too often.
                let _ = world.redeliver_dead(endpoint(&to)).await;
            }
            _ => {
                let page = PageRequest::default();
                let listed = world.list_deliveries(endpoint(&to), None, &page);
                for delivery in listed.await.unwrap().data {
                    let _ = world.redeliver(endpoint(&to), delivery.id).await;
                }
            }
        }
        let sent = send(&world, [500, 301, 404, 199][round % 4]).await;
        assert!(
            sent.iter().all(|sent| *sent == EventType::WebhookPing),
            "round {round}: {sent:?}"
        );
        pings += sent.len();
        world.assert_whole().await;
        world.time.pass([MINUTE, HOUR][round % 2]);
    }
    assert!(pings > 10, "{pings}");
    assert!(!shown(&world, &to).await.is_confirmed);
}

#[tokio::test]
async fn confirmed_endpoint_receives_waiting_events_in_order() {
    let world = World::new().await;
    let to = unconfirmed(&world).await;
    for _ in 0..20 {
        world.memories(1).await;
        assert_eq!(
            send(&world, 500).await.len(),
            usize::from(world.undelivered().await == 2)
        );
        world.time.pass(MILLISECOND);
    }
    world.assert_whole().await;
    // The retry after five seconds.
    world.time.pass(MINUTE);
    let ping = world.claim_one().await;
    assert_eq!(ping.event_type, EventType::WebhookPing);
    world.memories(1).await;
    assert_eq!(send(&world, 200).await, []);
    assert_eq!(
        world.finish(&ping, &answer(204)).await,
        AttemptOutcome::Delivered
    );
    let now = shown(&world, &to).await;
    assert!(now.is_active && now.is_confirmed);
    let mut events = Vec::new();
    loop {
        let claimed = world.claim().await.deliveries;
        if claimed.is_empty() {
            break;
        }
        for claimed in claimed {
            assert_eq!(claimed.event_type, EventType::ChunkCreated);
            events.push(claimed.lease.event());
            world.finish(&claimed, &answer(200)).await;
        }
        world.time.pass(MILLISECOND);
    }
    assert_eq!(events.len(), 21);
    assert!(events.is_sorted());
    assert_eq!(world.undelivered().await, 0);
    world.assert_whole().await;
}

#[tokio::test]
async fn endpoint_without_answer_is_disabled_until_it_answers() {
    let world = World::new().await;
    let to = unconfirmed(&world).await;
    world.memories(1).await;
    world.time.pass(MILLISECOND);
    let mut pings = 0;
    for _ in 0..200 {
        pings += send(&world, 500).await.len();
        world.time.pass(MINUTE);
    }
    assert_eq!(pings, 5);
    let disabled = shown(&world, &to).await;
    assert_eq!(disabled.disabled_reason, Some(DisabledReason::Failing));
    assert_eq!(world.undelivered().await, 0);
    let page = PageRequest::default();
    let dead = Some(DeliveryStatus::Dead);
    let listed = world.list_deliveries(endpoint(&to), dead, &page);
    let types = listed.await.unwrap().data;
    let types: Vec<_> = types.iter().map(|dead| dead.event_type).collect();
    assert_eq!(types, [EventType::WebhookPing, EventType::ChunkCreated]);
    // A ping that fails changes nothing.
    world.ping(&to).await;
    assert_eq!(send(&world, 500).await, [EventType::WebhookPing]);
    assert!(!shown(&world, &to).await.is_active);
    world.ping(&to).await;
    assert_eq!(send(&world, 200).await, [EventType::WebhookPing]);
    let enabled = shown(&world, &to).await;
    assert!(enabled.is_active && enabled.is_confirmed);
    let again = world.redeliver_dead(endpoint(&to));
    assert!(again.await.unwrap().redelivered > 0);
    assert!(send(&world, 200).await.contains(&EventType::ChunkCreated));
    world.assert_whole().await;
}

#[tokio::test]
async fn gone_disables_unconfirmed_endpoint_immediately() {
    let world = World::new().await;
    let to = unconfirmed(&world).await;
    world.memories(1).await;
    assert_eq!(send(&world, 410).await, [EventType::WebhookPing]);
    let disabled = shown(&world, &to).await;
    assert_eq!(disabled.disabled_reason, Some(DisabledReason::Gone));
    // Its activation begins anew.
    world.change_webhook(&to, set_active(true)).await;
    assert_eq!(send(&world, 500).await, [EventType::WebhookPing]);
    world.assert_whole().await;
}

#[tokio::test]
async fn new_url_has_to_be_confirmed_again() {
    let world = World::new().await;
    let to = world.webhook(EventType::ChunkCreated).await;
    world.memories(1).await;
    world.fan_out().await;
    let earlier = world.claim_one().await;
    world
        .change_webhook(&to, set_url("https://example.org/new"))
        .await;
    assert!(!shown(&world, &to).await.is_confirmed);
    // What was in flight went to the earlier URL; its retry waits.
    assert!(matches!(
        world.finish(&earlier, &silence()).await,
        AttemptOutcome::Retry(_)
    ));
    world.time.pass(HOUR);
    let ping = world.claim_one().await;
    assert_eq!(ping.request.url.as_str(), "https://example.org/new");
    assert_eq!(ping.event_type, EventType::WebhookPing);
    // An answer of another URL says nothing about this one.
    world
        .change_webhook(&to, set_url("https://example.org/newer"))
        .await;
    world.finish(&ping, &answer(200)).await;
    assert!(!shown(&world, &to).await.is_confirmed);
    assert_eq!(send(&world, 500).await, [EventType::WebhookPing]);
    world.time.pass(MINUTE);
    let sent = send(&world, 200).await;
    assert_eq!(sent, [EventType::WebhookPing, EventType::ChunkCreated]);
    assert!(shown(&world, &to).await.is_confirmed);
    world.assert_whole().await;
}

#[tokio::test]
async fn crash_after_answer_repeats_only_ping() {
    let world = World::new().await;
    let to = unconfirmed(&world).await;
    world.memories(1).await;
    world.fan_out().await;
    let lost = world.claim_one().await;
    world.time.pass(MINUTE);
    let world = world.served_with(FaultPlan::none()).await;
    let again = world.claim_one().await;
    assert_eq!(again.request.id, lost.request.id);
    assert_eq!(again.event_type, EventType::WebhookPing);
    assert_eq!(
        world.finish(&lost, &answer(200)).await,
        AttemptOutcome::LeaseLost
    );
    assert!(!shown(&world, &to).await.is_confirmed);
    world.finish(&again, &answer(200)).await;
    assert_eq!(send(&world, 200).await, [EventType::ChunkCreated]);
}

#[tokio::test]
async fn subscription_receives_pings_until_it_is_confirmed() {
    let world = World::new().await;
    let memories = world.approved_memories(1).await;
    let recall = world.recall_of(&memories).await;
    let new = new_subscription(recall, URL);
    let created = world.create_subscription(&new).await.unwrap();
    world.delete_memory(memories[0]).await.unwrap();
    assert_eq!(send(&world, 503).await, [EventType::WebhookPing]);
    assert!(!created.is_confirmed);
    world
        .ping_endpoint(Endpoint::Subscription(created.id))
        .await
        .unwrap();
    let sent = send(&world, 200).await;
    assert!(sent.starts_with(&[EventType::WebhookPing]), "{sent:?}");
    assert!(sent.contains(&EventType::CitationChanged), "{sent:?}");
    let found = world.get_subscription(created.id);
    assert!(found.await.unwrap().is_confirmed);
    world.assert_whole().await;
}

#[tokio::test]
async fn rotation_and_takeover_neither_confirm_nor_prevent_confirmation() {
    let world = World::new().await;
    let admin = world.caller(ADMIN).await;
    let to = unconfirmed(&world).await;
    world.memories(1).await;
    world.fan_out().await;
    let ping = world.claim_one().await;
    world.by(&admin).rotate_webhook(to.id).await.unwrap();
    assert!(!shown(&world, &to).await.is_confirmed);
    world.finish(&ping, &answer(500)).await;
    assert_eq!(send(&world, 500).await, []);
    world.time.pass(MINUTE);
    assert_eq!(
        send(&world, 200).await,
        [EventType::WebhookPing, EventType::ChunkCreated]
    );
    // A new URL of somebody else has to answer too.
    let moved = set_url("https://example.org/theirs");
    let updated = world.by(&admin).update_webhook(to.id, &moved, None);
    assert!(!updated.await.unwrap().value.is_confirmed);
    world.memories(1).await;
    assert_eq!(send(&world, 404).await, [EventType::WebhookPing]);
    world.assert_whole().await;
}

#[tokio::test]
async fn endpoint_paused_while_its_ping_is_answered_is_asked_again() {
    let world = World::new().await;
    let to = unconfirmed(&world).await;
    let ping = world.claim_one().await;
    world.change_webhook(&to, set_active(false)).await;
    world.finish(&ping, &answer(200)).await;
    assert!(!shown(&world, &to).await.is_confirmed);
    assert_eq!(send(&world, 200).await, []);
    world.change_webhook(&to, set_active(true)).await;
    world.memories(1).await;
    assert_eq!(
        send(&world, 200).await,
        [EventType::WebhookPing, EventType::ChunkCreated]
    );
    // A confirmed endpoint that is paused and resumed stays confirmed.
    world.change_webhook(&to, set_active(false)).await;
    assert_eq!(send(&world, 200).await, []);
    world.change_webhook(&to, set_active(true)).await;
    world.memories(1).await;
    assert_eq!(send(&world, 200).await, [EventType::ChunkCreated]);
    world.assert_whole().await;
}
