//! Metrics of deliveries, and of the outbox as of the last scrape.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use knowledge_core::model::{DeliveryFailureCode, Timestamp};
use knowledge_core::service::{
    Attempt, AttemptOutcome, FanOutReport, KnowledgeService, OutboxStatus,
};
use prometheus::{HistogramVec, IntCounter, IntCounterVec, IntGauge, Registry};

use super::catalogue::{
    DELIVERY_BUCKETS, ENDPOINTS_DISABLED, OUTBOX_AGE, OUTBOX_DELIVERIES, OUTBOX_EVENTS,
    OUTBOX_OVERDUE, metrics, register,
};
use super::http::GaugeGuard;
use super::scrape::{Samples, ScrapeCollector, read_store};

const STATUS_CLASSES: [&str; 4] = ["http_3xx", "http_4xx", "http_5xx", "http_other"];

metrics! {
    /// Metrics of the deliveries of one service.
    pub struct DeliveryMetrics {
        events_fanned_out: IntCounter = EVENTS_FANNED_OUT.counter(),
        queued: IntCounter = DELIVERIES_QUEUED.counter(),
        dead_lettered: IntCounter = DELIVERIES_DEAD_LETTERED.counter(),
        attempts: IntCounterVec = DELIVERY_ATTEMPTS.counters(),
        failures: IntCounterVec = DELIVERY_FAILURES.counters(),
        duration: HistogramVec = DELIVERY_DURATION.histograms(DELIVERY_BUCKETS),
        in_flight: IntGauge = DELIVERIES_IN_FLIGHT.gauge(),
        in_flight_max: IntGauge = DELIVERIES_IN_FLIGHT_MAX.gauge(),
        dispatch_failures: IntCounterVec = DISPATCH_FAILURES.counters(),
    }
    with outbox: Arc<Mutex<Option<Outbox>>>;
}

/// Outbox status at the last read.
#[derive(Clone, Copy, Debug)]
struct Outbox {
    status: OutboxStatus,
    at: Timestamp,
}

knowledge_core::plain_string_enum! {
    /// Step of the dispatcher.
    DispatchStep {
        /// Fan-out of events to their endpoints.
        FanOut = "fan_out",
        /// Claim of deliveries.
        Claim = "claim",
        /// Renewal of leases.
        Renew = "renew",
        /// Recording of results.
        Record = "record",
        /// A whole run, which panicked.
        Run = "run",
    }
}

/// Result of recording an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordResult {
    /// The service recorded it with this outcome.
    Recorded(AttemptOutcome),
    /// The service could not record it.
    Unrecorded,
}

impl RecordResult {
    const LABELS: [&str; 5] = ["delivered", "retry", "dead", "lease_lost", "unrecorded"];

    const fn label(self) -> &'static str {
        match self {
            Self::Recorded(AttemptOutcome::Delivered) => "delivered",
            Self::Recorded(AttemptOutcome::Retry(_)) => "retry",
            Self::Recorded(AttemptOutcome::Dead(_)) => "dead",
            Self::Recorded(AttemptOutcome::LeaseLost) => "lease_lost",
            Self::Unrecorded => "unrecorded",
        }
    }
}

impl DeliveryMetrics {
    pub(super) fn new() -> Self {
        let metrics = Self::without_series();
        // A series that exists from the start has a rate from its first increment.
        for outcome in RecordResult::LABELS {
            metrics.attempts.with_label_values(&[outcome]);
        }
        let codes = DeliveryFailureCode::ALL.iter();
        let codes = codes.filter(|code| !code.is_unsent());
        for reason in codes.map(|code| code.as_str()).chain(STATUS_CLASSES) {
            metrics.failures.with_label_values(&[reason]);
        }
        for step in DispatchStep::ALL {
            let labels = &[step.as_str()];
            metrics.dispatch_failures.with_label_values(labels);
        }
        metrics.duration.with_label_values::<&str>(&[]);
        metrics
    }

    /// Registers the metrics of the outbox.
    pub(super) fn register_outbox(&self, registry: &Registry) {
        let outbox = Arc::clone(&self.outbox);
        let rows = [
            OUTBOX_EVENTS,
            OUTBOX_DELIVERIES,
            OUTBOX_AGE,
            OUTBOX_OVERDUE,
            ENDPOINTS_DISABLED,
        ];
        let outbox = ScrapeCollector::new(&rows, move |samples| show(&outbox, samples));
        register(registry, vec![Box::new(outbox)]);
    }

    /// Reads the outbox status for the next rendering. On failure its metrics are omitted.
    pub async fn read_outbox(&self, service: &KnowledgeService) {
        let status = read_store("outbox", service.dispatcher().outbox_status()).await;
        let at = service.env().now();
        let read = status.map(|status| Outbox { status, at });
        *self.outbox.lock().unwrap_or_else(PoisonError::into_inner) = read;
    }

    pub(crate) fn set_in_flight_max(&self, exchanges: usize) {
        let exchanges = i64::try_from(exchanges).unwrap_or(i64::MAX);
        self.in_flight_max.set(exchanges);
    }

    pub(crate) fn record_fan_out(&self, report: &FanOutReport) {
        self.events_fanned_out.inc_by(report.events);
        self.queued.inc_by(report.deliveries);
        self.record_dead_letters(report.dead_lettered);
    }

    pub(crate) fn record_dead_letters(&self, deliveries: u64) {
        self.dead_lettered.inc_by(deliveries);
    }

    /// Counts an attempt as in flight until the result is dropped.
    pub(crate) fn start_attempt(&self) -> GaugeGuard {
        GaugeGuard::new(&self.in_flight)
    }

    /// Records a completed exchange.
    pub(crate) fn record_attempt(&self, attempt: &Attempt) {
        self.duration
            .with_label_values::<&str>(&[])
            .observe(attempt.duration.as_secs_f64());
        if let Some(reason) = failure(attempt) {
            self.failures.with_label_values(&[reason]).inc();
        }
    }

    /// Records the result of recording an attempt.
    pub(crate) fn record_result(&self, result: RecordResult) {
        self.attempts.with_label_values(&[result.label()]).inc();
    }

    /// Records a failed step, which will be retried.
    pub(crate) fn record_failure(&self, step: DispatchStep) {
        let labels = &[step.as_str()];
        self.dispatch_failures.with_label_values(labels).inc();
    }
}

/// Returns the label of a failed attempt's reason; `None` if the attempt succeeded.
fn failure(attempt: &Attempt) -> Option<&'static str> {
    match &attempt.outcome {
        Ok(answer) => match answer.status {
            200..=299 => None,
            300..=399 => Some("http_3xx"),
            400..=499 => Some("http_4xx"),
            500..=599 => Some("http_5xx"),
            _ => Some("http_other"),
        },
        Err(failure) => Some(failure.code.as_str()),
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "the format has only floating-point numbers"
)]
fn show(outbox: &Mutex<Option<Outbox>>, samples: &mut Samples) {
    let read = *outbox.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(Outbox { status, at }) = read else {
        return;
    };
    samples.integer(&OUTBOX_EVENTS, status.pending_events);
    samples.integer(&OUTBOX_DELIVERIES, status.undelivered);
    for (description, since) in [
        (&OUTBOX_AGE, status.oldest),
        (&OUTBOX_OVERDUE, status.overdue_since),
    ] {
        let long = since.map_or(Duration::ZERO, |since| at.since(since));
        samples.float(description, long.as_millis() as f64 / 1e3);
    }
    samples.integer(&ENDPOINTS_DISABLED, status.disabled_endpoints);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use knowledge_core::model::DeliveryFailure;
    use knowledge_core::service::DeliveryResponse;

    use super::*;

    fn answered(status: u16) -> Attempt {
        Attempt {
            duration: Duration::from_millis(3),
            outcome: Ok(DeliveryResponse {
                status,
                retry_after: None,
            }),
        }
    }

    #[test]
    fn failures_are_counted_by_class() {
        for (status, reason) in [
            (200, None),
            (299, None),
            (302, Some("http_3xx")),
            (410, Some("http_4xx")),
            (503, Some("http_5xx")),
            (799, Some("http_other")),
        ] {
            assert_eq!(failure(&answered(status)), reason, "{status}");
        }
        let refused = Attempt {
            duration: Duration::ZERO,
            outcome: Err(DeliveryFailure {
                code: DeliveryFailureCode::AddressRefused,
                message: "not there".to_owned(),
            }),
        };
        assert_eq!(failure(&refused), Some("address_refused"));
    }

    #[test]
    fn label_values_are_initialized_from_the_start() {
        let metrics = DeliveryMetrics::new();
        let before = (series(&metrics.attempts), series(&metrics.failures));
        let recorded = [
            RecordResult::Recorded(AttemptOutcome::Delivered),
            RecordResult::Recorded(AttemptOutcome::Retry(Timestamp::UNIX_EPOCH)),
            RecordResult::Recorded(AttemptOutcome::Dead(None)),
            RecordResult::Recorded(AttemptOutcome::LeaseLost),
            RecordResult::Unrecorded,
        ];
        for recorded in recorded {
            metrics.record_result(recorded);
        }
        for status in [204, 301, 404, 500, 600] {
            metrics.record_attempt(&answered(status));
        }
        let after = (series(&metrics.attempts), series(&metrics.failures));
        assert_eq!(after, before);
        assert_eq!(before.0, recorded.len());
    }

    /// Deliveries that were never sent have no attempts and so no reasons.
    #[test]
    fn failure_reasons_match_documentation() {
        use prometheus::core::Collector;
        let families = DeliveryMetrics::new().failures.collect();
        let series = families.iter().flat_map(|family| family.get_metric());
        let reasons: BTreeSet<_> = series
            .map(|metric| metric.get_label()[0].value().to_owned())
            .collect();
        let operations = include_str!("../../../docs/operations.md");
        let text = operations.split_once("Reasons of\n`knowledge_delivery_failures_total`:");
        let (text, _) = text
            .and_then(|(_, text)| text.split_once("Steps of"))
            .expect("the documentation has them");
        let documented = text.split('`').skip(1).step_by(2).map(str::to_owned);
        assert_eq!(reasons, documented.collect());
        assert!(!reasons.contains("endpoint_off"));
    }

    fn series(counters: &IntCounterVec) -> usize {
        use prometheus::core::Collector;
        let families = counters.collect();
        families
            .iter()
            .map(|family| family.get_metric().len())
            .sum()
    }

    #[test]
    fn ages_are_of_oldest_event_and_first_ready_entry() {
        let metrics = DeliveryMetrics::new();
        let registry = Registry::new();
        metrics.register_outbox(&registry);
        let shown = |name: &str| {
            let families = registry.gather();
            let age = families.iter().find(|family| family.name() == name);
            age.map(|family| family.get_metric()[0].get_gauge().get_value())
        };
        assert_eq!(shown(OUTBOX_AGE.name), None, "it was not read yet");
        let at = Timestamp::from_millis(100_000);
        for (since, age) in [
            (None, 0.0),
            (Some(Timestamp::from_millis(98_500)), 1.5),
            // The clock was set back.
            (Some(Timestamp::from_millis(200_000)), 0.0),
        ] {
            let show = |status| {
                *metrics.outbox.lock().unwrap() = Some(Outbox { status, at });
                (shown(OUTBOX_AGE.name), shown(OUTBOX_OVERDUE.name))
            };
            let oldest = OutboxStatus {
                oldest: since,
                ..OutboxStatus::default()
            };
            assert_eq!(show(oldest), (Some(age), Some(0.0)), "{since:?}");
            let overdue = OutboxStatus {
                overdue_since: since,
                ..OutboxStatus::default()
            };
            assert_eq!(show(overdue), (Some(0.0), Some(age)), "{since:?}");
        }
    }
}
