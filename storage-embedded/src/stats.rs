//! Statistics of a store.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::check_state::CheckState;

/// Number of bounds of every histogram.
const BOUND_COUNT: usize = 11;

/// Bounds for the commits of one group.
const GROUP_BOUNDS: &[u64; BOUND_COUNT] = &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024];

/// Bounds for the microseconds of one write and sync.
const SYNC_BOUNDS: &[u64; BOUND_COUNT] = &[
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 100_000, 1_000_000,
];

/// Counters since the store was opened, and its current size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreStats {
    /// Number of applied commits.
    pub commits: u64,
    /// Number of commits rejected because a check failed.
    pub conflicts: u64,
    /// Number of groups written and synced; pending commits share a group.
    pub groups: u64,
    /// Distribution of commits per group.
    pub group_commits: Histogram,
    /// Distribution of the time to write and sync a group, in microseconds.
    pub sync_micros: Histogram,
    /// Number of groups whose write or sync failed. After one the store rejects every call.
    pub sync_failures: u64,
    /// Time to write and sync the last group.
    pub sync_time_last: Duration,
    /// Total time of all writes and syncs.
    pub sync_time_total: Duration,
    /// Number of entries in the store.
    pub entries: u64,
    /// Number of reads that found corrupt data.
    pub corrupt_reads: u64,
    /// State of the check of all entries.
    pub check: CheckState,
    /// Size of the engine's files in bytes, measured at most once a second while commits
    /// arrive, and once after they pause.
    pub disk_bytes: u64,
    /// Free space on the file system, in bytes; `None` if the system does not report it.
    pub disk_free_bytes: Option<u64>,
}

/// Distribution of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Histogram {
    bounds: &'static [u64; BOUND_COUNT],
    /// Numbers of values up to the bound at the same index and above the previous one.
    counts: [u64; BOUND_COUNT],
    above: u64,
    sum: u64,
}

impl Histogram {
    /// Returns the number of values up to each bound, in ascending order.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut total = 0;
        self.bounds
            .iter()
            .zip(&self.counts)
            .map(move |(bound, count)| {
                total += count;
                (*bound, total)
            })
    }

    /// Returns the number of values, including those above every bound.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum::<u64>() + self.above
    }

    /// Returns the sum of all values.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.sum
    }
}

/// Counters of a [`Histogram`].
#[derive(Debug)]
struct HistogramMeter {
    bounds: &'static [u64; BOUND_COUNT],
    counts: [AtomicU64; BOUND_COUNT],
    above: AtomicU64,
    sum: AtomicU64,
}

impl HistogramMeter {
    fn new(bounds: &'static [u64; BOUND_COUNT]) -> Self {
        Self {
            bounds,
            counts: Default::default(),
            above: AtomicU64::new(0),
            sum: AtomicU64::new(0),
        }
    }

    fn observe(&self, value: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        let count = self.counts.get(bucket).unwrap_or(&self.above);
        count.fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    fn read(&self) -> Histogram {
        Histogram {
            bounds: self.bounds,
            counts: std::array::from_fn(|bucket| self.counts[bucket].load(Ordering::Relaxed)),
            above: self.above.load(Ordering::Relaxed),
            sum: self.sum.load(Ordering::Relaxed),
        }
    }
}

/// Counters of [`StoreStats`].
#[derive(Debug)]
pub(crate) struct Meters {
    commits: AtomicU64,
    conflicts: AtomicU64,
    groups: AtomicU64,
    group_commits: HistogramMeter,
    sync_micros: HistogramMeter,
    sync_failures: AtomicU64,
    sync_last_ns: AtomicU64,
    sync_total_ns: AtomicU64,
    entries: AtomicU64,
    corrupt_reads: AtomicU64,
    disk_bytes: AtomicU64,
}

impl Default for Meters {
    fn default() -> Self {
        Self {
            commits: AtomicU64::new(0),
            conflicts: AtomicU64::new(0),
            groups: AtomicU64::new(0),
            group_commits: HistogramMeter::new(GROUP_BOUNDS),
            sync_micros: HistogramMeter::new(SYNC_BOUNDS),
            sync_failures: AtomicU64::new(0),
            sync_last_ns: AtomicU64::new(0),
            sync_total_ns: AtomicU64::new(0),
            entries: AtomicU64::new(0),
            corrupt_reads: AtomicU64::new(0),
            disk_bytes: AtomicU64::new(0),
        }
    }
}

impl Meters {
    pub(crate) fn count_conflict(&self) {
        self.conflicts.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_commit(&self) {
        self.commits.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn record_group(&self, commits: u64, sync_time: Duration) {
        let nanos = u64::try_from(sync_time.as_nanos()).unwrap_or(u64::MAX);
        self.groups.fetch_add(1, Ordering::Relaxed);
        self.group_commits.observe(commits);
        self.sync_micros.observe(nanos.div_ceil(1_000));
        self.sync_last_ns.store(nanos, Ordering::Relaxed);
        self.sync_total_ns.fetch_add(nanos, Ordering::Relaxed);
    }

    pub(crate) fn count_sync_failure(&self) {
        self.sync_failures.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn set_entries(&self, entries: u64) {
        self.entries.store(entries, Ordering::Relaxed);
    }

    pub(crate) fn set_disk_bytes(&self, bytes: u64) {
        self.disk_bytes.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn count_corrupt_read(&self) {
        self.corrupt_reads.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn corrupt_reads(&self) -> u64 {
        self.corrupt_reads.load(Ordering::Relaxed)
    }

    pub(crate) fn read(&self, check: CheckState, disk_free_bytes: Option<u64>) -> StoreStats {
        let read = |meter: &AtomicU64| meter.load(Ordering::Relaxed);
        StoreStats {
            commits: read(&self.commits),
            conflicts: read(&self.conflicts),
            groups: read(&self.groups),
            group_commits: self.group_commits.read(),
            sync_micros: self.sync_micros.read(),
            sync_failures: read(&self.sync_failures),
            sync_time_last: Duration::from_nanos(read(&self.sync_last_ns)),
            sync_time_total: Duration::from_nanos(read(&self.sync_total_ns)),
            entries: read(&self.entries),
            corrupt_reads: self.corrupt_reads(),
            check,
            disk_bytes: read(&self.disk_bytes),
            disk_free_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histogram_bucket_includes_its_bound() {
        let meter = HistogramMeter::new(GROUP_BOUNDS);
        for value in [0, 1, 2, 3, 1_024, 1_025] {
            meter.observe(value);
        }
        let histogram = meter.read();
        let buckets: Vec<_> = histogram.buckets().collect();
        assert_eq!(buckets[..4], [(1, 2), (2, 3), (4, 4), (8, 4)]);
        assert_eq!(buckets.last(), Some(&(1_024, 5)));
        assert_eq!((histogram.count(), histogram.sum()), (6, 2_055));
    }
}
