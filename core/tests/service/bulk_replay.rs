//! Tests of idempotent bulk updates: replays, crashes and concurrent calls.

use std::sync::Arc;

use knowledge_core::access::{Action, BaseRole, TokenScope};
use knowledge_core::internals::keys;
use knowledge_core::limits::IDEMPOTENCY_RETENTION;
use knowledge_core::model::{
    BulkItemErrorCode, BulkResult, EventType, MemoryChange, ReviewStatus, SensitivityLabel,
};
use knowledge_core::service::Caller;
use knowledge_store::faults::{CommitFault, FaultPlan, FaultRates};

use crate::make::{
    MEMBER, MILLISECOND, VIEWER, actions, audience, code, custom, in_workspaces, review,
    sensitivity,
};
use crate::world::World;

fn replay_of(result: &BulkResult) -> BulkResult {
    BulkResult {
        replayed: true,
        ..result.clone()
    }
}

#[tokio::test]
async fn bulk_update_replays_same_request() {
    let world = World::new().await;
    let mut ids = world.memories(170).await;
    ids.push(knowledge_core::model::MemoryId(uuid::Uuid::nil()));
    let change = sensitivity(SensitivityLabel::Confidential);
    let again = || world.bulk_with_key(&world.owner, "k", &ids, change.clone());
    let first = again().await.unwrap();
    // A replay does not show later changes of the memories.
    let lowered = sensitivity(SensitivityLabel::Public);
    world.change(&ids, lowered).await.unwrap();
    let contents = world.contents().await;
    assert_eq!(again().await.unwrap(), replay_of(&first));
    assert_eq!(world.contents().await, contents);
}

#[tokio::test]
async fn idempotency_key_is_bound_to_one_request() {
    let world = World::new().await;
    let ids = world.memories(2).await;
    let change = sensitivity(SensitivityLabel::Confidential);
    let call = |count: usize, change| world.bulk_with_key(&world.owner, "k", &ids[..count], change);
    call(2, change.clone()).await.unwrap();
    for (count, change) in [(1, change), (2, review(ReviewStatus::Approved))] {
        assert_eq!(code(call(count, change).await), "idempotency_key_reused");
    }
}

#[tokio::test]
async fn rejected_request_stores_no_idempotency_key() {
    let world = World::new().await;
    let ids = world.memories(1).await;
    let unknown = MemoryChange::builder()
        .source_id(knowledge_core::model::SourceId(uuid::Uuid::nil()))
        .build();
    world
        .bulk_with_key(&world.owner, "k", &ids, unknown)
        .await
        .unwrap_err();
    let change = sensitivity(SensitivityLabel::Public);
    let result = world.bulk_with_key(&world.owner, "k", &ids, change).await;
    assert!(!result.unwrap().replayed);
}

#[tokio::test]
async fn idempotency_key_expires_after_exactly_a_day() {
    let world = World::new().await;
    let ids = world.memories(1).await;
    let change = sensitivity(SensitivityLabel::Confidential);
    let again = || world.bulk_with_key(&world.owner, "k", &ids, change.clone());
    let first = again().await.unwrap();
    world.time.pass(IDEMPOTENCY_RETENTION - MILLISECOND);
    assert!(again().await.unwrap().replayed);
    world.time.pass(MILLISECOND);
    let fresh = again().await.unwrap();
    assert!(!fresh.replayed, "expired, swept or not");
    assert_ne!(fresh.operation_id, first.operation_id);
    assert_eq!(again().await.unwrap(), replay_of(&fresh));
}

#[tokio::test]
async fn idempotency_retention_is_configurable() {
    let world = World::with(|options| options.limits.idempotency_retention = MILLISECOND).await;
    let ids = world.memories(1).await;
    let again = || {
        world.bulk_with_key(
            &world.owner,
            "k",
            &ids,
            sensitivity(SensitivityLabel::Public),
        )
    };
    again().await.unwrap();
    world.time.pass(MILLISECOND);
    assert!(!again().await.unwrap().replayed);
}

#[tokio::test]
async fn replay_hides_memories_outside_the_scope_of_the_token() {
    let world = World::new().await;
    let sales = world.workspace("sales").await;
    let admin = world.member(crate::make::ADMIN).await;
    let scoped = async |workspace| {
        let scope = in_workspaces(&[workspace]);
        Caller::from(world.token(admin, scope).await.secret)
    };
    let (here, there) = (scoped(world.workspace.id).await, scoped(sales).await);
    let everywhere = world.trusted(admin);
    let mut ids = world.memories(1).await;
    ids.extend(world.memories_in(sales, 1).await);
    let change = sensitivity(SensitivityLabel::Confidential);
    let again = async |caller| world.bulk_with_key(caller, "k", &ids, change.clone()).await;
    let first = again(&here).await.unwrap();
    let codes = |result: &BulkResult| -> Vec<Option<BulkItemErrorCode>> {
        let items = result.results.iter();
        items
            .map(|item| item.error.as_ref().map(|error| error.code))
            .collect()
    };
    let hidden = Some(BulkItemErrorCode::NotFound);
    assert_eq!(codes(&first), [None, hidden]);
    for caller in [&here, &everywhere] {
        let replay = again(caller).await.unwrap();
        assert_eq!((replay.replayed, &replay.results), (true, &first.results));
    }
    let replay = again(&there).await.unwrap();
    assert_eq!(codes(&replay), [hidden, hidden]);
    assert_eq!((replay.summary.succeeded, replay.summary.failed), (0, 2));
    assert!(replay.results.iter().all(|item| item.memory.is_none()));
}

/// A replay shows what the caller gave away, whatever becomes of the memory, until the removal of
/// the workspace, and then never again.
#[tokio::test]
async fn replay_hides_what_was_given_away_in_a_removed_workspace() {
    let world = World::new().await;
    let memories = world.approved_memories(2).await;
    world.change(&memories, audience("org:acme")).await.unwrap();
    let scope = TokenScope {
        audience: Some(vec!["org:acme".parse().unwrap()]),
        ..TokenScope::default()
    };
    let token = Caller::from(world.token(world.owner_id, scope).await.secret);
    let give = || world.bulk_with_key(&token, "give", &memories, audience("team:core"));
    let given = give().await.unwrap();
    assert_eq!(given.summary.succeeded, 2);
    world.delete_memory(memories[0]).await.unwrap();
    let replayed = give().await.unwrap();
    assert_eq!(
        (replayed.replayed, &replayed.results),
        (true, &given.results)
    );

    let provisioning = world.service.provisioning();
    let removed = provisioning.delete_workspace(world.org.id, world.workspace.id);
    removed.await.unwrap();
    let hidden = |result: &BulkResult| {
        let items = result.results.iter();
        let codes = items.map(|item| item.error.as_ref().map(|error| error.code));
        codes.collect::<Vec<_>>()
    };
    for _ in 0..2 {
        let replayed = give().await.unwrap();
        assert_eq!(hidden(&replayed), [Some(BulkItemErrorCode::NotFound); 2]);
        world.maintain().await;
    }
    let place = keys::workspace_memories(world.org.id, world.workspace.id);
    let contents = world.contents().await;
    assert!(!contents.keys().any(|key| place.contains(key)));
    world.assert_whole().await;
}

#[tokio::test]
async fn idempotency_key_belongs_to_member_not_token() {
    let world = World::new().await;
    let ids = world.memories(1).await;
    let member = world.member(MEMBER).await;
    let change = sensitivity(SensitivityLabel::Confidential);
    let mut callers = Vec::new();
    for _ in 0..2 {
        let issued = world.token(member, TokenScope::default()).await;
        callers.push(Caller::from(issued.secret));
    }
    callers.push(world.trusted(member));
    let mut replayed = Vec::new();
    for caller in &callers {
        let result = world.bulk_with_key(caller, "k", &ids, change.clone()).await;
        replayed.push(result.unwrap().replayed);
    }
    assert_eq!(
        replayed,
        [false, true, true],
        "a rotated token still replays"
    );
    let other = world.caller(MEMBER).await;
    let result = world
        .bulk_with_key(&other, "k", &ids, change)
        .await
        .unwrap();
    assert!(!result.replayed, "another member's key is another key");
}

#[tokio::test]
async fn replay_is_denied_after_loss_of_permission() {
    let world = World::new().await;
    let ids = world.memories(1).await;
    let member = world.member(MEMBER).await;
    let caller = world.trusted(member);
    let again = || {
        world.bulk_with_key(
            &caller,
            "k",
            &ids,
            sensitivity(SensitivityLabel::Confidential),
        )
    };
    again().await.unwrap();
    world.assign(member, VIEWER).await.unwrap();
    assert_eq!(code(again().await), "forbidden");
    world.assign(member, MEMBER).await.unwrap();
    assert!(again().await.unwrap().replayed);
}

#[tokio::test]
async fn replay_repeats_a_refusal_whose_cause_is_gone() {
    let world = World::new().await;
    let ids = [world.confidential().await];
    let member = world.member(MEMBER).await;
    let caller = world.trusted(member);
    let lower = sensitivity(SensitivityLabel::Public);
    let call = |key: &'static str| world.bulk_with_key(&caller, key, &ids, lower.clone());
    let first = call("k").await.unwrap();
    assert_eq!(first.summary.failed, 1, "it needs the action to declassify");
    let declassifies = actions(&[Action::MemoryDeclassify]);
    let role = world.role(BaseRole::Member, declassifies, actions(&[]));
    let role = custom(role.await.id);
    world.assign(member, role).await.unwrap();
    assert_eq!(call("k").await.unwrap(), replay_of(&first));
    let decided_again = call("another").await.unwrap();
    assert_eq!(decided_again.summary.succeeded, 1);
}

/// A client that repeats its call until it succeeds changes the data once, whatever the fault.
#[tokio::test]
async fn crash_at_commit_leaves_all_or_nothing() {
    use CommitFault::{Conflict, Full, LostApplied, LostAppliedLater, LostNotApplied, Unavailable};
    for fault in [
        Conflict,
        Unavailable,
        Full,
        LostApplied,
        LostNotApplied,
        LostAppliedLater,
    ] {
        let world = World::with_endpoint().await;
        let ids = world.memories(3).await;
        let before = world.contents().await;
        let faulty = world
            .served_with(FaultPlan::none().at_commit(1, fault))
            .await;
        let approve = |world: &World| {
            let approved = review(ReviewStatus::Approved);
            let (owner, ids) = (world.owner.clone(), ids.clone());
            let request = knowledge_core::model::BulkUpdate::builder()
                .memory_ids(ids)
                .change(approved)
                .build();
            let service = world.service.clone();
            async move {
                service
                    .memories()
                    .bulk_update(&owner, &"k".parse().unwrap(), &request)
                    .await
            }
        };
        let first = approve(&faulty).await;
        if matches!(fault, Unavailable | Full) {
            assert_eq!(code(first), "unavailable");
            assert_eq!(world.contents().await, before);
        } else {
            assert!(!first.unwrap().replayed, "{fault:?} is resolved inside");
        }
        let retried = approve(&world).await.unwrap();
        assert_eq!(retried.summary.succeeded, 3);
        let pending = keys::pending_count(world.org.id, world.workspace.id);
        assert_eq!(world.counter(pending).await, 0, "{fault:?}");
        assert_eq!(
            world.events_of(EventType::MemoryUpdated).await.len(),
            1,
            "{fault:?}"
        );
    }
}

#[tokio::test]
async fn store_closed_at_commit_has_no_partial_update() {
    let world = World::new().await;
    let ids = world.memories(3).await;
    let before = world.contents().await;
    let faulty = world
        .served_with(FaultPlan::none().at_commit(1, CommitFault::Close))
        .await;
    let refused = faulty
        .bulk(&world.owner, &ids, review(ReviewStatus::Approved))
        .await;
    assert_eq!(code(refused), "unavailable");
    assert_eq!(world.contents().await, before);
}

/// The store conflicts and leaves outcomes unknown.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_calls_with_one_key_change_data_once() {
    let world = World::with_endpoint().await;
    let ids = world.memories(20).await;
    let rates = FaultRates {
        conflict: 0.05,
        lost_applied: 0.05,
        lost_not_applied: 0.05,
        ..FaultRates::default()
    };
    let faulty = Arc::new(world.served_with(FaultPlan::seeded(5, rates)).await);
    let tasks: Vec<_> = (0..64)
        .map(|_| {
            let (world, ids) = (Arc::clone(&faulty), ids.clone());
            tokio::spawn(async move {
                let approved = review(ReviewStatus::Approved);
                world
                    .bulk_with_key(&world.owner, "k", &ids, approved)
                    .await
                    .unwrap()
            })
        })
        .collect();
    let mut results = Vec::new();
    for task in tasks {
        results.push(task.await.unwrap());
    }
    let fresh: Vec<_> = results.iter().filter(|result| !result.replayed).collect();
    assert_eq!(fresh.len(), 1);
    for result in results.iter().filter(|result| result.replayed) {
        assert_eq!(*result, replay_of(fresh[0]));
    }
    assert_eq!(world.dashboard().await.review_backlog_count, 0);
    assert_eq!(world.events_of(EventType::MemoryUpdated).await.len(), 1);
}

/// A change between the reads and the commit is detected.
#[tokio::test]
async fn concurrent_change_causes_a_retry() {
    let world = World::new().await;
    let ids = world.memories(1).await;
    let other = world.served_with(FaultPlan::none()).await;
    let (crossing, crossed) = (ids.clone(), review(ReviewStatus::Approved));
    world.probe.before_commit(async move {
        other.change(&crossing, crossed).await.unwrap();
    });
    let change = sensitivity(SensitivityLabel::Confidential);
    world.change(&ids, change).await.unwrap();
    assert!(world.probe.has_happened());
    let labels = world.labels(ids[0]).await;
    assert_eq!(labels.review, ReviewStatus::Approved);
    assert_eq!(labels.sensitivity, SensitivityLabel::Confidential);
}
