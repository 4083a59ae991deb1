//! Tests of the retention of recalls, and of workspaces that register none for searches.

use std::sync::{Arc, Mutex};

use knowledge_core::internals::keys;
use knowledge_core::model::{
    CitationFilter, MemoryId, Quota, RecallId, RecallSearch, ResourceKind, WorkspaceId,
};
use knowledge_core::service::{AuditAction, NewRetention, PageRequest, Retention};
use knowledge_store::faults::{CommitFault, FaultPlan};
use knowledge_testing::requests::new_recall;

use crate::audit::entries;
use crate::make::{DAY, MILLISECOND, code, problem};
use crate::world::World;

async fn set(world: &World, new: NewRetention) -> Retention {
    let set = world.set_retention(&new).await.unwrap();
    assert_eq!(world.get_retention().await.unwrap(), set);
    set
}

fn days(days: u64) -> NewRetention {
    NewRetention::builder().recall_days(days).build()
}

/// Returns those of the recalls that remain after maintenance, after all else agrees with them.
async fn kept(world: &World, recalls: &[RecallId]) -> Vec<RecallId> {
    world.maintain().await;
    world.assert_whole().await;
    let mut kept = Vec::new();
    for id in recalls {
        match world.get_recall(*id).await {
            Ok(_) => kept.push(*id),
            error => assert_eq!(code(error), "not_found"),
        }
    }
    let (filter, page) = (CitationFilter::default(), PageRequest::default());
    let listed = world.list_recalls(&filter, &page).await.unwrap().data;
    let mut listed: Vec<RecallId> = listed.into_iter().map(|recall| recall.id).collect();
    listed.reverse();
    assert_eq!(listed, kept);
    let usage = keys::usage(world.org.id, Quota::Recalls);
    assert_eq!(world.counter(usage).await, kept.len() as i64);
    kept
}

/// Returns the numbers of recalls in the entries about erasure, each with as many entries.
async fn erased(world: &World) -> Vec<u64> {
    let mut found = entries(world).await;
    found.retain(|entry| entry.action == AuditAction::RetentionErase);
    let recalls = found.iter();
    let recalls = recalls.filter(|entry| entry.resource.kind == ResourceKind::Recall);
    let recalls = recalls.count() as u64;
    let others = found.iter();
    let others = others.filter(|entry| entry.resource.kind != ResourceKind::Recall);
    let counts = others.map(|entry| {
        assert_eq!(entry.resource.id, world.workspace.id.0);
        assert_eq!((entry.actor_id, &entry.before), (None, &None));
        let after = entry.after.as_ref().unwrap();
        assert_eq!(after["memories"], 0);
        after["recalls"].as_u64().unwrap()
    });
    let counts: Vec<u64> = counts.collect();
    assert_eq!(counts.iter().sum::<u64>(), recalls);
    counts
}

/// Returns true if a sweep of the workspace is planned.
async fn is_swept(world: &World) -> bool {
    let sweep = keys::retention_sweep(world.org.id, world.workspace.id);
    world.read::<serde_json::Value>(&sweep).await.is_some()
}

/// Passes days, with maintenance at the end of each.
async fn pass(world: &World, days: u32) {
    for _ in 0..days {
        world.time.pass(DAY);
        world.maintain().await;
    }
}

fn is_about(key: &str, recall: RecallId) -> bool {
    key.contains(&recall.0.simple().to_string()) && !key.starts_with("audit")
}

#[tokio::test]
async fn recall_expires_after_thirty_days_by_default() {
    let world = World::new().await;
    let retention = world.get_retention().await.unwrap();
    assert_eq!(
        (retention.recall_days, retention.record_recalls),
        (30, true)
    );
    assert_eq!(retention, Retention::default());
    let memories = world.memories(2).await;
    assert!(!is_swept(&world).await);
    let recall = world.recall_of(&memories).await;
    assert!(is_swept(&world).await);
    pass(&world, 29).await;
    let other = world.recall_of(&memories[..1]).await;
    world.time.pass(DAY - MILLISECOND);
    let both = [recall, other];
    assert_eq!(kept(&world, &both).await, both);
    world.time.pass(DAY);
    assert_eq!(kept(&world, &both).await, [other]);
    for (key, _) in world.contents().await {
        assert!(!is_about(&key.to_string(), recall), "{key}");
    }
    for memory in &memories {
        assert!(world.get_memory(*memory).await.is_ok());
    }
    assert!(is_swept(&world).await);
    pass(&world, 30).await;
    assert_eq!(kept(&world, &both).await, []);
    assert_eq!(erased(&world).await, [1, 1]);
    // Nothing is left that expires.
    pass(&world, 1).await;
    assert_eq!(world.planned().await, 0);
    assert!(!is_swept(&world).await);
}

#[tokio::test]
async fn subscribed_recall_stays_until_its_last_subscription_is_deleted() {
    let world = World::with_endpoint().await;
    let memories = world.memories(1).await;
    let mut recalls = Vec::new();
    for _ in 0..3 {
        world.time.pass(MILLISECOND);
        recalls.push(world.recall_of(&memories).await);
    }
    let first = world.subscribe(&world.owner, recalls[1]).await.id;
    let second = world.subscribe(&world.owner, recalls[1]).await.id;
    pass(&world, 40).await;
    assert_eq!(kept(&world, &recalls).await, [recalls[1]]);
    world.delete_subscription(first).await.unwrap();
    pass(&world, 2).await;
    assert_eq!(kept(&world, &recalls).await, [recalls[1]]);
    world.delete_subscription(second).await.unwrap();
    world.time.pass(DAY);
    assert_eq!(kept(&world, &recalls).await, []);
    assert_eq!(erased(&world).await, [2, 1]);
}

#[tokio::test]
async fn changed_days_act_at_once() {
    let world = World::new().await;
    let memories = world.memories(1).await;
    let old = world.recall_of(&memories).await;
    world.time.pass(5 * DAY);
    let new = world.recall_of(&memories).await;
    assert_eq!(set(&world, days(6)).await.recall_days, 6);
    assert_eq!(kept(&world, &[old, new]).await, [old, new]);
    set(&world, days(5)).await;
    assert_eq!(kept(&world, &[old, new]).await, [new]);
    set(&world, days(36_500)).await;
    pass(&world, 60).await;
    assert_eq!(kept(&world, &[new]).await, [new]);
    // What the body omits has its default again.
    assert_eq!(set(&world, NewRetention::default()).await.recall_days, 30);
    assert_eq!(kept(&world, &[new]).await, []);
    let place = keys::retention(world.org.id, world.workspace.id);
    assert_eq!(world.read::<serde_json::Value>(&place).await, None);
    assert_eq!(world.planned().await, 0);
}

#[tokio::test]
async fn changed_retention_stays_without_recalls() {
    let world = World::new().await;
    let retention = set(&world, days(1)).await;
    pass(&world, 3).await;
    assert_eq!(world.get_retention().await.unwrap(), retention);
    let recall = world.recall().await;
    pass(&world, 1).await;
    world.time.pass(DAY);
    assert_eq!(kept(&world, &[recall]).await, []);
    assert_eq!(world.get_retention().await.unwrap(), retention);
    assert_eq!(world.planned().await, 1);
}

#[tokio::test]
async fn recalls_expire_beside_a_retention_of_chats() {
    let world = World::new().await;
    set(&world, NewRetention::builder().chat_days(90).build()).await;
    world.maintain().await;
    let recall = world.recall().await;
    let chat = world.add_chat("Kept").await;
    pass(&world, 30).await;
    world.time.pass(DAY);
    assert_eq!(kept(&world, &[recall]).await, []);
    assert!(world.get_chat(chat).await.is_ok());
    pass(&world, 60).await;
    assert_eq!(code(world.get_chat(chat).await), "not_found");
}

#[tokio::test]
async fn days_of_recalls_outside_their_range_are_rejected() {
    let world = World::new().await;
    for wrong in [0, 36_501, u64::MAX] {
        let set = world.set_retention(&days(wrong)).await;
        assert_eq!(problem(set), "recall_days invalid_value");
    }
}

#[tokio::test]
async fn searches_register_nothing_where_recalls_are_not_recorded() {
    let world = World::new().await;
    let memories = world.approved_memories(1).await;
    let search = RecallSearch::builder().query("memory").build();
    let registered = world.search_recalls(&search).await.unwrap();
    assert_eq!(registered.results.len(), 1);
    let registered = registered.recall_id.unwrap();
    assert!(is_swept(&world).await);

    let new = NewRetention::builder().record_recalls(false).build();
    assert!(!set(&world, new).await.record_recalls);
    let found = world.search_recalls(&search).await.unwrap();
    assert_eq!((found.recall_id, found.results.len()), (None, 1));
    assert_eq!(kept(&world, &[registered]).await, [registered]);
    world.time.pass(MILLISECOND);
    let explicit = world.recall_of(&memories).await;
    let both = [registered, explicit];
    assert_eq!(kept(&world, &both).await, both);

    set(&world, NewRetention::default()).await;
    let found = world.search_recalls(&search).await.unwrap();
    assert!(found.recall_id.is_some());
}

#[tokio::test]
async fn recalls_of_other_workspaces_are_left_alone() {
    let world = World::new().await;
    let side: WorkspaceId = world.workspace("side").await;
    let memories = world.memories_in(side, 1).await;
    world.approve(&memories).await;
    let (recalls, new) = (world.service.recalls(), new_recall(&memories));
    let there = recalls.create(&world.owner, side, &new).await.unwrap().id;
    let here = world.recall().await;
    set(&world, days(1)).await;
    world.maintain().await;
    pass(&world, 2).await;
    assert_eq!(code(world.get_recall(here).await), "not_found");
    assert!(world.get_recall(there).await.is_ok());
    pass(&world, 30).await;
    assert_eq!(code(world.get_recall(there).await), "not_found");
    world.assert_whole().await;
}

/// Prepares the last sweep of a workspace without recalls.
async fn before_last_sweep() -> (World, Vec<MemoryId>) {
    let world = World::new().await;
    let memories = world.approved_memories(1).await;
    let gone = world.recall_of(&memories).await;
    world.delete_recall(gone).await.unwrap();
    world.maintain().await;
    world.time.pass(DAY);
    (world, memories)
}

/// Whenever a recall is registered during the last sweep, another sweep is planned for it.
#[tokio::test]
async fn recall_that_is_registered_during_the_last_sweep_expires() {
    for others in 0.. {
        let (world, memories) = before_last_sweep().await;
        let beside = world.served_with(FaultPlan::none()).await;
        let added = Arc::new(Mutex::new(None));
        let result = Arc::clone(&added);
        world.probe.before_call(others, async move {
            *result.lock().unwrap() = Some(beside.recall_of(&memories).await);
        });
        world.maintain().await;
        world.probe.expect_no_call();
        let Some(added) = *added.lock().unwrap() else {
            assert!(others > 3, "{others}");
            break;
        };
        assert_eq!(kept(&world, &[added]).await, [added], "call {others}");
        pass(&world, 31).await;
        assert_eq!(kept(&world, &[added]).await, [], "call {others}");
    }
}

/// Whenever the last sweep ends during a registration, the recall expires.
#[tokio::test]
async fn recall_during_whose_registration_the_last_sweep_ends_expires() {
    for others in 0.. {
        let (world, memories) = before_last_sweep().await;
        let beside = world.served_with(FaultPlan::none()).await;
        let swept = Arc::new(Mutex::new(false));
        let result = Arc::clone(&swept);
        world.probe.before_call(others, async move {
            beside.maintain().await;
            *result.lock().unwrap() = true;
        });
        let search = RecallSearch::builder().query("memory").build();
        let found = world.search_recalls(&search).await.unwrap();
        let added = match others % 2 {
            0 => found.recall_id.unwrap(),
            _ => world.recall_of(&memories).await,
        };
        world.probe.expect_no_call();
        if !*swept.lock().unwrap() {
            assert!(others > 3, "{others}");
            break;
        }
        world.assert_whole().await;
        pass(&world, 31).await;
        assert_eq!(code(world.get_recall(added).await), "not_found");
        let usage = keys::usage(world.org.id, Quota::Recalls);
        assert_eq!(world.counter(usage).await, 0, "call {others}");
    }
}

/// Whichever commit fails, maintenance erases the rest, and the store is whole throughout.
#[tokio::test]
async fn interrupted_sweep_of_recalls_is_resumed() {
    const RECALLS: usize = 230;
    let faults = [CommitFault::Unavailable, CommitFault::LostApplied];
    for (number, fault) in (1..=4).flat_map(|number| faults.map(|fault| (number, fault))) {
        let world = World::with_endpoint().await;
        let memories = world.approved_memories(1).await;
        let mut recalls = Vec::new();
        for _ in 0..RECALLS {
            let new = new_recall(&memories);
            recalls.push(world.create_recall(&new).await.unwrap().id);
        }
        world.time.pass(DAY);
        let young = world.recall_of(&memories).await;
        world.subscribe(&world.owner, recalls[205]).await;
        set(&world, days(1)).await;
        let plan = FaultPlan::none().at_commit(number, fault);
        let failing = world.served_with(plan).await;
        loop {
            match failing.service.maintain(world.time.now()).await {
                Ok(done) if done.has_more => {}
                Ok(_) => break,
                Err(_) => {}
            }
            world.assert_whole().await;
        }
        let usage = keys::usage(world.org.id, Quota::Recalls);
        assert_eq!(world.counter(usage).await, 2, "commit {number}: {fault:?}");
        for recall in [recalls[205], young] {
            assert!(world.get_recall(recall).await.is_ok());
        }
        let counts = erased(&world).await;
        assert_eq!(counts.iter().sum::<u64>(), RECALLS as u64 - 1);
        assert!(counts.len() > 1, "{counts:?}");
    }
}
