//! Tests of panics and unrecoverable errors, which must end only what they concern.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use knowledge_core::internals::keys;
use knowledge_core::model::{DeliveryFailureCode, DeliveryStatus};
use knowledge_core::service::DELIVERY_LEASE;
use knowledge_server::deliveries::Deliveries;
use knowledge_store::faults::{FaultPlan, FaultRates, FaultStore};

use crate::support::{
    Asked, FakeSender, HookedStore, Serving, World, answered, of_fan_out, of_lease, open, until,
};

const URL: &str = "https://hooks.test/";
const STEP_FAILURES: &str = "knowledge_dispatch_failures_total";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn often(sender: &Arc<FakeSender>) -> Deliveries {
    Deliveries::through(sender.clone()).poll_every(Duration::from_millis(50))
}

/// Serves from a store that panics in the next matching call once the test has set the flag.
async fn goes_on_after_a_panic(is_meant: fn(&Asked) -> bool) {
    let (store, env, world) = World::virtual_time().await;
    world.chunk_webhook(URL).await;
    let panics = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&panics);
    let panicking = HookedStore::new(store, move |asked| {
        let panics = is_meant(&asked) && flag.swap(false, Ordering::SeqCst);
        assert!(!panics, "as the test wanted");
        async { Ok(()) }
    });
    // The first exchange is in flight during the panic.
    let sender = FakeSender::new(async |number, _| {
        if number == 0 {
            tokio::time::sleep(2 * DELIVERY_LEASE).await;
        }
        answered(200)
    });
    let service = open(panicking, env).await;
    let server = Serving::start(&service, often(&sender)).await;
    world.ingest().await;
    sender.sends(1).await;
    panics.store(true, Ordering::SeqCst);
    until("the panic", async || !panics.load(Ordering::SeqCst)).await;
    world.ingest().await;
    sender.sends(2).await;
    world.is_idle().await;
    assert_eq!(sender.sent().len(), 2, "the one under way went on");
    let turns = [("step", "run")];
    assert_eq!(server.number(STEP_FAILURES, &turns).await, 1.0);
    assert_eq!(server.attempts("delivered").await, 2.0);
}

#[tokio::test(start_paused = true)]
async fn panic_during_fan_out_does_not_stop_dispatcher() {
    goes_on_after_a_panic(|asked| matches!(asked, Asked::Scan(range) if of_fan_out(range))).await;
}

#[tokio::test(start_paused = true)]
async fn panic_during_claim_does_not_stop_dispatcher() {
    goes_on_after_a_panic(
        |asked| matches!(asked, Asked::Scan(range) if *range == keys::endpoints_due()),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn panic_during_renewal_does_not_stop_dispatcher() {
    goes_on_after_a_panic(|asked| matches!(asked, Asked::Get(keys) if of_lease(keys))).await;
}

#[tokio::test(start_paused = true)]
async fn panic_during_shutdown_lets_exchanges_complete() {
    let (store, env, world) = World::virtual_time().await;
    let webhook = world.chunk_webhook(URL).await;
    let panics = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&panics);
    let panicking = HookedStore::new(store, move |asked| {
        let is_meant = matches!(&asked, Asked::Get(keys) if of_lease(keys));
        let panics = is_meant && flag.swap(false, Ordering::SeqCst);
        assert!(!panics, "as the test wanted");
        async { Ok(()) }
    });
    let sender = FakeSender::new(async |_, _| {
        tokio::time::sleep(3 * DELIVERY_LEASE).await;
        answered(200)
    });
    let mut server = Serving::start(&open(panicking, env).await, often(&sender)).await;
    world.ingest().await;
    sender.sends(1).await;
    panics.store(true, Ordering::SeqCst);
    server.stop();
    server.stopped().await;
    assert!(!panics.load(Ordering::SeqCst), "it has panicked");
    let delivery = world.deliveries(webhook.id).await.remove(0);
    assert_eq!(delivery.status, DeliveryStatus::Delivered);
}

#[tokio::test(start_paused = true)]
async fn panicking_exchange_fails_and_is_retried_by_schedule() {
    let (_, _, world) = World::virtual_time().await;
    let webhook = world.chunk_webhook(URL).await;
    let sender = FakeSender::new(async |_, _| panic!("as the test wanted"));
    let now_and_then = often(&sender).poll_every(Duration::from_secs(60));
    let server = Serving::start(&world.service, now_and_then).await;
    world.ingest().await;
    let sent = sender.sends_within(10 * DAY, 10).await;
    assert!(sent.iter().all(|one| one.id == sent[0].id));
    world.is_idle().await;
    assert_eq!(sender.sent().len(), 10, "as often as the schedule has it");
    let delivery = world.deliveries(webhook.id).await.remove(0);
    assert_eq!(delivery.status, DeliveryStatus::Dead);
    for attempt in &delivery.attempts {
        let error = attempt.error.as_ref().expect("a failure");
        assert_eq!(error.code, DeliveryFailureCode::AnswerBroken);
    }
    let in_flight = server.number("knowledge_deliveries_in_flight", &[]).await;
    assert_eq!(in_flight, 0.0);
}

#[tokio::test(start_paused = true)]
async fn attempt_that_cannot_be_recorded_is_a_failure() {
    let (store, env, world) = World::virtual_time().await;
    let webhook = world.chunk_webhook(URL).await;
    let recorded = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&recorded);
    // Recording the outcome panics; recording the failure does not.
    let panicking = HookedStore::new(store, move |asked| {
        let is_record = matches!(&asked, Asked::Get(keys) if of_lease(keys));
        let panics = is_record && count.fetch_add(1, Ordering::SeqCst) == 0;
        assert!(!panics, "as the test wanted");
        async { Ok(()) }
    });
    let sender = FakeSender::new(async |_, _| answered(200));
    let server = Serving::start(&open(panicking, env).await, often(&sender)).await;
    world.ingest().await;
    let sent = sender.sends(2).await;
    let waited = sent[1].timestamp.since(sent[0].timestamp);
    // The shortest delay of the schedule is longer than that of a lapsed lease.
    assert!(waited >= Duration::from_secs(5).mul_f64(0.8), "{waited:?}");
    world.is_idle().await;
    let delivery = world.deliveries(webhook.id).await.remove(0);
    assert_eq!(delivery.status, DeliveryStatus::Delivered);
    assert_eq!(delivery.attempts.len(), 2);
    let error = delivery.attempts[0].error.as_ref().expect("a failure");
    assert_eq!(error.code, DeliveryFailureCode::AnswerBroken);
    assert_eq!(server.attempts("retry").await, 1.0);
    assert_eq!(server.attempts("unrecorded").await, 0.0);
}

#[tokio::test(start_paused = true)]
async fn conflicts_are_not_counted_as_failures() {
    let (store, env, world) = World::virtual_time().await;
    let webhook = world.chunk_webhook(URL).await;
    let always = FaultRates {
        conflict: 1.0,
        ..FaultRates::default()
    };
    let contended = Arc::new(FaultStore::new(store, FaultPlan::seeded(1, always)));
    contended.disable_faults();
    let service = open(contended.clone(), env).await;
    let others = Arc::clone(&contended);
    let sender = FakeSender::new(move |_, _| {
        others.enable_faults();
        async { answered(200) }
    });
    contended.enable_faults();
    let server = Serving::start(&service, often(&sender)).await;
    world.ingest().await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(sender.sent().len(), 0);
    contended.disable_faults();
    sender.sends(1).await;
    // Now the lease cannot be renewed, nor the response recorded.
    tokio::time::sleep(Duration::from_secs(60)).await;
    contended.disable_faults();
    world.is_idle().await;
    assert_eq!(sender.sent().len(), 1);
    for step in ["fan_out", "claim", "renew", "record"] {
        let failures = server.number(STEP_FAILURES, &[("step", step)]).await;
        assert_eq!(failures, 0.0, "{step}");
    }
    let delivery = world.deliveries(webhook.id).await.remove(0);
    assert_eq!(delivery.status, DeliveryStatus::Delivered);
}
