//! Statistics of an embedded store.

use std::sync::{Arc, Weak};

use knowledge_storage_embedded::{CheckState, Embedded};

use super::catalogue::{
    GROUP_COMMITS, STORE_CHECKING, STORE_COMMITS, STORE_CORRUPT_READS, STORE_DISK, STORE_DISK_FREE,
    STORE_ENTRIES, STORE_OPEN, SYNC_DURATION, SYNC_FAILURES,
};
use super::scrape::{Samples, ScrapeCollector};

const MICROS_PER_SECOND: f64 = 1e6;

/// Returns a collector of this store's metrics for as long as others keep it open.
pub(super) fn collector(store: &Arc<dyn Embedded>) -> ScrapeCollector {
    let store: Weak<dyn Embedded> = Arc::downgrade(store);
    let descriptions = [
        STORE_COMMITS,
        GROUP_COMMITS,
        SYNC_DURATION,
        SYNC_FAILURES,
        STORE_OPEN,
        STORE_ENTRIES,
        STORE_CORRUPT_READS,
        STORE_CHECKING,
        STORE_DISK,
        STORE_DISK_FREE,
    ];
    ScrapeCollector::new(&descriptions, move |samples| {
        if let Some(store) = store.upgrade() {
            read(&*store, samples);
        }
    })
}

#[expect(
    clippy::cast_precision_loss,
    reason = "the format has only floating-point numbers"
)]
fn read(store: &dyn Embedded, samples: &mut Samples) {
    let stats = store.stats();
    samples.integer(&STORE_COMMITS, stats.commits);
    samples.histogram(
        &GROUP_COMMITS,
        stats
            .group_commits
            .buckets()
            .map(|(bound, count)| (bound as f64, count)),
        stats.group_commits.count(),
        stats.group_commits.sum() as f64,
    );
    samples.histogram(
        &SYNC_DURATION,
        stats
            .sync_micros
            .buckets()
            .map(|(bound, count)| (bound as f64 / MICROS_PER_SECOND, count)),
        stats.sync_micros.count(),
        stats.sync_time_total.as_secs_f64(),
    );
    samples.integer(&SYNC_FAILURES, stats.sync_failures);
    samples.integer(&STORE_OPEN, u64::from(store.close_reason().is_none()));
    samples.integer(&STORE_ENTRIES, stats.entries);
    samples.integer(&STORE_CORRUPT_READS, stats.corrupt_reads);
    let is_checking = stats.check == CheckState::Running;
    samples.integer(&STORE_CHECKING, u64::from(is_checking));
    samples.integer(&STORE_DISK, stats.disk_bytes);
    if let Some(bytes) = stats.disk_free_bytes {
        samples.integer(&STORE_DISK_FREE, bytes);
    }
}
