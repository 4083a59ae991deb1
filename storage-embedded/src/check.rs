//! The check of all entries against the ledger.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use knowledge_store::{Direction, KeyRange, StoreError, StoreErrorKind};

use crate::engine::{Engine, View};
use crate::error::{EngineError, guarded};
use crate::record::Ledger;
use crate::shared::Shared;

/// The most entries that are read between two looks at whether the store is still wanted.
const PAGE_ENTRIES: usize = 128;
/// The old values that are kept for a check beside writers, in bytes; a check that needs more begins again.
const KEPT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The most attempts at a check whose caller waits, when writers overtake it.
const ATTEMPTS_MAX: usize = 8;
/// The pause before a check in the background that writers overtook begins again.
const OVERTAKEN_PAUSE: Duration = Duration::from_secs(60);

/// The state of the check of all entries: in the background after an unclean end, or on demand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CheckState {
    /// The store was closed cleanly, or is not checked in the background; nobody asked for a check either.
    #[default]
    NotNeeded,
    /// Entries are being read.
    Running,
    /// Every entry is there as it was written.
    Passed,
    /// The store is damaged and closed itself, or could not be read.
    Failed,
}

/// The progress of a check in the background.
#[derive(Debug, Default)]
pub(crate) struct Checking {
    state: AtomicU8,
    is_cancelled: AtomicBool,
}

impl Checking {
    pub(crate) fn state(&self) -> CheckState {
        match self.state.load(Ordering::Relaxed) {
            1 => CheckState::Running,
            2 => CheckState::Passed,
            3 => CheckState::Failed,
            _ => CheckState::NotNeeded,
        }
    }

    fn set(&self, state: CheckState) {
        self.state.store(state as u8, Ordering::Relaxed);
    }

    pub(crate) fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }
}

/// The reason why a check ended early.
enum Interruption {
    /// The state that was read is lost: too much was written meanwhile.
    Overtaken,
    /// The store is being closed.
    Cancelled,
    Failed(EngineError),
}

impl<E: Engine> Shared<E> {
    /// Reads every entry of the published state and compares them with the ledger. `progress` is told how many were
    /// read, of how many.
    ///
    /// # Errors
    /// [`StoreErrorKind::Corrupt`] if an entry is missing, left over, damaged or of another version; the store is then
    /// closed. [`StoreErrorKind::Unavailable`] if it could not be read, or is being closed.
    pub(crate) fn check(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<(), StoreError> {
        for _ in 0..ATTEMPTS_MAX {
            if self.attempt_check(progress)? {
                return Ok(());
            }
        }
        Err(unavailable(
            "too much was written while the entries were checked",
        ))
    }

    /// Checks until it is done, however often writers overtake it.
    fn check_patiently(&self) -> Result<(), StoreError> {
        while !self.attempt_check(&mut |_, _| {})? {
            tracing::warn!(
                "too much was written while the entries were checked: the check begins again in a minute"
            );
            let began = Instant::now();
            while !self.checking.is_cancelled() && began.elapsed() < OVERTAKEN_PAUSE {
                // Whoever cancels it wakes this thread.
                thread::park_timeout(OVERTAKEN_PAUSE.saturating_sub(began.elapsed()));
            }
        }
        Ok(())
    }

    /// Returns true if every entry was checked, false if writers overtook the check.
    fn attempt_check(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<bool, StoreError> {
        self.refuse_if_closed()?;
        match self.check_once(progress) {
            Ok(()) => {
                self.checking.set(CheckState::Passed);
                Ok(true)
            }
            Err(Interruption::Overtaken) => Ok(false),
            Err(Interruption::Cancelled) => Err(unavailable("the store is being closed")),
            Err(Interruption::Failed(error)) => {
                self.checking.set(CheckState::Failed);
                let answer = self.read_error(&error);
                self.close(&error);
                Err(answer)
            }
        }
    }

    fn check_once(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<(), Interruption> {
        let (kept, ledger) = self.keep(KEPT_BYTES_MAX);
        let mut found = Ledger {
            last_version: ledger.last_version,
            ..Ledger::default()
        };
        let mut rest = KeyRange::all();
        loop {
            if self.checking.is_cancelled() {
                return Err(Interruption::Cancelled);
            }
            let page = guarded(|| kept.range(&rest, PAGE_ENTRIES, Direction::Forward))
                .map_err(Interruption::Failed)?;
            if kept.is_lost() {
                return Err(Interruption::Overtaken);
            }
            for entry in &page {
                let version = entry.entry.version;
                if version.get() > ledger.last_version {
                    let message = format!("{} is of a commit later than the last", entry.key);
                    return Err(Interruption::Failed(EngineError::Damaged(message)));
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
        Err(Interruption::Failed(EngineError::Damaged(format!(
            "{} entries should be there, {} are, or not as they were written",
            ledger.entries, found.entries
        ))))
    }
}

fn unavailable(message: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, message)
}

/// Checks a store in the background. Whoever ends the store cancels the check and waits for it.
pub(crate) fn check_in_background<E: Engine>(
    shared: &Arc<Shared<E>>,
) -> std::io::Result<JoinHandle<()>> {
    shared.checking.set(CheckState::Running);
    let shared = Arc::clone(shared);
    thread::Builder::new()
        .name("knowledge-check".to_owned())
        .spawn(move || {
            tracing::info!("the store was not closed cleanly: checking every entry");
            match shared.check_patiently() {
                Ok(()) => tracing::info!("every entry is there as it was written"),
                // The next start goes on with it.
                Err(_) if shared.checking.is_cancelled() => {}
                Err(error) => {
                    tracing::error!(%error, "the check of the store failed");
                    shared.checking.set(CheckState::Failed);
                }
            }
        })
}
