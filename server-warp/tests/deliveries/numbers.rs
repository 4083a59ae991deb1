//! Tests of the metrics of stuck deliveries.

use std::sync::Arc;
use std::time::Duration;

use knowledge_core::model::DeliveryFailureCode;
use knowledge_core::service::DELIVERY_TIMEOUT;
use knowledge_server::deliveries::Deliveries;
use knowledge_store::faults::{FaultPlan, FaultRates, FaultStore};

use crate::support::{EVENTS_PER_INGEST, FakeSender, Serving, World, answered, failed, open};

const URL: &str = "https://hooks.test/";
const EVENTS: &str = "knowledge_outbox_events";
const DELIVERIES: &str = "knowledge_outbox_deliveries";
const OVERDUE: &str = "knowledge_outbox_overdue_seconds";
const AGE: &str = "knowledge_outbox_oldest_age_seconds";
const IN_FLIGHT: &str = "knowledge_deliveries_in_flight";
const DEAD_LETTERED: &str = "knowledge_deliveries_dead_lettered_total";
const FAILURES: &str = "knowledge_delivery_failures_total";
const DURATIONS: &str = "knowledge_delivery_duration_seconds_count";

/// A polling interval longer than any test.
const SELDOM: Duration = Duration::from_secs(1_000_000);

#[tokio::test(start_paused = true)]
async fn metrics_show_age_of_event_without_fan_out() {
    let (store, env, world) = World::virtual_time().await;
    world.chunk_webhook(URL).await;
    let sender = FakeSender::new(async |_, _| answered(200));
    let deliveries = Deliveries::through(sender).poll_every(SELDOM);
    // Another service over the same store, which is not notified of the commits of this one.
    let server = Serving::start(&open(store, env).await, deliveries).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(server.number(EVENTS, &[]).await, 0.0);
    assert_eq!(server.number(AGE, &[]).await, 0.0);
    world.ingest().await;
    tokio::time::sleep(Duration::from_secs(90)).await;
    let waiting = server.number(EVENTS, &[]).await;
    assert_eq!(waiting, f64::from(EVENTS_PER_INGEST));
    let age = server.number(AGE, &[]).await;
    assert!((90.0..100.0).contains(&age), "{age}");
}

#[tokio::test(start_paused = true)]
async fn metrics_show_age_and_reason_of_failing_delivery() {
    let (_, _, world) = World::virtual_time().await;
    world.chunk_webhook(URL).await;
    let sender = FakeSender::new(async |_, _| {
        tokio::time::sleep(DELIVERY_TIMEOUT).await;
        failed(DeliveryFailureCode::TimedOut)
    });
    let deliveries = Deliveries::through(sender.clone()).poll_every(Duration::from_millis(50));
    let server = Serving::start(&world.service, deliveries).await;
    world.ingest().await;
    sender.sends(1).await;
    assert_eq!(server.number(EVENTS, &[]).await, 0.0);
    assert_eq!(server.number(DELIVERIES, &[]).await, 1.0);
    assert_eq!(server.number(IN_FLIGHT, &[]).await, 1.0);
    assert_eq!(server.attempts("retry").await, 0.0);
    sender.sends(2).await;
    assert_eq!(server.attempts("retry").await, 1.0);
    let timed_out = [("reason", "timed_out")];
    assert_eq!(server.number(FAILURES, &timed_out).await, 1.0);
    assert_eq!(server.number(DURATIONS, &[]).await, 1.0);
    assert_eq!(server.number(DELIVERIES, &[]).await, 1.0);
    let age = server.number(AGE, &[]).await;
    assert!(age >= DELIVERY_TIMEOUT.as_secs_f64(), "{age}");
}

#[tokio::test(start_paused = true)]
async fn metrics_count_disabled_endpoints_and_their_dead_letters() {
    let (_, _, world) = World::virtual_time().await;
    world.chunk_webhook(URL).await;
    let sender = FakeSender::new(async |_, _| answered(410));
    let deliveries = Deliveries::through(sender.clone()).poll_every(Duration::from_millis(50));
    let server = Serving::start(&world.service, deliveries).await;
    assert_eq!(
        server.number("knowledge_endpoints_disabled", &[]).await,
        0.0
    );
    world.ingest().await;
    sender.sends(1).await;
    world.is_idle().await;
    assert_eq!(
        server.number("knowledge_endpoints_disabled", &[]).await,
        1.0
    );
    assert_eq!(server.attempts("dead").await, 1.0);
    let refused = [("reason", "http_4xx")];
    assert_eq!(server.number(FAILURES, &refused).await, 1.0);
    assert_eq!(server.number(AGE, &[]).await, 0.0);
    // From now on, the fan-out dead-letters its events.
    assert_eq!(server.number(DEAD_LETTERED, &[]).await, 0.0);
    world.ingest().await;
    world.is_idle().await;
    server
        .number_becomes(DEAD_LETTERED, &[], |dead_lettered| dead_lettered == 1.0)
        .await;
    assert_eq!(sender.sent().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn metrics_show_stuck_claim_beside_failing_endpoint() {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let (store, env, world) = World::virtual_time().await;
    world.chunk_webhook("https://failing.test/").await;
    let unavailable = FaultRates {
        unavailable: 1.0,
        ..FaultRates::default()
    };
    let faults = Arc::new(FaultStore::new(store, FaultPlan::seeded(1, unavailable)));
    faults.disable_faults();
    let service = open(faults.clone(), env).await;
    let sender = FakeSender::new(async |_, _| failed(DeliveryFailureCode::TimedOut));
    let deliveries = Deliveries::through(sender.clone()).poll_every(Duration::from_secs(60));
    let server = Serving::start(&service, deliveries).await;
    world.ingest().await;
    sender.sends_within(3 * DAY, 9).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let days = server.number(AGE, &[]).await;
    assert!(days > DAY.as_secs_f64(), "{days}");
    assert_eq!(server.number(OVERDUE, &[]).await, 0.0);

    // From here on no claim succeeds.
    faults.enable_faults();
    world.chunk_webhook(URL).await;
    world.ingest().await;
    let now = world.service.env().now();
    let report = world.service.dispatcher().fan_out(now).await;
    assert!(report.expect("a fan-out").deliveries > 0);
    tokio::time::sleep(Duration::from_secs(600)).await;
    let overdue = server.number(OVERDUE, &[]).await;
    assert!((600.0..700.0).contains(&overdue), "{overdue}");
    faults.disable_faults();
    server
        .number_becomes(OVERDUE, &[], |overdue| overdue == 0.0)
        .await;
}
