//! Tests of the turns of organisations in maintenance.

use std::collections::BTreeSet;

use knowledge_core::internals::keys;
use knowledge_core::model::{ChatId, ErasureStatus, NewErasure, OrgId};
use knowledge_core::store::Commit;
use knowledge_store::faults::{CommitFault, FaultPlan};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::make::MINUTE;
use crate::world::World;

/// Schedules tasks for each of these organisations, one organisation after the other, in the past.
async fn schedule(world: &World, orgs: &[OrgId], tasks: u64) {
    let mut number = world.planned().await as u64;
    for org in orgs {
        let mut commit = Commit::builder();
        for _ in 0..tasks {
            number += 1;
            let at = world
                .time
                .now()
                .plus(std::time::Duration::from_millis(number));
            let chat = ChatId(Uuid::from_u128(u128::from(number)));
            let task = json!({ "former_chat": { "org": org, "chat": chat } });
            commit = commit.put(keys::due(at, chat.0), task.to_string());
        }
        let store = world.faults.inner();
        store.commit(commit.build().unwrap()).await.unwrap();
    }
    world.time.pass(MINUTE);
}

/// Returns the number of tasks that are left of an organisation.
async fn left(world: &World, org: OrgId) -> usize {
    let tasks = world.family("due").await.into_iter();
    let tasks = tasks.filter(|(_, task)| task["former_chat"]["org"] == json!(org));
    tasks.count()
}

fn orgs(count: u128) -> Vec<OrgId> {
    (1..=count).map(|id| OrgId(Uuid::from_u128(id))).collect()
}

#[tokio::test]
async fn tasks_of_organizations_are_interleaved() {
    let world = World::new().await;
    let orgs = orgs(3);
    schedule(&world, &orgs[..1], 600).await;
    schedule(&world, &orgs[1..], 20).await;
    let done = world.service.maintain(world.time.now()).await.unwrap();
    assert_eq!((done.purged, done.has_more), (500, true));
    let mut remaining = Vec::new();
    for org in &orgs {
        remaining.push(left(&world, *org).await);
    }
    assert_eq!(remaining, [140, 0, 0]);
    assert_eq!(world.maintain().await, 140);
    assert_eq!(world.planned().await, 0);
}

#[tokio::test]
async fn every_organization_has_its_turn_before_the_second_of_another() {
    let world = World::new().await;
    schedule(&world, &orgs(700), 2).await;
    for calls in 1..=3 {
        let done = world.service.maintain(world.time.now()).await.unwrap();
        assert_eq!(done.purged, if calls == 3 { 400 } else { 500 });
        let tasks = world.family("due").await.into_iter();
        let waiting: Vec<Value> = tasks
            .map(|(_, task)| task["former_chat"]["org"].clone())
            .collect();
        let waiting: Vec<String> = waiting.iter().map(Value::to_string).collect();
        let served = |times: usize| {
            let each: BTreeSet<&String> = waiting.iter().collect();
            let of = |org: &String| waiting.iter().filter(|other| *other == org).count();
            each.iter().all(|org| of(org) <= 2 - times)
        };
        // After two calls, 1,000 of 1,400 tasks were run.
        assert!(calls < 2 || served(1), "call {calls}");
    }
    assert_eq!(world.planned().await, 0);
}

/// A backlog of any length delays the erasure of another organisation by few calls, each of which
/// runs a share of the backlog only.
#[tokio::test]
async fn backlog_does_not_delay_the_erasure_of_another_organization() {
    const BACKLOG: usize = 12_000;
    let world = World::new().await;
    let other = orgs(1)[0];
    for _ in 0..BACKLOG / 4_000 {
        schedule(&world, &[other], 4_000).await;
    }
    world.memories(1).await;
    let plan = FaultPlan::none().at_commit(2, CommitFault::Unavailable);
    let failing = world.served_with(plan).await;
    let request = NewErasure::builder().source_id(world.source).build();
    let key = "erasure".parse().unwrap();
    let erasure = failing.create_erasure(&key, &request);
    let erasure = erasure.await.unwrap().erasure;
    assert_eq!(erasure.status, ErasureStatus::Running);
    let mut calls = 0;
    loop {
        let done = world.service.maintain(world.time.now()).await.unwrap();
        assert!(done.has_more && done.purged <= 500);
        calls += 1;
        let receipt = world.get_erasure(erasure.id).await;
        if receipt.unwrap().status == ErasureStatus::Completed {
            break;
        }
    }
    let remaining = left(&world, other).await;
    assert!(calls <= 8 && remaining > BACKLOG / 2, "{calls} {remaining}");
    world.maintain().await;
    assert_eq!(left(&world, other).await, 0);
    world.assert_whole().await;
}

/// Tasks that cannot be run do not keep a caller busy, however many there are.
#[tokio::test]
async fn corrupt_tasks_end_the_calls() {
    let world = World::new().await;
    for part in 0..3 {
        let corrupt = (0..4_000_u128).fold(Commit::builder(), |commit, number| {
            let id = Uuid::from_u128(part * 4_000 + number);
            commit.put(keys::due(world.time.now(), id), "{\"unheard_of\":1}")
        });
        let store = world.faults.inner();
        store.commit(corrupt.build().unwrap()).await.unwrap();
    }
    world.time.pass(MINUTE);
    let other = orgs(1)[0];
    schedule(&world, &[other], 10).await;
    let mut calls = 0;
    while world
        .service
        .maintain(world.time.now())
        .await
        .unwrap()
        .has_more
    {
        calls += 1;
        assert!(calls < 10);
    }
    assert_eq!(left(&world, other).await, 0);
}
