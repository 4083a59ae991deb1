//! Events that are recorded once in an hour, as stored and as remembered by a process.
//!
//! The memory of a process saves each successful request two reads, or four with an access token of
//! a session: the reads that find the last use of its credential recorded.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

/// Maximum number of refusals that a process remembers.
const REMEMBERED_MAX: usize = 10_000;

/// Stored record of the refusals of a member.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct MemberRefusals {
    /// Number of the hour since the Unix epoch.
    pub(super) window: i64,
    /// Fingerprints of what was refused.
    pub(super) refused: BTreeSet<u64>,
}

/// Fingerprints of what is recorded once in a window and need not be written any more.
#[derive(Debug, Default)]
pub(crate) struct WrittenInHour(Mutex<MemberRefusals>);

impl WrittenInHour {
    /// Calls a function with what is known of this window.
    pub(crate) fn with<T>(&self, window: i64, then: impl FnOnce(&mut BTreeSet<u64>) -> T) -> T {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.window != window || known.refused.len() >= REMEMBERED_MAX {
            known.window = window;
            known.refused.clear();
        }
        then(&mut known.refused)
    }
}
