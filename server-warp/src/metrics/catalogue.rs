//! Every metric, in one table: what is registered, what `/metrics` says of it and what the documentation lists.

use prometheus::{
    HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts, core::Collector,
};

/// How a metric behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only ever grows, from nothing at the start of the process.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts observations by size.
    Histogram,
}

impl Kind {
    /// The word that the text format has for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// What is said of one metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// Its name, with the unit and, for counters, `_total` at the end.
    pub name: &'static str,
    /// How it behaves.
    pub kind: Kind,
    /// What tells its series apart.
    pub labels: &'static [&'static str],
    /// One sentence, without a full stop.
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

        /// Every metric, in the order of the documentation.
        pub const CATALOGUE: &[Description] = &[$($constant),+];
    };
}

catalogue! {
    REQUESTS = Counter "knowledge_http_requests_total" ["route", "method", "status"]
        "Requests answered";
    REQUEST_DURATION = Histogram "knowledge_http_request_duration_seconds" ["route", "method"]
        "Time from the end of a request's header to its answer";
    REQUESTS_IN_WORK = Gauge "knowledge_http_requests_in_work" []
        "Requests whose body has arrived and whose answer has not been found yet";
    REQUESTS_IN_WORK_MAX = Gauge "knowledge_http_requests_in_work_max" []
        "Requests that may be in work at once";
    REQUESTS_REFUSED = Counter "knowledge_http_requests_refused_total" ["reason"]
        "Requests that the server refused without asking the service, or gave up on; in_work_full and body_memory_full are load shed";
    REQUESTS_DROPPED = Counter "knowledge_http_requests_dropped_total" []
        "Requests dropped unanswered because the client had gone or the server was stopped";
    RATE_LIMITED = Counter "knowledge_http_requests_rate_limited_total" []
        "Requests answered 429";
    REPLAYS = Counter "knowledge_http_idempotent_replays_total" []
        "Answers that were those of an earlier request with the same idempotency key";
    REQUEST_BYTES = Counter "knowledge_http_request_body_bytes_total" []
        "Bytes of request bodies that arrived";
    RESPONSE_BYTES = Counter "knowledge_http_response_body_bytes_total" []
        "Bytes of the bodies of answers";
    CONNECTIONS_OPEN = Gauge "knowledge_http_connections_open" []
        "Connections that are open";
    CONNECTIONS_MAX = Gauge "knowledge_http_connections_max" []
        "Connections that may be open at once";
    CONNECTIONS_ACCEPTED = Counter "knowledge_http_connections_accepted_total" []
        "Connections accepted";
    CONNECTIONS_CLOSED = Counter "knowledge_http_connections_closed_total" ["reason"]
        "Connections closed";
    ACCEPT_FAILURES = Counter "knowledge_http_accept_failures_total" []
        "Times that accepting failed for want of files or memory";
    STORE_DURATION = Histogram "knowledge_store_operation_duration_seconds" ["method"]
        "Time that the store took for one call";
    STORE_ERRORS = Counter "knowledge_store_errors_total" ["method", "kind"]
        "Calls that the store failed";
    STORE_CONFLICTS = Counter "knowledge_store_conflicts_total" []
        "Commits that were refused because others had changed what they were decided on";
    TRANSACTION_RETRIES = Counter "knowledge_store_transaction_retries_total" []
        "Times that a transaction was decided anew";
    STORE_COMMITS = Counter "knowledge_store_commits_total" []
        "Commits that were applied";
    GROUP_COMMITS = Histogram "knowledge_store_group_commits" []
        "Commits that were written and synced together";
    SYNC_DURATION = Histogram "knowledge_store_sync_duration_seconds" []
        "Time to flush and sync one group of commits";
    SYNC_FAILURES = Counter "knowledge_store_sync_failures_total" []
        "Groups of commits that could not be brought to the disk; one closes the store";
    STORE_OPEN = Gauge "knowledge_store_open" []
        "1 while the store works, 0 once it refuses everything until it is opened again";
    STORE_ENTRIES = Gauge "knowledge_store_entries" []
        "Entries in the store";
    STORE_CORRUPT_READS = Counter "knowledge_store_corrupt_reads_total" []
        "Reads that met damaged data";
    STORE_CHECKING = Gauge "knowledge_store_checking" []
        "1 while every entry is checked in the background, after an unclean end";
    STORE_DISK = Gauge "knowledge_store_disk_bytes" []
        "Size of the store's files";
    STORE_DISK_FREE = Gauge "knowledge_store_disk_free_bytes" []
        "Bytes that are free on the file system of the store";
    MAINTENANCE_RUNS = Counter "knowledge_maintenance_runs_total" ["outcome"]
        "Turns of the background maintenance";
    MAINTENANCE_SWEPT = Counter "knowledge_maintenance_swept_total" []
        "Due entries that the maintenance has dealt with";
    MAINTENANCE_HOLDERS = Counter "knowledge_maintenance_holders_rewritten_total" []
        "Holders of deleted roles that were given the role that replaced it";
    MAINTENANCE_LAST = Gauge "knowledge_maintenance_last_success_timestamp_seconds" []
        "When a turn of the maintenance last came to its end, as Unix time; 0 before the first";
    MAINTENANCE_LAG = Gauge "knowledge_maintenance_lag_seconds" []
        "How long the oldest due entry had been due when the last turn began";
    OUTBOX_EVENTS = Gauge "knowledge_outbox_events" []
        "Events that are not expanded to their endpoints yet, counted up to 100";
    OUTBOX_DELIVERIES = Gauge "knowledge_outbox_deliveries" []
        "Deliveries that are neither made nor given up";
    OUTBOX_AGE = Gauge "knowledge_outbox_oldest_age_seconds" []
        "How long ago the oldest event happened that is not delivered or given up everywhere; 0 where there is none";
    OUTBOX_OVERDUE = Gauge "knowledge_outbox_overdue_seconds" []
        "How long ago the longest waiting endpoint should have been sent something, which nobody does; 0 where there is none";
    ENDPOINTS_DISABLED = Gauge "knowledge_endpoints_disabled" []
        "Webhooks and citation subscriptions that the service has switched off";
    EVENTS_EXPANDED = Counter "knowledge_events_expanded_total" []
        "Events that were expanded to their endpoints, if they had any";
    DELIVERIES_MADE = Counter "knowledge_deliveries_queued_total" []
        "Deliveries that events were expanded to";
    DELIVERIES_GIVEN_UP = Counter "knowledge_deliveries_given_up_total" []
        "Deliveries that became dead letters without a further attempt, since their endpoint is switched off";
    DELIVERY_ATTEMPTS = Counter "knowledge_delivery_attempts_total" ["outcome"]
        "Attempts of deliveries that came to an end";
    DELIVERY_FAILURES = Counter "knowledge_delivery_failures_total" ["reason"]
        "Attempts of deliveries that were not answered with a 2xx status";
    DELIVERY_DURATION = Histogram "knowledge_delivery_duration_seconds" []
        "Time that an exchange with an endpoint took";
    DELIVERIES_IN_FLIGHT = Gauge "knowledge_deliveries_in_flight" []
        "Attempts that are under way or being recorded";
    DELIVERIES_IN_FLIGHT_MAX = Gauge "knowledge_deliveries_in_flight_max" []
        "Attempts that may be under way at once; 0 where this server delivers nothing";
    DISPATCH_FAILURES = Counter "knowledge_dispatch_failures_total" ["step"]
        "Times that a step of delivering failed, and was tried again";
    TRACE_EXPORTS = Counter "knowledge_trace_exports_total" ["outcome"]
        "Batches of spans handed to the collector";
    BUILD_INFO = Gauge "knowledge_build_info" ["version"]
        "Always 1; the labels tell what is running";
    PROCESS_START = Gauge "process_start_time_seconds" []
        "When the process started, as Unix time";
    PROCESS_CPU = Counter "process_cpu_seconds_total" []
        "Processor time that the process has used, of its own and of the system for it";
    PROCESS_RESIDENT = Gauge "process_resident_memory_bytes" []
        "Memory of the process that is in RAM";
    PROCESS_VIRTUAL = Gauge "process_virtual_memory_bytes" []
        "Address space of the process";
    PROCESS_FDS = Gauge "process_open_fds" []
        "Files that the process has open";
    PROCESS_FDS_MAX = Gauge "process_max_fds" []
        "Files that the process may have open";
}

/// Bounds of the buckets of a request's duration, in seconds: from half a millisecond to the default time-out.
pub(super) const REQUEST_BUCKETS: &[f64] = &[
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
];

/// Bounds of the buckets of a call of the store, in seconds: a read from the cache takes microseconds.
pub(super) const STORE_BUCKETS: &[f64] = &[
    0.000_01, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1,
    0.25, 1.0, 5.0,
];

/// Bounds of the buckets of an exchange with an endpoint, in seconds: up to what the whole of it may take.
pub(super) const DELIVERY_BUCKETS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0,
];

/// What is described wrongly would be found by the first start and by every test: nothing of it depends on data.
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

/// Shows these collectors with the others of the registry.
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
    fn names_are_distinct_and_end_as_their_kind_wants() {
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
    fn buckets_grow() {
        for buckets in [REQUEST_BUCKETS, STORE_BUCKETS, DELIVERY_BUCKETS] {
            assert!(buckets.is_sorted_by(|a, b| a < b));
        }
    }
}
