//! Tests of whole servers and real receivers: endpoints do not affect each other.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use knowledge_core::env::Env;
use knowledge_core::model::{
    BulkUpdate, DeliveryStatus, EventType, MemoryChange, MemoryId, ReviewStatus, SensitivityLabel,
};
use knowledge_core::service::{IdempotencyKey, NewRecall};
use knowledge_core::store::MemoryStore;
use knowledge_server::deliveries::Deliveries;

use crate::support::{Receiver, Serving, World, delivery_client, open, until};

/// Creates a world in memory, and returns its delivery options.
async fn world() -> (World, impl Fn() -> Deliveries) {
    let store = Arc::new(MemoryStore::new());
    let world = World::seeded(open(store, Env::system()).await).await;
    let deliveries = || Deliveries::through(delivery_client());
    (world, deliveries)
}

/// Queues deliveries: this many recalls cite a memory, which changes this often.
async fn pile_up(world: &World, memory: MemoryId, recalls: usize, changes: usize) {
    let approved = MemoryChange::builder().review_status(ReviewStatus::Approved);
    let approve = BulkUpdate::builder()
        .memory_ids(vec![memory])
        .change(approved.build())
        .build();
    let key: IdempotencyKey = format!("approve-{memory}").parse().expect("a key");
    let service = &world.service;
    let done = service
        .memories()
        .bulk_update(&world.owner, &key, &approve)
        .await;
    done.expect("an approval");
    for number in 0..recalls {
        let recall = NewRecall::builder()
            .query(format!("Question {number}"))
            .memory_ids(vec![memory])
            .build();
        let created = world
            .service
            .recalls()
            .create(&world.owner, world.workspace, &recall)
            .await;
        created.expect("a recall");
    }
    for number in 0..changes {
        let label = match number % 2 {
            0 => SensitivityLabel::Public,
            _ => SensitivityLabel::Internal,
        };
        let update = BulkUpdate::builder()
            .memory_ids(vec![memory])
            .change(MemoryChange::builder().sensitivity_label(label).build())
            .build();
        let key: IdempotencyKey = format!("change-{number}").parse().expect("a key");
        let updated = world
            .service
            .memories()
            .bulk_update(&world.owner, &key, &update)
            .await;
        assert_eq!(updated.expect("updated").summary.succeeded, 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_endpoint_with_10_000_deliveries_delays_no_other() {
    const RECALLS: usize = 100;
    const CHANGES: usize = 100;
    const WAITING: u64 = (RECALLS * CHANGES) as u64;
    const EVENTS: usize = 50;
    let (world, deliveries) = world().await;
    let dead = Receiver::silent().await;
    let alive = Receiver::taking().await;
    world.webhook(EventType::CitationChanged, &dead.url()).await;
    let webhook = world.chunk_webhook(&alive.url()).await;
    let memory = world.ingest().await;
    pile_up(&world, memory, RECALLS, CHANGES).await;
    let server = Serving::start(&world.service, deliveries()).await;
    alive.receives(1).await;
    until("everything to be fanned out", async || {
        world.outbox().await.pending_events == 0
    })
    .await;
    dead.receives(1).await;
    assert!(world.outbox().await.undelivered >= WAITING);

    let secret = webhook.signing_secret.expect("a new webhook");
    for count in 0..EVENTS {
        world.ingest().await;
        let received = alive.receives(2 + count).await;
        received[1 + count].verify(&secret);
    }
    let waiting = world.outbox().await.undelivered;
    assert!(waiting >= WAITING - 100, "{waiting} of {WAITING} wait");
    assert!(dead.received().len() < 100);
    assert_eq!(server.attempts("dead").await, 0.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dispatchers_on_one_store_lose_nothing() {
    const EVENTS: usize = 500;
    let (world, deliveries) = world().await;
    let receiver = Receiver::taking().await;
    let webhook = world.chunk_webhook(&receiver.url()).await;
    let _servers = [
        Serving::start(&world.service, deliveries()).await,
        Serving::start(&world.service, deliveries()).await,
    ];
    let mut memories = BTreeSet::new();
    for _ in 0..EVENTS {
        memories.insert(world.ingest().await.to_string());
    }
    world.is_idle().await;
    let received = receiver.received();
    let secret = webhook.signing_secret.expect("a new webhook");
    let mut announced = BTreeSet::new();
    for request in &received {
        request.verify(&secret);
        let ids = request.json()["data"]["memory_ids"].clone();
        let ids: Vec<String> = serde_json::from_value(ids).expect("identifiers");
        announced.extend(ids);
    }
    assert_eq!(announced, memories);
    let deliveries = world.deliveries(webhook.id).await;
    assert_eq!(deliveries.len(), EVENTS);
    for delivery in &deliveries {
        assert_eq!(delivery.status, DeliveryStatus::Delivered, "{delivery:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endpoint_may_be_deleted_with_delivery_in_flight() {
    let (world, deliveries) = world().await;
    let (held, gate) = Receiver::held().await;
    let other = Receiver::taking().await;
    let webhook = world.chunk_webhook(&held.url()).await;
    world.chunk_webhook(&other.url()).await;
    let server = Serving::start(&world.service, deliveries()).await;
    world.ingest().await;
    held.receives(1).await;
    other.receives(1).await;
    let deleted = world
        .service
        .webhooks()
        .delete(&world.owner, world.workspace, webhook.id)
        .await;
    deleted.expect("deleted");
    gate.add_permits(100);
    let lost = [("outcome", "lease_lost")];
    let attempts = "knowledge_delivery_attempts_total";
    server
        .number_becomes(attempts, &lost, |lost| lost >= 1.0)
        .await;
    world.ingest().await;
    other.receives(2).await;
    assert_eq!(held.received().len(), 1);
    let delivered = [("outcome", "delivered")];
    server
        .number_becomes(attempts, &delivered, |delivered| delivered == 2.0)
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failing_receiver_gets_delivery_once_it_works() {
    let (world, deliveries) = world().await;
    let receiver = Receiver::start(async |number| match number {
        0 => 503,
        _ => 204,
    })
    .await;
    let webhook = world.chunk_webhook(&receiver.url()).await;
    let _server = Serving::start(&world.service, deliveries()).await;
    world.ingest().await;
    let received = receiver.receives(2).await;
    assert_eq!(received[0].id(), received[1].id());
    assert_eq!(received[0].body, received[1].body);
    let secret = webhook.signing_secret.expect("a new webhook");
    for request in &received {
        request.verify(&secret);
    }
    world.is_idle().await;
    let delivery = world.deliveries(webhook.id).await.remove(0);
    assert_eq!(delivery.status, DeliveryStatus::Delivered);
    let statuses: Vec<_> = delivery
        .attempts
        .iter()
        .map(|attempt| attempt.status)
        .collect();
    assert_eq!(statuses, [Some(503), Some(204)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_server_records_deliveries_in_flight() {
    let (world, deliveries) = world().await;
    let (held, gate) = Receiver::held().await;
    let webhook = world.chunk_webhook(&held.url()).await;
    let mut server =
        Serving::start_with(&world.service, deliveries(), Duration::from_secs(60)).await;
    world.ingest().await;
    held.receives(1).await;
    server.stop();
    gate.add_permits(1);
    server.stopped().await;
    let delivery = world.deliveries(webhook.id).await.remove(0);
    assert_eq!(delivery.status, DeliveryStatus::Delivered);
    assert_eq!(held.received().len(), 1);
}
