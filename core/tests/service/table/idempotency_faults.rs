//! Tests of creations with an idempotency key under faults of the store and concurrent calls.

use std::collections::BTreeMap;
use std::sync::Arc;

use knowledge_core::api::Operation;
use knowledge_store::faults::{CommitFault, FaultPlan, FaultRates};

use super::idempotency::{creating, send, stage};
use crate::world::World;

/// Number of concurrent requests with one key.
const CONCURRENT: usize = 16;

/// Returns the number of stored entries of each family.
async fn families(world: &World) -> BTreeMap<String, usize> {
    let mut families = BTreeMap::new();
    for key in world.contents().await.keys() {
        let family = key.to_string();
        let family = family.split('/').next().unwrap_or_default().to_owned();
        *families.entry(family).or_default() += 1;
    }
    families
}

/// A client that repeats its request until it succeeds creates once, whatever the fault.
#[tokio::test]
async fn fault_at_commit_creates_once() {
    use CommitFault::{Conflict, Full, LostApplied, LostAppliedLater, LostNotApplied, Unavailable};
    for operation in creating() {
        let (world, caller, call) = stage(operation).await;
        let usual = world.copy(FaultPlan::none()).await;
        send(&usual, &call, &caller).await.succeeded(call.spec);
        let usual = families(&usual).await;
        for fault in [
            Conflict,
            Unavailable,
            Full,
            LostApplied,
            LostNotApplied,
            LostAppliedLater,
        ] {
            let plan = FaultPlan::none().at_commit(1, fault);
            let world = world.copy(plan).await;
            let first = send(&world, &call, &caller).await;
            assert!(!first.is_replay, "{operation:?}: {fault:?}");
            let is_committed = first.status == call.spec.success;
            assert!(
                is_committed || first.status == 503,
                "{operation:?}: {first:?}"
            );
            let again = send(&world, &call, &caller).await.succeeded(call.spec);
            assert!(again.is_replay || !is_committed, "{operation:?}: {fault:?}");
            let last = send(&world, &call, &caller).await.succeeded(call.spec);
            assert!(last.is_replay, "{operation:?}: {fault:?}");
            assert_eq!(last.body, again.replayed_body(), "{operation:?}: {fault:?}");
            assert_eq!(families(&world).await, usual, "{operation:?}: {fault:?}");
            world.assert_whole().await;
        }
    }
}

/// The process loses the outcome of its commit and then its store, and another one serves the retry.
#[tokio::test]
async fn retry_in_another_process_creates_once() {
    for operation in creating() {
        for fault in [CommitFault::LostApplied, CommitFault::LostNotApplied] {
            let (world, caller, call) = stage(operation).await;
            let usual = world.copy(FaultPlan::none()).await;
            send(&usual, &call, &caller).await.succeeded(call.spec);
            let plan = FaultPlan::none().at_commit(1, fault);
            let plan = plan.at_commit(2, CommitFault::Close);
            let faulty = world.served_with(plan).await;
            let lost = send(&faulty, &call, &caller).await;
            let is_applied = fault == CommitFault::LostApplied;
            assert_eq!(
                lost.status == call.spec.success,
                is_applied,
                "{operation:?}: {lost:?}"
            );
            let again = send(&world, &call, &caller).await.succeeded(call.spec);
            assert_eq!(again.is_replay, is_applied, "{operation:?}: {fault:?}");
            let last = send(&world, &call, &caller).await.succeeded(call.spec);
            assert!(last.is_replay, "{operation:?}: {fault:?}");
            assert_eq!(last.body, again.replayed_body(), "{operation:?}: {fault:?}");
            let found = families(&world).await;
            assert_eq!(found, families(&usual).await, "{operation:?}: {fault:?}");
        }
    }
}

/// Sends a request many times at once, over several processes with one store.
async fn send_at_once(operation: Operation, rates: FaultRates) {
    let (world, caller, call) = stage(operation).await;
    let usual = world.copy(FaultPlan::none()).await;
    send(&usual, &call, &caller).await.succeeded(call.spec);
    let usual = families(&usual).await;
    let (world, caller, call) = (Arc::new(world), Arc::new(caller), Arc::new(call));
    let mut processes = Vec::new();
    for seed in 0..4 {
        let plan = FaultPlan::seeded(seed, rates);
        processes.push(Arc::new(world.served_with(plan).await));
    }
    let tasks = (0..CONCURRENT).map(|number| {
        let process = Arc::clone(&processes[number % processes.len()]);
        let (caller, call) = (Arc::clone(&caller), Arc::clone(&call));
        tokio::spawn(async move {
            loop {
                // Without knowing whether it has created something, a request fails.
                let answer = send(&process, &call, &caller).await;
                if answer.status != 503 {
                    return answer;
                }
            }
        })
    });
    let tasks: Vec<_> = tasks.collect();
    let mut bodies = Vec::new();
    let mut created = 0;
    for task in tasks {
        let answer = task.await.unwrap().succeeded(call.spec);
        created += usize::from(!answer.is_replay);
        bodies.push(answer.replayed_body());
    }
    assert_eq!(created, 1, "{operation:?}");
    bodies.dedup();
    assert_eq!(bodies.len(), 1, "{operation:?}");
    assert_eq!(families(&world).await, usual, "{operation:?}");
    world.assert_whole().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_requests_with_one_key_create_once() {
    for operation in creating() {
        send_at_once(operation, FaultRates::default()).await;
    }
}

/// The store conflicts and leaves outcomes unknown.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_requests_create_once_despite_faults() {
    let rates = FaultRates {
        conflict: 0.1,
        lost_applied: 0.1,
        lost_not_applied: 0.1,
        ..FaultRates::default()
    };
    for operation in creating() {
        send_at_once(operation, rates).await;
    }
}
