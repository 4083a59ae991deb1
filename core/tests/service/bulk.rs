//! Tests of bulk updates: order, partial failures and effects.

use knowledge_core::access::Action;
use knowledge_core::internals::keys;
use knowledge_core::model::{
    BulkItemErrorCode, EventType, MemoryChange, MemoryId, ReviewStatus, SensitivityLabel, SourceId,
};
use knowledge_core::service::{AuditAction, AuditOutcome};
use knowledge_core::store::COMMIT_MUTATIONS_MAX;
use uuid::Uuid;

use crate::make::{actions, problem, review, sensitivity};
use crate::world::{World, data};

fn unknown(number: u128) -> MemoryId {
    MemoryId(Uuid::from_u128(number))
}

#[tokio::test]
async fn bulk_update_returns_items_in_request_order() {
    let world = World::new().await;
    let mut ids = world.memories(3).await;
    ids.reverse();
    ids.insert(1, unknown(7));
    let change = sensitivity(SensitivityLabel::Confidential);
    let result = world.change(&ids, change).await.unwrap();

    let asked: Vec<_> = result.results.iter().map(|item| item.memory_id).collect();
    assert_eq!(asked, ids);
    let summary = result.summary;
    assert_eq!(
        (summary.requested, summary.succeeded, summary.failed),
        (4, 3, 1)
    );
    assert!(!result.replayed);
    let refused = &result.results[1];
    assert!(!refused.ok && refused.memory.is_none());
    let error = refused.error.as_ref().unwrap();
    assert_eq!(error.code, BulkItemErrorCode::NotFound);
    for item in result.results.iter().filter(|item| item.ok) {
        assert!(item.error.is_none());
        let memory = item.memory.as_ref().unwrap();
        assert_eq!(memory.id, item.memory_id);
        assert_eq!(memory.sensitivity_label, SensitivityLabel::Confidential);
        let stored = world.labels(item.memory_id).await;
        assert_eq!(stored.sensitivity, SensitivityLabel::Confidential);
    }
}

#[tokio::test]
async fn bulk_update_sets_each_attribute_and_nothing_else() {
    let world = World::new().await;
    let ids = world.memories(2).await;
    let before = world.labels(ids[1]).await;
    let files = world.source("Files", "drive").await;
    let change = MemoryChange::builder()
        .audience_tag("team:core".parse().unwrap())
        .sensitivity_label(SensitivityLabel::Restricted)
        .source_id(files.unwrap())
        .review_status(ReviewStatus::Approved)
        .build();
    let contents = world.contents().await;
    world.change(&ids[..1], change.clone()).await.unwrap();
    assert_eq!(world.labels(ids[0]).await, change.applied_to(&before));
    assert_eq!(world.labels(ids[1]).await, before);
    let content = keys::content(world.org.id, ids[0]);
    let after = world.contents().await;
    assert_eq!(
        after[&content], contents[&content],
        "content is not touched"
    );
}

#[tokio::test]
async fn bulk_update_reports_all_problems_at_once() {
    let world = World::with(|options| options.limits.bulk_memories_max = 3).await;
    let ids = world.memories(4).await;
    let (owner, change) = (&world.owner, sensitivity(SensitivityLabel::Public));
    let bulk = async |ids: &[MemoryId], change| problem(world.bulk(owner, ids, change).await);
    assert_eq!(bulk(&[], change.clone()).await, "memoryIds too_small");
    assert_eq!(bulk(&ids, change.clone()).await, "memoryIds too_large");
    let twice = [ids[0], ids[1], ids[0]];
    assert_eq!(bulk(&twice, change).await, "memoryIds[2] duplicate");
    assert_eq!(
        bulk(&[], MemoryChange::default()).await,
        "memoryIds too_small, body required"
    );
}

#[tokio::test]
async fn bulk_update_reports_at_most_100_problems() {
    let world = World::new().await;
    let same = vec![unknown(1); 1_000];
    let listed = problem(world.change(&same, MemoryChange::default()).await);
    assert_eq!(listed.split(", ").count(), 100);
}

#[tokio::test]
async fn bulk_update_with_unknown_source_is_rejected_as_a_whole() {
    let world = World::new().await;
    let ids = world.memories(1).await;
    let contents = world.contents().await;
    let change = MemoryChange::builder()
        .source_id(SourceId(Uuid::from_u128(9)))
        .build();
    let refused = world.change(&ids, change).await;
    assert_eq!(problem(refused), "sourceId not_found");
    assert_eq!(
        world.contents().await,
        contents,
        "no record, no audit, no event"
    );
}

#[tokio::test]
async fn bulk_update_does_not_write_unchanged_memories() {
    let world = World::with_endpoint().await;
    let ids = world.memories(2).await;
    let change = sensitivity(SensitivityLabel::Confidential);
    world.change(&ids[..1], change.clone()).await.unwrap();
    let (commits, events) = (world.faults.history().len(), world.events().await.len());

    let again = world.change(&ids[..1], change.clone()).await.unwrap();
    assert_eq!(again.summary.succeeded, 1);
    let written = &world.faults.history()[commits..];
    let memory = keys::memory(world.org.id, ids[0]);
    let is_written = |(_, commit): &(_, knowledge_core::store::Commit)| {
        commit
            .mutations()
            .iter()
            .any(|mutation| *mutation.key() == memory)
    };
    assert!(!written.iter().any(is_written));
    assert_eq!(world.events().await.len(), events, "nothing is announced");

    // Only the changed one of several memories is announced.
    world.time.pass(crate::make::HOUR);
    world.change(&ids, change).await.unwrap();
    let announced = world
        .events_of(EventType::MemoryUpdated)
        .await
        .pop()
        .unwrap();
    assert_eq!(data(&announced)["memory_ids"], serde_json::json!([ids[1]]));
}

#[tokio::test]
async fn bulk_update_maintains_review_backlog() {
    let world = World::new().await;
    let ids = world.memories(5).await;
    let backlog = async || world.dashboard().await.review_backlog_count;
    assert_eq!(backlog().await, 5);
    for (ids, status, expected) in [
        (&ids[..3], ReviewStatus::Approved, 2),
        (&ids[..3], ReviewStatus::Approved, 2),
        (&ids[..2], ReviewStatus::Rejected, 2),
        (&ids[..1], ReviewStatus::Pending, 3),
        (&ids[..], ReviewStatus::Approved, 0),
    ] {
        world.change(ids, review(status)).await.unwrap();
        assert_eq!(backlog().await, expected);
    }
}

#[tokio::test]
async fn bulk_update_spans_workspaces() {
    let world = World::with_endpoint().await;
    let sales = world.workspace("sales").await;
    world.webhook_in(sales, EventType::MemoryUpdated).await;
    let mut ids = world.memories(2).await;
    ids.extend(world.memories_in(sales, 3).await);
    let commits = world.faults.counts().commits;
    let approved = review(ReviewStatus::Approved);
    let result = world.change(&ids, approved).await.unwrap();
    assert_eq!(result.summary.succeeded, 5);
    assert_eq!(world.faults.counts().commits, commits + 1, "in one commit");

    let pending = |workspace| world.counter(keys::pending_count(world.org.id, workspace));
    assert_eq!(
        (pending(world.workspace.id).await, pending(sales).await),
        (0, 0)
    );
    let announced = world.events_of(EventType::MemoryUpdated).await;
    let of = |workspace| {
        announced
            .iter()
            .find(|event| event.workspace_id == workspace)
    };
    let listed = |workspace| data(of(workspace).unwrap())["memory_ids"].take();
    assert_eq!(announced.len(), 2, "one event a workspace");
    assert_eq!(listed(world.workspace.id), serde_json::json!(ids[..2]));
    assert_eq!(listed(sales), serde_json::json!(ids[2..]));
}

#[tokio::test]
async fn bulk_update_writes_one_event_for_many_memories() {
    let world = World::with_endpoint().await;
    let ids = world.memories(901).await;
    let change = sensitivity(SensitivityLabel::Public);
    world.change(&ids, change).await.unwrap();
    let announced = world.events_of(EventType::MemoryUpdated).await;
    let listed: Vec<Vec<MemoryId>> = announced
        .iter()
        .map(|event| serde_json::from_value(data(event)["memory_ids"].take()).unwrap())
        .collect();
    assert_eq!(listed, [ids]);
}

#[tokio::test]
async fn bulk_update_writes_consecutive_audit_entries() {
    let world = World::new().await;
    let mut ids = world.memories(998).await;
    ids.insert(0, unknown(1));
    ids.push(unknown(2));
    let change = sensitivity(SensitivityLabel::Confidential);
    let result = world.change(&ids, change).await.unwrap();
    let first = result.results[0].audit_log_id;
    for (index, item) in result.results.iter().enumerate() {
        assert_eq!(item.audit_log_id, first.plus(index as u128));
        let entry = world.get_audit_entry(item.audit_log_id).await.unwrap();
        assert_eq!(entry.id, item.audit_log_id);
        assert_eq!(entry.resource.id, item.memory_id.0);
        assert_eq!(entry.operation_id, result.operation_id);
        assert_eq!(entry.action, AuditAction::MemoryBulkUpdate);
        assert_eq!(entry.actor_id, Some(world.owner_id));
        assert_eq!(entry.at, world.time.now());
        if item.ok {
            assert_eq!(entry.outcome, AuditOutcome::Ok);
            assert_eq!(entry.before.unwrap()["sensitivity"], "internal");
            assert_eq!(entry.after.unwrap()["sensitivity"], "confidential");
        } else {
            assert_eq!(entry.outcome, AuditOutcome::NotFound);
            assert_eq!((entry.before, entry.after), (None, None));
        }
    }
    let behind = world.get_audit_entry(first.plus(1_000)).await;
    assert_eq!(behind.unwrap_err().code(), "not_found");
}

#[tokio::test]
async fn largest_bulk_update_fits_into_one_commit() {
    let world = World::new().await;
    let mut ids = Vec::new();
    for number in 0..1_000 {
        let workspace = world.workspace(&format!("w{number}")).await;
        ids.extend(world.memories_in(workspace, 1).await);
    }
    let other = world.source("Drive", "drive").await.unwrap();
    let longest = "x".repeat(64);
    let change = MemoryChange::builder()
        .audience_tag(format!("workspace:{longest}").parse().unwrap())
        .sensitivity_label(SensitivityLabel::Confidential)
        .source_id(other)
        .review_status(ReviewStatus::Approved)
        .build();
    // A role in each workspace causes the most checks.
    let member = world.member(crate::make::VIEWER).await;
    let role = world
        .role(
            knowledge_core::access::BaseRole::Member,
            actions(&[Action::MemoryDeclassify]),
            actions(&[]),
        )
        .await;
    let workspaces = world
        .service
        .provisioning()
        .workspaces(world.org.id)
        .await
        .unwrap();
    for workspace in workspaces {
        let role = Some(crate::make::custom(role.id));
        world.assign_in(member, workspace.id, role).await.unwrap();
    }
    let caller = world.trusted(member);
    let result = world.bulk(&caller, &ids, change).await.unwrap();
    assert_eq!(result.summary.succeeded, 1_000);
    let (_, largest) = world.faults.history().pop().unwrap();
    assert!(largest.mutations().len() <= COMMIT_MUTATIONS_MAX);
}
