//! From the outbox to the queues: who hears of what.

use knowledge_core::model::{
    DeliveryId, EndpointId, EventId, EventType, MemoryId, SensitivityLabel,
};
use knowledge_core::service::{Event, Expanded};
use knowledge_core::store::{Key, KeyRange, StoreExt, keys};
use serde_json::{Value, json};

use crate::make::sensitivity;
use crate::world::World;

/// A delivery that stands in the store.
#[derive(Clone, Debug, PartialEq)]
struct Delivered {
    endpoint: EndpointId,
    event: Event,
    status: String,
}

impl World {
    /// Expands until there is nothing left to expand.
    pub(crate) async fn expand(&self) -> Expanded {
        let mut all = Expanded::default();
        loop {
            let done = self.service.expand_events(self.time.now()).await.unwrap();
            all.events += done.events;
            all.deliveries += done.deliveries;
            if !done.has_more {
                return all;
            }
        }
    }

    /// Every entry of a family, as JSON.
    pub(crate) async fn family(&self, family: &str) -> Vec<(Key, Value)> {
        let range = KeyRange::prefix(&Key::new(format!("{family}/")).unwrap());
        let found = self.faults.inner().scan_all(&range).await.unwrap();
        let json = |value: &[u8]| serde_json::from_slice(value).unwrap();
        let found = found.into_iter();
        found
            .map(|found| (found.key, json(&found.entry.value)))
            .collect()
    }

    async fn deliveries(&self) -> Vec<Delivered> {
        let mut deliveries = Vec::new();
        for (key, value) in self.family("delivery").await {
            let endpoint = EndpointId(keys::second_last_id(&key).unwrap());
            let event = EventId(keys::last_id(&key).unwrap());
            let announced: Value = self.read(&keys::event(self.org.id, event)).await.unwrap();
            let id: DeliveryId = serde_json::from_value(value["delivery"]["id"].clone()).unwrap();
            assert_eq!(id, DeliveryId::of(event, endpoint));
            deliveries.push(Delivered {
                endpoint,
                event: serde_json::from_value(announced["event"].clone()).unwrap(),
                status: value["delivery"]["status"].as_str().unwrap().to_owned(),
            });
        }
        deliveries
    }

    /// What stands in the queue of an endpoint.
    async fn heard_by(&self, endpoint: impl Into<EndpointId>) -> Vec<Event> {
        let endpoint = endpoint.into();
        let deliveries = self.deliveries().await.into_iter();
        deliveries
            .filter(|delivery| delivery.endpoint == endpoint && delivery.status == "pending")
            .map(|delivery| delivery.event)
            .collect()
    }

    async fn relabel(&self, memories: &[MemoryId], label: SensitivityLabel) {
        let done = self.bulk(&self.owner, memories, sensitivity(label)).await;
        assert_eq!(done.unwrap().summary.failed, 0);
    }
}

fn listed(event: &Event) -> Vec<MemoryId> {
    serde_json::from_value(event.data["memory_ids"].clone()).unwrap()
}

#[tokio::test]
async fn webhooks_hear_of_the_events_of_their_type() {
    let world = World::new().await;
    let created = world.webhook(EventType::ChunkCreated).await;
    let other = world.webhook(EventType::ChunkCreated).await;
    let updated = world.webhook(EventType::MemoryUpdated).await;
    let ids = world.memories(2).await;
    world.relabel(&ids, SensitivityLabel::Public).await;
    let done = world.expand().await;
    assert_eq!((done.deliveries, world.events().await.len()), (3, 0));
    for webhook in [&created, &other] {
        let heard = world.heard_by(webhook.id).await;
        assert_eq!(heard.len(), 1);
        assert_eq!(heard[0].event_type, EventType::ChunkCreated);
        assert_eq!(listed(&heard[0]), ids);
    }
    let heard = world.heard_by(updated.id).await;
    assert_eq!(heard.len(), 1);
    assert_eq!(heard[0].event_type, EventType::MemoryUpdated);
    assert_eq!(heard[0].data["workspace_id"], json!(world.workspace.id));
    assert_eq!(world.expand().await, Expanded::default());
    world.assert_whole().await;
}
