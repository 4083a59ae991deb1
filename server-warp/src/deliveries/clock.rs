//! The clock that leases are kept by, beside the timer that they are renewed by.

use std::time::Duration;

use knowledge_core::model::Timestamp;
use tokio::time::Instant;

/// How far the clock may run ahead of the timer between two looks: much less than a lease.
const AHEAD_MAX: Duration = Duration::from_secs(1);

/// Notices when the clock is set forward: the leases of what is in flight may have lapsed by it.
#[derive(Debug)]
pub(super) struct ClockWatch {
    timer: Instant,
    clock: Timestamp,
}

impl ClockWatch {
    pub(super) fn begin(timer: Instant, clock: Timestamp) -> Self {
        Self { timer, clock }
    }

    /// Whether the clock has run ahead since the last look.
    pub(super) fn has_run_ahead(&mut self, timer: Instant, clock: Timestamp) -> bool {
        let timed = timer.saturating_duration_since(self.timer);
        let has_run_ahead = clock.since(self.clock) > timed + AHEAD_MAX;
        *self = Self::begin(timer, clock);
        has_run_ahead
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_forward_is_noticed_once() {
        let (timer, clock) = (Instant::now(), Timestamp::from_millis(1_000_000));
        let mut watch = ClockWatch::begin(timer, clock);
        let hour = Duration::from_secs(3_600);
        let mut after = |timed, told| watch.has_run_ahead(timer + timed, clock.plus(told));
        assert!(!after(hour, hour + AHEAD_MAX));
        assert!(after(hour, 2 * hour));
        assert!(!after(hour, 2 * hour));
        // Set back.
        assert!(!after(2 * hour, Duration::ZERO));
        assert!(!after(3 * hour, hour));
    }
}
