//! Tests of the operations that seal a secret, while another process replaces the sealing key.

use std::sync::Arc;

use http::StatusCode;
use knowledge_core::api::{OPERATIONS, Operation};
use knowledge_core::env::Env;
use knowledge_core::internals::keys;
use knowledge_core::service::{Rekey, SealingKey};
use knowledge_core::store::{KeyEntry, KeyRange, Store, StoreExt};

use super::callers::Caller;
use super::requests::Call;
use crate::make::SEALING_KEY;
use crate::world::World;

/// Operations that store a secret. An erasure stores a key of its organisation, if there is none.
const SEALING: [Operation; 7] = [
    Operation::CreateCitationSubscription,
    Operation::RotateCitationSubscriptionSecret,
    Operation::CreateWebhook,
    Operation::RotateWebhookSecret,
    Operation::CreateInboundWebhook,
    Operation::RotateInboundWebhookSecret,
    Operation::CreateErasure,
];

async fn begin(store: Arc<dyn Store>) -> Rekey {
    let (old, new) = (SealingKey::new(SEALING_KEY), SealingKey::new([2; 32]));
    let begun = Rekey::begin(store, Env::system(), &old, &new).await;
    begun.unwrap()
}

/// Returns all entries but the record about the store.
async fn entries(world: &World) -> Vec<KeyEntry> {
    let found = world.faults.inner().scan_all(&KeyRange::all()).await;
    let mut found = found.unwrap();
    found.retain(|found| found.key != keys::meta());
    found
}

/// A replacement that begins between the reads of an operation and its commit: the operations that
/// seal are refused and write nothing, the others succeed.
#[tokio::test]
async fn operation_that_seals_is_refused_once_the_key_changes() {
    let mut refused = Vec::new();
    for spec in OPERATIONS {
        let world = World::new().await;
        let caller = Caller::admin(&world).await;
        let call = Call::new(&world, spec.operation, &caller).await;
        let before = entries(&world).await;
        let store = Arc::clone(world.faults.inner());
        world.probe.before_commit(async move {
            begin(store).await;
        });
        let commits = world.faults.counts().commits;
        let status = call.send(&world, &caller).await.status();
        if status == StatusCode::SERVICE_UNAVAILABLE {
            assert_eq!(entries(&world).await, before, "{:?}", spec.operation);
            assert_eq!(world.faults.counts().commits, commits + 1);
            refused.push(spec.operation);
        } else {
            assert_eq!(status.as_u16(), spec.success, "{:?}", spec.operation);
        }
    }
    let expected = SEALING.iter().filter(|seals| !refused.contains(seals));
    assert_eq!(expected.collect::<Vec<_>>(), [&Operation::ListMemories; 0]);
    assert_eq!(refused.len(), SEALING.len(), "{refused:?}");
}

/// A service that runs on with the earlier key, which `ready` reports.
#[tokio::test]
async fn nothing_is_sealed_with_a_replaced_key() {
    for operation in SEALING {
        let world = World::new().await;
        let caller = Caller::admin(&world).await;
        let call = Call::new(&world, operation, &caller).await;
        let store = Arc::clone(world.faults.inner());
        begin(store).await.finish().await.unwrap();
        assert!(world.service.ready().await.is_err());
        let before = entries(&world).await;
        let status = call.send(&world, &caller).await.status();
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{operation:?}");
        assert_eq!(entries(&world).await, before, "{operation:?}");
    }
}
