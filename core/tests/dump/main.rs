//! Tests of dumps over the in-memory store.
//!
//! The same data yields the same bytes, interrupted dumps resume, and altered ones are rejected.

mod credentials;
mod damage;
mod interrupted;
mod same_bytes;

use std::sync::Arc;

use bytes::Bytes;
use knowledge_core::dump::{
    CredentialPolicy, Decoder, Export, Restore, RestoreError, RestoreReport, Summary,
};
use knowledge_core::store::{Commit, Key, MemoryStore, Store};

fn empty() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}

/// Creates a store with these entries.
async fn store_of(entries: impl IntoIterator<Item = (Key, Bytes)>) -> Arc<dyn Store> {
    let store = empty();
    let entries: Vec<_> = entries.into_iter().collect();
    for part in entries.chunks(100) {
        let puts = part.iter().cloned();
        let commit = puts.fold(Commit::builder(), |commit, (key, value)| {
            commit.put(key, value)
        });
        store.commit(commit.build().unwrap()).await.unwrap();
    }
    store
}

/// Creates a store of `count` entries and the record that each service writes first.
async fn numbered(count: u32) -> Arc<dyn Store> {
    let entry = |number| {
        let key = Key::new(format!("memory/{number:08}")).unwrap();
        (key, Bytes::from(format!("{{\"number\":{number}}}")))
    };
    let meta = Bytes::from_static(b"{\"schema\":1,\"sealing_key\":\"0123456789abcdef\"}");
    let meta = (Key::new("meta").unwrap(), meta);
    store_of((0..count).map(entry).chain([meta])).await
}

async fn dump(store: &Arc<dyn Store>) -> Vec<u8> {
    let mut lines = Vec::new();
    let mut export = Export::begin(Arc::clone(store)).await.unwrap();
    while export.read(&mut lines).await.unwrap() {}
    lines
}

fn lines(dump: &[u8]) -> Vec<&[u8]> {
    dump.split_inclusive(|byte| *byte == b'\n').collect()
}

/// Reads a dump to its end.
fn read(dump: &[u8]) -> Result<Summary, knowledge_core::dump::DumpError> {
    let mut decoder = Decoder::new();
    for line in lines(dump) {
        decoder.read(line)?;
    }
    decoder.finish()
}

/// Restores a dump with its credentials.
async fn restore(store: &Arc<dyn Store>, dump: &[u8]) -> Result<Summary, RestoreError> {
    let report = restore_by(store, dump, CredentialPolicy::Keep).await?;
    assert_eq!(report.dump, report.store);
    Ok(report.dump)
}

async fn restore_by(
    store: &Arc<dyn Store>,
    dump: &[u8],
    policy: CredentialPolicy,
) -> Result<RestoreReport, RestoreError> {
    let expected = read(dump).ok();
    let mut restore = Restore::begin(Arc::clone(store), expected, policy).await?;
    for line in lines(dump) {
        restore.take(line).await?;
    }
    restore.finish().await
}
