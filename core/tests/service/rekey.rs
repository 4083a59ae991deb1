//! Tests of the replacement of the sealing key.

use std::sync::Arc;

use knowledge_core::env::Env;
use knowledge_core::internals::keys;
use knowledge_core::model::EventType;
use knowledge_core::service::{
    KnowledgeService, OpenError, Options, Rekey, RekeyReport, SealingKey, SealingKeys,
    Verification, Verify,
};
use knowledge_core::store::{Commit, CommitBuilder, Direction, KeyRange, MemoryStore, Store};
use knowledge_core::store::{StoreErrorKind, StoreExt};
use knowledge_store::faults::{CommitFault, FaultPlan, FaultStore};
use knowledge_testing::fixture;

use crate::make::SEALING_KEY;
use crate::world::World;

/// Secrets of the complete store: two webhooks, a subscription, two inbound webhooks, and the key
/// of the hashes of erased source keys.
const SECRETS: u64 = 6;

fn key(byte: u8) -> SealingKey {
    SealingKey::new([byte; 32])
}

/// Creates a store with an entry of each family, sealed with the first key.
async fn complete() -> Arc<dyn Store> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let options = Options::new(key(1));
    let service = KnowledgeService::open(Arc::clone(&store), Env::system(), options);
    fixture::complete(&service.await.unwrap()).await.unwrap();
    store
}

async fn begin(store: &Arc<dyn Store>, old: u8, new: u8) -> Result<Rekey, OpenError> {
    Rekey::begin(Arc::clone(store), Env::system(), &key(old), &key(new)).await
}

async fn rekey(store: &Arc<dyn Store>, old: u8, new: u8) -> Result<RekeyReport, OpenError> {
    begin(store, old, new).await?.finish().await
}

async fn open(store: &Arc<dyn Store>, with: u8) -> Result<KnowledgeService, OpenError> {
    KnowledgeService::open(Arc::clone(store), Env::system(), Options::new(key(with))).await
}

async fn verified(store: &Arc<dyn Store>, with: &[u8]) -> Verification {
    let with: Vec<_> = with.iter().copied().map(key).collect();
    let mut verify = Verify::begin(Arc::clone(store), &with).await.unwrap();
    while verify.read().await.unwrap() {}
    verify.finish()
}

/// Asserts that the store is intact and that these keys open its secrets.
async fn assert_sealed(store: &Arc<dyn Store>, with: &[u8], secrets: u64) {
    let found = verified(store, with).await;
    assert_eq!(found.differences, []);
    assert_eq!(found.secrets, Some(secrets));
}

/// Returns the fault store and the same as a store.
fn faulty(inner: Arc<dyn Store>, plan: FaultPlan) -> Arc<dyn Store> {
    Arc::new(FaultStore::new(inner, plan))
}

async fn write(store: &Arc<dyn Store>, commit: CommitBuilder) {
    store.commit(commit.build().unwrap()).await.unwrap();
}

#[tokio::test]
async fn every_secret_is_resealed_with_the_new_key() {
    let store = complete().await;
    assert_sealed(&store, &[1], SECRETS).await;
    let report = rekey(&store, 1, 2).await.unwrap();
    assert_eq!((report.resealed, report.resealed_before), (SECRETS, 0));
    assert_eq!(report.damaged, 0);
    assert_sealed(&store, &[2], SECRETS).await;
    open(&store, 2).await.unwrap();
    let refused = open(&store, 1).await.unwrap_err();
    assert!(matches!(refused, OpenError::OtherSealingKey { .. }));
}

/// More records than one commit reseals, one of them with a previous secret.
#[tokio::test]
async fn every_record_is_resealed_with_its_previous_secret() {
    let world = World::with(|options| options.limits.webhooks_per_workspace_max = 250).await;
    let mut last = None;
    for _ in 0..250 {
        last = Some(world.webhook(EventType::ChunkCreated).await.id);
    }
    let last = last.unwrap();
    world.rotate_webhook(last).await.unwrap();
    let store = Arc::clone(world.faults.inner());
    let report = rekey(&store, SEALING_KEY[0], 2).await.unwrap();
    assert_eq!((report.resealed, report.damaged), (251, 0));
    assert_sealed(&store, &[2], 251).await;
}

#[tokio::test]
async fn interrupted_replacement_is_completed_by_the_next() {
    for fault in [CommitFault::Close, CommitFault::LostApplied] {
        let mut number = 1;
        loop {
            let inner = complete().await;
            let plan = FaultPlan::none().at_commit(number, fault);
            let crashed = rekey(&faulty(Arc::clone(&inner), plan), 1, 2).await;
            if crashed.is_ok() {
                break;
            }
            // Nothing is lost in between.
            let found = SealingKeys::of(&*inner).await.unwrap().unwrap();
            match found.next {
                Some(next) => {
                    assert_eq!(
                        (found.present, next),
                        (key(1).fingerprint(), key(2).fingerprint())
                    );
                    assert_sealed(&inner, &[1, 2], SECRETS).await;
                    assert_sealed(&inner, &[2, 1], SECRETS).await;
                    for only in [1, 2] {
                        assert!(verified(&inner, &[only]).await.differences_total > 0);
                        let refused = open(&inner, only).await.unwrap_err();
                        assert!(matches!(refused, OpenError::Rekeying { .. }), "{refused:?}");
                    }
                    for (old, new) in [(1, 3), (3, 2), (2, 1)] {
                        let refused = rekey(&inner, old, new).await.unwrap_err();
                        assert!(matches!(refused, OpenError::Rekeying { .. }), "{refused:?}");
                    }
                }
                None if found.present == key(1).fingerprint() => {
                    assert_sealed(&inner, &[1], SECRETS).await;
                }
                None => assert_sealed(&inner, &[2], SECRETS).await,
            }
            let report = rekey(&inner, 1, 2).await.unwrap();
            assert!(report.resealed + report.resealed_before <= SECRETS);
            assert_eq!(report.damaged, 0);
            assert_sealed(&inner, &[2], SECRETS).await;
            open(&inner, 2).await.unwrap();
            number += 1;
        }
        // The first commit, one per kind of record, and the last.
        assert_eq!(number, 7, "{fault:?}");
    }
}

#[tokio::test]
async fn replacement_needs_the_present_key() {
    let store = complete().await;
    let before = store.scan_all(&KeyRange::all()).await.unwrap();
    let refused = begin(&store, 3, 2).await.unwrap_err();
    let OpenError::OtherSealingKey { given, stored } = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(
        (given, stored),
        (key(3).fingerprint(), key(1).fingerprint())
    );
    assert_eq!(store.scan_all(&KeyRange::all()).await.unwrap(), before);
}

#[tokio::test]
async fn replacement_by_the_same_key_changes_nothing() {
    let store = complete().await;
    let before = store.scan_all(&KeyRange::all()).await.unwrap();
    assert_eq!(rekey(&store, 1, 1).await.unwrap(), RekeyReport::default());
    assert_eq!(store.scan_all(&KeyRange::all()).await.unwrap(), before);
    rekey(&store, 1, 2).await.unwrap();
    let before = store.scan_all(&KeyRange::all()).await.unwrap();
    assert_eq!(rekey(&store, 1, 2).await.unwrap(), RekeyReport::default());
    assert_eq!(store.scan_all(&KeyRange::all()).await.unwrap(), before);
}

#[tokio::test]
async fn damaged_secrets_stay_and_are_reported() {
    let store = complete().await;
    let webhook = keys::all_webhooks();
    let found = store.scan(&webhook, 1, Direction::Forward).await.unwrap();
    let mut value: serde_json::Value = serde_json::from_slice(&found[0].entry.value).unwrap();
    value["secret"] = "AAAA".into();
    let damaged = (found[0].key.clone(), value.to_string());
    let change = Commit::builder().put(damaged.0.clone(), damaged.1.clone());
    write(&store, change).await;
    let report = rekey(&store, 1, 2).await.unwrap();
    assert_eq!((report.resealed, report.damaged), (SECRETS - 1, 1));
    let kept = store.get(&[damaged.0]).await.unwrap();
    assert_eq!(kept[0].as_ref().unwrap().value, damaged.1);
    assert_eq!(verified(&store, &[2]).await.differences_total, 1);
}

#[tokio::test]
async fn failed_step_is_repeated_by_the_next() {
    let inner = complete().await;
    let plan = FaultPlan::none().at_commit(2, CommitFault::Unavailable);
    let store = faulty(inner, plan);
    let mut rekey = begin(&store, 1, 2).await.unwrap();
    let OpenError::Store(error) = rekey.step().await.unwrap_err() else {
        panic!("an error of the store")
    };
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    assert_eq!(rekey.finish().await.unwrap().resealed, SECRETS);
}
