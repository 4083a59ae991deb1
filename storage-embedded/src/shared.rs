//! The state that the commit thread and the readers share.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use knowledge_store::StoreError;

use crate::check::Checking;
use crate::engine::Engine;
use crate::error::{EngineError, closed};
use crate::record::Ledger;
use crate::stats::Meters;

/// The state that the commit thread and the readers share.
pub(crate) struct Shared<E> {
    pub(crate) engine: E,
    pub(crate) meters: Meters,
    pub(crate) watch: Watch,
    pub(crate) checking: Checking,
    /// The ledger of the published state. Held while a state is published, so that both change together.
    ledger: Mutex<Ledger>,
    closed: OnceLock<String>,
}

impl<E: Engine> Shared<E> {
    pub(crate) fn new(engine: E, write_time_max: Duration, ledger: Ledger) -> Self {
        let meters = Meters::default();
        meters.set_entries(ledger.entries);
        Self {
            engine,
            meters,
            watch: Watch {
                write_time_max,
                began: Mutex::default(),
            },
            checking: Checking::default(),
            ledger: Mutex::new(ledger),
            closed: OnceLock::new(),
        }
    }

    fn locked_ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ledger of the published state.
    pub(crate) fn ledger(&self) -> Ledger {
        *self.locked_ledger()
    }

    /// Shows a group to readers, with its ledger.
    pub(crate) fn publish(&self, ledger: Ledger) {
        let mut published = self.locked_ledger();
        self.engine.publish();
        *published = ledger;
        self.meters.set_entries(ledger.entries);
    }

    /// The published state and its ledger, of one moment.
    pub(crate) fn keep(&self, bytes_max: usize) -> (E::Kept, Ledger) {
        let ledger = self.locked_ledger();
        (self.engine.keep(bytes_max), *ledger)
    }

    /// The reason why the store refuses everything, once it does.
    pub(crate) fn closed_because(&self) -> Option<&str> {
        if self.closed.get().is_none() && self.watch.is_overdue() {
            self.close(&EngineError::TimedOut);
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

    /// The answer to a read that failed. A failure for another reason than the data closes the store: an engine may
    /// write while it reads, and an error of the device may be that of a write.
    pub(crate) fn read_error(&self, error: &EngineError) -> StoreError {
        if error.is_corruption() {
            self.meters.corrupt_read();
            tracing::error!(%error, "a read met damaged data");
        } else if !error.is_shortage_of_files() {
            self.close(error);
        }
        error.to_read_error()
    }
}

/// The start of the write that is under way. A write that never ends is found by the next call: there is no timer.
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

    /// True if the write under way takes too long.
    pub(crate) fn is_overdue(&self) -> bool {
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
