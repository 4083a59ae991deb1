//! Tests of the confirmation of endpoints: before it has answered a ping, a host receives nothing
//! but pings, a bounded number of them.

use knowledge_core::internals::keys;
use knowledge_core::limits::PINGS_PER_HOST_MAX;
use knowledge_core::model::{
    DeliveryStatus, DisabledReason, EndpointId, EventType, NewCitationSubscription, NewWebhook,
    Timestamp, Webhook, WebhookUpdate,
};
use knowledge_core::service::{AttemptOutcome, Endpoint, InFlight, PageRequest};
use knowledge_store::faults::FaultPlan;
use knowledge_testing::seed::Seed;
use serde_json::Value;

use crate::dispatching::{ROOM, answer, endpoint, silence};
use crate::make::{HOUR, MILLISECOND, MINUTE, new_workspace};
use crate::world::World;

const URL: &str = "https://example.com/hook";

fn new_webhook(url: &str) -> NewWebhook {
    NewWebhook::builder()
        .event_type(EventType::ChunkCreated)
        .url(url.parse().unwrap())
        .build()
}

/// Creates a webhook that is not confirmed.
async fn unconfirmed(world: &World) -> Webhook {
    let (owner, new) = (&world.owner, new_webhook(URL));
    let created = world
        .service
        .create_webhook(owner, world.workspace.id, &new);
    created.await.unwrap()
}

async fn shown(world: &World, webhook: &Webhook) -> Webhook {
    let (service, workspace) = (&world.service, webhook.workspace_id);
    let found = service.get_webhook(&world.owner, workspace, webhook.id);
    found.await.unwrap().value
}

async fn update(world: &World, webhook: &Webhook, update: WebhookUpdate) {
    let (service, workspace) = (&world.service, webhook.workspace_id);
    let updated = service.update_webhook(&world.owner, workspace, webhook.id, &update, None);
    updated.await.unwrap();
}

fn is_active(is_active: bool) -> WebhookUpdate {
    WebhookUpdate::builder().is_active(is_active).build()
}

fn url(url: &str) -> WebhookUpdate {
    WebhookUpdate::builder().url(url.parse().unwrap()).build()
}

/// Sends what is due, with this status as the answer, and returns the types of the events.
async fn send(world: &World, status: u16) -> Vec<EventType> {
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
    let (service, owner, workspace) = (&world.service, &world.owner, world.workspace.id);
    let mut pings = 0;
    for round in 0..60_usize {
        world.memories(1).await;
        match round % 6 {
            0 => update(&world, &to, url(&format!("https://example.com/{round}"))).await,
            1 => update(&world, &to, is_active(false)).await,
            2 => update(&world, &to, is_active(true)).await,
            3 => drop(world.ping(&to).await),
            4 => {
                let rotated = service.rotate_webhook_secret(owner, workspace, to.id);
                rotated.await.unwrap();
                // It is inactive if its pings failed too often.
                let _ = service.redeliver_dead(owner, endpoint(&to)).await;
            }
            _ => {
                let page = PageRequest::default();
                let listed = service.list_deliveries(owner, endpoint(&to), None, &page);
                for delivery in listed.await.unwrap().data {
                    let _ = service.redeliver(owner, endpoint(&to), delivery.id).await;
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
    let listed = world
        .service
        .list_deliveries(&world.owner, endpoint(&to), dead, &page);
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
    let again = world.service.redeliver_dead(&world.owner, endpoint(&to));
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
    update(&world, &to, is_active(true)).await;
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
    update(&world, &to, url("https://example.org/new")).await;
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
    update(&world, &to, url("https://example.org/newer")).await;
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
async fn endpoint_of_earlier_version_keeps_receiving() {
    let world = World::new().await;
    let to = world.webhook(EventType::ChunkCreated).await;
    let key = keys::webhook(world.org.id, world.workspace.id, to.id);
    let mut stored: Value = world.read(&key).await.unwrap();
    let record = stored["record"].as_object_mut().unwrap();
    assert_eq!(record.remove("is_confirmed"), Some(Value::Bool(true)));
    world.overwrite(key, stored.to_string()).await;
    assert!(shown(&world, &to).await.is_confirmed);
    world.memories(1).await;
    assert_eq!(send(&world, 200).await, [EventType::ChunkCreated]);
}

#[tokio::test]
async fn subscription_receives_pings_until_it_is_confirmed() {
    let world = World::new().await;
    let memories = world.approved_memories(1).await;
    let recall = world.recall_of(&memories).await;
    let new = NewCitationSubscription::builder()
        .recall_id(recall)
        .webhook_url(URL.parse().unwrap())
        .build();
    let (service, owner) = (&world.service, &world.owner);
    let created = service.create_citation_subscription(owner, &new);
    let created = created.await.unwrap();
    service.delete_memory(owner, memories[0]).await.unwrap();
    assert_eq!(send(&world, 503).await, [EventType::WebhookPing]);
    assert!(!created.is_confirmed);
    service
        .ping(owner, Endpoint::Subscription(created.id))
        .await
        .unwrap();
    let sent = send(&world, 200).await;
    assert!(sent.starts_with(&[EventType::WebhookPing]), "{sent:?}");
    assert!(sent.contains(&EventType::CitationChanged), "{sent:?}");
    let found = service.get_citation_subscription(owner, created.id);
    assert!(found.await.unwrap().is_confirmed);
    world.assert_whole().await;
}

/// Asserts that this bound was kept in every hour.
fn assert_bounded(times: &[Timestamp], max: u64) {
    let max = usize::try_from(max).unwrap();
    for window in times.windows(max + 1) {
        assert!(window[max].since(window[0]) >= HOUR, "{times:?}");
    }
}

async fn default_world() -> World {
    World::with(|options| options.limits.pings_per_host_max = PINGS_PER_HOST_MAX).await
}

#[tokio::test]
async fn pings_to_host_are_bounded_over_organizations() {
    let world = default_world().await;
    let hosts = [
        "https://example.com/hook",
        "https://EXAMPLE.com:8443/other",
        "https://example.com./",
    ];
    for number in 0..5 {
        let seed: Seed = world.stranger(&format!("tenant-{number}")).await;
        let workspace = seed.workspace(&new_workspace("main")).await.unwrap().id;
        for url in hosts.iter().cycle().take(10) {
            let (owner, new) = (&seed.owner, new_webhook(url));
            let created = world.service.create_webhook(owner, workspace, &new);
            created.await.unwrap();
        }
    }
    let other = unconfirmed_at(&world, "https://example.org/hook").await;
    let (mut times, mut others) = (Vec::new(), 0);
    for _ in 0..(6 * 60) {
        let now = world.time.now();
        loop {
            let nothing = InFlight::default();
            let claimed = world.service.claim_deliveries(now, ROOM, &nothing).await;
            let claimed = claimed.unwrap().deliveries;
            if claimed.is_empty() {
                break;
            }
            for claimed in claimed {
                if claimed.lease.endpoint() == EndpointId::from(other.id) {
                    others += 1;
                } else {
                    times.push(now);
                }
                world.finish(&claimed, &answer(500)).await;
            }
        }
        world.time.pass(MINUTE);
    }
    assert_eq!(times.len(), 120);
    assert_bounded(&times, PINGS_PER_HOST_MAX);
    // Another host is not affected.
    assert_eq!(others, 5);
    world.assert_whole().await;
    // The record of the host expires.
    world.time.pass(24 * HOUR);
    world.maintain().await;
    assert_eq!(world.family("host_pings").await, []);
}

async fn unconfirmed_at(world: &World, url: &str) -> Webhook {
    let (owner, new) = (&world.owner, new_webhook(url));
    let created = world
        .service
        .create_webhook(owner, world.workspace.id, &new);
    created.await.unwrap()
}

#[tokio::test]
async fn requested_pings_count_toward_bound_of_host() {
    let world = default_world().await;
    let to = unconfirmed(&world).await;
    let mut times = Vec::new();
    for _ in 0..240 {
        // It may have been disabled, but its owner did not deactivate it.
        world.ping(&to).await;
        let now = world.time.now();
        let sent = send(&world, 500).await;
        times.extend(sent.iter().map(|_| now));
        world.time.pass(MINUTE);
    }
    // One organisation has half of the pings.
    assert_bounded(&times, PINGS_PER_HOST_MAX / 2);
    assert!(times.len() >= 30, "{}", times.len());
    world.assert_whole().await;
}

#[tokio::test]
async fn waiting_pings_of_many_endpoints_are_all_sent() {
    let world = default_world().await;
    for _ in 0..25 {
        unconfirmed(&world).await;
    }
    let mut sent = Vec::new();
    for _ in 0..3 {
        sent.push(send(&world, 200).await.len());
        world.time.pass(HOUR);
    }
    assert_eq!(sent, [10, 10, 5]);
    assert_eq!(send(&world, 200).await, []);
    world.assert_whole().await;
}

#[tokio::test]
async fn organization_leaves_half_of_pings_to_others() {
    let world = default_world().await;
    for _ in 0..25 {
        unconfirmed(&world).await;
    }
    assert_eq!(send(&world, 500).await.len(), 10);
    let other = world.stranger("other").await;
    let new = new_webhook(URL);
    let workspace = other.workspace(&new_workspace("main")).await.unwrap().id;
    let created = world.service.create_webhook(&other.owner, workspace, &new);
    let theirs = created.await.unwrap().id;
    for _ in 0..2 {
        // Theirs is sent at once, and so is its retry.
        let ping = world.claim_one().await;
        assert_eq!(ping.lease.endpoint(), EndpointId::from(theirs));
        world.finish(&ping, &answer(500)).await;
        world.time.pass(MINUTE);
    }
    world.assert_whole().await;
}

#[tokio::test]
async fn bound_of_one_ping_permits_one() {
    let world = World::with(|options| options.limits.pings_per_host_max = 1).await;
    for _ in 0..2 {
        unconfirmed(&world).await;
    }
    for _ in 0..2 {
        assert_eq!(send(&world, 200).await, [EventType::WebhookPing]);
        world.time.pass(HOUR);
    }
    assert_eq!(send(&world, 200).await, []);
}
