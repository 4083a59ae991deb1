//! Tests of the statistics of the embedded stores.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use knowledge_server::metrics::Metrics;
use knowledge_storage_embedded::{Embedded, StoreOptions};
use knowledge_storage_fjall::FjallStore;
use knowledge_storage_sled::SledStore;

use crate::support::Observed;

const GROUPS: &str = "knowledge_store_group_commits_count";
const SYNCS: &str = "knowledge_store_sync_duration_seconds_count";

/// Returns options of a store whose syncs fail once the switch is on.
fn failing<S: Default>(fails: &Arc<AtomicBool>) -> StoreOptions<S> {
    let fails = Arc::clone(fails);
    StoreOptions::default()
        .cache_bytes(16 << 20)
        .sync_hook(move || match fails.load(Ordering::Relaxed) {
            true => Err(io::Error::other("the device is gone")),
            false => Ok(()),
        })
}

/// Starts a server over each engine, with the switch that makes its syncs fail.
async fn over_each(directory: &tempfile::TempDir) -> Vec<(Observed, Arc<AtomicBool>)> {
    let path = |name| directory.path().join(name);
    let switches = [Arc::default(), Arc::default()];
    let sled = SledStore::open(path("sled"), failing(&switches[0])).expect("open");
    let fjall = FjallStore::open(path("fjall"), failing(&switches[1])).expect("open");
    let stores: [Arc<dyn Embedded>; 2] = [Arc::new(sled), Arc::new(fjall)];
    let mut servers = Vec::new();
    for (store, fails) in stores.into_iter().zip(switches) {
        let metrics = Metrics::new();
        metrics.register_embedded(&store);
        servers.push((Observed::start_with(store, &metrics, None).await, fails));
    }
    servers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn store_commits_groups_and_syncs_are_counted() {
    let directory = tempfile::tempdir().expect("a directory");
    for (server, _) in over_each(&directory).await {
        assert_counted(server).await;
    }
}

async fn assert_counted(server: Observed) {
    let before = server.scrape().await;
    let answer = server.approve().await;
    assert_eq!(answer.status, 200);
    // The files are measured after the answer.
    let disk_bytes = "knowledge_store_disk_bytes";
    server
        .number_becomes(disk_bytes, &[], |bytes| bytes > 1_024.0)
        .await;
    let after = server.scrape().await;
    for name in [
        "knowledge_store_commits_total",
        "knowledge_store_group_commits_sum",
        "knowledge_store_sync_duration_seconds_sum",
        GROUPS,
        SYNCS,
    ] {
        assert!(after.value(name, &[]) > before.value(name, &[]), "{name}");
    }
    assert_eq!(after.value(GROUPS, &[]), after.value(SYNCS, &[]));
    assert!(
        after.value("knowledge_store_entries", &[]) > 100.0,
        "what was seeded"
    );
    for name in [disk_bytes, "knowledge_store_disk_free_bytes"] {
        assert!(after.value(name, &[]) > 1_024.0, "{name}");
    }
    assert_eq!(after.value("knowledge_store_open", &[]), 1.0);
    assert_eq!(after.value("knowledge_store_sync_failures_total", &[]), 0.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_sync_is_counted() {
    let directory = tempfile::tempdir().expect("a directory");
    for (server, fails) in over_each(&directory).await {
        assert_shown(server, &fails).await;
    }
}

async fn assert_shown(server: Observed, fails: &AtomicBool) {
    fails.store(true, Ordering::Relaxed);
    let answer = server.approve().await;
    assert!(answer.status.is_server_error(), "{answer:?}");
    let numbers = server.scrape().await;
    assert_eq!(numbers.value("knowledge_store_open", &[]), 0.0);
    assert_eq!(
        numbers.value("knowledge_store_sync_failures_total", &[]),
        1.0
    );
}
