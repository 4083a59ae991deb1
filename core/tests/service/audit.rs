//! Tests of the audit log: each creation and each change has one entry.

use std::collections::BTreeMap;

use knowledge_core::access::{Action, TokenScope};
use knowledge_core::internals::keys;
use knowledge_core::model::{AuditLogId, AuditReads};
use knowledge_core::service::{AuditAction, AuditEntry, AuditOutcome, Caller, ResourceKind};

use crate::events::everything;
use crate::make::{ADMIN, MEMBER, actions, code, new_memory};
use crate::world::World;

/// Returns the first entry of each page.
pub(crate) async fn entries(world: &World) -> Vec<AuditEntry> {
    let range = keys::audits(world.org.id);
    let contents = world.contents().await;
    let mut entries = Vec::new();
    for key in contents.keys().filter(|key| range.contains(key)) {
        let id = AuditLogId(keys::last_id(key).unwrap());
        entries.push(world.get_audit_entry(id).await.unwrap());
    }
    entries
}

/// Returns the one entry of an action.
pub(crate) async fn entry_of(world: &World, action: AuditAction) -> AuditEntry {
    let mut found = entries(world).await;
    found.retain(|entry| entry.action == action);
    assert_eq!(found.len(), 1, "{action}");
    found.remove(0)
}

#[tokio::test]
async fn audit_log_has_entry_for_each_creation_and_change() {
    let world = World::with(|options| options.audit_reads = AuditReads::Confidential).await;
    everything(&world).await;
    let secret = world.confidential().await;
    world.get_memory(secret).await.unwrap();
    let mut counts: BTreeMap<AuditAction, usize> = BTreeMap::new();
    for entry in entries(&world).await {
        *counts.entry(entry.action).or_default() += 1;
        assert_eq!(entry.outcome, AuditOutcome::Ok);
        assert!(entry.before.is_some() || entry.after.is_some());
    }
    for action in AuditAction::ALL {
        assert!(counts.contains_key(action), "{action}");
    }
}

#[tokio::test]
async fn audit_entry_names_actor_and_credential() {
    let world = World::new().await;
    let member = world.member(MEMBER).await;
    let issued = world.token(member, TokenScope::default()).await;
    let batch = [new_memory("Note")];
    let caller = Caller::from(issued.secret);
    let ingested = world
        .by(&caller)
        .ingest_memories(world.source, &batch)
        .await;
    let entries = entries(&world).await;
    let of = |action| entries.iter().find(|entry| entry.action == action).unwrap();
    let ingest = of(AuditAction::MemoryIngest);
    assert_eq!(
        (ingest.actor_id, ingest.credential_id),
        (Some(member), Some(issued.record.id))
    );
    assert_eq!(ingest.resource.kind, ResourceKind::Memory);
    assert_eq!(ingest.resource.id, ingested.unwrap()[0].id.unwrap().0);
    assert_eq!((ingest.at, &ingest.before), (world.time.now(), &None));
    assert_eq!(ingest.after.as_ref().unwrap()["sensitivity"], "internal");
    let by_operator = of(AuditAction::OrganizationCreate);
    assert_eq!(
        (by_operator.actor_id, by_operator.credential_id),
        (None, None)
    );
    // Each operation has one index key, from its actor to its pages.
    let range = keys::audits_of(world.org.id, member);
    let contents = world.contents().await;
    let index: Vec<_> = contents.keys().filter(|key| range.contains(key)).collect();
    assert_eq!(index.len(), 1);
    assert_eq!(keys::last_id(index[0]), Some(ingest.id.0));
}

#[tokio::test]
async fn audit_log_requires_its_action() {
    let world = World::new().await;
    let id = entries(&world).await[0].id;
    let auditor = world.caller_who_may(actions(&[Action::AuditRead])).await;
    for (caller, expected) in [
        (auditor, true),
        (world.caller(ADMIN).await, true),
        (world.caller(MEMBER).await, false),
    ] {
        let entry = world.by(&caller).get_audit_entry(id).await;
        assert_eq!(entry.is_ok(), expected);
    }
}

#[tokio::test]
async fn audit_entry_with_adjacent_identifier_is_not_found() {
    let world = World::new().await;
    for entry in entries(&world).await {
        for beside in [entry.id.plus(1), entry.id.plus(u128::MAX)] {
            assert_eq!(code(world.get_audit_entry(beside).await), "not_found");
        }
    }
    for id in [uuid::Uuid::nil(), uuid::Uuid::max()] {
        let found = world.get_audit_entry(AuditLogId(id)).await;
        assert_eq!(code(found), "not_found");
    }
}
