//! Tests of work that deliveries share, in virtual time: commits, and waiting for the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use knowledge_core::model::DeliveryStatus;
use knowledge_core::service::IN_FLIGHT_PER_QUICK_ENDPOINT_MAX;
use knowledge_core::store::{Key, StoreError, StoreErrorKind};
use knowledge_server::deliveries::Deliveries;
use tokio::time::Instant;

use crate::support::{Asked, FakeSender, HookedStore, Serving, World, answered, open};

const URL: &str = "https://hooks.test/";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns a sender whose endpoint accepts everything within this time.
fn taking_within(time: Duration) -> Arc<FakeSender> {
    FakeSender::new(move |_, _| async move {
        tokio::time::sleep(time).await;
        answered(200)
    })
}

/// Returns deliveries that continue only when they are notified.
fn seldom(sender: &Arc<FakeSender>) -> Deliveries {
    Deliveries::through(sender.clone()).poll_every(365 * DAY)
}

/// Returns true if these keys are read to record several attempts of one endpoint together.
fn of_batch(keys: &[Key]) -> bool {
    let count = |family: &str| {
        let keys = keys.iter().map(ToString::to_string);
        keys.filter(|key| key.starts_with(family)).count()
    };
    count("endpoint/") == 1 && count("delivery/") > 1
}

#[tokio::test(start_paused = true)]
async fn deliveries_take_fewer_commits_than_there_are() {
    const EVENTS: usize = 100;
    let (store, env, world) = World::virtual_time().await;
    let webhook = world.chunk_webhook(URL).await;
    for _ in 0..EVENTS {
        world.ingest().await;
    }
    let commits = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&commits);
    let store = HookedStore::new(store, move |asked| {
        counted.fetch_add(
            usize::from(matches!(asked, Asked::Commit)),
            Ordering::SeqCst,
        );
        async { Ok(()) }
    });
    let sender = taking_within(Duration::from_millis(1));
    let service = open(store, env).await;
    commits.store(0, Ordering::SeqCst);
    let server = Serving::start(&service, seldom(&sender)).await;
    world.is_idle().await;
    let commits = commits.load(Ordering::SeqCst);
    assert!(commits < EVENTS / 2, "{commits}");
    assert_eq!(sender.sent().len(), EVENTS);
    assert_eq!(server.attempts("delivered").await, 100.0);
    let deliveries = world.deliveries(webhook.id).await;
    assert_eq!(deliveries.len(), EVENTS);
    assert!(deliveries.iter().all(|one| one.attempts.len() == 1));
    let in_flight = server.number("knowledge_deliveries_in_flight", &[]).await;
    assert_eq!(in_flight, 0.0);
}

#[tokio::test(start_paused = true)]
async fn claims_of_several_endpoints_wait_for_store_together() {
    const ENDPOINTS: usize = 16;
    const COMMIT: Duration = Duration::from_millis(100);
    let (store, env, world) = World::virtual_time().await;
    for number in 0..ENDPOINTS {
        world.chunk_webhook(&format!("{URL}{number}")).await;
    }
    world.ingest().await;
    let slow = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&slow);
    let store = HookedStore::new(store, move |asked| {
        let is_slow = matches!(asked, Asked::Commit) && flag.load(Ordering::SeqCst);
        async move {
            if is_slow {
                tokio::time::sleep(COMMIT).await;
            }
            Ok(())
        }
    });
    let service = open(store, env).await;
    slow.store(true, Ordering::SeqCst);
    let sender = taking_within(Duration::ZERO);
    let _server = Serving::start(&service, seldom(&sender)).await;
    let began = Instant::now();
    sender.sends(ENDPOINTS).await;
    let elapsed = began.elapsed();
    assert!(elapsed < 6 * COMMIT, "{elapsed:?}");
    world.is_idle().await;
}

#[tokio::test(start_paused = true)]
async fn events_of_a_moment_share_an_iteration() {
    const EVENTS: usize = 20;
    let (store, env, world) = World::virtual_time().await;
    world.chunk_webhook(URL).await;
    let commits = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&commits);
    let store = HookedStore::new(store, move |asked| {
        counted.fetch_add(
            usize::from(matches!(asked, Asked::Commit)),
            Ordering::SeqCst,
        );
        async { Ok(()) }
    });
    let world = world.through(open(store, env).await);
    let sender = taking_within(Duration::ZERO);
    let _server = Serving::start(&world.service, seldom(&sender)).await;
    world.ingest().await;
    sender.sends(1).await;
    world.is_idle().await;
    commits.store(0, Ordering::SeqCst);
    for number in 0..EVENTS {
        world.ingest().await;
        if number % 2 == 0 {
            tokio::time::sleep(Duration::from_micros(500)).await;
        }
    }
    sender.sends(1 + EVENTS).await;
    world.is_idle().await;
    // Each ingestion is a commit; a fan-out, a claim and a record per event would be 60 more.
    let commits = commits.load(Ordering::SeqCst) - EVENTS;
    assert!(commits <= 30, "{commits}");
}

#[tokio::test(start_paused = true)]
async fn attempts_that_cannot_be_recorded_together_are_recorded_singly() {
    for fault in ["error", "panic", "hang"] {
        let (store, env, world) = World::virtual_time().await;
        let webhook = world.chunk_webhook(URL).await;
        for _ in 0..5 {
            world.ingest().await;
        }
        let faults = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&faults);
        let store = HookedStore::new(store, move |asked| {
            let is_batch = matches!(&asked, Asked::Get(keys) if of_batch(keys));
            if is_batch {
                counted.fetch_add(1, Ordering::SeqCst);
                assert_ne!(fault, "panic", "as the test wanted");
            }
            async move {
                if is_batch && fault == "hang" {
                    std::future::pending::<()>().await;
                }
                match is_batch {
                    true => Err(StoreError::new(StoreErrorKind::Unavailable, "as wanted")),
                    false => Ok(()),
                }
            }
        });
        let sender = taking_within(Duration::ZERO);
        let server = Serving::start(&open(store, env).await, seldom(&sender)).await;
        world.is_idle().await;
        assert!(faults.load(Ordering::SeqCst) > 0, "{fault}");
        assert_eq!(sender.sent().len(), 5, "{fault}");
        assert_eq!(server.attempts("delivered").await, 5.0, "{fault}");
        let deliveries = world.deliveries(webhook.id).await;
        let is_delivered = |one: &knowledge_core::model::Delivery| {
            one.status == DeliveryStatus::Delivered && one.attempts.len() == 1
        };
        assert!(deliveries.iter().all(is_delivered), "{fault}");
    }
}

#[tokio::test(start_paused = true)]
async fn quick_endpoint_has_many_deliveries_in_flight() {
    const EVENTS: usize = 400;
    let (_, _, world) = World::virtual_time().await;
    world.chunk_webhook(URL).await;
    for _ in 0..EVENTS {
        world.ingest().await;
    }
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (in_flight, peak) = (Arc::clone(&now), Arc::clone(&most));
    let sender = FakeSender::new(move |_, _| {
        let (in_flight, peak) = (Arc::clone(&in_flight), Arc::clone(&peak));
        async move {
            let now = in_flight.fetch_add(1, Ordering::SeqCst) + 1;
            peak.fetch_max(now, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(7)).await;
            in_flight.fetch_sub(1, Ordering::SeqCst);
            answered(200)
        }
    });
    let _server = Serving::start(&world.service, seldom(&sender)).await;
    world.is_idle().await;
    assert_eq!(sender.sent().len(), EVENTS);
    let most = most.load(Ordering::SeqCst);
    assert_eq!(most, IN_FLIGHT_PER_QUICK_ENDPOINT_MAX);
}

#[tokio::test(start_paused = true)]
async fn shutdown_records_attempts_that_have_ended() {
    let (store, env, world) = World::virtual_time().await;
    let webhook = world.chunk_webhook(URL).await;
    for _ in 0..3 {
        world.ingest().await;
    }
    // The dispatcher is stopped while it records them.
    let held = Arc::new(AtomicBool::new(true));
    let flag = Arc::clone(&held);
    let store = HookedStore::new(store, move |asked| {
        let waits = matches!(&asked, Asked::Get(keys) if of_batch(keys))
            && flag.swap(false, Ordering::SeqCst);
        async move {
            if waits {
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            Ok(())
        }
    });
    let sender = taking_within(Duration::ZERO);
    let mut server = Serving::start(&open(store, env).await, seldom(&sender)).await;
    sender.sends(3).await;
    while held.load(Ordering::SeqCst) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    server.stop();
    server.stopped().await;
    let deliveries = world.deliveries(webhook.id).await;
    assert_eq!(deliveries.len(), 3);
    let is_delivered =
        |one: &knowledge_core::model::Delivery| one.status == DeliveryStatus::Delivered;
    assert!(deliveries.iter().all(is_delivered));
}
