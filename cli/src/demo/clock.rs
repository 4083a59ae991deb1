//! A settable clock, which makes two weeks of history possible in a second.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use knowledge_core::env::Clock;
use knowledge_core::model::Timestamp;

/// Clock that returns the time it was set to. Clones share the time.
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
        // Callers wait for other transactions, which run in real time.
        tokio::time::sleep(duration).await;
    }
}
