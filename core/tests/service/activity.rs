//! Tests of the activity of a workspace by day.

use std::time::Duration;

use knowledge_core::access::Action;
use knowledge_core::internals::keys;
use knowledge_core::limits::ACTIVITY_DAYS_MAX;
use knowledge_core::model::{
    ActivityDay, MemoryChange, MemoryUpdate, ReviewStatus, SensitivityLabel, Timestamp,
};
use knowledge_core::service::{ActivityDays, NewMemory};

use crate::make::{DAY, MEMBER, VIEWER, actions, audience, code, problem, review, sensitivity};
use crate::world::World;

/// Returns the last days, the oldest first.
async fn days(world: &World, days: u64) -> Vec<ActivityDay> {
    let days = ActivityDays::builder().days(days).build();
    world.get_activity(&days).await.unwrap().days
}

async fn today(world: &World) -> ActivityDay {
    days(world, 1).await[0]
}

#[tokio::test]
async fn activity_counts_what_happens_to_memories() {
    let world = World::new().await;
    let ids = world.memories(5).await;
    let first = today(&world).await;
    assert_eq!((first.added, first.backlog_change), (5, 5));
    world
        .change(&ids[..3], review(ReviewStatus::Approved))
        .await
        .unwrap();
    // What changes nothing is not counted.
    world
        .change(&ids[..3], review(ReviewStatus::Approved))
        .await
        .unwrap();
    let both = MemoryChange::builder()
        .sensitivity_label(SensitivityLabel::Confidential)
        .review_status(ReviewStatus::Rejected)
        .build();
    world.change(&ids[3..4], both).await.unwrap();
    world
        .change(&ids[..2], audience("team:core"))
        .await
        .unwrap();
    let edit = MemoryUpdate::builder().title("Another title").build();
    world.update_memory(ids[2], &edit, None).await.unwrap();
    world.delete_memory(ids[4]).await.unwrap();
    let day = today(&world).await;
    let expected = ActivityDay {
        added: 5,
        reviewed: 4,
        relabelled: 3,
        edited: 1,
        deleted: 1,
        // Five were added, four reviewed, one is pending again, and the last one was deleted.
        backlog_change: 1,
        ..first
    };
    assert_eq!(day, expected);
    let backlog = world.dashboard().await.review_backlog_count;
    assert_eq!(i64::try_from(backlog).unwrap(), day.backlog_change);
    world.assert_whole().await;
}

#[tokio::test]
async fn activity_counts_ingested_memories() {
    let world = World::new().await;
    let of = |text: &str| {
        let memory = NewMemory::builder().source_key("a").title("On call");
        vec![memory.content(text).build()]
    };
    for text in ["Ask Ada.", "Ask Ada.", "Ask Grace."] {
        world
            .ingest_memories(world.source, &of(text))
            .await
            .unwrap();
    }
    let day = today(&world).await;
    assert_eq!((day.added, day.edited, day.backlog_change), (1, 1, 1));
}

#[tokio::test]
async fn activity_is_by_day_in_utc() {
    let world = World::new().await;
    world.memories(2).await;
    world.time.pass(DAY);
    world.memories(3).await;
    world.time.pass(2 * DAY);
    let found = days(&world, 5).await;
    let added: Vec<u64> = found.iter().map(|day| day.added).collect();
    assert_eq!(added, [0, 2, 3, 0, 0]);
    let day_millis = i64::try_from(DAY.as_millis()).unwrap();
    for pair in found.windows(2) {
        assert_eq!(pair[0].begins_at.plus(DAY), pair[1].begins_at);
        assert_eq!(pair[0].begins_at.as_millis() % day_millis, 0);
    }
    let now: Timestamp = world.time.now();
    assert!(found[4].begins_at <= now && now < found[4].begins_at.plus(DAY));
    let elsewhere = world.workspace("sales").await;
    let request = ActivityDays::default();
    let other = world
        .within(elsewhere)
        .get_activity(&request)
        .await
        .unwrap();
    assert_eq!(other.days.len(), 28);
    assert!(other.days.iter().all(|day| day.added == 0));
}

#[tokio::test]
async fn activity_is_read_at_once() {
    let world = World::new().await;
    for _ in 0..30 {
        let ids = world.memories(2).await;
        let changed = world.change(&ids, sensitivity(SensitivityLabel::Public));
        changed.await.unwrap();
        world.time.pass(DAY);
    }
    world.probe.take_reads();
    assert_eq!(days(&world, 28).await.len(), 28);
    let reads = world.probe.take_reads();
    assert!(!reads.touch("memory") && !reads.touch("audit"));
    assert!(reads.count() < 28 * 6 + 60, "{}", reads.count());
}

#[tokio::test]
async fn activity_needs_the_dashboard() {
    let world = World::new().await;
    let request = ActivityDays::default();
    for role in [MEMBER, VIEWER] {
        let caller = world.caller(role).await;
        assert!(world.by(&caller).get_activity(&request).await.is_ok());
    }
    let caller = world.caller_who_may(actions(&[Action::MemoryRead])).await;
    let read = world.by(&caller).get_activity(&request).await;
    assert_eq!(code(read), "forbidden");
    for days in [0, ACTIVITY_DAYS_MAX + 1] {
        let request = ActivityDays::builder().days(days).build();
        let read = world.get_activity(&request).await;
        assert_eq!(problem(read), "days invalid_value");
    }
}

/// Days beyond the retention are absent at once, and purged by the next daily task.
#[tokio::test]
async fn activity_is_kept_for_its_retention() {
    let kept = Duration::from_secs(3 * 24 * 60 * 60);
    let world = World::with(|options| options.limits.activity_retention = kept).await;
    world.memories(1).await;
    world.time.pass(2 * DAY);
    world.memories(1).await;
    let added = async || -> u64 { days(&world, 10).await.iter().map(|day| day.added).sum() };
    assert_eq!(added().await, 2);
    world.time.pass(2 * DAY);
    assert_eq!(added().await, 1);
    world.maintain().await;
    let counters = keys::activities(world.org.id, world.workspace.id);
    let stored = world.contents().await.into_keys();
    let days: Vec<Timestamp> = stored
        .filter(|key| counters.contains(key))
        .filter_map(|key| keys::parse_activity(&key).map(|(day, _)| day))
        .collect();
    let first = world.time.now().minus(kept);
    assert!(!days.is_empty() && days.iter().all(|day| day.plus(DAY) > first));
}
