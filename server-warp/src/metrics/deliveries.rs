//! What the deliveries count, and what the outbox holds when somebody asks.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use knowledge_core::model::{DeliveryFailureCode, Timestamp};
use knowledge_core::service::{Attempt, Expanded, Finished, KnowledgeService, OutboxStatus};
use prometheus::{HistogramVec, IntCounter, IntCounterVec, IntGauge, Registry};

use super::catalogue::{
    self, DELIVERY_BUCKETS, ENDPOINTS_DISABLED, OUTBOX_AGE, OUTBOX_DELIVERIES, OUTBOX_EVENTS,
    OUTBOX_OVERDUE, register,
};
use super::scraped::{Readings, Scraped};
use crate::explain::explain;

/// How long a scrape waits for the outbox. Without an answer it shows everything else.
const OUTBOX_READ_TIMEOUT: Duration = Duration::from_secs(2);

const STATUS_CLASSES: [&str; 4] = ["http_3xx", "http_4xx", "http_5xx", "http_other"];

/// The numbers of the deliveries of one service.
#[derive(Clone, Debug)]
pub struct DeliveryMetrics {
    events_expanded: IntCounter,
    queued: IntCounter,
    given_up: IntCounter,
    attempts: IntCounterVec,
    failures: IntCounterVec,
    duration: HistogramVec,
    in_flight: IntGauge,
    in_flight_max: IntGauge,
    dispatch_failures: IntCounterVec,
    outbox: Arc<Mutex<Option<Outbox>>>,
}

/// The outbox as it was last read.
#[derive(Clone, Copy, Debug)]
struct Outbox {
    status: OutboxStatus,
    at: Timestamp,
}

/// What the dispatcher does again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DispatchStep {
    Expand,
    Claim,
    Renew,
    Record,
    /// A whole turn, which panicked.
    Turn,
}

impl DispatchStep {
    const ALL: [Self; 5] = [
        Self::Expand,
        Self::Claim,
        Self::Renew,
        Self::Record,
        Self::Turn,
    ];

    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Expand => "expand",
            Self::Claim => "claim",
            Self::Renew => "renew",
            Self::Record => "record",
            Self::Turn => "turn",
        }
    }
}

/// What became of the record of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recorded {
    /// Core has taken it so.
    As(Finished),
    /// Core cannot take it.
    Not,
}

impl Recorded {
    const LABELS: [&str; 5] = ["delivered", "retry", "dead", "lease_lost", "unrecorded"];

    const fn label(self) -> &'static str {
        match self {
            Self::As(Finished::Delivered) => "delivered",
            Self::As(Finished::Retry(_)) => "retry",
            Self::As(Finished::Dead(_)) => "dead",
            Self::As(Finished::LeaseLost) => "lease_lost",
            Self::Not => "unrecorded",
        }
    }
}

impl DeliveryMetrics {
    pub(super) fn new() -> Self {
        let metrics = Self {
            events_expanded: catalogue::EVENTS_EXPANDED.counter(),
            queued: catalogue::DELIVERIES_MADE.counter(),
            given_up: catalogue::DELIVERIES_GIVEN_UP.counter(),
            attempts: catalogue::DELIVERY_ATTEMPTS.counters(),
            failures: catalogue::DELIVERY_FAILURES.counters(),
            duration: catalogue::DELIVERY_DURATION.histograms(DELIVERY_BUCKETS),
            in_flight: catalogue::DELIVERIES_IN_FLIGHT.gauge(),
            in_flight_max: catalogue::DELIVERIES_IN_FLIGHT_MAX.gauge(),
            dispatch_failures: catalogue::DISPATCH_FAILURES.counters(),
            outbox: Arc::default(),
        };
        // A series that is there from the start has a rate from the first time that it moves.
        for outcome in Recorded::LABELS {
            metrics.attempts.with_label_values(&[outcome]);
        }
        let codes = DeliveryFailureCode::ALL.iter();
        let codes = codes.filter(|code| !code.is_unsent());
        for reason in codes.map(|code| code.as_str()).chain(STATUS_CLASSES) {
            metrics.failures.with_label_values(&[reason]);
        }
        for step in DispatchStep::ALL {
            let labels = &[step.label()];
            metrics.dispatch_failures.with_label_values(labels);
        }
        metrics.duration.with_label_values::<&str>(&[]);
        metrics
    }

    pub(super) fn register(&self, registry: &Registry) {
        let this = self.clone();
        let outbox = Scraped::new(
            &[
                OUTBOX_EVENTS,
                OUTBOX_DELIVERIES,
                OUTBOX_AGE,
                OUTBOX_OVERDUE,
                ENDPOINTS_DISABLED,
            ],
            {
                let outbox = Arc::clone(&self.outbox);
                move |readings| show(&outbox, readings)
            },
        );
        register(
            registry,
            vec![
                Box::new(this.events_expanded),
                Box::new(this.queued),
                Box::new(this.given_up),
                Box::new(this.attempts),
                Box::new(this.failures),
                Box::new(this.duration),
                Box::new(this.in_flight),
                Box::new(this.in_flight_max),
                Box::new(this.dispatch_failures),
                Box::new(outbox),
            ],
        );
    }

    /// Reads what is on its way, for what is rendered next. What cannot be read is not shown.
    pub async fn read_outbox(&self, service: &KnowledgeService) {
        let read = tokio::time::timeout(OUTBOX_READ_TIMEOUT, service.outbox_status()).await;
        let status = match read {
            Ok(Ok(status)) => Some(status),
            Ok(Err(error)) => {
                let detail = explain(&error);
                tracing::warn!(detail, "the outbox cannot be read for its metrics");
                None
            }
            Err(_) => {
                tracing::warn!("the outbox is not read in time for its metrics");
                None
            }
        };
        let at = service.env().now();
        let read = status.map(|status| Outbox { status, at });
        *self.outbox.lock().unwrap_or_else(PoisonError::into_inner) = read;
    }

    pub(crate) fn set_in_flight_max(&self, exchanges: usize) {
        let exchanges = i64::try_from(exchanges).unwrap_or(i64::MAX);
        self.in_flight_max.set(exchanges);
    }

    pub(crate) fn expanded(&self, expanded: &Expanded) {
        self.events_expanded.inc_by(expanded.events);
        self.queued.inc_by(expanded.deliveries);
        self.gave_up(expanded.given_up);
    }

    pub(crate) fn gave_up(&self, deliveries: u64) {
        self.given_up.inc_by(deliveries);
    }

    /// An attempt is under way until what is returned is dropped.
    pub(crate) fn exchange_begins(&self) -> InFlight {
        self.in_flight.inc();
        InFlight(self.in_flight.clone())
    }

    /// An exchange has ended.
    pub(crate) fn exchanged(&self, attempt: &Attempt) {
        self.duration
            .with_label_values::<&str>(&[])
            .observe(attempt.duration.as_secs_f64());
        if let Some(reason) = failure(attempt) {
            self.failures.with_label_values(&[reason]).inc();
        }
    }

    /// What came of an attempt is recorded, or will not be.
    pub(crate) fn recorded(&self, recorded: Recorded) {
        self.attempts.with_label_values(&[recorded.label()]).inc();
    }

    /// A step has failed, and will be tried again.
    pub(crate) fn failed(&self, step: DispatchStep) {
        let labels = &[step.label()];
        self.dispatch_failures.with_label_values(labels).inc();
    }
}

/// An attempt that is under way.
#[derive(Debug)]
pub(crate) struct InFlight(IntGauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Why an attempt is no success, as a label.
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
    reason = "the format has floating-point numbers alone"
)]
fn show(outbox: &Mutex<Option<Outbox>>, readings: &mut Readings) {
    let read = *outbox.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(Outbox { status, at }) = read else {
        return;
    };
    readings.number(&OUTBOX_EVENTS, status.unexpanded);
    readings.number(&OUTBOX_DELIVERIES, status.undelivered);
    for (description, since) in [
        (&OUTBOX_AGE, status.oldest),
        (&OUTBOX_OVERDUE, status.overdue_since),
    ] {
        let long = since.map_or(Duration::ZERO, |since| at.since(since));
        readings.real(description, long.as_millis() as f64 / 1e3);
    }
    readings.number(&ENDPOINTS_DISABLED, status.disabled_endpoints);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use knowledge_core::model::DeliveryFailure;
    use knowledge_core::service::DeliveryAnswer;

    use super::*;

    fn answered(status: u16) -> Attempt {
        Attempt {
            duration: Duration::from_millis(3),
            outcome: Ok(DeliveryAnswer {
                status,
                retry_after: None,
            }),
        }
    }

    #[test]
    fn failures_are_counted_by_their_class() {
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
    fn every_label_that_is_used_is_there_from_the_start() {
        let metrics = DeliveryMetrics::new();
        let before = (series(&metrics.attempts), series(&metrics.failures));
        let recorded = [
            Recorded::As(Finished::Delivered),
            Recorded::As(Finished::Retry(Timestamp::UNIX_EPOCH)),
            Recorded::As(Finished::Dead(None)),
            Recorded::As(Finished::LeaseLost),
            Recorded::Not,
        ];
        for recorded in recorded {
            metrics.recorded(recorded);
        }
        for status in [204, 301, 404, 500, 600] {
            metrics.exchanged(&answered(status));
        }
        let after = (series(&metrics.attempts), series(&metrics.failures));
        assert_eq!(after, before);
        assert_eq!(before.0, recorded.len());
    }

    /// Those of what was never sent are no reasons of attempts.
    #[test]
    fn the_reasons_of_failures_are_those_of_the_documentation() {
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
    fn the_ages_are_those_of_the_oldest_event_and_of_the_first_turn() {
        let metrics = DeliveryMetrics::new();
        let registry = Registry::new();
        metrics.register(&registry);
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
