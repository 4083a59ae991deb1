//! Test that no answer has the content of a restricted memory without an audit entry.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use http::Response;
use knowledge_core::api::{OPERATIONS, Operation};
use knowledge_core::model::{
    AuditReads, MemoryChange, MemoryFilter, MemoryId, MemoryUpdate, ReviewStatus, SensitivityLabel,
};
use knowledge_core::service::{AuditFilter, PageRequest, ResourceKind};

use super::callers::Caller;
use super::requests::Call;
use crate::make::page_at;
use crate::world::World;

/// Bodies that are sent besides the valid one: most operations refuse them, and those that change
/// something then change nothing.
const IDLE_BODIES: [&str; 3] = ["", "{}", r#"{"reviewStatus":"approved"}"#];

/// Operations that must be found, so that the test cannot pass by finding nothing.
const FOUND: [Operation; 5] = [
    Operation::GetMemory,
    Operation::ListMemories,
    Operation::CheckMemoryAccess,
    Operation::UpdateMemory,
    Operation::SearchRecalls,
];

/// Returns the text that only the content of a memory has.
fn marker(memory: MemoryId) -> String {
    format!("marker of {memory}")
}

/// Restricts every memory of the workspace and gives it a text of its own.
async fn restrict(world: &World) -> Vec<MemoryId> {
    let (filter, page) = (MemoryFilter::default(), PageRequest::default());
    let listed = world.list_memories(&filter, &page).await.unwrap().data;
    let ids: Vec<MemoryId> = listed.iter().map(|memory| memory.id).collect();
    for id in &ids {
        let change = MemoryChange::builder()
            .sensitivity_label(SensitivityLabel::Restricted)
            .review_status(ReviewStatus::Approved)
            .build();
        let update = MemoryUpdate::builder()
            .title(marker(*id))
            .content(marker(*id))
            .change(change)
            .build();
        world.update_memory(*id, &update, None).await.unwrap();
    }
    ids
}

/// Returns the number of audit entries of each memory.
async fn audited(world: &World) -> BTreeMap<MemoryId, usize> {
    let filter = AuditFilter::builder()
        .resource_kind(ResourceKind::Memory)
        .build();
    let (mut counts, mut cursor) = (BTreeMap::new(), None);
    loop {
        let page = page_at(Some(200), cursor);
        let found = world.list_audit_log(&filter, &page).await.unwrap();
        for entry in found.data {
            *counts.entry(MemoryId(entry.resource.id)).or_default() += 1;
        }
        cursor = found.next_cursor;
        if cursor.is_none() {
            return counts;
        }
    }
}

/// Returns the memories whose text the response has.
fn carried(response: &Response<Bytes>, memories: &[MemoryId]) -> Vec<MemoryId> {
    let text = format!("{:?}", (response.headers(), response.body()));
    let carried = memories.iter().filter(|id| text.contains(&marker(**id)));
    carried.copied().collect()
}

#[tokio::test]
async fn restricted_content_leaves_only_with_its_audit_entry() {
    let mut found = BTreeSet::new();
    for spec in OPERATIONS {
        let operation = spec.operation;
        let world = World::with(|options| options.audit_reads = AuditReads::Confidential).await;
        let caller = Caller::admin(&world).await;
        let mut call = Call::new(&world, operation, &caller).await;
        let memories = restrict(&world).await;
        let valid = call.body();
        let idle = IDLE_BODIES.map(Bytes::from);
        // The last one repeats what the one before it did.
        for body in idle.into_iter().chain([valid.clone(), valid]) {
            call = call.with_body(body.clone());
            let before = audited(&world).await;
            let response = call.send(&world, &caller).await;
            let after = audited(&world).await;
            for memory in carried(&response, &memories) {
                assert!(
                    after.get(&memory) > before.get(&memory),
                    "{operation:?} with {body:?} shows {memory} without an audit entry"
                );
                found.insert(format!("{operation:?}"));
            }
        }
    }
    for operation in FOUND {
        assert!(found.contains(&format!("{operation:?}")), "{operation:?}");
    }
}
