//! Comparison of the clock, by which leases expire, with the timer, by which they are renewed.

use std::time::Duration;

use knowledge_core::model::Timestamp;
use tokio::time::Instant;

/// Difference tolerated between two checks: much less than a lease.
const AHEAD_MAX: Duration = Duration::from_secs(1);

/// Jump of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Jump {
    /// Leases in flight may have expired.
    Forward,
    /// What is due waits, by this time.
    Back(Duration),
}

/// Detector of jumps of the clock.
#[derive(Debug)]
pub(super) struct ClockWatch {
    timer: Instant,
    clock: Timestamp,
}

impl ClockWatch {
    pub(super) fn new(timer: Instant, clock: Timestamp) -> Self {
        Self { timer, clock }
    }

    /// Returns the jump of the clock since the last check.
    pub(super) fn jump(&mut self, timer: Instant, clock: Timestamp) -> Option<Jump> {
        let timed = timer.saturating_duration_since(self.timer);
        let behind = self.clock.plus(timed).since(clock);
        let jump = if clock.since(self.clock) > timed + AHEAD_MAX {
            Some(Jump::Forward)
        } else if behind > AHEAD_MAX {
            Some(Jump::Back(behind))
        } else {
            None
        };
        *self = Self::new(timer, clock);
        jump
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_watch_reports_each_jump_once() {
        let (timer, clock) = (Instant::now(), Timestamp::from_millis(1_000_000));
        let mut watch = ClockWatch::new(timer, clock);
        let hour = Duration::from_secs(3_600);
        let mut after = |elapsed, shown| watch.jump(timer + elapsed, clock.plus(shown));
        assert_eq!(after(hour, hour + AHEAD_MAX), None);
        assert_eq!(after(hour, 2 * hour), Some(Jump::Forward));
        assert_eq!(after(hour, 2 * hour), None);
        assert_eq!(after(2 * hour, Duration::ZERO), Some(Jump::Back(3 * hour)));
        assert_eq!(after(3 * hour, hour), None);
    }
}
