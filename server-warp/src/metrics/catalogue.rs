//! Table of all metrics, from which they are registered, described on `/metrics` and documented.

use prometheus::{
    HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts, core::Collector,
};

/// Type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Number that only grows, from zero at the start of the process.
    Counter,
    /// Number that goes up and down.
    Gauge,
    /// Distribution of observed values.
    Histogram,
}

impl Kind {
    /// Returns the type's name in the text format.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// Description of one metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// Name, ending in the unit and, for counters, in `_total`.
    pub name: &'static str,
    /// Type.
    pub kind: Kind,
    /// Labels that distinguish its series.
    pub labels: &'static [&'static str],
    /// One sentence without a full stop.
    pub help: &'static str,
}

macro_rules! catalogue {
    ($($constant:ident = $kind:ident $name:literal $labels:tt $help:literal;)+) => {
        $(pub(super) const $constant: Description = Description {
            name: $name,
            kind: Kind::$kind,
            labels: &$labels,
            help: $help,
        };)+

        /// All metrics, in the order of the documentation.
        pub const CATALOGUE: &[Description] = &[$($constant),+];
    };
}

catalogue! {
    REQUESTS = Counter "knowledge_http_requests_total" ["route", "method", "status"]
        "Completed requests";
    REQUEST_DURATION = Histogram "knowledge_http_request_duration_seconds" ["route", "method"]
        "Time from the end of a request's header to its response";
    REQUESTS_IN_WORK = Gauge "knowledge_http_requests_in_work" []
        "Requests in flight, counted once their body has arrived";
    REQUESTS_IN_WORK_MAX = Gauge "knowledge_http_requests_in_work_max" []
        "Maximum number of requests in flight";
    REQUESTS_REJECTED = Counter "knowledge_http_requests_rejected_total" ["reason"]
        "Requests that the server itself answered with an error; in_work_full and body_memory_full \
         are load shedding";
    REQUESTS_DROPPED = Counter "knowledge_http_requests_dropped_total" []
        "Requests dropped without a response because the client disconnected or the server stopped";
    RATE_LIMITED = Counter "knowledge_http_requests_rate_limited_total" []
        "Requests rejected with 429";
    REPLAYS = Counter "knowledge_http_idempotent_replays_total" []
        "Responses replayed for a repeated idempotency key";
    REQUEST_BYTES = Counter "knowledge_http_request_body_bytes_total" []
        "Received bytes of request bodies";
    RESPONSE_BYTES = Counter "knowledge_http_response_body_bytes_total" []
        "Sent bytes of response bodies";
    CONNECTIONS_OPEN = Gauge "knowledge_http_connections_open" []
        "Open connections";
    CONNECTIONS_MAX = Gauge "knowledge_http_connections_max" []
        "Maximum number of open connections";
    CONNECTIONS_ACCEPTED = Counter "knowledge_http_connections_accepted_total" []
        "Connections accepted";
    CONNECTIONS_CLOSED = Counter "knowledge_http_connections_closed_total" ["reason"]
        "Connections closed";
    ACCEPT_FAILURES = Counter "knowledge_http_accept_failures_total" []
        "Failures to accept a connection for lack of file descriptors or memory";
    CERTIFICATE_EXPIRY = Gauge "knowledge_tls_certificate_expiry_timestamp_seconds" []
        "Unix time of the earliest expiry in the certificate chain in use; 0 without TLS";
    MEMORIES = Gauge "knowledge_memories" []
        "Memories of all organisations";
    REVIEW_BACKLOG = Gauge "knowledge_review_backlog_memories" []
        "Memories of all organisations that await review";
    STORE_DURATION = Histogram "knowledge_store_operation_duration_seconds" ["method"]
        "Duration of one call of the store";
    STORE_ERRORS = Counter "knowledge_store_errors_total" ["method", "kind"]
        "Failed calls of the store";
    STORE_CONFLICTS = Counter "knowledge_store_conflicts_total" []
        "Commits rejected because of a conflicting change";
    TRANSACTION_RETRIES = Counter "knowledge_store_transaction_retries_total" []
        "Transaction retries";
    STORE_COMMITS = Counter "knowledge_store_commits_total" []
        "Applied commits";
    GROUP_COMMITS = Histogram "knowledge_store_group_commits" []
        "Commits written and synced together";
    SYNC_DURATION = Histogram "knowledge_store_sync_duration_seconds" []
        "Time to flush and sync one group of commits";
    SYNC_FAILURES = Counter "knowledge_store_sync_failures_total" []
        "Failures to sync a group of commits; one closes the store";
    STORE_OPEN = Gauge "knowledge_store_open" []
        "1 while the store is open, 0 after an error has closed it";
    STORE_ENTRIES = Gauge "knowledge_store_entries" []
        "Entries in the store";
    STORE_CORRUPT_READS = Counter "knowledge_store_corrupt_reads_total" []
        "Reads that found corrupt data";
    STORE_CHECKING = Gauge "knowledge_store_checking" []
        "1 while every entry is being checked in the background after an unclean shutdown";
    STORE_DISK = Gauge "knowledge_store_disk_bytes" []
        "Size of the store's files";
    STORE_DISK_FREE = Gauge "knowledge_store_disk_free_bytes" []
        "Free bytes on the store's file system";
    MAINTENANCE_RUNS = Counter "knowledge_maintenance_runs_total" ["outcome"]
        "Runs of background maintenance";
    MAINTENANCE_PURGED = Counter "knowledge_maintenance_swept_total" []
        "Scheduled tasks completed by maintenance";
    MAINTENANCE_HOLDERS = Counter "knowledge_maintenance_holders_rewritten_total" []
        "Holders of deleted roles moved to the replacement role";
    MAINTENANCE_LAST = Gauge "knowledge_maintenance_last_success_timestamp_seconds" []
        "Unix time of the last successful maintenance run; 0 before the first";
    MAINTENANCE_LAG = Gauge "knowledge_maintenance_lag_seconds" []
        "Delay of the oldest due task at the start of the last maintenance run";
    OUTBOX_EVENTS = Gauge "knowledge_outbox_events" []
        "Events not yet fanned out to their endpoints, counted up to 100";
    OUTBOX_DELIVERIES = Gauge "knowledge_outbox_deliveries" []
        "Deliveries that are neither delivered nor dead-lettered";
    OUTBOX_AGE = Gauge "knowledge_outbox_oldest_age_seconds" []
        "Age of the oldest event that is not yet delivered or dead-lettered at every endpoint; 0 \
         if none";
    OUTBOX_OVERDUE = Gauge "knowledge_outbox_overdue_seconds" []
        "Age of the oldest delivery that is due but unclaimed; 0 if none";
    ENDPOINTS_DISABLED = Gauge "knowledge_endpoints_disabled" []
        "Webhooks and citation subscriptions that the service has disabled";
    EVENTS_FANNED_OUT = Counter "knowledge_events_fanned_out_total" []
        "Events fanned out to their endpoints, including events without endpoints";
    DELIVERIES_QUEUED = Counter "knowledge_deliveries_queued_total" []
        "Deliveries created by fan-out, including those dead-lettered immediately";
    DELIVERIES_DEAD_LETTERED = Counter "knowledge_deliveries_dead_lettered_total" []
        "Deliveries dead-lettered without a further attempt: their endpoint is inactive or their \
         event unreadable";
    DELIVERY_ATTEMPTS = Counter "knowledge_delivery_attempts_total" ["outcome"]
        "Completed delivery attempts";
    DELIVERY_FAILURES = Counter "knowledge_delivery_failures_total" ["reason"]
        "Delivery attempts without a 2xx response";
    DELIVERY_DURATION = Histogram "knowledge_delivery_duration_seconds" []
        "Duration of an HTTP exchange with an endpoint";
    DELIVERIES_IN_FLIGHT = Gauge "knowledge_deliveries_in_flight" []
        "Delivery attempts in flight or being recorded";
    DELIVERIES_IN_FLIGHT_MAX = Gauge "knowledge_deliveries_in_flight_max" []
        "Maximum number of delivery attempts in flight; 0 if this server delivers nothing";
    DISPATCH_FAILURES = Counter "knowledge_dispatch_failures_total" ["step"]
        "Failed steps of the dispatcher, which are retried";
    TRACE_EXPORTS = Counter "knowledge_trace_exports_total" ["outcome"]
        "Batches of spans sent to the collector";
    BUILD_INFO = Gauge "knowledge_build_info" ["version"]
        "Always 1; the version is in the labels";
    PROCESS_START = Gauge "process_start_time_seconds" []
        "Unix time at which the process started";
    PROCESS_CPU = Counter "process_cpu_seconds_total" []
        "CPU time used by the process, user and system";
    PROCESS_RESIDENT = Gauge "process_resident_memory_bytes" []
        "Resident memory of the process";
    PROCESS_VIRTUAL = Gauge "process_virtual_memory_bytes" []
        "Virtual memory of the process";
    PROCESS_FDS = Gauge "process_open_fds" []
        "Open file descriptors of the process";
    PROCESS_FDS_MAX = Gauge "process_max_fds" []
        "Maximum number of open file descriptors of the process";
}

/// Buckets of a request's duration, in seconds: from half a millisecond to the default timeout.
pub(super) const REQUEST_BUCKETS: &[f64] = &[
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
];

/// Buckets of a store call's duration, in seconds: a read from the cache takes microseconds.
pub(super) const STORE_BUCKETS: &[f64] = &[
    0.000_01, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1,
    0.25, 1.0, 5.0,
];

/// Buckets of a delivery attempt's duration, in seconds: up to its timeout.
pub(super) const DELIVERY_BUCKETS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0,
];

/// Reason why registration cannot fail: the catalogue depends on no data, so tests find errors.
const WELL_FORMED: &str = "the catalogue holds valid, distinct names";

impl Description {
    fn opts(&self) -> Opts {
        Opts::new(self.name, self.help)
    }

    pub(super) fn counter(&self) -> IntCounter {
        IntCounter::with_opts(self.opts()).expect(WELL_FORMED)
    }

    pub(super) fn counters(&self) -> IntCounterVec {
        IntCounterVec::new(self.opts(), self.labels).expect(WELL_FORMED)
    }

    pub(super) fn gauge(&self) -> IntGauge {
        IntGauge::with_opts(self.opts()).expect(WELL_FORMED)
    }

    pub(super) fn histograms(&self, buckets: &[f64]) -> HistogramVec {
        let opts = HistogramOpts::from(self.opts()).buckets(buckets.to_vec());
        HistogramVec::new(opts, self.labels).expect(WELL_FORMED)
    }
}

/// Declares a group of metrics, each with the row of the catalogue that it is created from, and the
/// state that it has besides, if any.
macro_rules! metrics {
    (
        $(#[$meta:meta])*
        $visibility:vis struct $name:ident {
            $($field:ident: $type:ty = $row:ident.$new:ident($($buckets:expr)?),)+
        }
        $(with $state:ident: $state_type:ty;)?
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug)]
        $visibility struct $name {
            $($field: $type,)+
            $($state: $state_type,)?
        }

        impl $name {
            /// Creates the metrics. Those with labels have no series yet.
            fn without_series() -> Self {
                Self {
                    $($field: $crate::metrics::catalogue::$row.$new($($buckets)?),)+
                    $($state: Default::default(),)?
                }
            }

            pub(super) fn register(&self, registry: &prometheus::Registry) {
                let collectors: Vec<Box<dyn prometheus::core::Collector>> =
                    vec![$(Box::new(self.$field.clone())),+];
                $crate::metrics::catalogue::register(registry, collectors);
            }
        }
    };
}
pub(super) use metrics;

/// Registers these collectors.
pub(super) fn register(registry: &prometheus::Registry, collectors: Vec<Box<dyn Collector>>) {
    for collector in collectors {
        registry.register(collector).expect(WELL_FORMED);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn metric_names_are_unique_and_suffixed_by_kind() {
        let names: HashSet<_> = CATALOGUE.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), CATALOGUE.len());
        for metric in CATALOGUE {
            let is_counter = metric.kind == Kind::Counter;
            assert_eq!(metric.name.ends_with("_total"), is_counter, "{metric:?}");
            assert!(
                metric.name.starts_with("knowledge_") || metric.name.starts_with("process_"),
                "{metric:?}"
            );
            assert!(!metric.help.ends_with('.'), "{metric:?}");
        }
    }

    #[test]
    fn histogram_buckets_ascend() {
        for buckets in [REQUEST_BUCKETS, STORE_BUCKETS, DELIVERY_BUCKETS] {
            assert!(buckets.is_sorted_by(|a, b| a < b));
        }
    }
}
