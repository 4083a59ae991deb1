//! Tests of the retention of memories by their sensitivity labels.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use knowledge_core::Error;
use knowledge_core::internals::keys;
use knowledge_core::model::{
    EventType, MemoryId, MemoryUpdate, Quota, ResourceKind, SensitivityLabel,
};
use knowledge_core::service::{AuditAction, MemoryDays, NewRetention, Retention};
use knowledge_core::store::StoreExt;
use knowledge_store::faults::{CommitFault, FaultPlan};
use serde_json::json;

use crate::audit::entries;
use crate::make::{DAY, MILLISECOND, MINUTE, code, new_memory, problem};
use crate::world::{World, data};
use knowledge_testing::requests::{sensitivity, with};

async fn try_set(world: &World, days: &MemoryDays) -> Result<Retention, Error> {
    let new = NewRetention::builder().memory_days(days.clone()).build();
    world.set_retention(&new).await
}

async fn set(world: &World, days: MemoryDays) {
    let set = try_set(world, &days).await.unwrap();
    assert_eq!((set.chat_days, &set.memory_days), (None, &days));
    assert_eq!(world.get_retention().await.unwrap(), set);
}

fn internal(days: u64) -> MemoryDays {
    MemoryDays::builder().internal(days).build()
}

/// Returns those of the memories that remain after maintenance.
async fn kept(world: &World, memories: &[MemoryId]) -> Vec<MemoryId> {
    world.maintain().await;
    world.assert_whole().await;
    let mut kept = Vec::new();
    for id in memories {
        let found = world.get_memory(*id).await;
        kept.extend(Some(*id).filter(|_| found.is_ok()));
    }
    kept
}

/// Returns the counts of memories and recalls in the entries about erasure.
async fn erased(world: &World) -> Vec<(u64, u64)> {
    let mut found = entries(world).await;
    found.retain(|entry| entry.action == AuditAction::RetentionErase);
    found.retain(|entry| entry.resource.kind == ResourceKind::Workspace);
    let counts = found.into_iter().map(|entry| {
        assert_eq!(entry.resource.id, world.workspace.id.0);
        assert_eq!((entry.actor_id, entry.before), (None, None));
        let after = entry.after.unwrap();
        let count = |name: &str| after[name].as_u64().unwrap();
        (count("memories"), count("recalls"))
    });
    counts.collect()
}

#[tokio::test]
async fn memories_expire_by_their_labels() {
    let world = World::new().await;
    let memories = world.memories(4).await;
    for (id, label) in memories.iter().zip(SensitivityLabel::ALL) {
        world.change(&[*id], sensitivity(*label)).await.unwrap();
    }
    let days = MemoryDays::builder().public(2).restricted(1).build();
    set(&world, days).await;
    assert_eq!(kept(&world, &memories).await, memories);
    world.time.pass(DAY - MILLISECOND);
    assert_eq!(kept(&world, &memories).await, memories);
    world.time.pass(MILLISECOND);
    assert_eq!(kept(&world, &memories).await, memories[..3]);
    world.time.pass(DAY);
    assert_eq!(kept(&world, &memories).await, memories[1..3]);
    world.time.pass(100 * DAY);
    assert_eq!(kept(&world, &memories).await, memories[1..3]);
    assert_eq!(erased(&world).await, [(1, 0), (1, 0)]);
}

#[tokio::test]
async fn memory_remains_until_the_daily_sweep() {
    let world = World::new().await;
    set(&world, internal(1)).await;
    world.maintain().await;
    world.time.pass(MINUTE);
    let memory = world.memories(1).await;
    world.time.pass(DAY - MINUTE);
    assert_eq!(kept(&world, &memory).await, memory);
    world.time.pass(DAY - MILLISECOND);
    assert_eq!(kept(&world, &memory).await, memory);
    world.time.pass(MILLISECOND);
    assert_eq!(kept(&world, &memory).await, []);
}

#[tokio::test]
async fn change_of_the_text_restarts_the_period_and_a_label_does_not() {
    let world = World::new().await;
    set(&world, internal(2)).await;
    let memories = world.memories(4).await;
    let [rewritten, relabelled, freed, bound] = memories[..] else {
        unreachable!()
    };
    let public = sensitivity(SensitivityLabel::Public);
    world.change(&[bound], public).await.unwrap();
    world.time.pass(DAY);
    let update = MemoryUpdate::builder().title("Other").build();
    world.update_memory(rewritten, &update, None).await.unwrap();
    let audience = with(sensitivity(SensitivityLabel::Internal), |change| {
        change.audience_tag = Some("org:acme".parse().unwrap());
    });
    world.change(&[relabelled, bound], audience).await.unwrap();
    let public = sensitivity(SensitivityLabel::Public);
    world.change(&[freed], public).await.unwrap();
    world.time.pass(DAY);
    assert_eq!(kept(&world, &memories).await, [rewritten, freed]);
    world.time.pass(DAY);
    assert_eq!(kept(&world, &memories).await, [freed]);
}

#[tokio::test]
async fn changed_retention_sweeps_at_once() {
    let world = World::new().await;
    let memories = world.memories(1).await;
    world.time.pass(5 * DAY);
    set(&world, internal(6)).await;
    assert_eq!(kept(&world, &memories).await, memories);
    // Nothing is lost of what no sweep has deleted.
    set(&world, internal(5)).await;
    set(&world, MemoryDays::default()).await;
    assert_eq!(kept(&world, &memories).await, memories);
    let place = keys::retention(world.org.id, world.workspace.id);
    assert_eq!(world.read::<serde_json::Value>(&place).await, None);
    set(&world, internal(5)).await;
    assert_eq!(kept(&world, &memories).await, []);
    assert_eq!(world.planned().await, 1);
}

#[tokio::test]
async fn everything_of_an_expired_memory_is_erased() {
    let world = World::with_endpoint().await;
    let owner = &world.owner;
    let new = with(new_memory("Quokka"), |new| {
        new.source_key = Some("page/quokka".to_owned());
    });
    let gone = world.ingest(world.workspace.id, world.source, &[new]).await;
    let gone = gone.unwrap()[0];
    world.approve(&[gone]).await;
    let other = world.approved_memories(1).await[0];
    let public = sensitivity(SensitivityLabel::Public);
    world.bulk(owner, &[other], public).await.unwrap();
    let bare = world.recall_of(&[gone]).await;
    let subscription = world.subscribe(owner, bare).await.id;
    let citing = world.recall_of(&[gone, other]).await;
    let chat = world.add_chat("Kept").await;
    set(&world, internal(1)).await;
    world.time.pass(DAY);
    assert_eq!(kept(&world, &[gone, other]).await, [other]);

    assert_eq!(erased(&world).await, [(1, 0), (0, 1)]);
    for (key, value) in world.contents().await {
        let value = String::from_utf8_lossy(&value).to_lowercase();
        assert!(!value.contains("quokka"), "{key}: {value}");
    }
    assert_eq!(code(world.get_recall(bare).await), "not_found");
    let found = world.get_subscription(subscription).await;
    assert_eq!(code(found), "not_found");
    let found = world.get_recall(citing).await.unwrap();
    assert_eq!(found.memory_ids, [other]);
    let events = world.events_of(EventType::ChunkDeleted).await;
    assert_eq!(events.len(), 1);
    assert_eq!(data(&events[0])["memory_ids"], json!([gone]));
    let chats = world.get_chat(chat).await;
    assert!(chats.is_ok());
    let usage = keys::usage(world.org.id, Quota::Memories);
    assert_eq!(world.counter(usage).await, 1);
    let recalls = keys::usage(world.org.id, Quota::Recalls);
    assert_eq!(world.counter(recalls).await, 1);
    let mut entries = entries(&world).await;
    entries.retain(|entry| entry.action == AuditAction::RetentionErase);
    let kinds: Vec<_> = entries.iter().map(|entry| entry.resource.kind).collect();
    for kind in [
        ResourceKind::Memory,
        ResourceKind::Recall,
        ResourceKind::Subscription,
    ] {
        let count = kinds.iter().filter(|found| **found == kind).count();
        assert_eq!(count, 1, "{kind:?}");
    }
}

#[tokio::test]
async fn chats_and_memories_expire_side_by_side() {
    let world = World::new().await;
    let memories = world.memories(1).await;
    let chat = world.add_chat("Quokka").await;
    let new = NewRetention::builder()
        .chat_days(2)
        .memory_days(internal(3))
        .build();
    assert_eq!(world.set_retention(&new).await.unwrap().chat_days, Some(2));
    for (day, remaining) in [(0, [1, 1]), (2, [1, 0]), (3, [0, 0])] {
        world.time.set(world.time.now().plus(match day {
            0 => Duration::ZERO,
            2 => 2 * DAY,
            _ => DAY,
        }));
        let memories = kept(&world, &memories).await.len();
        let found = world.get_chat(chat).await;
        assert_eq!([memories, usize::from(found.is_ok())], remaining, "{day}");
    }
}

#[tokio::test]
async fn days_of_memories_outside_their_range_are_rejected() {
    let world = World::new().await;
    for days in [0, 36_501, u64::MAX] {
        let set = try_set(&world, &internal(days)).await;
        assert_eq!(problem(set), "memory_days.internal invalid_value");
    }
    let days = MemoryDays::builder().public(1).confidential(36_500).build();
    set(&world, days).await;
}

/// Every use of a chat checks the retention, so that a sweep must not write it.
#[tokio::test]
async fn sweeps_leave_the_record_of_the_retention_alone() {
    let world = World::new().await;
    let memories = world.memories(1).await;
    world.recall_of(&memories).await;
    world.add_chat("Old").await;
    let new = NewRetention::builder()
        .chat_days(1)
        .memory_days(internal(1))
        .build();
    let place = world.workspace.id;
    world.set_retention(&new).await.unwrap();
    let key = keys::retention(world.org.id, place);
    let stored = async || {
        let found = world.faults.inner().get(std::slice::from_ref(&key));
        found.await.unwrap().remove(0)
    };
    let before = stored().await;
    assert!(before.is_some());
    for _ in 0..2 {
        world.maintain().await;
        world.time.pass(DAY);
    }
    assert_eq!(kept(&world, &memories).await, []);
    assert_eq!(stored().await, before);
}

/// A change that succeeds right before any call of a sweep keeps the memory.
#[tokio::test]
async fn memory_that_changes_during_a_sweep_is_judged_by_its_new_label() {
    let mut outcomes = [0, 0];
    for others in 0.. {
        let world = World::new().await;
        let memories = world.memories(2).await;
        set(&world, internal(1)).await;
        world.maintain().await;
        world.time.pass(DAY);
        let beside = world.served_with(FaultPlan::none()).await;
        let changed = Arc::new(Mutex::new(None));
        let (result, first) = (Arc::clone(&changed), memories[0]);
        world.probe.before_call(others, async move {
            let public = sensitivity(SensitivityLabel::Public);
            let done = beside.change(&[first], public).await.unwrap();
            *result.lock().unwrap() = Some(done.summary.succeeded == 1);
        });
        world.maintain().await;
        world.probe.expect_no_call();
        let Some(is_changed) = *changed.lock().unwrap() else {
            break;
        };
        outcomes[usize::from(is_changed)] += 1;
        let remaining = &memories[..usize::from(is_changed)];
        assert_eq!(kept(&world, &memories).await, remaining, "call {others}");
        let total: u64 = erased(&world).await.iter().map(|(count, _)| count).sum();
        assert_eq!(total, 2 - remaining.len() as u64);
    }
    assert!(outcomes.iter().all(|count| *count > 0), "{outcomes:?}");
}

/// Whichever commit fails, maintenance deletes the rest, and the store is whole throughout.
#[tokio::test]
async fn interrupted_sweep_of_memories_is_resumed() {
    const MEMORIES: usize = 410;
    let faults = [CommitFault::Unavailable, CommitFault::LostApplied];
    for (number, fault) in (1..=8).flat_map(|number| faults.map(|fault| (number, fault))) {
        let world = World::new().await;
        let memories = world.approved_memories(MEMORIES).await;
        let public = sensitivity(SensitivityLabel::Public);
        let kept_one = memories[205];
        world.change(&[kept_one], public).await.unwrap();
        let bare = world.recall_of(&[memories[0], memories[400]]).await;
        let citing = world.recall_of(&[memories[0], kept_one]).await;
        set(&world, internal(1)).await;
        world.time.pass(DAY);
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
        let recall = |id| world.get_recall(id);
        assert_eq!(code(recall(bare).await), "not_found");
        assert_eq!(recall(citing).await.unwrap().memory_ids, [kept_one]);
        let place = keys::memory_count(world.org.id, world.workspace.id);
        assert_eq!(world.counter(place).await, 1);
        let usage = keys::usage(world.org.id, Quota::Memories);
        assert_eq!(world.counter(usage).await, 1);
        let counts = erased(&world).await;
        let total: u64 = counts.iter().map(|(memories, _)| memories).sum();
        assert_eq!(total, MEMORIES as u64 - 1, "commit {number}: {fault:?}");
        assert_eq!(counts.iter().map(|(_, recalls)| recalls).sum::<u64>(), 1);
    }
}
