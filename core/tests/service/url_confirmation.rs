//! Tests of the confirmation of URLs: an organisation asks a URL once, whatever the number of its
//! endpoints with that URL.

use std::time::Duration;

use knowledge_core::model::{
    Confirmation, ConfirmationReason, ConfirmationState, EndpointId, EventType, Timestamp, Webhook,
};
use knowledge_core::service::{Endpoint, PageRequest};

use crate::dispatching::answer;
use crate::endpoint_confirmation::{URL, send, shown, unconfirmed};
use crate::make::{
    DAY, HOUR, MILLISECOND, MINUTE, new_subscription, new_webhook, new_workspace, set_active,
    set_url,
};
use crate::world::World;

const OTHER_URL: &str = "https://example.org/hook";

fn count(sent: &[EventType], of: EventType) -> usize {
    sent.iter().filter(|sent| **sent == of).count()
}

fn pending(at: Option<Timestamp>, reason: Option<ConfirmationReason>) -> Option<Confirmation> {
    Some(Confirmation {
        state: ConfirmationState::Pending,
        next_attempt_at: at,
        reason,
    })
}

async fn confirmation(world: &World, of: &Webhook) -> Option<Confirmation> {
    shown(world, of).await.confirmation
}

async fn at_other_url(world: &World) -> Webhook {
    let new = new_webhook(OTHER_URL);
    world.create_webhook(&new).await.unwrap()
}

#[tokio::test]
async fn one_ping_confirms_every_endpoint_with_its_url() {
    let world = World::with(|options| options.limits.webhooks_per_workspace_max = 200).await;
    let mut webhooks = Vec::new();
    for _ in 0..150 {
        webhooks.push(unconfirmed(&world).await);
        world.time.pass(MILLISECOND);
    }
    world.memories(1).await;
    let sent = send(&world, 200).await;
    assert_eq!(count(&sent, EventType::WebhookPing), 1);
    assert_eq!(count(&sent, EventType::ChunkCreated), 150);
    for webhook in &webhooks {
        assert!(shown(&world, webhook).await.is_confirmed);
    }
    world.assert_whole().await;
}

#[tokio::test]
async fn endpoint_with_confirmed_url_receives_events_at_once() {
    let world = World::new().await;
    unconfirmed(&world).await;
    assert_eq!(send(&world, 204).await, [EventType::WebhookPing]);
    let later = unconfirmed(&world).await;
    assert!(later.is_confirmed);
    // The response to the creation keeps its bytes.
    assert_eq!(later.confirmation, None);
    let memories = world.approved_memories(1).await;
    let recall = world.recall_of(&memories).await;
    let new = new_subscription(recall, URL);
    let subscription = world.create_subscription(&new).await.unwrap();
    assert!(subscription.is_confirmed);
    let moved = at_other_url(&world).await;
    let moved = world.change_webhook(&moved, set_url(URL)).await;
    assert!(moved.is_confirmed);
    world.delete_memory(memories[0]).await.unwrap();
    let sent = send(&world, 200).await;
    assert_eq!(count(&sent, EventType::WebhookPing), 0);
    assert_eq!(count(&sent, EventType::ChunkCreated), 2);
    assert_eq!(count(&sent, EventType::CitationChanged), 1);
    world.assert_whole().await;
}

#[tokio::test]
async fn confirmation_counts_for_ninety_days() {
    let world = World::new().await;
    let first = unconfirmed(&world).await;
    assert_eq!(send(&world, 200).await, [EventType::WebhookPing]);
    world.time.pass(90 * DAY - 2 * MILLISECOND);
    let second = unconfirmed(&world).await;
    assert!(second.is_confirmed);
    world.time.pass(MILLISECOND);
    let third = unconfirmed(&world).await;
    assert!(!third.is_confirmed);
    // Endpoints that are confirmed stay so.
    for webhook in [&first, &second] {
        assert!(shown(&world, webhook).await.is_confirmed);
    }
    world.memories(1).await;
    let sent = send(&world, 500).await;
    assert_eq!(count(&sent, EventType::WebhookPing), 1);
    assert_eq!(count(&sent, EventType::ChunkCreated), 2);
    world.assert_whole().await;
    world.maintain().await;
    assert_eq!(world.family("url_confirmation").await.len(), 1);
    world.time.pass(MINUTE);
    let sent = send(&world, 200).await;
    assert_eq!(count(&sent, EventType::WebhookPing), 1);
    assert!(shown(&world, &third).await.is_confirmed);
    // Nothing is left of a confirmation that has expired.
    world.time.pass(91 * DAY);
    world.maintain().await;
    assert_eq!(world.family("url_confirmation").await, []);
    world.assert_whole().await;
}

#[tokio::test]
async fn confirmation_of_another_organization_or_url_does_not_count() {
    let world = World::new().await;
    unconfirmed(&world).await;
    assert_eq!(send(&world, 200).await, [EventType::WebhookPing]);
    let other = world.stranger("other").await;
    let workspace = other.workspace(&new_workspace("main")).await.unwrap().id;
    let new = new_webhook(URL);
    let created = world
        .by(&other.owner)
        .within(workspace)
        .create_webhook(&new);
    assert!(!created.await.unwrap().is_confirmed);
    let elsewhere = new_webhook(&format!("{URL}/"));
    let created = world.create_webhook(&elsewhere).await.unwrap();
    assert!(!created.is_confirmed);
    let sent = send(&world, 200).await;
    assert_eq!(sent, [EventType::WebhookPing, EventType::WebhookPing]);
    world.assert_whole().await;
}

#[tokio::test]
async fn pings_to_confirmed_urls_are_not_limited() {
    let world = World::with(|options| options.limits.pings_per_host_max = 2).await;
    let to = unconfirmed(&world).await;
    assert_eq!(send(&world, 200).await, [EventType::WebhookPing]);
    for _ in 0..20 {
        unconfirmed(&world).await;
        world.ping(&to).await;
        assert_eq!(send(&world, 200).await, [EventType::WebhookPing]);
    }
}

#[tokio::test]
async fn limit_that_delays_a_ping_is_shown_with_its_end() {
    let world = World::with(|options| options.limits.pings_per_host_max = 2).await;
    let first = unconfirmed(&world).await;
    assert_eq!(confirmation(&world, &first).await, pending(None, None));
    let asked_at = world.time.now();
    assert_eq!(send(&world, 500).await, [EventType::WebhookPing]);
    let shown_now = confirmation(&world, &first).await.unwrap();
    assert_eq!(shown_now.reason, Some(ConfirmationReason::NoAnswer));
    let again = shown_now.next_attempt_at.unwrap();
    assert!(again.since(asked_at) <= Duration::from_secs(7));
    let numbered = new_webhook(&format!("{URL}/2"));
    let second = world.create_webhook(&numbered).await.unwrap();
    assert_eq!(send(&world, 500).await, []);
    let limit = Some(ConfirmationReason::OrganizationLimit);
    let until = Some(asked_at.plus(HOUR));
    assert_eq!(confirmation(&world, &second).await, pending(until, limit));
    // An event does not change that.
    world.memories(1).await;
    assert_eq!(send(&world, 500).await, []);
    assert_eq!(confirmation(&world, &second).await, pending(until, limit));
    // Another endpoint with this URL shows the same, and so does a list.
    let third = world.create_webhook(&numbered).await.unwrap();
    assert_eq!(confirmation(&world, &third).await, pending(until, limit));
    let listed = world.list_webhooks(&PageRequest::default()).await.unwrap();
    let listed = listed.data;
    let listed = listed.iter().filter(|listed| listed.id == third.id);
    let listed: Vec<_> = listed.map(|listed| listed.confirmation).collect();
    assert_eq!(listed, [pending(until, limit)]);
    // An inactive endpoint is not asked.
    let off = world.change_webhook(&third, set_active(false)).await;
    let stopped = Confirmation {
        state: ConfirmationState::Stopped,
        next_attempt_at: None,
        reason: None,
    };
    assert_eq!(off.confirmation, Some(stopped));
    world.assert_whole().await;
}

#[tokio::test]
async fn limit_of_host_is_named_if_others_use_it_up() {
    let world = World::with(|options| options.limits.pings_per_host_max = 1).await;
    let other = world.stranger("other").await;
    let workspace = other.workspace(&new_workspace("main")).await.unwrap().id;
    let new = new_webhook(URL);
    let created = world
        .by(&other.owner)
        .within(workspace)
        .create_webhook(&new);
    created.await.unwrap();
    let asked_at = world.time.now();
    assert_eq!(send(&world, 200).await, [EventType::WebhookPing]);
    let to = unconfirmed(&world).await;
    assert_eq!(send(&world, 200).await, []);
    let limit = Some(ConfirmationReason::HostLimit);
    let until = Some(asked_at.plus(HOUR));
    assert_eq!(confirmation(&world, &to).await, pending(until, limit));
    world.time.pass(HOUR);
    assert_eq!(send(&world, 200).await, [EventType::WebhookPing]);
    assert!(shown(&world, &to).await.is_confirmed);
}

#[tokio::test]
async fn waiting_endpoint_asks_if_the_asking_one_ends() {
    for change in 0..3 {
        let world = World::new().await;
        let first = unconfirmed(&world).await;
        let second = unconfirmed(&world).await;
        let asked = world.claim_one().await;
        let asks_first = asked.lease.endpoint() == EndpointId::from(first.id);
        let (asking, waiting) = if asks_first {
            (first, second)
        } else {
            (second, first)
        };
        match change {
            0 => world.delete_webhook(asking.id).await.unwrap(),
            1 => drop(world.change_webhook(&asking, set_active(false)).await),
            _ => drop(world.change_webhook(&asking, set_url(OTHER_URL)).await),
        }
        // The answer comes from a URL that the endpoint has no more.
        world.finish(&asked, &answer(200)).await;
        assert!(!shown(&world, &waiting).await.is_confirmed, "{change}");
        world.time.pass(MINUTE);
        let claimed = world.claim().await.deliveries;
        let mut claimed = claimed
            .iter()
            .filter(|claimed| claimed.lease.endpoint() == EndpointId::from(waiting.id));
        let ping = claimed.next().expect("a ping");
        assert_eq!(ping.event_type, EventType::WebhookPing);
        world.finish(ping, &answer(200)).await;
        assert!(shown(&world, &waiting).await.is_confirmed);
        world.assert_whole().await;
    }
}

#[tokio::test]
async fn waiting_endpoints_need_no_pings_of_their_own() {
    let world = World::new().await;
    for _ in 0..20 {
        unconfirmed(&world).await;
    }
    world.memories(1).await;
    let mut pings = 0;
    // The retries follow after 5 seconds, 5 minutes and half an hour.
    for _ in 0..25 {
        pings += send(&world, 500).await.len();
        world.time.pass(MINUTE);
    }
    assert_eq!(pings, 3);
    // A ping on request, to any of them, confirms all.
    let page = PageRequest::default();
    let listed = world.list_webhooks(&page).await.unwrap().data;
    let last = listed.last().expect("a webhook");
    let of_last = Endpoint::Webhook(last.workspace_id, last.id);
    world.ping_endpoint(of_last).await.unwrap();
    let sent = send(&world, 200).await;
    assert_eq!(count(&sent, EventType::ChunkCreated), 20);
    for webhook in &listed {
        assert!(shown(&world, webhook).await.is_confirmed);
    }
    world.assert_whole().await;
}

#[tokio::test]
async fn concurrent_dispatchers_send_one_ping() {
    let world = World::new().await;
    for _ in 0..40 {
        unconfirmed(&world).await;
    }
    let (one, two) = futures::join!(world.claim(), world.claim());
    let claimed: Vec<_> = [one.deliveries, two.deliveries].concat();
    assert_eq!(claimed.len(), 1);
    world.finish(&claimed[0], &answer(200)).await;
    assert_eq!(send(&world, 200).await, []);
    for webhook in world
        .list_webhooks(&PageRequest::default())
        .await
        .unwrap()
        .data
    {
        assert!(webhook.is_confirmed);
    }
    world.assert_whole().await;
}

#[tokio::test]
async fn endpoint_disabled_by_service_stays_so_when_its_url_is_confirmed() {
    let world = World::new().await;
    let gone = unconfirmed(&world).await;
    assert_eq!(send(&world, 410).await, [EventType::WebhookPing]);
    let other = unconfirmed(&world).await;
    assert_eq!(send(&world, 200).await, [EventType::WebhookPing]);
    assert!(shown(&world, &other).await.is_active);
    let still = shown(&world, &gone).await;
    assert!(!still.is_active && still.is_confirmed);
    world.change_webhook(&gone, set_active(true)).await;
    world.memories(1).await;
    let sent = send(&world, 200).await;
    assert_eq!(sent, [EventType::ChunkCreated, EventType::ChunkCreated]);
    world.assert_whole().await;
}
