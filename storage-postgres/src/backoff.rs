//! Delays between attempts to connect.

use std::time::Duration;

const DELAY_MIN: Duration = Duration::from_millis(50);
const DELAY_MAX: Duration = Duration::from_secs(2);

/// Delay that doubles with every failure, up to two seconds.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Returns the delay after another failure: random, so that many processes do not come at once.
    pub(crate) fn next_delay(&mut self) -> Duration {
        let doubled = DELAY_MIN.saturating_mul(1 << self.failures.min(10));
        self.failures += 1;
        doubled.min(DELAY_MAX).mul_f64(0.5 + 0.5 * fastrand::f64())
    }

    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}
