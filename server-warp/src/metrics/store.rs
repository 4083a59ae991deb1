//! Metrics of any store, recorded at the two methods of the trait.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use knowledge_core::env::Clock;
use knowledge_core::model::Timestamp;
use knowledge_core::store::{
    Commit, CommitOutcome, Found, Mark, Read, Store, StoreError, StoreErrorKind,
};
use prometheus::{HistogramVec, IntCounter, IntCounterVec};

use super::catalogue::{STORE_BUCKETS, metrics};

const METHODS: [&str; 2] = ["read", "commit"];

metrics! {
    /// Metrics of one store and of the transactions over it.
    pub(super) struct StoreMetrics {
        duration: HistogramVec = STORE_DURATION.histograms(STORE_BUCKETS),
        errors: IntCounterVec = STORE_ERRORS.counters(),
        conflicts: IntCounter = STORE_CONFLICTS.counter(),
        retries: IntCounter = TRANSACTION_RETRIES.counter(),
    }
}

impl StoreMetrics {
    pub(super) fn new() -> Self {
        let metrics = Self::without_series();
        for method in METHODS {
            metrics.duration.with_label_values(&[method]);
            for kind in [StoreErrorKind::Unavailable, StoreErrorKind::Full] {
                metrics.errors.with_label_values(&[method, label(kind)]);
            }
        }
        metrics
    }

    fn called<T>(&self, method: &'static str, began: Instant, result: &Result<T, StoreError>) {
        self.duration
            .with_label_values(&[method])
            .observe(began.elapsed().as_secs_f64());
        if let Err(error) = result {
            self.errors
                .with_label_values(&[method, label(error.kind())])
                .inc();
        }
    }
}

/// Returns a kind of error as a label.
pub(crate) fn label(kind: StoreErrorKind) -> &'static str {
    match kind {
        StoreErrorKind::Unavailable => "unavailable",
        StoreErrorKind::Full => "full",
        StoreErrorKind::Corrupt => "corrupt",
        StoreErrorKind::Unknown => "unknown",
        _ => "other",
    }
}

/// Store whose calls are recorded.
pub(super) struct MeteredStore {
    pub(super) store: Arc<dyn Store>,
    pub(super) metrics: StoreMetrics,
}

#[async_trait]
impl Store for MeteredStore {
    async fn read(&self, reads: &[Read<'_>]) -> Result<Vec<Found>, StoreError> {
        let began = Instant::now();
        let result = self.store.read(reads).await;
        self.metrics.called("read", began, &result);
        result
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome, StoreError> {
        let began = Instant::now();
        let result = self.store.commit(commit).await;
        self.metrics.called("commit", began, &result);
        if matches!(result, Ok(CommitOutcome::Conflict)) {
            self.metrics.conflicts.inc();
        }
        result
    }

    fn mark(&self, area: &[u8]) -> Option<Mark> {
        self.store.mark(area)
    }
}

/// Clock that counts its waits as transaction retries. Core waits before a retry and at no other
/// time.
pub(super) struct MeteredClock<C> {
    pub(super) clock: C,
    pub(super) metrics: StoreMetrics,
}

#[async_trait]
impl<C: Clock> Clock for MeteredClock<C> {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn sleep(&self, duration: Duration) {
        self.metrics.retries.inc();
        self.clock.sleep(duration).await;
    }
}
