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

    /// Advances the clock.
    pub fn advance(&self, by: Duration) {
        let millis = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        self.0.fetch_add(millis, Ordering::SeqCst);
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
