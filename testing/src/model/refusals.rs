//! Refused changes of a member, each of which leaves at most one entry of the audit log an hour.

use std::collections::BTreeSet;

use knowledge_core::model::Timestamp;

/// Time for which equal refusals leave one entry, in milliseconds.
const WINDOW_MS: i64 = 60 * 60 * 1_000;
/// Maximum number of entries about refusals of one member in that time.
const REFUSALS_MAX: usize = 32;

/// Refusals of a member in one hour, by what equal ones have in common.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Refusals {
    hour: i64,
    recorded: BTreeSet<String>,
}

impl Refusals {
    /// Records a refusal. Returns true if it leaves an entry.
    pub(crate) fn record(&mut self, refusal: String, now: Timestamp) -> bool {
        let hour = now.as_millis().div_euclid(WINDOW_MS);
        if hour != self.hour {
            *self = Self {
                hour,
                recorded: BTreeSet::new(),
            };
        }
        self.recorded.len() < REFUSALS_MAX && self.recorded.insert(refusal)
    }
}
