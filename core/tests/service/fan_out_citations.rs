//! Tests of citation events: one for each recall and source event.

use knowledge_core::access::{Action, ActionSet};
use knowledge_core::model::{CitationSubscription, EventType, SensitivityLabel};
use knowledge_core::service::{FanOutReport, RecallUpdate};
use knowledge_store::faults::{CommitFault, FaultPlan};
use serde_json::json;

use crate::fan_out::listed;
use crate::make::{HOUR, MEMBER, VIEWER};
use crate::world::{World, data};

#[tokio::test]
async fn bulk_update_of_300_cited_memories_sends_one_citation_event() {
    let world = World::new().await;
    let ids = world.memories(1_000).await;
    let cited: Vec<_> = ids.iter().rev().step_by(3).take(300).copied().collect();
    let recall = world.recall_of(&cited).await;
    let untouched = world.memories(1).await;
    let other = world.recall_of(&untouched).await;
    let subscription = world.subscribe(&world.owner, recall).await;
    let to_other = world.subscribe(&world.owner, other).await;
    let webhook = world.webhook(EventType::CitationChanged).await;
    world.relabel(&ids, SensitivityLabel::Public).await;
    let operation = data(&world.events().await[0])["operation_id"].take();
    assert_eq!(world.fan_out().await.deliveries, 2);

    let events = world.queued_events(subscription.id).await;
    assert_eq!(events.len(), 1);
    assert_eq!(world.queued_events(webhook.id).await, events);
    assert_eq!(world.queued_events(to_other.id).await, []);
    assert_eq!(events[0].event_type(), EventType::CitationChanged);
    let told = json!({
        "workspace_id": world.workspace.id,
        "recall_id": recall,
        "operation_id": operation,
        "change": "updated",
        "memory_ids": cited,
    });
    assert_eq!(data(&events[0]), told);
    world.assert_whole().await;
}

#[tokio::test]
async fn largest_citation_event_stays_below_20_kb() {
    let world = World::new().await;
    let ids = world.memories(500).await;
    let recall = world.recall_of(&ids).await;
    let subscription = world.subscribe(&world.owner, recall).await;
    world.relabel(&ids, SensitivityLabel::Public).await;
    world.fan_out().await;
    let events = world.queued_events(subscription.id).await;
    assert_eq!(listed(&events[0]), ids);
    let data = data(&events[0]).to_string();
    let envelope = r#"{"type":"citation.changed","timestamp":"2027-01-15T08:00:00.000Z","data":}"#;
    assert!(data.len() + envelope.len() < 20_000, "{}", data.len());
}

#[tokio::test]
async fn deletion_is_announced_to_subscribers_of_citing_recalls() {
    let world = World::new().await;
    let ids = world.memories(2).await;
    let recall = world.recall_of(&ids).await;
    let subscription = world.subscribe(&world.owner, recall).await;
    world.delete_memory(ids[0]).await.unwrap();
    world.fan_out().await;
    let events = world.queued_events(subscription.id).await;
    assert_eq!(events.len(), 1);
    assert_eq!(data(&events[0])["change"], "deleted");
    assert_eq!(listed(&events[0]), ids[..1]);
    world.assert_whole().await;
}

#[tokio::test]
async fn memory_that_a_recall_no_longer_cites_sends_no_citation_event() {
    let world = World::new().await;
    let ids = world.approved_memories(2).await;
    let recall = world.recall_of(&ids).await;
    let subscription = world.subscribe(&world.owner, recall).await;
    let cited = RecallUpdate::builder().memory_ids(ids[1..].to_vec());
    world.update_recall(recall, &cited.build()).await.unwrap();
    world.relabel(&ids, SensitivityLabel::Public).await;
    world.fan_out().await;
    let events = world.queued_events(subscription.id).await;
    assert_eq!(events.iter().map(listed).collect::<Vec<_>>(), [&ids[1..]]);
    world.assert_whole().await;
}

#[tokio::test]
async fn new_memory_sends_no_citation_event() {
    let world = World::new().await;
    let webhook = world.webhook(EventType::CitationChanged).await;
    let ids = world.approved_memories(1).await;
    assert_eq!(world.fan_out().await.deliveries, 0);
    let recall = world.recall_of(&ids).await;
    world.subscribe(&world.owner, recall).await;
    world.memories(1).await;
    assert_eq!(world.fan_out().await.deliveries, 0);
    assert_eq!(world.queued_events(webhook.id).await, []);
}

#[tokio::test]
async fn subscription_created_after_commit_receives_nothing() {
    let world = World::with_endpoint().await;
    let ids = world.memories(1).await;
    let recall = world.recall_of(&ids).await;
    world.relabel(&ids, SensitivityLabel::Public).await;
    let subscription = world.subscribe(&world.owner, recall).await;
    world.fan_out().await;
    assert_eq!(world.queued_events(subscription.id).await, []);
    world.relabel(&ids, SensitivityLabel::Internal).await;
    world.fan_out().await;
    assert_eq!(world.queued_events(subscription.id).await.len(), 1);
    world.assert_whole().await;
}

#[tokio::test]
async fn removed_or_unauthorized_subscriber_receives_nothing() {
    let world = World::new().await;
    let ids = world.memories(1).await;
    let recall = world.recall_of(&ids).await;
    let removed = world.member(MEMBER).await;
    let demoted = world.member(MEMBER).await;
    let kept_out = world.member(MEMBER).await;
    let least = [Action::CitationSubscriptionManage, Action::MemoryRead];
    let left = world.caller_who_may(ActionSet::of(&least)).await;
    let mut subscriptions = Vec::new();
    for member in [removed, demoted, kept_out] {
        let subscriber = world.trusted(member);
        subscriptions.push(world.subscribe(&subscriber, recall).await);
    }
    let stays = world.subscribe(&left, recall).await;
    world.relabel(&ids, SensitivityLabel::Public).await;
    world.fan_out().await;
    for subscription in subscriptions.iter().chain([&stays]) {
        assert_eq!(world.queued_events(subscription.id).await.len(), 1);
    }
    world.remove_member(removed).await.unwrap();
    world.assign(demoted, VIEWER).await.unwrap();
    let workspace = world.workspace.id;
    let assigned = world.assign_in(kept_out, workspace, Some(VIEWER)).await;
    assigned.unwrap();
    world.relabel(&ids, SensitivityLabel::Internal).await;
    assert_eq!(world.fan_out().await.deliveries, 1);
    assert_eq!(world.queued_events(stays.id).await.len(), 2);
    world.maintain().await;
    world.assert_whole().await;
}

/// Creates a world in which this many recalls, each with a subscription, cite a changed memory.
async fn widely_cited(recalls: usize) -> (World, Vec<CitationSubscription>) {
    let world = World::new().await;
    let ids = world.memories(1).await;
    let mut subscriptions = Vec::with_capacity(recalls);
    for _ in 0..recalls {
        let recall = world.recall_of(&ids).await;
        subscriptions.push(world.subscribe(&world.owner, recall).await);
    }
    world.relabel(&ids, SensitivityLabel::Public).await;
    (world, subscriptions)
}

async fn assert_each_is_notified_once(world: &World, subscriptions: &[CitationSubscription]) {
    let made = world.deliveries().await;
    let mut told: Vec<_> = made.iter().map(|made| made.endpoint).collect();
    told.sort();
    let mut wanted: Vec<_> = subscriptions.iter().map(|to| to.id.into()).collect();
    wanted.sort();
    assert_eq!(told, wanted);
    assert_eq!(world.events().await, []);
    assert_eq!(world.family("fan_out").await, []);
    world.assert_whole().await;
}

#[tokio::test]
async fn fan_out_to_2_000_recalls_takes_bounded_steps_despite_crashes() {
    let (world, subscriptions) = widely_cited(2_000).await;
    let faults = [
        CommitFault::Close,
        CommitFault::LostApplied,
        CommitFault::LostNotApplied,
        CommitFault::Unavailable,
        CommitFault::Conflict,
    ];
    // Each process crashes at its second commit, so each commit of the fan-out is the last or the
    // next of some process.
    let (mut processes, mut commits) = (0, 0);
    loop {
        let fault = faults[processes % faults.len()];
        let process = world.served_with(FaultPlan::none().at_commit(2, fault));
        let process = process.await;
        processes += 1;
        let mut done = Ok(FanOutReport::default());
        for _ in 0..3 {
            done = process.service.dispatcher().fan_out(world.time.now()).await;
        }
        for (_, commit) in process.faults.history() {
            assert!(commit.mutations().len() < 2_500);
            commits += 1;
        }
        if done.is_ok_and(|done| !done.has_more) {
            break;
        }
    }
    assert!(commits >= 20, "{commits} commits in {processes} processes");
    assert_each_is_notified_once(&world, &subscriptions).await;
}

#[tokio::test]
async fn fan_out_resumes_after_a_crash_at_any_commit() {
    let (world, subscriptions) = widely_cited(250).await;
    for fault in [
        CommitFault::Close,
        CommitFault::LostApplied,
        CommitFault::LostNotApplied,
    ] {
        let mut cut = 0;
        for number in 1.. {
            let twin = world.copy(FaultPlan::none().at_commit(number, fault)).await;
            let first = twin.service.dispatcher().fan_out(twin.time.now()).await;
            if first.is_ok() {
                break;
            }
            cut += 1;
            let next = twin.served_with(FaultPlan::none()).await;
            next.time.pass(HOUR);
            next.fan_out().await;
            assert_each_is_notified_once(&next, &subscriptions).await;
        }
        assert!(cut >= 3, "{cut}");
    }
}
