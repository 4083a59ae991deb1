//! A clock that is set by hand: how two weeks are made in a second.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use knowledge_core::env::Clock;
use knowledge_core::model::Timestamp;

/// Tells the time that it was set to. All clones are one clock.
#[derive(Clone, Debug)]
pub(super) struct HistoryClock {
    /// Milliseconds since the Unix epoch.
    millis: Arc<AtomicI64>,
}

impl HistoryClock {
    pub(super) fn at(time: Timestamp) -> Self {
        Self {
            millis: Arc::new(AtomicI64::new(time.as_millis())),
        }
    }

    pub(super) fn set(&self, time: Timestamp) {
        self.millis.store(time.as_millis(), Ordering::Relaxed);
    }
}

#[async_trait]
impl Clock for HistoryClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.millis.load(Ordering::Relaxed))
    }

    async fn sleep(&self, duration: Duration) {
        // What waits here waits for other transactions, which run in real time.
        tokio::time::sleep(duration).await;
    }
}
