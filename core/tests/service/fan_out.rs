//! Tests of the fan-out from the outbox to the queues.

use bytes::Bytes;
use knowledge_core::internals::keys;
use knowledge_core::model::{
    DeliveryId, EndpointId, EventId, EventType, MemoryId, SensitivityLabel, Timestamp, Webhook,
};
use knowledge_core::service::{Event, FanOutReport};
use knowledge_core::store::{Key, KeyRange, Mutation, StoreExt};
use serde_json::{Value, json};

use crate::dispatching::answer;
use crate::make::{HOUR, new_memory, sensitivity, set_active};
use crate::world::{World, data};

/// A stored delivery.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StoredDelivery {
    pub(crate) endpoint: EndpointId,
    pub(crate) event: Event,
    pub(crate) status: String,
}

impl World {
    /// Fans out until the outbox is empty.
    pub(crate) async fn fan_out(&self) -> FanOutReport {
        let mut all = FanOutReport::default();
        loop {
            let done = self
                .service
                .dispatcher()
                .fan_out(self.time.now())
                .await
                .unwrap();
            all.events += done.events;
            all.deliveries += done.deliveries;
            all.dead_lettered += done.dead_lettered;
            if !done.has_more {
                return all;
            }
        }
    }

    /// Returns all entries of a family, as JSON.
    pub(crate) async fn family(&self, family: &str) -> Vec<(Key, Value)> {
        let json = |value: Bytes| serde_json::from_slice(&value).unwrap();
        let entries = self.entries(family).await.into_iter();
        entries.map(|(key, value)| (key, json(value))).collect()
    }

    /// Returns all entries of a family, undecoded.
    pub(crate) async fn entries(&self, family: &str) -> Vec<(Key, Bytes)> {
        let range = KeyRange::prefix(&Key::new(format!("{family}/")).unwrap());
        let found = self.faults.inner().scan_all(&range).await.unwrap();
        let found = found.into_iter();
        found.map(|found| (found.key, found.entry.value)).collect()
    }

    pub(crate) async fn deliveries(&self) -> Vec<StoredDelivery> {
        let mut deliveries = Vec::new();
        for (key, value) in self.family("delivery").await {
            let endpoint = EndpointId(keys::second_last_id(&key).unwrap());
            let event = EventId(keys::last_id(&key).unwrap());
            let announced: Value = self.read(&keys::event(self.org.id, event)).await.unwrap();
            let id: DeliveryId = serde_json::from_value(value["delivery"]["id"].clone()).unwrap();
            assert_eq!(id, DeliveryId::of(event, endpoint));
            deliveries.push(StoredDelivery {
                endpoint,
                event: serde_json::from_value(announced["event"].clone()).unwrap(),
                status: value["delivery"]["status"].as_str().unwrap().to_owned(),
            });
        }
        deliveries
    }

    /// Returns the events in the queue of an endpoint.
    pub(crate) async fn queued_events(&self, endpoint: impl Into<EndpointId>) -> Vec<Event> {
        let endpoint = endpoint.into();
        let deliveries = self.deliveries().await.into_iter();
        deliveries
            .filter(|delivery| delivery.endpoint == endpoint && delivery.status == "pending")
            .map(|delivery| delivery.event)
            .collect()
    }

    pub(crate) async fn relabel(&self, memories: &[MemoryId], label: SensitivityLabel) {
        let done = self.change(memories, sensitivity(label)).await;
        assert_eq!(done.unwrap().summary.failed, 0);
    }
}

pub(crate) fn listed(event: &Event) -> Vec<MemoryId> {
    serde_json::from_value(data(event)["memory_ids"].take()).unwrap()
}

/// Returns the body that is delivered for an event.
fn body(event: &Event) -> String {
    let body = json!({
        "type": event.event_type(),
        "timestamp": event.timestamp,
        "data": data(event),
    });
    body.to_string()
}

#[tokio::test]
async fn webhooks_receive_events_of_their_type() {
    let world = World::new().await;
    let created = world.webhook(EventType::ChunkCreated).await;
    let other = world.webhook(EventType::ChunkCreated).await;
    let updated = world.webhook(EventType::MemoryUpdated).await;
    let sales = world.workspace("sales").await;
    let elsewhere = world.webhook_in(sales, EventType::ChunkCreated).await;
    let ids = world.memories(2).await;
    world.relabel(&ids, SensitivityLabel::Public).await;
    let done = world.fan_out().await;
    // No endpoint matches the ingest.
    assert_eq!((done.events, done.deliveries), (3, 3));
    assert_eq!(done.dead_lettered, 0);
    for webhook in [&created, &other] {
        let events = world.queued_events(webhook.id).await;
        assert_eq!(events.len(), 1);
        assert_eq!(events[0].event_type(), EventType::ChunkCreated);
        assert_eq!(listed(&events[0]), ids);
    }
    let events = world.queued_events(updated.id).await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].event_type(), EventType::MemoryUpdated);
    assert_eq!(data(&events[0])["workspace_id"], json!(world.workspace.id));
    assert_eq!(world.queued_events(elsewhere.id).await, []);
    assert_eq!(world.events().await, []);
    assert_eq!(world.fan_out().await, FanOutReport::default());
    world.assert_whole().await;
}

#[tokio::test]
async fn event_of_many_memories_is_split_below_20_kb() {
    let world = World::new().await;
    let webhook = world.webhook(EventType::MemoryUpdated).await;
    let mut ids = world.memories(1_000).await;
    ids.sort();
    world.fan_out().await;
    world.relabel(&ids, SensitivityLabel::Public).await;
    assert_eq!(world.fan_out().await.deliveries, 3);
    let events = world.queued_events(webhook.id).await;
    let mut told: Vec<MemoryId> = events.iter().flat_map(listed).collect();
    told.sort();
    assert_eq!(told, ids);
    for event in &events {
        let body = body(event);
        assert!(body.len() < 20_000, "{} bytes", body.len());
        assert_eq!(
            data(event)["operation_id"],
            data(&events[0])["operation_id"]
        );
        assert_eq!(event.timestamp, events[0].timestamp);
    }
    world.assert_whole().await;
}

/// Returns the mutations of the commit that relabels memories, in a world with this many webhooks.
async fn mutations(webhooks: usize) -> Vec<&'static str> {
    let world = World::with_endpoint().await;
    let ids = world.memories(3).await;
    for _ in 1..webhooks {
        world.webhook(EventType::MemoryUpdated).await;
    }
    world.relabel(&ids, SensitivityLabel::Public).await;
    let history = world.faults.history();
    let (_, commit) = history.last().unwrap();
    let kinds = commit.mutations().iter().map(|mutation| match mutation {
        Mutation::Put { key, .. } if keys::outbox_events().contains(key) => "outbox",
        Mutation::Put { .. } => "put",
        Mutation::Delete { .. } => "delete",
        Mutation::Add { .. } => "add",
    });
    kinds.collect()
}

#[tokio::test]
async fn commit_of_a_change_does_not_grow_with_endpoints() {
    let few = mutations(1).await;
    assert_eq!(few.iter().filter(|kind| **kind == "outbox").count(), 1);
    assert_eq!(few, mutations(50).await);
}

/// Enables or disables a webhook.
async fn switch(world: &World, webhook: &Webhook, is_active: bool) {
    world.change_webhook(webhook, set_active(is_active)).await;
}

#[tokio::test]
async fn endpoint_created_after_commit_receives_nothing() {
    let back: fn(&World) = |world| {
        let hour = i64::try_from(HOUR.as_millis()).unwrap();
        let earlier = world.time.now().as_millis() - hour;
        world.time.set(Timestamp::from_millis(earlier));
    };
    let turns = [|_: &World| {}, |world: &World| world.time.pass(HOUR), back];
    for (first, second) in [(0, 1), (0, 2), (1, 2), (2, 1), (0, 0), (1, 1), (2, 2)] {
        let world = World::new().await;
        let before = world.webhook(EventType::ChunkCreated).await;
        turns[first](&world);
        world.memories(1).await;
        turns[second](&world);
        let after = world.webhook(EventType::ChunkCreated).await;
        world.fan_out().await;
        assert_eq!(world.queued_events(before.id).await.len(), 1);
        assert_eq!(world.queued_events(after.id).await, []);
        world.memories(1).await;
        world.fan_out().await;
        assert_eq!(world.queued_events(before.id).await.len(), 2);
        assert_eq!(world.queued_events(after.id).await.len(), 1);
        world.assert_whole().await;
    }
}

#[tokio::test]
async fn endpoint_disabled_by_owner_receives_nothing() {
    let world = World::new().await;
    let webhook = world.webhook(EventType::ChunkCreated).await;
    switch(&world, &webhook, false).await;
    world.memories(1).await;
    assert_eq!(world.fan_out().await.deliveries, 0);
    switch(&world, &webhook, true).await;
    assert_eq!(world.fan_out().await, FanOutReport::default());
    world.memories(1).await;
    world.fan_out().await;
    assert_eq!(world.queued_events(webhook.id).await.len(), 1);
    world.assert_whole().await;
}

#[tokio::test]
async fn events_of_endpoint_disabled_by_service_are_dead_lettered() {
    let world = World::new().await;
    let webhook = world.webhook(EventType::ChunkCreated).await;
    world.memories(1).await;
    world.fan_out().await;
    let claimed = world.claim_one().await;
    world.finish(&claimed, &answer(410)).await;
    world.memories(1).await;
    let done = world.fan_out().await;
    assert_eq!((done.deliveries, done.dead_lettered), (1, 1));
    let made = world.deliveries().await;
    let statuses: Vec<_> = made.iter().map(|made| made.status.as_str()).collect();
    assert_eq!(statuses, ["dead", "dead"]);
    assert_eq!(world.family("dead_letter").await.len(), 2);
    assert_eq!(world.undelivered().await, 0);
    world.assert_whole().await;
    let redelivered = world.redeliver_dead(crate::dispatching::endpoint(&webhook));
    switch(&world, &webhook, true).await;
    assert_eq!(redelivered.await.unwrap().redelivered, 2);
    assert_eq!(world.queued_events(webhook.id).await.len(), 2);
}

#[tokio::test]
async fn endpoint_deleted_before_fan_out_receives_nothing() {
    let world = World::new().await;
    let webhook = world.webhook(EventType::ChunkCreated).await;
    world.memories(1).await;
    world.delete_webhook(webhook.id).await.unwrap();
    assert_eq!(world.fan_out().await.deliveries, 0);
    assert_eq!(world.events().await, []);
    world.maintain().await;
    world.assert_whole().await;
}

#[tokio::test]
async fn fan_out_of_many_events_takes_few_commits() {
    let world = World::new().await;
    let webhook = world.webhook(EventType::ChunkCreated).await;
    for number in 0..90 {
        let batch = [new_memory(&format!("Memory {number}"))];
        world.ingest_memories(world.source, &batch).await.unwrap();
    }
    let commits = world.faults.counts().commits;
    let done = world.fan_out().await;
    assert_eq!((done.events, done.deliveries), (180, 90));
    assert!(world.faults.counts().commits - commits <= 2);
    assert_eq!(world.queued_events(webhook.id).await.len(), 90);
    world.assert_whole().await;
}

#[tokio::test]
async fn corrupt_events_do_not_block_fan_out() {
    let world = World::new().await;
    let webhook = world.webhook(EventType::ChunkCreated).await;
    let corrupt = world.webhook(EventType::ChunkCreated).await;
    let key = keys::webhook(world.org.id, world.workspace.id, corrupt.id);
    world.overwrite(key, "{".to_owned()).await;
    world.memories(2).await;
    let whole = world.events_of(EventType::ChunkCreated).await;
    world.memories(2).await;
    let mut half_way = world.events_of(EventType::ChunkCreated).await;
    half_way.retain(|event| !whole.contains(event));
    let half_way = keys::fan_out(half_way[0].id);
    world.overwrite(half_way, "{".to_owned()).await;
    // More than a page of corrupt entries, before and after the valid one.
    for number in 0..130 {
        for id in [number, u128::MAX - number] {
            let id = EventId(uuid::Uuid::from_u128(id));
            world.overwrite(keys::outbox(id), "{".to_owned()).await;
            let mark = keys::outbox_queue(world.org.id, id);
            world.overwrite(mark, "null".to_owned()).await;
        }
    }
    let done = world.fan_out().await;
    assert_eq!((done.events, done.deliveries, done.has_more), (3, 1, false));
    assert_eq!(world.family("event").await.len(), 1);
    let left = world.faults.inner().scan_all(&keys::outbox_events()).await;
    assert_eq!(left.unwrap().len(), 261);
    let events = world.queued_events(webhook.id).await;
    assert_eq!(listed(&events[0]), listed(&whole[0]));
    assert_eq!(world.fan_out().await, FanOutReport::default());
}

#[tokio::test]
async fn concurrent_fan_outs_create_each_delivery_once() {
    let world = World::new().await;
    let webhooks = [
        world.webhook(EventType::ChunkCreated).await,
        world.webhook(EventType::ChunkCreated).await,
    ];
    for _ in 0..20 {
        world.memories(1).await;
    }
    // A fan-out that always loses to others skips the event, and reports it.
    futures::future::join_all((0..4).map(|_| world.fan_out())).await;
    assert_eq!(world.events().await, []);
    for webhook in &webhooks {
        assert_eq!(world.queued_events(webhook.id).await.len(), 20);
    }
    assert_eq!(world.undelivered().await, 40);
    world.assert_whole().await;
}
