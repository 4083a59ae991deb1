//! What the commit thread and the readers share: the state that is visible, and whether the store still works.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use knowledge_core::store::StoreError;

use crate::error::{EngineError, closed};
use crate::record::Ledger;
use crate::stats::Meters;
use crate::timeline::Timeline;

/// What the commit thread and the readers share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) timeline: Timeline,
    pub(crate) meters: Meters,
    pub(crate) watch: Watch,
    ledger: Mutex<Ledger>,
    closed: OnceLock<String>,
}

impl Shared {
    pub(crate) fn new(write_time_max: Duration, ledger: Ledger) -> Self {
        Self {
            timeline: Timeline::default(),
            meters: Meters::default(),
            watch: Watch {
                write_time_max,
                began: Mutex::default(),
            },
            ledger: Mutex::new(ledger),
            closed: OnceLock::new(),
        }
    }

    /// The ledger of the last group that was published.
    pub(crate) fn ledger(&self) -> Ledger {
        *self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_ledger(&self, ledger: Ledger) {
        *self.ledger.lock().unwrap_or_else(PoisonError::into_inner) = ledger;
    }

    /// Why the store refuses everything, once it does.
    pub(crate) fn closed_because(&self) -> Option<&str> {
        if self.closed.get().is_none() && self.watch.is_overdue() {
            self.close(&EngineError::Hangs);
        }
        self.closed.get().map(String::as_str)
    }

    pub(crate) fn refuse_if_closed(&self) -> Result<(), StoreError> {
        match self.closed_because() {
            Some(reason) => Err(closed(reason)),
            None => Ok(()),
        }
    }

    pub(crate) fn close(&self, failure: &EngineError) {
        if self.closed.set(failure.to_string()).is_ok() {
            tracing::error!(error = %failure, "the store closed itself: it refuses everything until it is opened again");
        }
    }

    /// The answer to a read that failed. Where it failed for another reason than what it read, the store is closed: sled
    /// writes while it reads, and an error of the device may be that of a write.
    pub(crate) fn read_error(&self, error: &EngineError) -> StoreError {
        if !error.is_corruption() {
            self.close(error);
        }
        error.to_read_error()
    }
}

/// When the write that is under way began. A write that never ends is found by whoever calls next: there is no timer.
#[derive(Debug)]
pub(crate) struct Watch {
    write_time_max: Duration,
    began: Mutex<Option<Instant>>,
}

impl Watch {
    fn began(&self) -> MutexGuard<'_, Option<Instant>> {
        self.began.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a write, which ends when the answer is dropped.
    pub(crate) fn begin(&self) -> Watched<'_> {
        *self.began() = Some(Instant::now());
        Watched(self)
    }

    fn is_overdue(&self) -> bool {
        self.began()
            .is_some_and(|began| began.elapsed() > self.write_time_max)
    }
}

/// A write that is under way.
pub(crate) struct Watched<'w>(&'w Watch);

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        *self.0.began() = None;
    }
}
