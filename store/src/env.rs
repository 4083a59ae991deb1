//! Clock and randomness, supplied by the application.
//!
//! The service has neither of its own: the application passes both in an [`Env`]. The same seed
//! therefore gives the same run, and the code builds on targets that have neither. With the feature
//! `system`, `Env::system` uses the operating system's clock and randomness.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

#[cfg(feature = "system")]
pub use crate::system::{OsRandomness, SystemClock};
use crate::{MaybeSendSync, Timestamp};

/// Source of the current time and of delays.
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
pub trait Clock: MaybeSendSync + 'static {
    /// Returns the current time.
    ///
    /// It may jump in either direction; no decision depends on the order of two readings.
    fn now(&self) -> Timestamp;

    /// Waits before a transaction is retried. Without a timer it only yields to other tasks.
    async fn sleep(&self, duration: Duration) {
        let _ = duration;
        yield_once().await;
    }
}

/// Lets other tasks run once.
pub(crate) async fn yield_once() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return std::task::Poll::Ready(());
        }
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

/// Source of random bytes.
///
/// Tokens and secrets are derived from these bytes: outside tests, use the operating system's
/// source.
pub trait Randomness: MaybeSendSync + 'static {
    /// Overwrites the whole buffer.
    fn fill(&self, buffer: &mut [u8]);
}

impl<F: Fn() -> Timestamp + MaybeSendSync + 'static> Clock for F {
    fn now(&self) -> Timestamp {
        self()
    }
}

impl<F: Fn(&mut [u8]) + MaybeSendSync + 'static> Randomness for F {
    fn fill(&self, buffer: &mut [u8]) {
        self(buffer);
    }
}

/// Clock and randomness of a service.
///
/// With the feature `system`, `Env::system` creates it from the operating system's clock and
/// randomness. Tests supply their own:
///
/// ```
/// use knowledge_store::env::Env;
/// use knowledge_store::Timestamp;
///
/// // A closure is a clock, another is a source of bytes.
/// let env = Env::new(|| Timestamp::UNIX_EPOCH, |buffer: &mut [u8]| buffer.fill(7));
/// assert_eq!(env.now().to_string(), "1970-01-01T00:00:00.000Z");
/// ```
#[derive(Clone)]
pub struct Env {
    clock: Arc<dyn Clock>,
    randomness: Arc<dyn Randomness>,
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Env").finish_non_exhaustive()
    }
}

impl Env {
    /// Creates an environment from a clock and a source of randomness.
    pub fn new(clock: impl Clock, randomness: impl Randomness) -> Self {
        Self {
            clock: Arc::new(clock),
            randomness: Arc::new(randomness),
        }
    }

    /// Returns the current time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Waits, see [`Clock::sleep`].
    pub async fn sleep(&self, duration: Duration) {
        self.clock.sleep(duration).await;
    }

    /// Returns `N` random bytes.
    #[must_use]
    pub fn random<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.randomness.fill(&mut bytes);
        bytes
    }

    /// Creates a time-ordered identifier (UUID version 7, RFC 9562) of the current millisecond.
    #[must_use]
    pub fn uuid(&self) -> Uuid {
        self.uuid_at(self.now())
    }

    /// Creates a time-ordered identifier (UUID version 7, RFC 9562) of the given millisecond.
    #[must_use]
    pub fn uuid_at(&self, at: Timestamp) -> Uuid {
        let millis = u64::try_from(at.as_millis()).unwrap_or(0);
        uuid::Builder::from_unix_timestamp_millis(millis, &self.random()).into_uuid()
    }

    /// Returns a random duration from zero to `longest`.
    #[must_use]
    pub fn jitter(&self, longest: Duration) -> Duration {
        let fraction = u32::from_be_bytes(self.random());
        longest.mul_f64(f64::from(fraction) / f64::from(u32::MAX))
    }
}
