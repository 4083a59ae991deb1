//! Tests of corruption and contention in the fan-out, which must not block other events.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use knowledge_core::internals::keys;
use knowledge_core::model::{EventId, EventType, SensitivityLabel};
use knowledge_core::service::FanOutReport;
use knowledge_core::store::{RETRIES_MAX, VALUE_BYTES_MAX};
use knowledge_store::faults::{CommitFault, FaultPlan};
use serde_json::{Value, json};
use tracing::span;
use uuid::Uuid;

use crate::make::MEMBER;
use crate::world::World;

#[tokio::test]
async fn corrupt_recall_does_not_block_other_notifications() {
    let world = World::new().await;
    let ids = world.memories(1).await;
    let mut subscriptions = Vec::new();
    for _ in 0..3 {
        let recall = world.recall_of(&ids).await;
        subscriptions.push(world.subscribe(&world.owner, recall).await);
    }
    let webhook = world.webhook(EventType::MemoryUpdated).await;
    // The first one in order.
    subscriptions.sort_by_key(|subscription| subscription.recall_id);
    let corrupt = keys::recall(world.org.id, subscriptions[0].recall_id);
    world.overwrite(corrupt, "{".to_owned()).await;
    world.relabel(&ids, SensitivityLabel::Public).await;
    assert_eq!(world.fan_out().await.deliveries, 3);
    assert_eq!(world.queued_events(webhook.id).await.len(), 1);
    for (number, subscription) in subscriptions.iter().enumerate() {
        let events = world.queued_events(subscription.id).await;
        assert_eq!(events.len(), usize::from(number > 0));
    }
    assert_eq!(world.events().await, []);
}

#[tokio::test]
async fn corrupt_subscriber_does_not_block_other_notifications() {
    let world = World::new().await;
    let ids = world.memories(1).await;
    let recall = world.recall_of(&ids).await;
    let member = world.member(MEMBER).await;
    let subscriber = world.trusted(member);
    let corrupt = world.subscribe(&subscriber, recall).await;
    let other = world.subscribe(&world.owner, recall).await;
    let key = keys::member(world.org.id, member);
    world.overwrite(key, "{".to_owned()).await;
    world.relabel(&ids, SensitivityLabel::Public).await;
    assert_eq!(world.fan_out().await.deliveries, 1);
    assert_eq!(world.queued_events(corrupt.id).await, []);
    assert_eq!(world.queued_events(other.id).await.len(), 1);
    assert_eq!(world.events().await, []);
}

#[tokio::test]
async fn contended_event_is_left_to_next_fan_out() {
    let world = World::new().await;
    let webhook = world.webhook(EventType::ChunkCreated).await;
    for _ in 0..3 {
        world.memories(1).await;
    }
    assert_eq!(world.events().await.len(), 6);
    // All events together conflict at each attempt, then the first one by itself does.
    let attempts = 2 * u64::from(RETRIES_MAX);
    let plan = (1..=attempts).fold(FaultPlan::none(), |plan, number| {
        plan.at_commit(number, CommitFault::Conflict)
    });
    let busy = world.served_with(plan).await;
    let now = busy.time.now();
    let done = busy.service.dispatcher().fan_out(now).await.unwrap();
    assert_eq!((done.events, done.has_more), (5, true));
    assert_eq!(busy.events().await.len(), 1);
    let done = busy.service.dispatcher().fan_out(now).await.unwrap();
    assert_eq!((done.events, done.has_more), (1, false));
    assert_eq!(busy.queued_events(webhook.id).await.len(), 3);
    busy.assert_whole().await;
}

/// Makes the first event of the outbox a rejection so large that its record cannot be written.
async fn bloat(world: &World) -> EventId {
    let id = world.events_of(EventType::ChunkCreated).await[0].id;
    let mut event: Value = world.read(&keys::outbox(id)).await.unwrap();
    event["type"] = json!(EventType::IngestFailed);
    event["data"] = json!({
        "error": "invalid_request",
        "inbound_webhook_id": Uuid::nil(),
        "message_id": "",
        "source_id": Uuid::nil(),
        "workspace_id": world.workspace.id,
    });
    let padding = VALUE_BYTES_MAX - event.to_string().len();
    event["data"]["message_id"] = json!("x".repeat(padding));
    world.overwrite(keys::outbox(id), event.to_string()).await;
    id
}

#[tokio::test]
async fn failing_event_does_not_slow_fan_out_of_others() {
    let world = World::new().await;
    let webhook = world.webhook(EventType::ChunkCreated).await;
    world.webhook(EventType::IngestFailed).await;
    for _ in 0..40 {
        world.memories(1).await;
    }
    let bloated = bloat(&world).await;
    let now = world.time.now();
    let done = world.service.dispatcher().fan_out(now).await.unwrap();
    let expected = FanOutReport {
        events: 79,
        deliveries: 39,
        ..FanOutReport::default()
    };
    assert_eq!(done, expected);
    assert_eq!(world.queued_events(webhook.id).await.len(), 39);
    let left: Vec<_> = world.events().await.iter().map(|event| event.id).collect();
    assert_eq!(left, [bloated]);
}

/// A subscriber that counts log events of level error.
struct Errors(Arc<AtomicUsize>);

impl tracing::Subscriber for Errors {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::ERROR
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[tokio::test]
async fn corrupt_outbox_entry_is_logged_once() {
    let world = World::new().await;
    world.webhook(EventType::IngestFailed).await;
    world.memories(1).await;
    bloat(&world).await;
    let unreadable = EventId(Uuid::from_u128(1));
    let mark = keys::outbox_queue(world.org.id, unreadable);
    world.overwrite(mark, "null".to_owned()).await;
    world
        .overwrite(keys::outbox(unreadable), "{".to_owned())
        .await;
    let key = knowledge_core::store::Key::new("outbox_queue/no identifier").unwrap();
    world.overwrite(key, "{".to_owned()).await;
    let errors = Arc::new(AtomicUsize::new(0));
    let logged = tracing::subscriber::set_default(Errors(Arc::clone(&errors)));
    for _ in 0..5 {
        world.fan_out().await;
        assert_eq!(errors.load(Ordering::SeqCst), 3);
    }
    // Another process logs it again.
    let next = world.served_with(FaultPlan::none()).await;
    next.fan_out().await;
    assert_eq!(errors.load(Ordering::SeqCst), 6);
    drop(logged);
}
