//! Tests of who may approve and reject a memory: those who may look at it, and no program that
//! added it itself.

use knowledge_core::access::TokenScope;
use knowledge_core::model::{
    BulkResult, MemberKind, MemoryChange, MemoryId, MemoryUpdate, ReviewStatus, SensitivityLabel,
};
use knowledge_core::service::{AuditAction, AuditOutcome, Caller, Denial};

use crate::audit::entries;
use crate::make::{ADMIN, MEMBER, audience, code, new_member, new_memory, review, sensitivity};
use crate::world::World;
use knowledge_testing::requests::with;

const UNREAD: &str = "only the audience of a memory may approve or reject it";
const OWN: &str = "a service account or an MCP key may not approve or reject what it added itself";

/// Returns the reason for which each item was rejected, and an empty string for the others.
fn reasons(result: &BulkResult) -> Vec<&str> {
    let errors = result.results.iter().map(|item| item.error.as_ref());
    errors
        .map(|error| error.map_or("", |error| error.message.as_str()))
        .collect()
}

/// Returns the code of the error with which an update of one memory is rejected.
async fn refused(world: &World, by: &Caller, id: MemoryId, change: MemoryChange) -> &'static str {
    let update = MemoryUpdate::builder().change(change).build();
    code(world.by(by).update_memory(id, &update, None).await)
}

/// Adds a memory by a caller.
async fn added(world: &World, by: &Caller, title: &str) -> MemoryId {
    let batch = [new_memory(title)];
    let ingested = world.by(by).ingest_memories(world.source, &batch).await;
    ingested.unwrap()[0].id.unwrap()
}

/// Adds a service account that may update, read and review.
async fn robot(world: &World, handle: &str) -> Caller {
    let new = with(new_member(handle, MEMBER), |new| {
        new.kind = MemberKind::ServiceAccount;
    });
    world.trusted(world.add(&new).await)
}

#[tokio::test]
async fn review_requires_audience_of_the_memory() {
    let world = World::new().await;
    let ids = world.memories(2).await;
    world
        .change(&ids[..1], audience("team:core"))
        .await
        .unwrap();
    for status in [ReviewStatus::Approved, ReviewStatus::Rejected] {
        let result = world.change(&ids, review(status)).await.unwrap();
        assert_eq!(reasons(&result), [UNREAD, ""]);
        let entry = world.get_audit_entry(result.results[0].audit_log_id).await;
        let denied = AuditOutcome::Denied(Denial::UnreadReview);
        assert_eq!(entry.unwrap().outcome, denied);
        let updated = refused(&world, &world.owner, ids[0], review(status)).await;
        assert_eq!(updated, "forbidden");
        assert_eq!(world.labels(ids[0]).await.review, ReviewStatus::Pending);
    }
    // Whoever takes it into its audience looks at it afterwards.
    let both = with(audience("org:acme"), |change| {
        change.review_status = Some(ReviewStatus::Approved);
    });
    let result = world.change(&ids[..1], both).await.unwrap();
    assert_eq!(reasons(&result), [UNREAD]);
    world.change(&ids[..1], audience("org:acme")).await.unwrap();
    let approved = world.change(&ids[..1], review(ReviewStatus::Approved));
    assert_eq!(reasons(&approved.await.unwrap()), [""]);
    // To start the review again decides nothing.
    world
        .change(&ids[..1], audience("team:core"))
        .await
        .unwrap();
    let pending = world.change(&ids[..1], review(ReviewStatus::Pending));
    assert_eq!(reasons(&pending.await.unwrap()), [""]);
}

#[tokio::test]
async fn review_requires_right_to_read_the_sensitivity() {
    let world = World::new().await;
    let ids = world.memories(3).await;
    let confidential = sensitivity(SensitivityLabel::Confidential);
    world.change(&ids[..1], confidential).await.unwrap();
    let restricted = sensitivity(SensitivityLabel::Restricted);
    world.change(&ids[1..2], restricted).await.unwrap();
    let member = world.caller(MEMBER).await;
    let approved = review(ReviewStatus::Approved);
    let result = world.bulk(&member, &ids, approved.clone()).await.unwrap();
    let lacks = [
        "missing permission memory:read_confidential",
        "missing permission memory:read_restricted",
        "",
    ];
    assert_eq!(reasons(&result), lacks);
    let updated = refused(&world, &member, ids[0], approved.clone()).await;
    assert_eq!(updated, "forbidden");
    let admin = world.caller(ADMIN).await;
    let result = world.bulk(&admin, &ids[..2], approved).await.unwrap();
    assert_eq!(reasons(&result), ["", ""]);
}

#[tokio::test]
async fn service_account_does_not_review_what_it_added() {
    let world = World::new().await;
    let crawler = robot(&world, "crawler").await;
    let other = robot(&world, "checker").await;
    let ids = [
        added(&world, &crawler, "One").await,
        added(&world, &world.owner, "Two").await,
    ];
    for status in [ReviewStatus::Approved, ReviewStatus::Rejected] {
        let result = world.bulk(&crawler, &ids, review(status)).await.unwrap();
        assert_eq!(reasons(&result), [OWN, ""]);
        let updated = refused(&world, &crawler, ids[0], review(status)).await;
        assert_eq!(updated, "forbidden");
    }
    // Nor does it approve what it writes in the same call.
    let rewritten = MemoryUpdate::builder()
        .content("By the crawler.")
        .change(review(ReviewStatus::Approved))
        .build();
    let updated = world.by(&crawler).update_memory(ids[1], &rewritten, None);
    assert_eq!(code(updated.await), "forbidden");
    // Nor what it has written into another member's memory.
    let text = MemoryUpdate::builder().content("By the crawler.").build();
    let written = world.by(&crawler).update_memory(ids[1], &text, None);
    written.await.unwrap();
    let approved = review(ReviewStatus::Approved);
    let result = world.bulk(&crawler, &ids, approved).await.unwrap();
    assert_eq!(reasons(&result), [OWN, OWN]);
    let pending = review(ReviewStatus::Pending);
    let result = world.bulk(&crawler, &ids[..1], pending).await.unwrap();
    assert_eq!(reasons(&result), [""]);
    let approved = review(ReviewStatus::Approved);
    let result = world.bulk(&other, &ids, approved).await.unwrap();
    assert_eq!(reasons(&result), ["", ""]);
}

#[tokio::test]
async fn credential_with_labels_does_not_review_what_its_member_added() {
    let world = World::new().await;
    let own = added(&world, &world.owner, "One").await;
    let member = world.caller(MEMBER).await;
    let theirs = added(&world, &member, "Two").await;
    let scope = TokenScope {
        audience: Some(vec!["workspace:research".parse().unwrap()]),
        ..TokenScope::default()
    };
    let listed = Caller::from(world.token(world.owner_id, scope).await.secret);
    let approved = review(ReviewStatus::Approved);
    let result = world.bulk(&listed, &[own, theirs], approved).await.unwrap();
    assert_eq!(reasons(&result), [OWN, ""]);
}

#[tokio::test]
async fn review_by_its_author_is_marked_in_the_audit_log() {
    let world = World::new().await;
    let own = added(&world, &world.owner, "One").await;
    let member = world.caller(MEMBER).await;
    let theirs = added(&world, &member, "Two").await;
    let ids = [own, theirs];
    let marks = async |result: &BulkResult| {
        let mut marks = Vec::new();
        for item in &result.results {
            let entry = world.get_audit_entry(item.audit_log_id).await;
            marks.push(entry.unwrap().own);
        }
        marks
    };
    let approved = world.change(&ids, review(ReviewStatus::Approved)).await;
    assert_eq!(marks(&approved.unwrap()).await, [true, false]);
    // Other changes of what one has added are none of a review.
    let relabelled = world.change(&ids, audience("org:acme")).await;
    assert_eq!(marks(&relabelled.unwrap()).await, [false, false]);
    let pending = world.change(&ids, review(ReviewStatus::Pending)).await;
    assert_eq!(marks(&pending.unwrap()).await, [false, false]);
    let rejected = MemoryUpdate::builder().change(review(ReviewStatus::Rejected));
    let rejected = rejected.build();
    for (id, expected) in [(own, true), (theirs, false)] {
        world.update_memory(id, &rejected, None).await.unwrap();
        let mut found = entries(&world).await;
        found.retain(|entry| entry.action == AuditAction::MemoryUpdate);
        found.retain(|entry| entry.resource.id == id.0);
        let marks: Vec<_> = found.iter().map(|entry| entry.own).collect();
        assert_eq!(marks, [expected]);
    }
    world.assert_whole().await;
}
