//! Tests of maintenance: it purges expired records only, and in bounded steps.

use knowledge_core::access::TokenScope;
use knowledge_core::internals::keys;
use knowledge_core::limits::IDEMPOTENCY_RETENTION;
use knowledge_core::model::SensitivityLabel;
use knowledge_core::store::{Commit, Key, KeyRange};
use knowledge_store::faults::{CommitFault, FaultPlan};

use crate::make::{HOUR, MILLISECOND, sensitivity};
use crate::world::World;

/// Returns the number of keys of a family.
async fn family(world: &World, name: &str) -> usize {
    let range = KeyRange::prefix(&Key::new(format!("{name}/")).unwrap());
    let contents = world.contents().await;
    contents.keys().filter(|key| range.contains(key)).count()
}

#[tokio::test]
async fn idempotency_record_is_purged_when_it_expires() {
    let world = World::new().await;
    let ids = world.memories(1).await;
    world
        .change(&ids, sensitivity(SensitivityLabel::Public))
        .await
        .unwrap();
    world.time.pass(IDEMPOTENCY_RETENTION - MILLISECOND);
    assert_eq!(world.maintain().await, 0);
    assert_eq!(family(&world, "idempotency").await, 1);
    world.time.pass(MILLISECOND);
    assert_eq!(world.maintain().await, 1);
    assert_eq!(family(&world, "idempotency").await, 0);
    assert_eq!(world.planned().await, 0);
}

#[tokio::test]
async fn renewed_idempotency_record_has_its_own_retention() {
    let world = World::new().await;
    let ids = world.memories(1).await;
    let again = || {
        let change = sensitivity(SensitivityLabel::Public);
        world.bulk_with_key(&world.owner, "k", &ids, change)
    };
    again().await.unwrap();
    world.time.pass(IDEMPOTENCY_RETENTION);
    let renewed = again().await.unwrap();
    assert_eq!(world.maintain().await, 1, "the entry of the first record");
    let replayed = again().await.unwrap();
    assert!(replayed.replayed);
    assert_eq!(replayed.operation_id, renewed.operation_id);
    world.time.pass(IDEMPOTENCY_RETENTION);
    assert_eq!(world.maintain().await, 1);
    assert_eq!(family(&world, "idempotency").await, 0);
}

#[tokio::test]
async fn expired_credential_is_purged_with_its_index() {
    let world = World::new().await;
    let before = world.contents().await.len();
    let issued = world.token(world.owner_id, TokenScope::default()).await;
    let provisioning = world.service.provisioning();
    provisioning
        .revoke(world.org.id, issued.record.id)
        .await
        .unwrap();
    world.time.pass(HOUR);
    world.maintain().await;
    assert!(
        provisioning
            .credentials(world.org.id)
            .await
            .unwrap()
            .is_empty()
    );
    assert_eq!(family(&world, "token").await, 0);
    let counter = keys::token_count(world.org.id, world.owner_id);
    assert_eq!(world.read::<i64>(&counter).await, Some(0));
    let left = world.contents().await.len() - before;
    assert_eq!(left, 3, "the audit of both, and the counter of tokens");
}

#[tokio::test]
async fn maintenance_call_is_bounded() {
    let world = World::new().await;
    // Each has two tasks: for its credential, and for its place among the tokens of its member.
    for _ in 0..550 {
        world.token(world.owner_id, TokenScope::default()).await;
    }
    world.time.pass(HOUR);
    let mut parts = Vec::new();
    loop {
        let done = world.service.maintain(world.time.now()).await.unwrap();
        parts.push(done.purged);
        if !done.has_more {
            break;
        }
    }
    assert_eq!(parts, [500, 500, 100]);
    assert_eq!(family(&world, "credential").await, 0);
    assert_eq!(family(&world, "token").await, 0);
}

/// A backlog of one organisation delays the tasks of others by few commits.
#[tokio::test]
async fn expired_records_share_commits() {
    let world = World::new().await;
    // Each has two tasks.
    for _ in 0..250 {
        world.token(world.owner_id, TokenScope::default()).await;
    }
    world.time.pass(HOUR);
    let before = world.faults.counts().commits;
    world.service.maintain(world.time.now()).await.unwrap();
    assert_eq!(family(&world, "credential").await, 0);
    assert_eq!(family(&world, "token").await, 0);
    assert!(world.faults.counts().commits - before <= 6);
}

/// A record that cannot be read stays, with its task; those that share its commit are purged.
#[tokio::test]
async fn corrupt_record_does_not_keep_others_from_expiring() {
    let world = World::new().await;
    for _ in 0..3 {
        world.token(world.owner_id, TokenScope::default()).await;
    }
    let credentials = KeyRange::prefix(&Key::new("credential/").unwrap());
    let contents = world.contents().await;
    let mut keys = contents.keys().filter(|key| credentials.contains(key));
    let record = keys.next().unwrap().clone();
    let commit = Commit::builder().put(record, "{\"expires_at\":7}").build();
    world.faults.inner().commit(commit.unwrap()).await.unwrap();
    world.time.pass(HOUR);
    world.maintain().await;
    assert_eq!(family(&world, "credential").await, 1);
    assert_eq!(world.planned().await, 1);
}

/// The cost does not grow with the amount of data; with nothing due, there are very few reads.
#[tokio::test]
async fn maintenance_with_nothing_due_costs_next_to_nothing() {
    let world = World::new().await;
    for number in 0..50 {
        world.stranger(&format!("org-{number}")).await;
    }
    world.probe.take_reads();
    world.maintain().await;
    let reads = world.probe.take_reads();
    assert!(reads.count() + reads.ranges.len() <= 5, "{reads:?}");
}

#[tokio::test]
async fn maintenance_completes_after_a_crash() {
    let original = World::new().await;
    // Each has two tasks.
    for _ in 0..105 {
        original
            .token(original.owner_id, TokenScope::default())
            .await;
    }
    original.time.pass(HOUR);
    for number in 1..=3 {
        let plan = FaultPlan::none().at_commit(number, CommitFault::Close);
        let world = original.copy(plan).await;
        world.service.maintain(world.time.now()).await.unwrap_err();
        let world = world.served_with(FaultPlan::none()).await;
        // Each commit deletes a hundred.
        assert_eq!(world.maintain().await, 310 - 100 * number);
        assert_eq!(family(&world, "credential").await, 0);
        assert_eq!(family(&world, "credential_id").await, 0);
        assert_eq!(family(&world, "token").await, 0);
    }
}

#[tokio::test]
async fn concurrent_maintenance_calls_do_no_harm() {
    let world = World::new().await;
    for _ in 0..20 {
        world.token(world.owner_id, TokenScope::default()).await;
    }
    world.time.pass(HOUR);
    let now = world.time.now();
    let calls = (0..4).map(|_| world.service.maintain(now));
    for done in futures::future::join_all(calls).await {
        done.unwrap();
    }
    assert_eq!(family(&world, "credential").await, 0);
    assert_eq!(world.planned().await, 0);
}

/// An unreadable entry does not prevent the purge of others.
#[tokio::test]
async fn corrupt_entry_does_not_block_maintenance() {
    let world = World::new().await;
    let corrupt = keys::due(world.time.now(), uuid::Uuid::nil());
    let commit = Commit::builder().put(corrupt, "{\"unheard_of\":1}").build();
    world.faults.inner().commit(commit.unwrap()).await.unwrap();
    world.token(world.owner_id, TokenScope::default()).await;
    world.time.pass(HOUR);
    world.maintain().await;
    assert_eq!(family(&world, "credential").await, 0);
}
