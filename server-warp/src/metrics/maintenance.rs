//! Metrics of background maintenance.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use knowledge_core::model::Timestamp;
use knowledge_core::service::MaintenanceReport;
use prometheus::{IntCounter, IntCounterVec, IntGauge};

use super::catalogue::metrics;

const OK: &str = "ok";
const FAILED: &str = "failed";

metrics! {
    /// Metrics of the maintenance of all partitions. The gauges show the worst partition.
    pub struct MaintenanceMetrics {
        runs: IntCounterVec = MAINTENANCE_RUNS.counters(),
        purged: IntCounter = MAINTENANCE_PURGED.counter(),
        holders_rewritten: IntCounter = MAINTENANCE_HOLDERS.counter(),
        last_success: IntGauge = MAINTENANCE_LAST.gauge(),
        lag: IntGauge = MAINTENANCE_LAG.gauge(),
    }
    with partitions: Arc<Mutex<Vec<State>>>;
}

/// State of the maintenance of one partition, in seconds.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    last_success: i64,
    lag: i64,
}

impl MaintenanceMetrics {
    pub(super) fn new() -> Self {
        let metrics = Self::without_series();
        for outcome in [OK, FAILED] {
            metrics.runs.with_label_values(&[outcome]);
        }
        metrics
    }

    /// Records the start of a run in the partition at this position, and the delay of its oldest due
    /// task.
    pub(crate) fn record_start(
        &self,
        partition: usize,
        now: Timestamp,
        oldest_due: Option<Timestamp>,
    ) {
        let late = oldest_due.map_or(0, |due| now.as_millis().saturating_sub(due.as_millis()));
        let late = Duration::from_millis(u64::try_from(late).unwrap_or(0));
        let mut states = self.states(partition);
        states[partition].lag = seconds(late);
        let worst = states.iter().map(|state| state.lag).max();
        self.lag.set(worst.unwrap_or_default());
    }

    /// Returns the states of the partitions up to this one.
    fn states(&self, partition: usize) -> MutexGuard<'_, Vec<State>> {
        let mut states = self
            .partitions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if states.len() <= partition {
            states.resize(partition + 1, State::default());
        }
        states
    }

    /// Records a completed part of a run.
    pub(crate) fn record_progress(&self, done: &MaintenanceReport) {
        self.purged.inc_by(done.purged);
        self.holders_rewritten.inc_by(done.holders_rewritten);
    }

    /// Records the end of a run in the partition at this position.
    pub(crate) fn record_end(&self, partition: usize, succeeded: bool, now: Timestamp) {
        let outcome = if succeeded { OK } else { FAILED };
        self.runs.with_label_values(&[outcome]).inc();
        let mut states = self.states(partition);
        if succeeded {
            states[partition].last_success = now.as_millis().div_euclid(1_000);
        }
        let worst = states.iter().map(|state| state.last_success).min();
        self.last_success.set(worst.unwrap_or_default());
    }
}

fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maintenance_lag_is_that_of_oldest_due_task() {
        let metrics = MaintenanceMetrics::new();
        let now = Timestamp::from_millis(100_000);
        for (oldest_due, lag) in [
            (Some(Timestamp::from_millis(40_999)), 59),
            (Some(now), 0),
            // The clock was set back.
            (Some(Timestamp::from_millis(200_000)), 0),
            (None, 0),
        ] {
            metrics.record_start(0, now, oldest_due);
            assert_eq!(metrics.lag.get(), lag, "{oldest_due:?}");
        }
    }
    #[test]
    fn gauges_are_those_of_the_worst_partition() {
        let metrics = MaintenanceMetrics::new();
        let now = Timestamp::from_millis(100_000);
        metrics.record_start(0, now, Some(Timestamp::from_millis(40_000)));
        metrics.record_start(1, now, None);
        assert_eq!(metrics.lag.get(), 60);
        metrics.record_end(1, false, now);
        metrics.record_end(0, true, now);
        assert_eq!(metrics.last_success.get(), 0);
        metrics.record_end(1, true, Timestamp::from_millis(200_000));
        assert_eq!(metrics.last_success.get(), 100);
        metrics.record_start(0, now, None);
        assert_eq!(metrics.lag.get(), 0);
    }
}
