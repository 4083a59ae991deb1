//! Tests of the dispatcher in virtual time: claims, renewals, records and failures.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use knowledge_core::model::{DeliveryFailureCode, DeliveryStatus};
use knowledge_core::service::{
    Attempt, DELIVERY_LEASE, DELIVERY_TIMEOUT, DeliveryRequest, IN_FLIGHT_PER_ENDPOINT_MAX,
};
use knowledge_server::deliveries::Deliveries;
use knowledge_store::faults::{FaultPlan, FaultStore};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::support::{
    EVENTS_PER_INGEST, FakeSender, Serving, World, answered, failed, open, until,
};

const URL: &str = "https://hooks.test/";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const STEP_FAILURES: &str = "knowledge_dispatch_failures_total";

/// Polls often, so that no test depends on the signal.
fn often(sender: &Arc<FakeSender>) -> Deliveries {
    Deliveries::through(sender.clone()).poll_every(Duration::from_millis(50))
}

/// Returns a sender whose endpoint accepts everything.
fn taking() -> Arc<FakeSender> {
    FakeSender::new(async |_, _| answered(200))
}

/// Returns a gate at which a sender's script waits.
fn gate() -> (Arc<Semaphore>, impl Fn() -> Arc<Semaphore> + Send + Sync) {
    let gate = Arc::new(Semaphore::new(0));
    let copy = Arc::clone(&gate);
    (gate, move || Arc::clone(&copy))
}

async fn pass(gate: Arc<Semaphore>) {
    gate.acquire()
        .await
        .expect("a gate is never closed")
        .forget();
}

#[tokio::test(start_paused = true)]
async fn event_is_sent_signed_and_recorded() {
    let (_, _, world) = World::virtual_time().await;
    let webhook = world.chunk_webhook(URL).await;
    let sender = taking();
    let server = Serving::start(&world.service, often(&sender)).await;
    let memory = world.ingest().await;
    let sent = sender.sends(1).await.remove(0);

    assert_eq!(sent.url.as_str(), URL);
    let body: Value = serde_json::from_slice(&sent.body).expect("JSON");
    assert_eq!(body["type"], "chunk.created");
    assert_eq!(body["data"]["memory_ids"], json!([memory]));
    let secret = webhook.signing_secret.expect("a new webhook");
    let verifier = standardwebhooks::Webhook::new(&secret).expect("a secret");
    let verified = verifier.verify(&sent.body, &sent.headers());
    verified.expect("the signature of the endpoint's secret");

    world.is_idle().await;
    let deliveries = world.deliveries(webhook.id).await;
    assert_eq!(deliveries.len(), 1);
    assert_eq!(deliveries[0].id, sent.id);
    assert_eq!(deliveries[0].status, DeliveryStatus::Delivered);
    assert_eq!(deliveries[0].attempts[0].status, Some(200));
    assert_eq!(server.attempts("delivered").await, 1.0);
    assert_eq!(sender.sent().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn commit_wakes_dispatcher() {
    let (store, env, world) = World::virtual_time().await;
    let webhook = world.chunk_webhook(URL).await;
    let world = world.through(open(store, env).await);
    let sender = taking();
    let seldom = Deliveries::through(sender.clone()).poll_every(365 * DAY);
    let _server = Serving::start(&world.service, seldom).await;
    for count in 1..=3 {
        world.ingest().await;
        sender.sends(count).await;
        world.is_idle().await;
    }
    assert_eq!(world.deliveries(webhook.id).await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn next_attempt_is_made_when_due() {
    let (store, env, world) = World::virtual_time().await;
    let webhook = world.chunk_webhook(URL).await;
    let world = world.through(open(store, env).await);
    let sender = FakeSender::new(async |_, _| failed(DeliveryFailureCode::ConnectionFailed));
    // Polling is so rare that it could not keep the schedule.
    let seldom = Deliveries::through(sender.clone()).poll_every(365 * DAY);
    let server = Serving::start(&world.service, seldom).await;
    world.ingest().await;
    let sent = sender.sends_within(10 * DAY, 10).await;
    world.is_idle().await;

    let delivery = world.deliveries(webhook.id).await.remove(0);
    assert_eq!(delivery.status, DeliveryStatus::Dead);
    assert_eq!(delivery.attempts.len(), sent.len());
    assert!(sent.iter().all(|sent| sent.id == delivery.id));
    let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
    let hours = |hours: u64| minutes(hours * 60);
    let schedule = [
        Duration::from_secs(5),
        minutes(5),
        minutes(30),
        hours(2),
        hours(5),
        hours(10),
        hours(14),
        hours(20),
        hours(24),
    ];
    for (pair, delay) in sent.windows(2).zip(schedule) {
        let waited = pair[1].timestamp.since(pair[0].timestamp);
        assert!(waited >= delay.mul_f64(0.8), "{waited:?} of {delay:?}");
        assert!(waited <= delay.mul_f64(1.25), "{waited:?} of {delay:?}");
    }
    assert_eq!(server.attempts("retry").await, 9.0);
    assert_eq!(server.attempts("dead").await, 1.0);
    assert_eq!(sender.sent().len(), 10);
}

#[tokio::test(start_paused = true)]
async fn long_exchange_is_made_once() {
    let (_, _, world) = World::virtual_time().await;
    let webhook = world.chunk_webhook(URL).await;
    let long = DELIVERY_TIMEOUT.mul_f64(0.9);
    assert!(long > 3 * DELIVERY_LEASE);
    let sender = FakeSender::new(move |_, _| async move {
        tokio::time::sleep(long).await;
        answered(204)
    });
    let _servers = [
        Serving::start(&world.service, often(&sender)).await,
        Serving::start(&world.service, often(&sender)).await,
    ];
    world.ingest().await;
    sender.sends(1).await;
    world.is_idle().await;
    assert_eq!(sender.sent().len(), 1);
    let delivery = world.deliveries(webhook.id).await.remove(0);
    assert_eq!(delivery.attempts.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn deliveries_of_dead_dispatcher_are_sent_again() {
    let (_, _, world) = World::virtual_time().await;
    world.chunk_webhook(URL).await;
    let never = FakeSender::new(async |_, _| std::future::pending().await);
    let server = Serving::start(&world.service, often(&never)).await;
    world.ingest().await;
    let first = never.sends(1).await.remove(0);
    drop(server);

    let sender = taking();
    let server = Serving::start(&world.service, often(&sender)).await;
    let again = sender.sends(1).await.remove(0);
    assert_eq!(again.id, first.id);
    assert_eq!(again.body, first.body);
    world.is_idle().await;
    assert_eq!(server.attempts("delivered").await, 1.0);
}

#[tokio::test(start_paused = true)]
async fn dispatcher_backs_off_while_store_fails() {
    let (store, env, world) = World::virtual_time().await;
    world.chunk_webhook(URL).await;
    let faults = Arc::new(FaultStore::new(store, FaultPlan::none()));
    let failing = open(faults.clone(), env).await;
    let sender = taking();
    let server = Serving::start(&failing, often(&sender)).await;
    faults.fail_reads(true);
    world.ingest().await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(sender.sent().len(), 0);
    faults.fail_reads(false);
    sender.sends(1).await;
    world.is_idle().await;
    for step in ["fan_out", "claim"] {
        let failures = server.number(STEP_FAILURES, &[("step", step)]).await;
        assert!(failures >= 3.0, "{step}: {failures}");
        assert!(failures <= 20.0, "{step}: {failures} within a minute");
    }
}

#[tokio::test(start_paused = true)]
async fn outcome_of_lost_lease_changes_nothing() {
    let (store, env, world) = World::virtual_time().await;
    let webhook = world.chunk_webhook(URL).await;
    let faults = Arc::new(FaultStore::new(store, FaultPlan::none()));
    let failing = open(faults.clone(), env).await;
    let (release, held) = gate();
    let slow = FakeSender::new(move |_, _| {
        let held = held();
        async move {
            pass(held).await;
            answered(500)
        }
    });
    let slow_server = Serving::start(&failing, often(&slow)).await;
    world.ingest().await;
    slow.sends(1).await;
    // The dispatcher cannot renew its lease, and another one claims the delivery.
    faults.fail_reads(true);
    let sender = taking();
    let _server = Serving::start(&world.service, often(&sender)).await;
    sender.sends(1).await;
    world.is_idle().await;
    let before = world.deliveries(webhook.id).await;
    faults.fail_reads(false);
    release.add_permits(1);

    let lost = [("outcome", "lease_lost")];
    let attempts = "knowledge_delivery_attempts_total";
    slow_server
        .number_becomes(attempts, &lost, |lost| lost == 1.0)
        .await;
    assert_eq!(world.deliveries(webhook.id).await, before);
    assert_eq!(before[0].status, DeliveryStatus::Delivered);
    assert_eq!((slow.sent().len(), sender.sent().len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn response_is_recorded_once_the_store_recovers() {
    let (store, env, world) = World::virtual_time().await;
    let webhook = world.chunk_webhook(URL).await;
    let faults = Arc::new(FaultStore::new(store, FaultPlan::none()));
    let failing = open(faults.clone(), env).await;
    let failed = Arc::clone(&faults);
    let sender = FakeSender::new(move |_, _| {
        failed.fail_reads(true);
        async { answered(200) }
    });
    let server = Serving::start(&failing, often(&sender)).await;
    world.ingest().await;
    sender.sends(1).await;
    let record = [("step", "record")];
    server
        .number_becomes(STEP_FAILURES, &record, |failures| failures >= 3.0)
        .await;
    faults.fail_reads(false);
    world.is_idle().await;
    let delivery = world.deliveries(webhook.id).await.remove(0);
    assert_eq!(delivery.status, DeliveryStatus::Delivered);
    assert_eq!(server.attempts("delivered").await, 1.0);
    assert_eq!(sender.sent().len(), 1, "it was not sent again meanwhile");
}

#[tokio::test(start_paused = true)]
async fn shutdown_lets_exchanges_complete_and_begins_none() {
    let (_, _, world) = World::virtual_time().await;
    let webhook = world.chunk_webhook(URL).await;
    let (release, held) = gate();
    let slow = FakeSender::new(move |_, _| {
        let held = held();
        async move {
            pass(held).await;
            answered(200)
        }
    });
    let mut server = Serving::start(&world.service, often(&slow)).await;
    world.ingest().await;
    slow.sends(1).await;
    server.stop();
    // The exchange outlasts its lease, which is renewed to the end.
    tokio::time::sleep(2 * DELIVERY_LEASE).await;
    world.ingest().await;
    tokio::time::sleep(DELIVERY_LEASE).await;
    release.add_permits(2);
    server.stopped().await;
    assert_eq!(slow.sent().len(), 1);
    assert_eq!(
        world.outbox().await.pending_events,
        u64::from(EVENTS_PER_INGEST)
    );
    let delivered = world.deliveries(webhook.id).await;
    assert_eq!(delivered.len(), 1);
    assert_eq!(delivered[0].status, DeliveryStatus::Delivered);

    let sender = taking();
    let _server = Serving::start(&world.service, often(&sender)).await;
    let next = sender.sends(1).await.remove(0);
    assert_ne!(next.id, delivered[0].id);
    world.is_idle().await;
    assert_eq!(sender.sent().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn exchange_beyond_shutdown_is_left_to_next_start() {
    let (_, _, world) = World::virtual_time().await;
    world.chunk_webhook(URL).await;
    let never = FakeSender::new(async |_, _| std::future::pending().await);
    let short = Duration::from_secs(1);
    let mut server = Serving::start_with(&world.service, often(&never), short).await;
    world.ingest().await;
    let first = never.sends(1).await.remove(0);
    server.stop();
    server.stopped().await;
    let sender = taking();
    let _server = Serving::start(&world.service, often(&sender)).await;
    assert_eq!(sender.sends(1).await[0].id, first.id);
    world.is_idle().await;
}

/// The exchanges in flight, and their peaks.
#[derive(Debug, Default)]
struct Peaks {
    now: BTreeMap<String, usize>,
    per_endpoint_max: usize,
    all_max: usize,
}

impl Peaks {
    fn begin(&mut self, request: &DeliveryRequest) {
        let count = self.now.entry(request.url.as_str().to_owned());
        let count = count.or_default();
        *count += 1;
        self.per_endpoint_max = self.per_endpoint_max.max(*count);
        self.all_max = self.all_max.max(self.now.values().sum());
    }

    fn end(&mut self, request: &DeliveryRequest) {
        *self.now.get_mut(request.url.as_str()).expect("begun") -= 1;
    }
}

#[tokio::test(start_paused = true)]
async fn deliveries_in_flight_are_limited() {
    const IN_FLIGHT_MAX: usize = 20;
    const ENDPOINTS: usize = 4;
    const EVENTS: usize = 40;
    let (_, _, world) = World::virtual_time().await;
    for number in 0..ENDPOINTS {
        world.chunk_webhook(&format!("{URL}{number}")).await;
    }
    let peaks = Arc::new(Mutex::new(Peaks::default()));
    let seen = Arc::clone(&peaks);
    let sender = FakeSender::new(move |_, request| {
        let seen = Arc::clone(&seen);
        async move {
            seen.lock().expect("no panic").begin(&request);
            // Too long for an endpoint that answers quickly.
            let duration = Duration::from_secs(1);
            tokio::time::sleep(duration).await;
            seen.lock().expect("no panic").end(&request);
            Attempt {
                duration,
                ..answered(200)
            }
        }
    });
    for _ in 0..EVENTS {
        world.ingest().await;
    }
    let deliveries = often(&sender).in_flight_max(IN_FLIGHT_MAX);
    let server = Serving::start(&world.service, deliveries).await;
    sender.sends(ENDPOINTS * EVENTS).await;
    world.is_idle().await;
    assert_eq!(sender.sent().len(), ENDPOINTS * EVENTS);
    {
        let peaks = peaks.lock().expect("no panic");
        assert_eq!(peaks.all_max, IN_FLIGHT_MAX);
        assert_eq!(peaks.per_endpoint_max, IN_FLIGHT_PER_ENDPOINT_MAX);
    }
    let max = server.number("knowledge_deliveries_in_flight_max", &[]);
    assert_eq!(max.await, 20.0);
}

#[tokio::test(start_paused = true)]
async fn dispatchers_share_the_work_without_duplicates() {
    const EVENTS: usize = 200;
    let (_, _, world) = World::virtual_time().await;
    let webhook = world.chunk_webhook(URL).await;
    let make = || {
        FakeSender::new(async |_, _| -> Attempt {
            tokio::time::sleep(Duration::from_millis(30)).await;
            answered(200)
        })
    };
    let senders = [make(), make()];
    let _servers = [
        Serving::start(&world.service, often(&senders[0])).await,
        Serving::start(&world.service, often(&senders[1])).await,
    ];
    for _ in 0..EVENTS {
        world.ingest().await;
    }
    until("all to be delivered", async || {
        let status = world.outbox().await;
        status.pending_events + status.undelivered == 0
    })
    .await;
    let mut sent: Vec<_> = senders.iter().flat_map(|sender| sender.sent()).collect();
    assert_eq!(sent.len(), EVENTS);
    sent.sort_by_key(|sent| sent.id);
    sent.dedup_by_key(|sent| sent.id);
    assert_eq!(sent.len(), EVENTS);
    for sender in &senders {
        assert!(!sender.sent().is_empty(), "both have a part of it");
    }
    let deliveries = world.deliveries(webhook.id).await;
    assert_eq!(deliveries.len(), EVENTS);
    let is_delivered = |delivery: &knowledge_core::model::Delivery| {
        delivery.status == DeliveryStatus::Delivered && delivery.attempts.len() == 1
    };
    assert!(deliveries.iter().all(is_delivered));
}
