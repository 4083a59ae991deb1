//! Tests of what bulk updates store: an item that is refused costs less than the request.

use knowledge_core::model::{MemoryChange, MemoryId, ReviewStatus, SensitivityLabel};
use knowledge_core::service::{AuditOutcome, Caller};
use knowledge_core::store::Mutation;
use serde_json::json;
use uuid::Uuid;

use crate::make::{MEMBER, sensitivity};
use crate::world::World;

/// Maximum number of bytes that a bulk update stores apart from its items: the idempotency record
/// and its expiry, and the metadata of an audit page.
const FIXED_BYTES: usize = 1_600;

/// Returns random identifiers, which do not compress.
fn unknown(count: u128) -> Vec<MemoryId> {
    let id = |number: u128| number.wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
    let ids = (1..=count).map(|number| MemoryId(Uuid::from_u128(id(number))));
    ids.collect()
}

/// Returns the size of the body of a request.
fn body_bytes(ids: &[MemoryId]) -> usize {
    let body = json!({ "memoryIds": ids, "sensitivityLabel": "confidential" });
    body.to_string().len()
}

/// Makes a bulk update. Returns the bytes that it adds to the store, with its failed items.
async fn stored_bytes(world: &World, caller: &Caller, ids: &[MemoryId]) -> (usize, u32) {
    let commits = world.faults.history().len();
    let change = sensitivity(SensitivityLabel::Confidential);
    let result = world.bulk(caller, ids, change);
    let result = result.await.unwrap();
    let history = world.faults.history();
    let written = history[commits..].iter();
    let written = written.flat_map(|(_, commit)| commit.mutations());
    let bytes = written.map(|mutation| match mutation {
        Mutation::Put { key, value } => key.as_bytes().len() + value.len(),
        Mutation::Delete { .. } | Mutation::Add { .. } => 0,
    });
    for item in &result.results {
        let entry = world.get_audit_entry(item.audit_log_id).await.unwrap();
        assert_eq!(entry.resource.id, item.memory_id.0);
        assert_eq!(entry.outcome == AuditOutcome::Ok, item.ok);
    }
    (bytes.sum(), result.summary.failed)
}

#[tokio::test]
async fn unknown_memories_cost_less_than_their_request() {
    let world = World::new().await;
    let ids = unknown(1_000);
    let (bytes, failed) = stored_bytes(&world, &world.owner, &ids).await;
    assert_eq!(failed, 1_000);
    assert!(bytes < body_bytes(&ids), "{bytes}");
    for count in [1, 2, 10, 100] {
        let (bytes, _) = stored_bytes(&world, &world.owner, &ids[..count]).await;
        let items = body_bytes(&ids[..count]) - body_bytes(&[]);
        assert!(bytes < FIXED_BYTES + items, "{count}: {bytes}");
    }
}

#[tokio::test]
async fn unknown_among_known_memories_cost_less_than_their_request() {
    let world = World::new().await;
    let known = world.memories(500).await;
    let change = sensitivity(SensitivityLabel::Confidential);
    world.change(&known, change).await.unwrap();
    // The known ones have the label already, so that only their entries are written.
    let unknown = unknown(500);
    let mixed = known.iter().zip(&unknown).flat_map(|(a, b)| [*a, *b]);
    let mixed: Vec<_> = mixed.collect();
    let (bytes, failed) = stored_bytes(&world, &world.owner, &mixed).await;
    assert_eq!(failed, 500);
    assert!(bytes < body_bytes(&mixed), "{bytes}");
}

#[tokio::test]
async fn hidden_memories_cost_less_than_their_request() {
    let world = World::new().await;
    let hidden = world.memories(150).await;
    for (number, id) in hidden.iter().enumerate() {
        let audience = format!("user:someone-with-a-long-name-{number}");
        let change = MemoryChange::builder()
            .audience_tag(audience.parse().unwrap())
            .review_status(ReviewStatus::Approved)
            .build();
        world.change(&[*id], change).await.unwrap();
    }
    let member = world.caller(MEMBER).await;
    let (bytes, failed) = stored_bytes(&world, &member, &hidden).await;
    assert_eq!(failed, 150);
    assert!(bytes < body_bytes(&hidden), "{bytes}");
}
