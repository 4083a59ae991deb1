//! Time-outs of sessions.

use std::time::Duration;

/// Time-outs of the sessions that sign-ins create. Changes apply to new sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionTimeouts {
    /// Time without a use after which a session ends, in whole seconds.
    ///
    /// Uses are recorded once an hour, so a session ends up to an hour later, but never earlier.
    pub idle: Duration,
    /// Time from the sign-in after which a session ends, whatever its use.
    pub absolute: Duration,
}

impl Default for SessionTimeouts {
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(12 * 60 * 60),
            absolute: Duration::from_secs(7 * 24 * 60 * 60),
        }
    }
}
