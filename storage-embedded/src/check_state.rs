//! Progress of the check of all entries.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// State of the check of all entries, in the background or on demand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CheckState {
    /// No check has run: the store was closed cleanly, or checks are disabled.
    #[default]
    NotNeeded,
    /// The check is running.
    Running,
    /// All entries match the ledger.
    Passed,
    /// The store is corrupt and has closed, or it could not be read.
    Failed,
}

/// State and cancellation of the check.
#[derive(Debug, Default)]
pub(crate) struct CheckProgress {
    state: AtomicU8,
    is_cancelled: AtomicBool,
}

impl CheckProgress {
    pub(crate) fn state(&self) -> CheckState {
        match self.state.load(Ordering::Relaxed) {
            1 => CheckState::Running,
            2 => CheckState::Passed,
            3 => CheckState::Failed,
            _ => CheckState::NotNeeded,
        }
    }

    pub(crate) fn set(&self, state: CheckState) {
        self.state.store(state as u8, Ordering::Relaxed);
    }

    pub(crate) fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }
}
