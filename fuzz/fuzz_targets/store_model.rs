//! Commits, reads and scans of a store, compared with a plain map.
//!
//! The first line names the store: `sled`, `fjall`, or memory. The former two are in a new directory
//! for each input, and are reopened.

#![no_main]

use std::sync::Arc;

use futures::executor::block_on;
use knowledge_core::store::{MemoryStore, Store};
use knowledge_storage_embedded::{Engine, EngineStore, StoreOptions};
use knowledge_storage_fjall::Fjall;
use knowledge_storage_sled::Sled;
use knowledge_testing::fuzzing::check_commands;
use libfuzzer_sys::fuzz_target;

/// Size of the cache of an engine, in bytes.
const CACHE_BYTES: u64 = 1024 * 1024;

fuzz_target!(|script: &[u8]| {
    let engine = script.split(|byte| *byte == b'\n').next();
    match engine {
        Some(b"sled") => check_engine::<Sled>(script),
        Some(b"fjall") => check_engine::<Fjall>(script),
        _ => block_on(check_commands(script, |store| {
            store.unwrap_or_else(|| Arc::new(MemoryStore::new()))
        })),
    }
});

fn check_engine<E: Engine>(script: &[u8]) {
    let directory = tempfile::tempdir().expect("a directory can be created");
    let open = |store: Option<Arc<dyn Store>>| -> Arc<dyn Store> {
        drop(store);
        let options = StoreOptions::default().cache_bytes(CACHE_BYTES);
        let opened = EngineStore::<E>::open(directory.path(), options);
        Arc::new(opened.expect("the store can be opened"))
    };
    block_on(check_commands(script, open));
}
