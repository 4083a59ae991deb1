//! Tests of the audit entries about reads of confidential and restricted memories.

use knowledge_core::access::{Action, Credential};
use knowledge_core::model::{AccessCheck, AuditReads, MemoryFilter, MemoryId};
use knowledge_core::service::{AuditAction, AuditEntry, AuditOutcome, Caller, PageRequest};
use knowledge_store::faults::{CommitFault, FaultPlan};

use crate::audit::entries;
use crate::make::{actions, code};
use crate::world::World;

async fn world() -> World {
    World::with(|options| options.audit_reads = AuditReads::Confidential).await
}

/// Returns the first entry of each page about a read.
async fn reads(world: &World) -> Vec<AuditEntry> {
    let mut found = entries(world).await;
    found.retain(|entry| entry.action == AuditAction::MemoryRead);
    found
}

/// Reads a memory in every way that returns its title or content.
async fn read(world: &World, by: &Caller, memory: MemoryId) {
    world.by(by).get_memory(memory).await.unwrap();
    let (filter, page) = (MemoryFilter::default(), PageRequest::default());
    let listed = world.by(by).list_memories(&filter, &page).await;
    assert!(listed.unwrap().data.iter().any(|found| found.id == memory));
    let check = AccessCheck::builder()
        .memory_ids(vec![memory])
        .include_content(true);
    world.by(by).check_access(&check.build()).await.unwrap();
}

#[tokio::test]
async fn reads_of_confidential_memories_are_audited() {
    let world = world().await;
    let open = world.approved_memories(1).await[0];
    let secret = world.confidential().await;
    let reader = world
        .caller_who_may(actions(&[
            Action::MemoryRead,
            Action::MemoryReadConfidential,
        ]))
        .await;
    let before = world.contents().await;
    world.by(&reader).get_memory(open).await.unwrap();
    let labels = AccessCheck::builder().memory_ids(vec![secret]).build();
    let checked = world.by(&reader).check_access(&labels);
    assert!(checked.await.unwrap().results[0].readable);
    assert_eq!(
        world.contents().await,
        before,
        "nothing confidential was returned"
    );

    read(&world, &reader, secret).await;
    let found = reads(&world).await;
    assert_eq!(found.len(), 3);
    for entry in &found {
        let Credential::Trusted { member, .. } = reader.credential() else {
            panic!("a trusted caller");
        };
        assert_eq!(entry.actor_id, Some(*member));
        assert_eq!(entry.resource.id, secret.0);
        assert_eq!(entry.outcome, AuditOutcome::Ok);
        let labels = entry.before.as_ref().unwrap();
        assert_eq!(labels["sensitivity"], "confidential");
        assert_eq!(entry.after, None);
    }
    world.assert_whole().await;
}

#[tokio::test]
async fn reads_without_their_content_are_not_audited() {
    let world = world().await;
    let secret = world.confidential().await;
    let reader = world.caller_who_may(actions(&[Action::MemoryRead])).await;
    let before = world.contents().await;
    let shown = world.by(&reader).get_memory(secret).await.unwrap();
    assert_eq!(shown.value.content, None);
    read(&world, &reader, secret).await;
    assert_eq!(world.contents().await, before);
}

#[tokio::test]
async fn reads_are_not_audited_by_default() {
    let world = World::new().await;
    let secret = world.confidential().await;
    let before = world.contents().await;
    read(&world, &world.owner, secret).await;
    assert_eq!(world.contents().await, before);
}

#[tokio::test]
async fn memories_of_one_read_share_a_page() {
    let world = world().await;
    let secrets = [world.confidential().await, world.confidential().await];
    let (filter, page) = (MemoryFilter::default(), PageRequest::default());
    world.list_memories(&filter, &page).await.unwrap();
    let found = reads(&world).await;
    assert_eq!(found.len(), 1);
    for (offset, secret) in secrets.into_iter().enumerate() {
        let id = found[0].id.plus(offset as u128);
        let entry = world.get_audit_entry(id).await;
        assert_eq!(entry.unwrap().resource.id, secret.0);
    }
}

#[tokio::test]
async fn content_is_returned_only_with_its_audit_entry() {
    let world = world().await;
    let secret = world.confidential().await;
    let before = world.contents().await;
    let plan = FaultPlan::none().at_commit(1, CommitFault::Unavailable);
    let served = world.served_with(plan).await;
    assert_eq!(code(served.get_memory(secret).await), "unavailable");
    assert_eq!(world.contents().await, before);
    let plan = FaultPlan::none().at_commit(1, CommitFault::Conflict);
    let served = world.served_with(plan).await;
    served.get_memory(secret).await.unwrap();
    assert_eq!(reads(&world).await.len(), 1);
}
