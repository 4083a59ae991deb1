//! Metrics of the HTTP server.

use std::time::Duration;

use http::{Method, StatusCode};
use prometheus::{HistogramVec, IntCounter, IntCounterVec, IntGauge, Registry};

use super::catalogue::{self, REQUEST_BUCKETS, register};
use crate::net::Rejection;

/// Path of the metrics.
pub const METRICS_PATH: &str = "/metrics";

/// Route label of a request without a matching route. Its path would let clients create any number
/// of series.
pub const ROUTE_UNMATCHED: &str = "unmatched";

/// Label of a method that HTTP does not define.
const METHOD_OTHER: &str = "_OTHER";

/// Metrics of one HTTP server. Without a registry they are recorded but not exported.
#[derive(Clone, Debug)]
pub struct HttpMetrics {
    requests: IntCounterVec,
    duration: HistogramVec,
    in_work: IntGauge,
    in_work_max: IntGauge,
    rejected: IntCounterVec,
    dropped: IntCounter,
    rate_limited: IntCounter,
    replays: IntCounter,
    request_bytes: IntCounter,
    response_bytes: IntCounter,
    connections_open: IntGauge,
    connections_max: IntGauge,
    connections_accepted: IntCounter,
    connections_closed: IntCounterVec,
    accept_failures: IntCounter,
    certificate_expiry: IntGauge,
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

/// Reason for which a connection was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CloseReason {
    /// Closed by either side between two requests or after the last response.
    Finished,
    /// No complete header arrived in time, which is also how an idle connection ends.
    HeaderTimeout,
    /// The client already held its share of the connections.
    ClientLimit,
    /// A trusted proxy did not send its PROXY protocol header.
    ProxyHeader,
    /// The TLS handshake failed or timed out.
    Handshake,
    /// The request was not HTTP, or its header was too long.
    Malformed,
    /// The client did not read its response for too long.
    WriteStalled,
    /// The client aborted the connection.
    Broken,
    /// The server shut down.
    Shutdown,
    /// The server shut down and its deadline passed.
    Killed,
}

impl CloseReason {
    const ALL: [Self; 10] = [
        Self::Finished,
        Self::ClientLimit,
        Self::ProxyHeader,
        Self::Handshake,
        Self::HeaderTimeout,
        Self::Malformed,
        Self::WriteStalled,
        Self::Broken,
        Self::Shutdown,
        Self::Killed,
    ];

    const fn label(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::ClientLimit => "client_limit",
            Self::ProxyHeader => "proxy_header",
            Self::HeaderTimeout => "header_timeout",
            Self::Handshake => "handshake",
            Self::Malformed => "malformed",
            Self::WriteStalled => "write_stalled",
            Self::Broken => "broken",
            Self::Shutdown => "shutdown",
            Self::Killed => "killed",
        }
    }
}

impl Default for HttpMetrics {
    fn default() -> Self {
        let metrics = Self {
            requests: catalogue::REQUESTS.counters(),
            duration: catalogue::REQUEST_DURATION.histograms(REQUEST_BUCKETS),
            in_work: catalogue::REQUESTS_IN_WORK.gauge(),
            in_work_max: catalogue::REQUESTS_IN_WORK_MAX.gauge(),
            rejected: catalogue::REQUESTS_REJECTED.counters(),
            dropped: catalogue::REQUESTS_DROPPED.counter(),
            rate_limited: catalogue::RATE_LIMITED.counter(),
            replays: catalogue::REPLAYS.counter(),
            request_bytes: catalogue::REQUEST_BYTES.counter(),
            response_bytes: catalogue::RESPONSE_BYTES.counter(),
            connections_open: catalogue::CONNECTIONS_OPEN.gauge(),
            connections_max: catalogue::CONNECTIONS_MAX.gauge(),
            connections_accepted: catalogue::CONNECTIONS_ACCEPTED.counter(),
            connections_closed: catalogue::CONNECTIONS_CLOSED.counters(),
            accept_failures: catalogue::ACCEPT_FAILURES.counter(),
            certificate_expiry: catalogue::CERTIFICATE_EXPIRY.gauge(),
        };
        // A series that exists from the start has a rate from its first increment.
        for reason in Rejection::REASONS {
            metrics.rejected.with_label_values(&[reason]);
        }
        for reason in CloseReason::ALL {
            metrics
                .connections_closed
                .with_label_values(&[reason.label()]);
        }
        metrics
    }
}

impl HttpMetrics {
    pub(super) fn register(&self, registry: &Registry) {
        let this = self.clone();
        register(
            registry,
            vec![
                Box::new(this.requests),
                Box::new(this.duration),
                Box::new(this.in_work),
                Box::new(this.in_work_max),
                Box::new(this.rejected),
                Box::new(this.dropped),
                Box::new(this.rate_limited),
                Box::new(this.replays),
                Box::new(this.request_bytes),
                Box::new(this.response_bytes),
                Box::new(this.connections_open),
                Box::new(this.connections_max),
                Box::new(this.connections_accepted),
                Box::new(this.connections_closed),
                Box::new(this.accept_failures),
                Box::new(this.certificate_expiry),
            ],
        );
    }

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
    fn new(gauge: &IntGauge) -> Self {
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
        self.closed.with_label_values(&[reason.label()]).inc();
    }
}
