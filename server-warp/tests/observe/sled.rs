//! What sled's store tells of itself.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use knowledge_server::metrics::Metrics;
use knowledge_storage_sled::{SledOptions, SledStore};

use crate::support::Observed;

const GROUPS: &str = "knowledge_store_group_commits_count";
const SYNCS: &str = "knowledge_store_sync_duration_seconds_count";

/// A server over sled, whose syncs fail once the switch is on.
async fn over_sled(directory: &tempfile::TempDir) -> (Observed, Arc<AtomicBool>) {
    let fails = Arc::new(AtomicBool::new(false));
    let is_failing = Arc::clone(&fails);
    let options = SledOptions::default()
        .cache_bytes(16 << 20)
        .sync_with(
            move |file: &File| match is_failing.load(Ordering::Relaxed) {
                true => Err(io::Error::other("the device is gone")),
                false => file.sync_data(),
            },
        );
    let store = SledStore::open(directory.path().join("data"), options).expect("open");
    let store = Arc::new(store);
    let metrics = Metrics::new();
    metrics.show_sled(&store);
    (Observed::start_with(store, &metrics, None).await, fails)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_groups_and_syncs_are_counted() {
    let directory = tempfile::tempdir().expect("a directory");
    let (server, _) = over_sled(&directory).await;
    let before = server.scrape().await;
    let answer = server
        .bulk("key", "approved")
        .send_to(&server.base_url)
        .await;
    assert_eq!(answer.status, 200);
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
    for name in [
        "knowledge_store_disk_bytes",
        "knowledge_store_disk_free_bytes",
    ] {
        assert!(after.value(name, &[]) > 1_024.0, "{name}");
    }
    assert_eq!(after.value("knowledge_store_open", &[]), 1.0);
    assert_eq!(after.value("knowledge_store_sync_failures_total", &[]), 0.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_sync_shows() {
    let directory = tempfile::tempdir().expect("a directory");
    let (server, fails) = over_sled(&directory).await;
    fails.store(true, Ordering::Relaxed);
    let answer = server
        .bulk("key", "approved")
        .send_to(&server.base_url)
        .await;
    assert!(answer.status.is_server_error(), "{answer:?}");
    let numbers = server.scrape().await;
    assert_eq!(numbers.value("knowledge_store_open", &[]), 0.0);
    assert_eq!(
        numbers.value("knowledge_store_sync_failures_total", &[]),
        1.0
    );
}
