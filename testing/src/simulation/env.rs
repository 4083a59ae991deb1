//! Time that only the test advances, and randomness from a seed.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use knowledge_core::env::Env;
use knowledge_core::model::Timestamp;

/// Clock of a simulation, which stands still until it is advanced.
///
/// ```
/// use std::time::Duration;
/// use knowledge_testing::simulation::SimulatedTime;
///
/// let time = SimulatedTime::new();
/// let env = time.env(7);
/// let before = env.now();
/// time.advance(Duration::from_secs(60));
/// assert_eq!(env.now(), before.plus(Duration::from_secs(60)));
/// ```
#[derive(Clone, Debug)]
pub struct SimulatedTime(Arc<AtomicI64>);

/// 2026-01-31T09:30:00.000Z, in the middle of an hour.
pub(super) const BEGIN_MILLIS: i64 = 1_769_851_800_000;

impl Default for SimulatedTime {
    fn default() -> Self {
        Self::new()
    }
}

impl SimulatedTime {
    /// Creates the clock of a new simulation, which always starts at the same time.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(AtomicI64::new(BEGIN_MILLIS)))
    }

    /// Returns the current time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }

    /// Advances the clock, at most to the last time that a [`Timestamp`] has.
    pub fn advance(&self, by: Duration) {
        let advanced = |now| Some(Timestamp::from_millis(now).plus(by).as_millis());
        let updated = self
            .0
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, advanced);
        debug_assert!(
            updated.is_ok(),
            "the function returns a value for each time"
        );
    }

    /// Creates an environment with this clock and randomness from `seed`.
    #[must_use]
    pub fn env(&self, seed: u64) -> Env {
        let clock = self.clone();
        let random = Mutex::new(fastrand::Rng::with_seed(seed));
        Env::new(
            move || clock.now(),
            move |buffer: &mut [u8]| {
                let mut random = random.lock().unwrap_or_else(PoisonError::into_inner);
                random.fill(buffer);
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_stops_at_the_last_time() {
        let time = SimulatedTime::new();
        time.advance(Duration::MAX);
        let last = time.now();
        time.advance(Duration::from_secs(1));
        assert_eq!(time.now(), last);
        assert!(last > SimulatedTime::new().now());
    }
}
