//! State shared by the commit thread and the readers.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use knowledge_store::{Marks, StoreError};

use crate::check_state::CheckProgress;
use crate::engine::{Changes, Engine};
use crate::entry_cache::{EntryCache, PublishedView};
use crate::error::{EngineError, closed_error};
use crate::record::Ledger;
use crate::stats::Meters;

/// State shared by the commit thread and the readers.
pub(crate) struct Shared<E> {
    pub(crate) engine: E,
    cache: EntryCache,
    pub(crate) meters: Meters,
    pub(crate) watchdog: WriteWatchdog,
    pub(crate) check_progress: CheckProgress,
    /// Ledger of the published state. Locked during publication, so that both change together.
    ledger: Mutex<Ledger>,
    pub(crate) marks: Marks,
    close_reason: OnceLock<String>,
}

impl<E: Engine> Shared<E> {
    pub(crate) fn new(
        engine: E,
        cache_bytes: u64,
        write_time_max: Duration,
        ledger: Ledger,
    ) -> Self {
        let meters = Meters::default();
        meters.set_entries(ledger.entries);
        Self {
            engine,
            cache: EntryCache::new(cache_bytes, ledger.last_version),
            meters,
            watchdog: WriteWatchdog {
                write_time_max,
                started_at: Mutex::default(),
            },
            check_progress: CheckProgress::default(),
            ledger: Mutex::new(ledger),
            marks: Marks::default(),
            close_reason: OnceLock::new(),
        }
    }

    fn locked_ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the ledger of the published state.
    pub(crate) fn ledger(&self) -> Ledger {
        *self.locked_ledger()
    }

    /// Makes a group and its ledger visible to readers.
    pub(crate) fn publish(&self, changes: &Changes, ledger: Ledger) {
        let mut published = self.locked_ledger();
        let keys = changes.entries.iter().map(|change| &change.key);
        self.marks.change(keys, || {
            let publish = || self.engine.publish();
            self.cache.publish(changes, ledger.last_version, publish);
        });
        *published = ledger;
        self.meters.set_entries(ledger.entries);
    }

    /// Returns the published state.
    pub(crate) fn view(&self) -> PublishedView<'_, E::View> {
        self.cache.view(|| self.engine.view())
    }

    /// Returns the published state and its ledger at one point in time.
    pub(crate) fn snapshot(&self, bytes_max: usize) -> (E::Snapshot, Ledger) {
        let ledger = self.locked_ledger();
        (self.engine.snapshot(bytes_max), *ledger)
    }

    /// Returns the reason if the store has closed itself.
    pub(crate) fn close_reason(&self) -> Option<&str> {
        if self.close_reason.get().is_none() && self.watchdog.is_overdue() {
            self.close(&EngineError::TimedOut);
        }
        self.close_reason.get().map(String::as_str)
    }

    pub(crate) fn ensure_open(&self) -> Result<(), StoreError> {
        match self.close_reason() {
            Some(reason) => Err(closed_error(reason)),
            None => Ok(()),
        }
    }

    pub(crate) fn close(&self, failure: &EngineError) {
        if self.close_reason.set(failure.to_string()).is_ok() {
            tracing::error!(error = %failure, "store closed after a failure; reopen it after \
                                               checking the disk");
        }
    }

    /// Converts the error of a failed read.
    ///
    /// A failure other than corruption closes the store: an engine may write while it reads, so the
    /// device error may come from a write.
    pub(crate) fn read_error(&self, error: &EngineError) -> StoreError {
        if error.is_corruption() {
            self.meters.count_corrupt_read();
            tracing::error!(%error, "read found corrupt data");
        } else if !error.is_shortage_of_files() {
            self.close(error);
        }
        error.to_read_error()
    }
}

/// Time limit of writes.
///
/// There is no timer: the first call after the limit detects a write that never ends.
#[derive(Debug)]
pub(crate) struct WriteWatchdog {
    write_time_max: Duration,
    started_at: Mutex<Option<Instant>>,
}

impl WriteWatchdog {
    fn started_at(&self) -> MutexGuard<'_, Option<Instant>> {
        self.started_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a write, which ends when the guard is dropped.
    pub(crate) fn begin(&self) -> WriteGuard<'_> {
        *self.started_at() = Some(Instant::now());
        WriteGuard(self)
    }

    /// Returns true if the current write exceeds its time limit.
    pub(crate) fn is_overdue(&self) -> bool {
        self.started_at()
            .is_some_and(|started_at| started_at.elapsed() > self.write_time_max)
    }
}

/// The current write.
pub(crate) struct WriteGuard<'w>(&'w WriteWatchdog);

impl Drop for WriteGuard<'_> {
    fn drop(&mut self) {
        *self.0.started_at() = None;
    }
}
