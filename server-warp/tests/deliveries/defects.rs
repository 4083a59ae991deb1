//! Defects, which panic or cannot be recovered from: they end one thing, and the rest goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use knowledge_core::model::{DeliveryFailureCode, DeliveryStatus};
use knowledge_core::service::DELIVERY_LEASE;
use knowledge_core::internals::keys;
use knowledge_store::faults::{FaultPlan, FaultRates, FaultStore};
use knowledge_server::deliveries::Deliveries;

use crate::support::{
    Asked, FakeSender, HookedStore, Serving, World, answered, of_lease, open, until,
};

const URL: &str = "https://hooks.test/";
const STEP_FAILURES: &str = "knowledge_dispatch_failures_total";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn often(sender: &Arc<FakeSender>) -> Deliveries {
    Deliveries::through(sender.clone()).poll_every(Duration::from_millis(50))
}

/// Serves from a store that panics the next time that it is asked so, once the test has set the flag.
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
    // The first one is under way while the turn panics.
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
    let turns = [("step", "turn")];
    assert_eq!(server.number(STEP_FAILURES, &turns).await, 1.0);
    assert_eq!(server.attempts("delivered").await, 2.0);
}

#[tokio::test(start_paused = true)]
async fn a_panic_while_events_are_expanded_ends_nothing() {
    goes_on_after_a_panic(
        |asked| matches!(asked, Asked::Scan(range) if *range == keys::outbox_events()),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_while_deliveries_are_claimed_ends_nothing() {
    goes_on_after_a_panic(
        |asked| matches!(asked, Asked::Scan(range) if *range == keys::endpoints_due()),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_while_leases_are_renewed_ends_nothing() {
    goes_on_after_a_panic(|asked| matches!(asked, Asked::Get(keys) if of_lease(keys))).await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_during_the_shutdown_lets_exchanges_end() {
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
async fn an_exchange_that_panics_fails_by_the_schedule() {
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
async fn an_attempt_that_cannot_be_recorded_counts_as_a_failure() {
    let (store, env, world) = World::virtual_time().await;
    let webhook = world.chunk_webhook(URL).await;
    let recorded = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&recorded);
    // The record of what came of it panics, that of the failure does not.
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
    // The shortest delay of the schedule, where a lapsed lease would be shorter.
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
async fn conflicts_are_no_failures_of_the_store() {
    let (store, env, world) = World::virtual_time().await;
    let webhook = world.chunk_webhook(URL).await;
    let always = FaultRates {
        conflict: 1.0,
        ..FaultRates::default()
    };
    let contended = Arc::new(FaultStore::new(store, FaultPlan::seeded(1, always)));
    contended.heal();
    let service = open(contended.clone(), env).await;
    let others = Arc::clone(&contended);
    let sender = FakeSender::new(move |_, _| {
        others.relapse();
        async { answered(200) }
    });
    contended.relapse();
    let server = Serving::start(&service, often(&sender)).await;
    world.ingest().await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(sender.sent().len(), 0);
    contended.heal();
    sender.sends(1).await;
    // Neither can the lease be renewed now, nor the answer be recorded.
    tokio::time::sleep(Duration::from_secs(60)).await;
    contended.heal();
    world.is_idle().await;
    assert_eq!(sender.sent().len(), 1);
    for step in ["expand", "claim", "renew", "record"] {
        let failures = server.number(STEP_FAILURES, &[("step", step)]).await;
        assert_eq!(failures, 0.0, "{step}");
    }
    let delivery = world.deliveries(webhook.id).await.remove(0);
    assert_eq!(delivery.status, DeliveryStatus::Delivered);
}
