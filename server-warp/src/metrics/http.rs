//! Metrics of the HTTP server.

use std::time::Duration;

use http::{Method, StatusCode};
use prometheus::{HistogramVec, IntCounter, IntCounterVec, IntGauge};

use super::catalogue::{REQUEST_BUCKETS, metrics};
use crate::net::Rejection;

/// Path of the metrics.
pub const METRICS_PATH: &str = "/metrics";

/// Route label of a request without a matching route. Its path would let clients create any number
/// of series.
pub const ROUTE_UNMATCHED: &str = "unmatched";

/// Label of a method that HTTP does not define.
const METHOD_OTHER: &str = "_OTHER";

metrics! {
    /// Metrics of one HTTP server. Without a registry they are recorded but not exported.
    pub struct HttpMetrics {
        requests: IntCounterVec = REQUESTS.counters(),
        duration: HistogramVec = REQUEST_DURATION.histograms(REQUEST_BUCKETS),
        in_work: IntGauge = REQUESTS_IN_WORK.gauge(),
        in_work_max: IntGauge = REQUESTS_IN_WORK_MAX.gauge(),
        rejected: IntCounterVec = REQUESTS_REJECTED.counters(),
        dropped: IntCounter = REQUESTS_DROPPED.counter(),
        rate_limited: IntCounter = RATE_LIMITED.counter(),
        replays: IntCounter = REPLAYS.counter(),
        request_bytes: IntCounter = REQUEST_BYTES.counter(),
        response_bytes: IntCounter = RESPONSE_BYTES.counter(),
        connections_open: IntGauge = CONNECTIONS_OPEN.gauge(),
        connections_max: IntGauge = CONNECTIONS_MAX.gauge(),
        connections_accepted: IntCounter = CONNECTIONS_ACCEPTED.counter(),
        connections_closed: IntCounterVec = CONNECTIONS_CLOSED.counters(),
        accept_failures: IntCounter = ACCEPT_FAILURES.counter(),
        certificate_expiry: IntGauge = CERTIFICATE_EXPIRY.gauge(),
    }
}

/// Facts about a response that are recorded in metrics.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponseSummary<'a> {
    pub(crate) route: &'static str,
    pub(crate) method: &'a Method,
    pub(crate) status: StatusCode,
    pub(crate) duration: Duration,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) is_replay: bool,
}

knowledge_core::plain_string_enum! {
    /// Reason for which a connection was closed.
    CloseReason {
        /// Closed by either side between two requests or after the last response.
        Finished = "finished",
        /// No complete header arrived in time, which is also how an idle connection ends.
        HeaderTimeout = "header_timeout",
        /// The client already held its share of the connections.
        ClientLimit = "client_limit",
        /// A trusted proxy did not send its PROXY protocol header.
        ProxyHeader = "proxy_header",
        /// The TLS handshake failed or timed out.
        Handshake = "handshake",
        /// The request was not HTTP, or its header was too long.
        Malformed = "malformed",
        /// The client did not read its response for too long.
        WriteStalled = "write_stalled",
        /// The client aborted the connection.
        Broken = "broken",
        /// The server shut down.
        Shutdown = "shutdown",
        /// The server shut down and its deadline passed.
        Killed = "killed",
    }
}

impl Default for HttpMetrics {
    fn default() -> Self {
        let metrics = Self::without_series();
        // A series that exists from the start has a rate from its first increment.
        for reason in Rejection::REASONS {
            metrics.rejected.with_label_values(&[reason]);
        }
        for reason in CloseReason::ALL {
            metrics
                .connections_closed
                .with_label_values(&[reason.as_str()]);
        }
        metrics
    }
}

impl HttpMetrics {
    /// Sets the limits of the server, once they are known.
    pub(crate) fn set_capacity(&self, connections_max: usize, requests_in_work_max: usize) {
        let gauge = |number| i64::try_from(number).unwrap_or(i64::MAX);
        self.connections_max.set(gauge(connections_max));
        self.in_work_max.set(gauge(requests_in_work_max));
    }

    /// Returns the gauge of the expiry of the certificate.
    pub(crate) fn certificate_expiry(&self) -> IntGauge {
        self.certificate_expiry.clone()
    }

    /// Counts a connection as open until the result is dropped.
    pub(crate) fn open_connection(&self) -> OpenConnection {
        self.connections_accepted.inc();
        OpenConnection {
            _open: GaugeGuard::new(&self.connections_open),
            closed: self.connections_closed.clone(),
        }
    }

    pub(crate) fn record_accept_failure(&self) {
        self.accept_failures.inc();
    }

    /// Counts a request as in flight until the result is dropped.
    pub(crate) fn start_request(&self) -> GaugeGuard {
        GaugeGuard::new(&self.in_work)
    }

    pub(crate) fn record_rejection(&self, rejection: &Rejection) {
        self.rejected.with_label_values(&[rejection.reason()]).inc();
    }

    pub(crate) fn record_drop(&self, bytes_in: u64) {
        self.dropped.inc();
        self.request_bytes.inc_by(bytes_in);
    }

    pub(crate) fn record_response(&self, response: &ResponseSummary<'_>) {
        let method = method_label(response.method);
        let route = response.route;
        self.requests
            .with_label_values(&[route, method, response.status.as_str()])
            .inc();
        self.duration
            .with_label_values(&[route, method])
            .observe(response.duration.as_secs_f64());
        self.request_bytes.inc_by(response.bytes_in);
        self.response_bytes.inc_by(response.bytes_out);
        self.replays.inc_by(u64::from(response.is_replay));
        let is_rate_limited = response.status == StatusCode::TOO_MANY_REQUESTS;
        self.rate_limited.inc_by(u64::from(is_rate_limited));
    }
}

/// Returns a method as a label. Only methods that HTTP defines have one, which bounds the series.
pub(crate) fn method_label(method: &Method) -> &str {
    match *method {
        Method::GET
        | Method::HEAD
        | Method::POST
        | Method::PUT
        | Method::PATCH
        | Method::DELETE
        | Method::OPTIONS
        | Method::TRACE
        | Method::CONNECT => method.as_str(),
        _ => METHOD_OTHER,
    }
}

/// Guard that keeps a gauge one higher until it is dropped.
#[derive(Debug)]
pub(crate) struct GaugeGuard(IntGauge);

impl GaugeGuard {
    pub(super) fn new(gauge: &IntGauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Connection that counts as open until this is dropped.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    _open: GaugeGuard,
    closed: IntCounterVec,
}

impl OpenConnection {
    pub(crate) fn close(self, reason: CloseReason) {
        self.closed.with_label_values(&[reason.as_str()]).inc();
    }
}
