//! Test of the store reads that the table declares.

use knowledge_core::access::{ActionSet, BaseRole, RoleRef};
use knowledge_core::api::{Authentication, OPERATIONS, Operation};

use super::callers::Caller;
use super::requests::Call;
use crate::make::new_mcp_key;
use crate::world::World;

/// Maximum number of store reads of an operation of a caller.
const READS_MAX: u8 = 3;

/// Reads of the transactions that follow the operation's own: the clean-up after a removal, and the
/// steps of an erasure after its first commit.
const CLEAN_UP: [(Operation, u64); 2] =
    [(Operation::RemoveMember, 4), (Operation::CreateErasure, 4)];

/// Returns the number of store reads of a successful call.
pub(super) async fn reads(world: &World, call: &Call, caller: &Caller) -> u64 {
    let before = world.faults.counts().reads;
    call.succeed(world, caller).await;
    let reads = world.faults.counts().reads - before;
    let mut clean_up = CLEAN_UP.iter();
    let later = clean_up.find(|(operation, _)| call.spec.operation == *operation);
    reads - later.map_or(0, |(_, later)| *later)
}

#[tokio::test]
async fn operation_makes_as_many_reads_as_declared() {
    let mut wrong = Vec::new();
    for spec in OPERATIONS {
        let world = World::new().await;
        let caller = Caller::custom(&world).await;
        let call = Call::new(&world, spec.operation, &caller).await;
        let custom = reads(&world, &call, &caller).await;
        let world = World::new().await;
        let caller = Caller::admin(&world).await;
        let call = Call::new(&world, spec.operation, &caller).await;
        let built_in = reads(&world, &call, &caller).await;
        let declared = u64::from(spec.reads);
        if custom != declared || built_in > declared {
            wrong.push((spec.operation, declared, custom, built_in));
        }
    }
    assert_eq!(
        wrong,
        [],
        "declared, with custom roles, with a built-in role"
    );
}

/// An earlier login tells what to read with everything else, as long as it stays the same.
#[tokio::test]
async fn known_caller_takes_one_read_unless_its_roles_have_changed() {
    let world = World::new().await;
    let caller = Caller::custom(&world).await;
    let call = Call::new(&world, Operation::GetDashboardSummary, &caller).await;
    for expected in [3, 1, 1] {
        assert_eq!(reads(&world, &call, &caller).await, expected);
    }
    let role = world.role(BaseRole::Viewer, ActionSet::ALL, ActionSet::EMPTY);
    let role = RoleRef::Custom(role.await.id);
    world.assign(caller.member, role).await.unwrap();
    for expected in [2, 1] {
        assert_eq!(reads(&world, &call, &caller).await, expected);
    }
}

/// The custom roles of those who created MCP keys are read at once.
#[tokio::test]
async fn owners_of_mcp_keys_take_one_more_read_however_many() {
    let world = World::new().await;
    let caller = Caller::admin(&world).await;
    let call = Call::new(&world, Operation::GetDashboardSummary, &caller).await;
    for _ in 0..3 {
        let owner = Caller::custom(&world).await;
        let key = new_mcp_key("org:acme");
        let key = world.by(&owner.trusted).create_mcp_key(&key);
        key.await.unwrap();
    }
    for expected in [4, 2] {
        assert_eq!(reads(&world, &call, &caller).await, expected);
    }
}

/// An earlier login authenticates nobody.
#[tokio::test]
async fn known_caller_is_checked_by_each_operation() {
    let world = World::new().await;
    let caller = Caller::custom(&world).await;
    let call = Call::new(&world, Operation::GetDashboardSummary, &caller).await;
    for _ in 0..2 {
        call.succeed(&world, &caller).await;
    }
    caller.disempower(&world).await;
    world
        .assign_in(caller.member, world.workspace.id, None)
        .await
        .unwrap();
    assert_eq!(call.status(&world, Some(&caller)).await, 403);
    let operator = world.service.provisioning();
    operator
        .remove_member(world.org.id, caller.member)
        .await
        .unwrap();
    assert_eq!(call.status(&world, Some(&caller)).await, 401);
}

/// The record of an idempotency key is read and written with the rest.
#[tokio::test]
async fn idempotency_key_takes_no_further_read_or_commit() {
    for spec in OPERATIONS.iter().filter(|spec| spec.replay.is_some()) {
        let world = World::new().await;
        let caller = Caller::custom(&world).await;
        let call = Call::new(&world, spec.operation, &caller).await;
        let call = call.with_key("key");
        let commits = world.faults.counts().commits;
        let reads = reads(&world, &call, &caller).await;
        let commits = world.faults.counts().commits - commits;
        let declared = (u64::from(spec.reads), 1);
        assert_eq!((reads, commits), declared, "{:?}", spec.operation);
    }
}

#[test]
fn operation_declares_at_most_three_reads() {
    for spec in OPERATIONS {
        // A signature names no workspace and no member: the inbound webhook does, read first.
        let is_signed = spec.authentication == Authentication::Signature;
        // The recalls of a page name the memories whose labels decide who sees them.
        let follows_citations = spec.operation == Operation::ListRecalls;
        // The memories that a ranking names.
        let ranks = spec.operation == Operation::SearchRecalls;
        // The recalls that cite erased memories, and the labels of what else they cite.
        let erases = spec.operation == Operation::CreateErasure;
        // Whether an endpoint has ended: its record names the member and the credential that decide.
        let redelivers = [
            Operation::RedeliverToCitationSubscription,
            Operation::RedeliverDeadToCitationSubscription,
            Operation::RedeliverToWebhook,
            Operation::RedeliverDeadToWebhook,
        ];
        let redelivers = redelivers.contains(&spec.operation);
        let more =
            u8::from(is_signed || follows_citations || ranks || redelivers) + 2 * u8::from(erases);
        assert!(spec.reads <= READS_MAX + more, "{:?}", spec.operation);
    }
}

/// The contents of memories that match no filter are not read, which takes a read more, unless
/// marks lead to those that match.
#[tokio::test]
async fn filter_of_memories_by_labels_takes_one_more_read() {
    for (query, more) in [
        ("?sensitivityLabel=internal", 1),
        ("?reviewStatus=pending", 0),
        ("?reviewStatus=approved", 0),
    ] {
        let world = World::new().await;
        let caller = Caller::custom(&world).await;
        let mut call = Call::new(&world, Operation::ListMemories, &caller).await;
        call.uri += query;
        let reads = reads(&world, &call, &caller).await;
        assert!(reads <= u64::from(call.spec.reads) + more, "{query}");
    }
}
