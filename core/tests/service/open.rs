//! Tests of opening a store: schema and sealing key.

use std::sync::Arc;

use knowledge_core::env::Env;
use knowledge_core::internals::keys;
use knowledge_core::model::Timestamp;
use knowledge_core::service::{KnowledgeService, OpenError, Options, SCHEMA, SealingKey};
use knowledge_core::store::{Commit, MemoryStore, Store, StoreErrorKind, StoreExt};
use knowledge_store::faults::{CommitFault, FaultPlan, FaultStore};

async fn open(store: &Arc<dyn Store>, key: u8) -> Result<KnowledgeService, OpenError> {
    let env = Env::new(|| Timestamp::UNIX_EPOCH, |buffer: &mut [u8]| buffer.fill(7));
    let options = Options::new(SealingKey::new([key; 32]));
    KnowledgeService::open(Arc::clone(store), env, options).await
}

fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}

async fn put_meta(store: &Arc<dyn Store>, value: &str) {
    let commit = Commit::builder().put(keys::meta(), value.to_owned());
    store.commit(commit.build().unwrap()).await.unwrap();
}

#[tokio::test]
async fn store_reopens_with_its_key_and_is_not_written() {
    let store = memory();
    open(&store, 1).await.unwrap();
    let meta = store.get(&[keys::meta()]).await.unwrap();
    let service = open(&store, 1).await.unwrap();
    assert_eq!(store.get(&[keys::meta()]).await.unwrap(), meta);
    service.ready().await.unwrap();
}

#[tokio::test]
async fn store_does_not_open_with_another_key() {
    let store = memory();
    open(&store, 1).await.unwrap();
    let refused = open(&store, 2).await.unwrap_err();
    let OpenError::OtherSealingKey { given, stored } = &refused else {
        panic!("{refused:?}")
    };
    assert_eq!(*given, SealingKey::new([2; 32]).fingerprint());
    assert_eq!(*stored, SealingKey::new([1; 32]).fingerprint());
    assert!(refused.to_string().contains("use that key"));
    open(&store, 1).await.unwrap();
}

#[tokio::test]
async fn store_of_earlier_schema_does_not_open() {
    let (store, found) = (memory(), SCHEMA - 1);
    let meta = format!(r#"{{"schema":{found},"sealing_keys":[],"less":{{}}}}"#);
    put_meta(&store, &meta).await;
    let refused = open(&store, 1).await.unwrap_err();
    let expected = format!(
        "the store has schema {found}, but this program supports schemas from {SCHEMA} on; \
         use the version that wrote it"
    );
    assert_eq!(refused.to_string(), expected);
    let kept: serde_json::Value = store.get_as(&keys::meta()).await.unwrap().unwrap().value;
    assert_eq!(kept["schema"], found);
}

#[tokio::test]
async fn store_of_later_schema_does_not_open() {
    for meta in [
        format!(r#"{{"schema":{},"sealing_key":"other"}}"#, SCHEMA + 1),
        format!(
            r#"{{"schema":{},"sealing_keys":[],"more":{{}}}}"#,
            SCHEMA + 1
        ),
    ] {
        let store = memory();
        put_meta(&store, &meta).await;
        let refused = open(&store, 1).await.unwrap_err();
        let OpenError::LaterSchema { found } = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(found, SCHEMA + 1);
        let kept: serde_json::Value = store.get_as(&keys::meta()).await.unwrap().unwrap().value;
        assert_eq!(kept["schema"], SCHEMA + 1);
    }
}

#[tokio::test]
async fn store_with_foreign_metadata_is_corrupt() {
    let store = memory();
    put_meta(&store, "not JSON").await;
    let refused = open(&store, 1).await.unwrap_err();
    let OpenError::Store(error) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(error.kind(), StoreErrorKind::Corrupt);
}

#[tokio::test]
async fn failing_store_does_not_open() {
    let plan = FaultPlan::none().at_commit(1, CommitFault::Unavailable);
    let store: Arc<dyn Store> = Arc::new(FaultStore::new(memory(), plan));
    let refused = open(&store, 1).await.unwrap_err();
    assert!(matches!(refused, OpenError::Store(_)), "{refused:?}");
    open(&store, 1).await.unwrap();
}

/// Two processes open an empty store at once, with different keys, and one of them is rejected.
#[tokio::test]
async fn concurrent_first_opens_agree_on_one_key() {
    let store = memory();
    let (first, second) = futures::join!(open(&store, 1), open(&store, 2));
    assert!(first.is_ok() != second.is_ok());
}

#[tokio::test]
async fn service_is_not_ready_once_its_store_fails() {
    let faults = Arc::new(FaultStore::new(memory(), FaultPlan::none()));
    let store: Arc<dyn Store> = Arc::clone(&faults) as _;
    let service = open(&store, 1).await.unwrap();
    faults.fail_reads(true);
    assert_eq!(service.ready().await.unwrap_err().code(), "unavailable");
    faults.disable_faults();
    service.ready().await.unwrap();
}

#[tokio::test]
async fn service_is_not_ready_once_its_store_requires_another() {
    let store = memory();
    let service = open(&store, 1).await.unwrap();
    let meta = store.get(&[keys::meta()]).await.unwrap().pop().flatten();
    let meta = String::from_utf8(meta.unwrap().value.to_vec()).unwrap();
    let own = SealingKey::new([1; 32]).fingerprint();
    let other = SealingKey::new([2; 32]).fingerprint();
    let schema = format!("\"schema\":{SCHEMA}");
    for changed in [
        meta.replace(&own, &other),
        meta.replace(&own, &format!("{own}>{other}")),
        meta.replace(&schema, &format!("\"schema\":{}", SCHEMA + 1)),
    ] {
        assert_ne!(changed, meta);
        put_meta(&store, &changed).await;
        assert_eq!(service.ready().await.unwrap_err().code(), "unavailable");
    }
    put_meta(&store, &meta).await;
    service.ready().await.unwrap();
}
