//! The check of all entries against the ledger.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use knowledge_store::{Direction, KeyRange, StoreError, StoreErrorKind};

use crate::check_state::CheckState;
use crate::engine::{Engine, View};
use crate::error::{EngineError, catch_panic};
use crate::record::Ledger;
use crate::shared::Shared;

/// Entries read between two checks for cancellation.
const PAGE_ENTRIES: usize = 128;
/// Old values kept for a check that runs beside writers, in bytes. A check that needs more
/// restarts.
const SNAPSHOT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Attempts at a check on demand when writers overtake it.
const ATTEMPTS_MAX: usize = 8;
/// Pause before a background check that writers overtook restarts.
const RETRY_PAUSE: Duration = Duration::from_secs(60);

/// Reason for the early end of a check.
enum Interruption {
    /// Writers changed more than the snapshot can keep.
    SnapshotLost,
    /// The store is being closed.
    Cancelled,
    Failed(EngineError),
}

impl<E: Engine> Shared<E> {
    /// Compares every entry of the published state with the ledger.
    ///
    /// Calls `progress` with the number of entries read and their total.
    ///
    /// # Errors
    /// [`StoreErrorKind::Corrupt`] if an entry is missing, unexpected, corrupt or of another
    /// version; the store is then closed. [`StoreErrorKind::Unavailable`] if it cannot be read or
    /// is being closed.
    pub(crate) fn check(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<(), StoreError> {
        for _ in 0..ATTEMPTS_MAX {
            if self.attempt_check(progress)? {
                return Ok(());
            }
        }
        Err(unavailable(
            "too many writes during the check; check again later",
        ))
    }

    /// Checks until it completes, however often writers overtake it.
    fn check_until_done(&self) -> Result<(), StoreError> {
        while !self.attempt_check(&mut |_, _| {})? {
            tracing::warn!("check overtaken by writes; restarting in a minute");
            let began = Instant::now();
            while !self.check_progress.is_cancelled() && began.elapsed() < RETRY_PAUSE {
                // Cancellation unparks this thread.
                thread::park_timeout(RETRY_PAUSE.saturating_sub(began.elapsed()));
            }
        }
        Ok(())
    }

    /// Returns true if every entry was checked, or false if writers overtook the check.
    fn attempt_check(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<bool, StoreError> {
        self.ensure_open()?;
        match self.check_once(progress) {
            Ok(()) => {
                self.check_progress.set(CheckState::Passed);
                Ok(true)
            }
            Err(Interruption::SnapshotLost) => Ok(false),
            Err(Interruption::Cancelled) => Err(unavailable("the store is being closed")),
            Err(Interruption::Failed(error)) => {
                self.check_progress.set(CheckState::Failed);
                let failure = self.read_error(&error);
                self.close(&error);
                Err(failure)
            }
        }
    }

    fn check_once(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<(), Interruption> {
        let (snapshot, ledger) = self.snapshot(SNAPSHOT_BYTES_MAX);
        let mut found = Ledger {
            last_version: ledger.last_version,
            ..Ledger::default()
        };
        let mut rest = KeyRange::all();
        loop {
            if self.check_progress.is_cancelled() {
                return Err(Interruption::Cancelled);
            }
            let page = catch_panic(|| snapshot.scan(&rest, PAGE_ENTRIES, Direction::Forward))
                .map_err(Interruption::Failed)?;
            if snapshot.is_lost() {
                return Err(Interruption::SnapshotLost);
            }
            for entry in &page {
                let version = entry.entry.version;
                if version.get() > ledger.last_version {
                    let message = format!("{} has a version after the last commit", entry.key);
                    return Err(Interruption::Failed(EngineError::Corrupt(message)));
                }
                found.insert(&entry.key, version);
            }
            progress(found.entries, ledger.entries);
            match page.last() {
                Some(last) if page.len() == PAGE_ENTRIES => rest = rest.after(&last.key),
                _ => break,
            }
        }
        if found == ledger {
            return Ok(());
        }
        Err(Interruption::Failed(EngineError::Corrupt(format!(
            "expected {} entries, found {}; their keys or versions differ from the ledger",
            ledger.entries, found.entries
        ))))
    }
}

fn unavailable(message: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, message)
}

/// Starts a check on a background thread. Closing the store cancels the check and joins the thread.
pub(crate) fn spawn_check<E: Engine>(shared: &Arc<Shared<E>>) -> std::io::Result<JoinHandle<()>> {
    shared.check_progress.set(CheckState::Running);
    let shared = Arc::clone(shared);
    thread::Builder::new()
        .name("knowledge-check".to_owned())
        .spawn(move || {
            tracing::info!("store was not closed cleanly; checking every entry");
            match shared.check_until_done() {
                Ok(()) => tracing::info!("store check passed"),
                // The next start checks again.
                Err(_) if shared.check_progress.is_cancelled() => {}
                Err(error) => {
                    tracing::error!(%error, "store check failed");
                    shared.check_progress.set(CheckState::Failed);
                }
            }
        })
}
