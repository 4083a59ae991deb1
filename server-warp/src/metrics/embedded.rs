//! The statistics of an embedded store.

use std::sync::{Arc, Weak};

use knowledge_storage_embedded::{CheckState, Embedded};

use super::catalogue::{
    GROUP_COMMITS, STORE_CHECKING, STORE_COMMITS, STORE_CORRUPT_READS, STORE_DISK, STORE_DISK_FREE,
    STORE_ENTRIES, STORE_OPEN, SYNC_DURATION, SYNC_FAILURES,
};
use super::scraped::{Readings, Scraped};

const MICROS_PER_SECOND: f64 = 1e6;

/// The metrics of this store, for as long as others keep it open.
pub(super) fn scraped(store: &Arc<dyn Embedded>) -> Scraped {
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
    Scraped::new(&descriptions, move |readings| {
        if let Some(store) = store.upgrade() {
            read(&*store, readings);
        }
    })
}

#[expect(
    clippy::cast_precision_loss,
    reason = "the format has floating-point numbers alone"
)]
fn read(store: &dyn Embedded, readings: &mut Readings) {
    let stats = store.stats();
    readings.number(&STORE_COMMITS, stats.commits);
    readings.histogram(
        &GROUP_COMMITS,
        stats
            .group_commits
            .buckets()
            .map(|(bound, count)| (bound as f64, count)),
        stats.group_commits.count(),
        stats.group_commits.sum() as f64,
    );
    readings.histogram(
        &SYNC_DURATION,
        stats
            .sync_micros
            .buckets()
            .map(|(bound, count)| (bound as f64 / MICROS_PER_SECOND, count)),
        stats.sync_micros.count(),
        stats.sync_time_total.as_secs_f64(),
    );
    readings.number(&SYNC_FAILURES, stats.sync_failures);
    readings.number(&STORE_OPEN, u64::from(store.closed_because().is_none()));
    readings.number(&STORE_ENTRIES, stats.entries);
    readings.number(&STORE_CORRUPT_READS, stats.corrupt_reads);
    let is_checking = stats.check == CheckState::Running;
    readings.number(&STORE_CHECKING, u64::from(is_checking));
    readings.number(&STORE_DISK, stats.disk_bytes);
    if let Some(bytes) = stats.disk_free_bytes {
        readings.number(&STORE_DISK_FREE, bytes);
    }
}
