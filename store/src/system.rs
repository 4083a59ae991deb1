//! Clock and randomness of the operating system.

#[cfg(feature = "tokio")]
use std::time::Duration;
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;

use crate::Timestamp;
use crate::env::{Clock, Env, Randomness};

/// Clock of the operating system.
///
/// With the feature `tokio`, [`sleep`](Clock::sleep) uses the timer of the current tokio runtime,
/// which must be enabled. Without the feature, and outside a runtime, it only yields.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(unix_millis(SystemTime::now()))
    }

    #[cfg(feature = "tokio")]
    async fn sleep(&self, duration: Duration) {
        if tokio::runtime::Handle::try_current().is_ok() {
            tokio::time::sleep(duration).await;
        } else {
            crate::env::yield_once().await;
        }
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

impl Env {
    /// Creates the environment of this machine: [`SystemClock`] and [`OsRandomness`].
    ///
    /// It needs the feature `system`. Add the feature `tokio` if the service runs in a tokio
    /// runtime: a transaction then waits before it is retried, instead of only yielding.
    ///
    /// ```
    /// use knowledge_store::env::Env;
    ///
    /// let env = Env::system();
    /// assert!(env.now() > "2026-01-01T00:00:00Z".parse()?);
    /// assert_ne!(env.uuid(), env.uuid());
    /// # Ok::<(), knowledge_store::InvalidTimestamp>(())
    /// ```
    #[must_use]
    pub fn system() -> Self {
        Self::new(SystemClock, OsRandomness)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;

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
        let env = Env::system();
        let year_2020 = Timestamp::from_millis(1_577_836_800_000);
        assert!(env.now() > year_2020, "{}", env.now());
        assert_ne!(env.uuid(), env.uuid());
    }

    #[test]
    fn sleep_outside_a_runtime_only_yields() {
        let env = Env::system();
        let mut sleep = std::pin::pin!(env.sleep(Duration::from_secs(3_600)));
        assert!(sleep.as_mut().now_or_never().is_none());
        assert!(sleep.as_mut().now_or_never().is_some());
    }

    #[cfg(not(feature = "tokio"))]
    #[tokio::test(start_paused = true)]
    async fn sleep_without_tokio_takes_no_time() {
        let before = tokio::time::Instant::now();
        Env::system().sleep(Duration::from_secs(3_600)).await;
        assert_eq!(before.elapsed(), Duration::ZERO);
    }

    #[cfg(feature = "tokio")]
    #[tokio::test(start_paused = true)]
    async fn sleep_with_tokio_takes_the_requested_time() {
        let before = tokio::time::Instant::now();
        Env::system().sleep(Duration::from_secs(3_600)).await;
        assert!(before.elapsed() >= Duration::from_secs(3_600));
    }
}
