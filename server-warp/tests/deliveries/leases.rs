//! Tests of leases despite faults of store and clock: no delivery in flight is sent twice.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use knowledge_core::access::Credential;
use knowledge_core::internals::keys;
use knowledge_core::partition::HoldingStore;
use knowledge_core::service::{DELIVERY_LEASE, DELIVERY_TIMEOUT};
use knowledge_core::store::{Commit, StoreError, StoreErrorKind};
use knowledge_server::deliveries::{Deliveries, IN_FLIGHT_MAX_DEFAULT};

use crate::support::{
    Asked, FakeSender, HookedStore, Serving, VirtualClock, World, answered, of_fan_out, of_lease,
    open, until,
};

const URL: &str = "https://hooks.test/";
/// Response time of a slow receiver, several leases long.
const SLOW: Duration = Duration::from_secs(13);

fn often(sender: &Arc<FakeSender>) -> Deliveries {
    Deliveries::through(sender.clone()).poll_every(Duration::from_millis(50))
}

/// Returns a sender to slow receivers.
fn slow() -> Arc<FakeSender> {
    assert!(SLOW > 3 * DELIVERY_LEASE && SLOW < DELIVERY_TIMEOUT);
    FakeSender::new(async |_, _| {
        tokio::time::sleep(SLOW).await;
        answered(200)
    })
}

#[tokio::test(start_paused = true)]
async fn forward_clock_jump_duplicates_no_delivery_in_flight() {
    let clock = VirtualClock::new();
    let (_, _, world) = World::by_clock(clock.clone()).await;
    for number in 0..4 {
        world.chunk_webhook(&format!("{URL}{number}")).await;
    }
    let sender = slow();
    let server = Serving::start(&world.service, often(&sender)).await;
    world.ingest().await;
    sender.sends(4).await;
    for step in [
        DELIVERY_LEASE + Duration::from_secs(1),
        Duration::from_secs(3_600),
    ] {
        clock.set_forward(step);
        tokio::time::sleep(DELIVERY_LEASE / 4).await;
    }
    world.is_idle().await;
    assert_eq!(sender.sent().len(), 4);
    assert_eq!(server.attempts("delivered").await, 4.0);
}

#[tokio::test(start_paused = true)]
async fn forward_clock_jump_during_a_step_duplicates_no_delivery() {
    let clock = VirtualClock::new();
    let (store, env, world) = World::by_clock(clock.clone()).await;
    world.chunk_webhook(URL).await;
    let sets = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&sets);
    let store = HookedStore::new(store, move |asked| {
        let fans_out = matches!(&asked, Asked::Scan(range) if of_fan_out(range));
        if fans_out && flag.swap(false, Ordering::SeqCst) {
            clock.set_forward(2 * DELIVERY_LEASE);
        }
        async { Ok(()) }
    });
    let sender = slow();
    let _server = Serving::start(&open(store, env).await, often(&sender)).await;
    world.ingest().await;
    sender.sends(1).await;
    sets.store(true, Ordering::SeqCst);
    until("the step", async || !sets.load(Ordering::SeqCst)).await;
    world.is_idle().await;
    assert_eq!(sender.sent().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn claims_stop_while_leases_cannot_be_renewed() {
    let (store, env, world) = World::virtual_time().await;
    world.chunk_webhook(URL).await;
    let fails = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&fails);
    let store = HookedStore::new(store, move |asked| {
        let is_renewal = matches!(&asked, Asked::Get(keys) if of_lease(keys));
        let fails = is_renewal && flag.load(Ordering::SeqCst);
        async move {
            match fails {
                true => Err(StoreError::new(
                    StoreErrorKind::Unavailable,
                    "as the test wanted",
                )),
                false => Ok(()),
            }
        }
    });
    let sender = slow();
    let server = Serving::start(&open(store, env).await, often(&sender)).await;
    world.ingest().await;
    sender.sends(1).await;
    fails.store(true, Ordering::SeqCst);
    tokio::time::sleep(2 * DELIVERY_LEASE).await;
    fails.store(false, Ordering::SeqCst);
    world.is_idle().await;
    assert_eq!(sender.sent().len(), 1);
    let renewals = [("step", "renew")];
    let failures = "knowledge_dispatch_failures_total";
    assert!(server.number(failures, &renewals).await > 0.0);
}

#[tokio::test(start_paused = true)]
async fn delivery_of_a_held_organisation_gives_its_place_up_and_is_made_again() {
    let (store, env, world) = World::virtual_time().await;
    world.chunk_webhook(URL).await;
    let &Credential::Trusted { org, .. } = world.owner.credential() else {
        unreachable!("a trusted owner");
    };
    let hold = keys::hold(org);
    let holds = Commit::builder().put(hold.clone(), r#"{"from":"home","to":"eu"}"#);
    let (holding, raw) = (Arc::new(HoldingStore::new(Arc::clone(&store))), store);
    let sender = FakeSender::new(async |_, _| {
        tokio::time::sleep(DELIVERY_LEASE / 4).await;
        answered(200)
    });
    let server = Serving::start(&open(holding, env).await, often(&sender)).await;
    world.ingest().await;
    sender.sends(1).await;
    raw.commit(holds.build().unwrap()).await.unwrap();
    until("the attempt to be abandoned", async || {
        server.attempts("unrecorded").await == 1.0
    })
    .await;
    let in_flight = "knowledge_deliveries_in_flight";
    let is_free = |count| count == 0.0;
    server.number_becomes(in_flight, &[], is_free).await;
    let release = Commit::builder().delete(hold).build().unwrap();
    raw.commit(release).await.unwrap();
    world.is_idle().await;
    assert_eq!(sender.sent().len(), 2);
    assert_eq!(server.attempts("delivered").await, 1.0);
}

#[tokio::test(start_paused = true)]
async fn claims_continue_during_long_fan_out() {
    let (store, env, world) = World::virtual_time().await;
    world.chunk_webhook(URL).await;
    let store = HookedStore::new(store, |asked| async move {
        if matches!(&asked, Asked::Scan(range) if of_fan_out(range)) {
            // A fan-out scans twice: for events, and to find that there are no more.
            tokio::time::sleep(DELIVERY_LEASE.mul_f64(0.3)).await;
        }
        Ok(())
    });
    let service = open(store, env).await;
    let sender = FakeSender::new(async |number, _| {
        if number == 0 {
            std::future::pending::<()>().await;
        }
        answered(200)
    });
    let server = Serving::start(&service, often(&sender)).await;
    world.ingest().await;
    sender.sends(1).await;
    // The first request gets no response, so that its lease is renewed throughout.
    for count in 2..=5 {
        world.ingest().await;
        sender.sends(count).await;
    }
    let first = sender.sent()[0].id;
    let others = &sender.sent()[1..];
    assert!(others.iter().all(|sent| sent.id != first));
    assert_eq!(server.attempts("lease_lost").await, 0.0);
}

#[tokio::test(start_paused = true)]
async fn busy_dispatchers_over_slow_store_lose_and_duplicate_nothing() {
    const ENDPOINTS: usize = 40;
    const EVENTS: usize = 14;
    let (store, env, world) = World::virtual_time().await;
    for number in 0..ENDPOINTS {
        world.chunk_webhook(&format!("{URL}{number}")).await;
    }
    for _ in 0..EVENTS {
        world.ingest().await;
    }
    let senders = [slow(), slow()];
    let mut servers = Vec::new();
    for sender in &senders {
        let store = HookedStore::new(Arc::clone(&store), |_| async {
            tokio::time::sleep(Duration::from_millis(4)).await;
            Ok(())
        });
        let service = open(store, env.clone()).await;
        let deliveries = often(sender).in_flight_max(IN_FLIGHT_MAX_DEFAULT);
        servers.push(Serving::start(&service, deliveries).await);
    }
    until("much to be under way", async || {
        let sent: usize = senders.iter().map(|sender| sender.sent().len()).sum();
        sent >= IN_FLIGHT_MAX_DEFAULT
    })
    .await;
    world.is_idle().await;
    let sent = senders.iter().flat_map(|sender| sender.sent());
    let sent: Vec<_> = sent.map(|sent| sent.id).collect();
    let different: BTreeSet<_> = sent.iter().collect();
    assert_eq!(different.len(), ENDPOINTS * EVENTS);
    assert_eq!(sent.len(), different.len(), "some were sent twice");
    for server in &servers {
        assert!(server.attempts("delivered").await > 0.0);
        assert_eq!(server.attempts("lease_lost").await, 0.0);
    }
}
