//! Time and randomness, given from outside.
//!
//! Core has no clock and no source of entropy of its own: an application passes both in an [`Env`], so that the same
//! seed gives the same run, and so that core builds where neither exists.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use crate::{MaybeSendSync, Timestamp};

/// Tells the time and waits.
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
pub trait Clock: MaybeSendSync + 'static {
    /// The time now. It may jump in either direction; nothing is decided by the order of two readings.
    fn now(&self) -> Timestamp;

    /// Waits before a transaction is tried again. Without a timer it gives other tasks one turn.
    async fn sleep(&self, duration: Duration) {
        let _ = duration;
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
}

/// Fills buffers with random bytes. Tokens and secrets are made of them: outside tests they come from the operating
/// system.
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

/// The clock and the randomness of a service.
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
    /// An environment of this clock and this randomness.
    pub fn new(clock: impl Clock, randomness: impl Randomness) -> Self {
        Self {
            clock: Arc::new(clock),
            randomness: Arc::new(randomness),
        }
    }

    /// The time now.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Waits, see [`Clock::sleep`].
    pub async fn sleep(&self, duration: Duration) {
        self.clock.sleep(duration).await;
    }

    /// `N` random bytes.
    #[must_use]
    pub fn random<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.randomness.fill(&mut bytes);
        bytes
    }

    /// A time-ordered identifier (UUID version 7, RFC 9562) of the present millisecond.
    #[must_use]
    pub fn uuid(&self) -> Uuid {
        self.uuid_at(self.now())
    }

    /// A time-ordered identifier (UUID version 7, RFC 9562) of the given millisecond.
    #[must_use]
    pub fn uuid_at(&self, at: Timestamp) -> Uuid {
        let millis = u64::try_from(at.as_millis()).unwrap_or(0);
        uuid::Builder::from_unix_timestamp_millis(millis, &self.random()).into_uuid()
    }

    /// A random duration between nothing and `longest`.
    #[must_use]
    pub fn jitter(&self, longest: Duration) -> Duration {
        let fraction = u32::from_be_bytes(self.random());
        longest.mul_f64(f64::from(fraction) / f64::from(u32::MAX))
    }
}
