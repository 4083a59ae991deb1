//! Metrics of background maintenance.

use std::time::Duration;

use knowledge_core::model::Timestamp;
use knowledge_core::service::MaintenanceReport;
use prometheus::{IntCounter, IntCounterVec, IntGauge, Registry};

use super::catalogue::{self, register};

const OK: &str = "ok";
const FAILED: &str = "failed";

/// Metrics of the maintenance of one service.
#[derive(Clone, Debug)]
pub struct MaintenanceMetrics {
    runs: IntCounterVec,
    purged: IntCounter,
    holders_rewritten: IntCounter,
    last_success: IntGauge,
    lag: IntGauge,
}

impl MaintenanceMetrics {
    pub(super) fn new() -> Self {
        let runs = catalogue::MAINTENANCE_RUNS.counters();
        for outcome in [OK, FAILED] {
            runs.with_label_values(&[outcome]);
        }
        Self {
            runs,
            purged: catalogue::MAINTENANCE_PURGED.counter(),
            holders_rewritten: catalogue::MAINTENANCE_HOLDERS.counter(),
            last_success: catalogue::MAINTENANCE_LAST.gauge(),
            lag: catalogue::MAINTENANCE_LAG.gauge(),
        }
    }

    pub(super) fn register(&self, registry: &Registry) {
        let this = self.clone();
        register(
            registry,
            vec![
                Box::new(this.runs),
                Box::new(this.purged),
                Box::new(this.holders_rewritten),
                Box::new(this.last_success),
                Box::new(this.lag),
            ],
        );
    }

    /// Records the start of a run and the delay of its oldest due task.
    pub(crate) fn record_start(&self, now: Timestamp, oldest_due: Option<Timestamp>) {
        let late = oldest_due.map_or(0, |due| now.as_millis().saturating_sub(due.as_millis()));
        let late = Duration::from_millis(u64::try_from(late).unwrap_or(0));
        self.lag.set(seconds(late));
    }

    /// Records a completed part of a run.
    pub(crate) fn record_progress(&self, done: &MaintenanceReport) {
        self.purged.inc_by(done.purged);
        self.holders_rewritten.inc_by(done.holders_rewritten);
    }

    /// Records the end of a run.
    pub(crate) fn record_end(&self, succeeded: bool, now: Timestamp) {
        let outcome = if succeeded { OK } else { FAILED };
        self.runs.with_label_values(&[outcome]).inc();
        if succeeded {
            self.last_success.set(now.as_millis().div_euclid(1_000));
        }
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
            metrics.record_start(now, oldest_due);
            assert_eq!(metrics.lag.get(), lag, "{oldest_due:?}");
        }
    }
}
