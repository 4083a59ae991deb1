//! What is damaged or contended on the way from the outbox to the queues is in nobody else's way.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use knowledge_core::model::{EventId, EventType, SensitivityLabel};
use knowledge_core::service::Expanded;
use knowledge_core::internals::keys;
use knowledge_core::store::{RETRIES_MAX, VALUE_BYTES_MAX};
use knowledge_store::faults::{CommitFault, FaultPlan};
use serde_json::{Value, json};
use tracing::span;
use uuid::Uuid;

use crate::make::MEMBER;
use crate::world::World;

#[tokio::test]
async fn a_damaged_recall_keeps_no_other_from_being_told() {
    let world = World::new().await;
    let ids = world.memories(1).await;
    let mut subscriptions = Vec::new();
    for _ in 0..3 {
        let recall = world.recall_of(&ids).await;
        subscriptions.push(world.subscribe(&world.owner, recall).await);
    }
    let webhook = world.webhook(EventType::MemoryUpdated).await;
    // The one that comes first.
    subscriptions.sort_by_key(|subscription| subscription.recall_id);
    let damaged = keys::recall(world.org.id, subscriptions[0].recall_id);
    world.overwrite(damaged, "{".to_owned()).await;
    world.relabel(&ids, SensitivityLabel::Public).await;
    assert_eq!(world.expand().await.deliveries, 3);
    assert_eq!(world.heard_by(webhook.id).await.len(), 1);
    for (number, subscription) in subscriptions.iter().enumerate() {
        let heard = world.heard_by(subscription.id).await;
        assert_eq!(heard.len(), usize::from(number > 0));
    }
    assert_eq!(world.events().await, []);
}

#[tokio::test]
async fn a_damaged_subscriber_keeps_no_other_from_being_told() {
    let world = World::new().await;
    let ids = world.memories(1).await;
    let recall = world.recall_of(&ids).await;
    let member = world.member(MEMBER).await;
    let subscriber = world.trusted(member);
    let deaf = world.subscribe(&subscriber, recall).await;
    let other = world.subscribe(&world.owner, recall).await;
    let damaged = keys::member(world.org.id, member);
    world.overwrite(damaged, "{".to_owned()).await;
    world.relabel(&ids, SensitivityLabel::Public).await;
    assert_eq!(world.expand().await.deliveries, 1);
    assert_eq!(world.heard_by(deaf.id).await, []);
    assert_eq!(world.heard_by(other.id).await.len(), 1);
    assert_eq!(world.events().await, []);
}

#[tokio::test]
async fn an_event_that_others_are_always_ahead_of_is_left_for_the_next_call() {
    let world = World::new().await;
    let webhook = world.webhook(EventType::ChunkCreated).await;
    for _ in 0..3 {
        world.memories(1).await;
    }
    assert_eq!(world.events().await.len(), 6);
    // All of them together meet others at each attempt, then the first alone does.
    let attempts = 2 * u64::from(RETRIES_MAX);
    let plan = (1..=attempts).fold(FaultPlan::none(), |plan, number| {
        plan.at_commit(number, CommitFault::Conflict)
    });
    let busy = world.served_with(plan).await;
    let now = busy.time.now();
    let done = busy.service.expand_events(now).await.unwrap();
    assert_eq!((done.events, done.has_more), (5, true));
    assert_eq!(busy.events().await.len(), 1);
    let done = busy.service.expand_events(now).await.unwrap();
    assert_eq!((done.events, done.has_more), (1, false));
    assert_eq!(busy.heard_by(webhook.id).await.len(), 3);
    busy.assert_whole().await;
}

/// Makes the first event of the outbox one whose record cannot be written, as it is too large.
async fn bloat(world: &World) -> EventId {
    let id = world.events_of(EventType::ChunkCreated).await[0].id;
    let mut event: Value = world.read(&keys::outbox(id)).await.unwrap();
    event["data"]["padding"] = json!("");
    let padding = VALUE_BYTES_MAX - event.to_string().len();
    event["data"]["padding"] = json!("x".repeat(padding));
    world.overwrite(keys::outbox(id), event.to_string()).await;
    id
}

#[tokio::test]
async fn an_event_that_cannot_be_expanded_does_not_slow_the_others() {
    let world = World::new().await;
    let webhook = world.webhook(EventType::ChunkCreated).await;
    for _ in 0..40 {
        world.memories(1).await;
    }
    let bloated = bloat(&world).await;
    let now = world.time.now();
    let done = world.service.expand_events(now).await.unwrap();
    let expected = Expanded {
        events: 79,
        deliveries: 39,
        ..Expanded::default()
    };
    assert_eq!(done, expected);
    assert_eq!(world.heard_by(webhook.id).await.len(), 39);
    let left: Vec<_> = world.events().await.iter().map(|event| event.id).collect();
    assert_eq!(left, [bloated]);
}

/// Counts what is logged at error.
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
async fn what_is_damaged_in_the_outbox_is_told_once() {
    let world = World::new().await;
    world.webhook(EventType::ChunkCreated).await;
    world.memories(1).await;
    bloat(&world).await;
    let unreadable = keys::outbox(EventId(Uuid::from_u128(1)));
    world.overwrite(unreadable, "{".to_owned()).await;
    let key = knowledge_core::store::Key::new("outbox/no identifier").unwrap();
    world.overwrite(key, "{".to_owned()).await;
    let errors = Arc::new(AtomicUsize::new(0));
    let logged = tracing::subscriber::set_default(Errors(Arc::clone(&errors)));
    for _ in 0..5 {
        world.expand().await;
        assert_eq!(errors.load(Ordering::SeqCst), 3);
    }
    // Another process does not know that it was told.
    let next = world.served_with(FaultPlan::none()).await;
    next.expand().await;
    assert_eq!(errors.load(Ordering::SeqCst), 6);
    drop(logged);
}
