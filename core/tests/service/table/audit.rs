//! Test of the audit entries that the table declares.

use std::collections::BTreeSet;

use knowledge_core::api::{OPERATIONS, Operation};
use knowledge_core::model::{AuditAction, AuditLogId};

use super::callers::Caller;
use super::requests::Call;
use crate::audit::entries;
use crate::world::World;

/// Operations that change something without an audit entry.
const UNAUDITED: [(Operation, &str); 2] = [
    (
        Operation::ReportSync,
        "the status of a connector is telemetry",
    ),
    (Operation::PostChatMessage, "the chat itself is the record"),
];

async fn ids(world: &World) -> BTreeSet<AuditLogId> {
    entries(world).await.iter().map(|entry| entry.id).collect()
}

#[tokio::test]
async fn operation_leaves_the_declared_audit_entries() {
    for spec in OPERATIONS {
        let operation = spec.operation;
        let world = World::new().await;
        let caller = Caller::admin(&world).await;
        let call = Call::new(&world, operation, &caller).await;
        let (known, before) = (ids(&world).await, world.contents().await);
        call.succeed(&world, &caller).await;
        let has_changed = world.contents().await != before;
        let mut new = entries(&world).await;
        new.retain(|entry| !known.contains(&entry.id));
        for entry in &new {
            let action = entry.action;
            assert!(
                spec.audit_actions.contains(&action),
                "{operation:?}: {action}"
            );
        }
        // Reads are audited only on request.
        let changes = spec.audit_actions.iter();
        let changes = changes.filter(|action| **action != AuditAction::MemoryRead);
        assert_eq!(new.is_empty(), changes.count() == 0, "{operation:?}");
        let is_unaudited = UNAUDITED.iter().any(|(known, _)| *known == operation);
        assert_eq!(
            has_changed,
            !new.is_empty() || is_unaudited,
            "{operation:?}"
        );
    }
}
