//! What a store tells of its work.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What a store did since it was opened, and what it holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreStats {
    /// Commits that were applied.
    pub commits: u64,
    /// Commits that were refused because a check failed.
    pub conflicts: u64,
    /// Groups that were written and synced; commits that wait together share one.
    pub groups: u64,
    /// How long the last group's flush and sync took.
    pub sync_time_last: Duration,
    /// How long all flushes and syncs took together.
    pub sync_time_total: Duration,
    /// The entries in the store.
    pub entries: u64,
    /// The size of sled's file in bytes.
    pub disk_bytes: u64,
}

/// The numbers behind [`StoreStats`], written by the commit thread alone.
#[derive(Debug, Default)]
pub(crate) struct Meters {
    commits: AtomicU64,
    conflicts: AtomicU64,
    groups: AtomicU64,
    sync_last_ns: AtomicU64,
    sync_total_ns: AtomicU64,
    entries: AtomicU64,
}

impl Meters {
    pub(crate) fn conflict(&self) {
        self.conflicts.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn commit(&self) {
        self.commits.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn group(&self, sync_time: Duration) {
        let nanos = u64::try_from(sync_time.as_nanos()).unwrap_or(u64::MAX);
        self.groups.fetch_add(1, Ordering::Relaxed);
        self.sync_last_ns.store(nanos, Ordering::Relaxed);
        self.sync_total_ns.fetch_add(nanos, Ordering::Relaxed);
    }

    pub(crate) fn set_entries(&self, entries: u64) {
        self.entries.store(entries, Ordering::Relaxed);
    }

    pub(crate) fn read(&self, disk_bytes: u64) -> StoreStats {
        let read = |meter: &AtomicU64| meter.load(Ordering::Relaxed);
        StoreStats {
            commits: read(&self.commits),
            conflicts: read(&self.conflicts),
            groups: read(&self.groups),
            sync_time_last: Duration::from_nanos(read(&self.sync_last_ns)),
            sync_time_total: Duration::from_nanos(read(&self.sync_total_ns)),
            entries: read(&self.entries),
            disk_bytes,
        }
    }
}
