//! Comparison of the clock, by which leases expire, with the timer, by which they are renewed.

use std::time::Duration;

use knowledge_core::model::Timestamp;
use tokio::time::Instant;

/// Difference tolerated between two checks: much less than a lease.
const AHEAD_MAX: Duration = Duration::from_secs(1);

/// Detector of forward jumps of the clock, which may make leases in flight expire.
#[derive(Debug)]
pub(super) struct ClockWatch {
    timer: Instant,
    clock: Timestamp,
}

impl ClockWatch {
    pub(super) fn new(timer: Instant, clock: Timestamp) -> Self {
        Self { timer, clock }
    }

    /// True if the clock has jumped forward since the last check.
    pub(super) fn has_jumped_forward(&mut self, timer: Instant, clock: Timestamp) -> bool {
        let timed = timer.saturating_duration_since(self.timer);
        let has_jumped_forward = clock.since(self.clock) > timed + AHEAD_MAX;
        *self = Self::new(timer, clock);
        has_jumped_forward
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_watch_reports_forward_jump_once() {
        let (timer, clock) = (Instant::now(), Timestamp::from_millis(1_000_000));
        let mut watch = ClockWatch::new(timer, clock);
        let hour = Duration::from_secs(3_600);
        let mut after =
            |elapsed, shown| watch.has_jumped_forward(timer + elapsed, clock.plus(shown));
        assert!(!after(hour, hour + AHEAD_MAX));
        assert!(after(hour, 2 * hour));
        assert!(!after(hour, 2 * hour));
        // The clock is set back.
        assert!(!after(2 * hour, Duration::ZERO));
        assert!(!after(3 * hour, hour));
    }
}
