//! Clock and randomness of the operating system.
//!
//! Core takes both as parameters (see [`knowledge_core::env`]). Only this module of the server
//! reads them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use knowledge_core::env::{Clock, Env, Randomness};
use knowledge_core::model::Timestamp;

/// Clock of the operating system; it sleeps with tokio's timer.
///
/// [`sleep`](Clock::sleep) must be called within a tokio runtime whose timer is enabled; otherwise
/// it panics.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(unix_millis(SystemTime::now()))
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// Returns milliseconds since the Unix epoch, rounded down, negative before it.
fn unix_millis(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_millis()).unwrap_or(i64::MAX),
        Err(error) => {
            let nanos = error.duration().as_nanos();
            i64::try_from(nanos.div_ceil(1_000_000)).map_or(i64::MIN, |millis| -millis)
        }
    }
}

/// Random number generator of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsRandomness;

impl Randomness for OsRandomness {
    /// # Panics
    /// If the operating system provides no random bytes. Tokens, secrets and identifiers depend on
    /// them, so there is no safe way to continue.
    fn fill(&self, buffer: &mut [u8]) {
        if let Err(error) = getrandom::fill(buffer) {
            panic!("the operating system provides no random bytes: {error}");
        }
    }
}

/// Returns the environment of a service on this machine: [`SystemClock`] and [`OsRandomness`].
#[must_use]
pub fn system_env() -> Env {
    Env::new(SystemClock, OsRandomness)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unix_milliseconds_round_down_before_and_after_the_epoch() {
        let micros = Duration::from_micros;
        assert_eq!(unix_millis(UNIX_EPOCH), 0);
        assert_eq!(unix_millis(UNIX_EPOCH + micros(1_999)), 1);
        assert_eq!(unix_millis(UNIX_EPOCH - micros(1)), -1);
        assert_eq!(unix_millis(UNIX_EPOCH - micros(1_000)), -1);
        assert_eq!(unix_millis(UNIX_EPOCH - micros(1_001)), -2);
    }

    #[test]
    fn system_env_has_current_time_and_unique_identifiers() {
        let env = system_env();
        let year_2020 = Timestamp::from_millis(1_577_836_800_000);
        assert!(env.now() > year_2020, "{}", env.now());
        assert_ne!(env.uuid(), env.uuid());
    }

    #[tokio::test]
    async fn system_env_sleeps_at_least_as_long_as_requested() {
        let before = tokio::time::Instant::now();
        system_env().sleep(Duration::from_millis(20)).await;
        assert!(before.elapsed() >= Duration::from_millis(20));
    }
}
