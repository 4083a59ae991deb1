//! What the network half of the server counts.

use std::time::Duration;

use http::{Method, StatusCode};
use prometheus::{HistogramVec, IntCounter, IntCounterVec, IntGauge, Registry};

use super::catalogue::{self, REQUEST_BUCKETS, register};
use crate::net::Refusal;

/// The label of a request whose path is none of the server's: a series for each path that somebody tries would be
/// as many as they like.
pub const ROUTE_UNMATCHED: &str = "unmatched";

/// The label of a method that HTTP does not define.
const METHOD_OTHER: &str = "_OTHER";

/// The numbers of one server. Those that nothing registers are counted and shown to nobody.
#[derive(Clone, Debug)]
pub struct HttpMetrics {
    requests: IntCounterVec,
    duration: HistogramVec,
    in_work: IntGauge,
    in_work_max: IntGauge,
    refused: IntCounterVec,
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
}

/// An answer, as far as it is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered<'a> {
    pub(crate) route: &'static str,
    pub(crate) method: &'a Method,
    pub(crate) status: StatusCode,
    pub(crate) duration: Duration,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) is_replay: bool,
}

/// Why a connection was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CloseReason {
    /// By either side, between two requests or after the last answer.
    Finished,
    /// No whole header in time, which is also how an idle connection ends.
    HeaderTimeout,
    /// The TLS handshake failed, or did not come to its end in time.
    Handshake,
    /// What came was no HTTP, or its header was too long.
    Malformed,
    /// The client took nothing of its answer for too long.
    WriteStalled,
    /// The client broke it off.
    Broken,
    /// The server was stopped.
    Shutdown,
    /// The server was stopped, and its time was up.
    Killed,
}

impl CloseReason {
    const ALL: [Self; 8] = [
        Self::Finished,
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
            refused: catalogue::REQUESTS_REFUSED.counters(),
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
        };
        // A series that is there from the start has a rate from the first time that it moves.
        for reason in Refusal::REASONS {
            metrics.refused.with_label_values(&[reason]);
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
                Box::new(this.refused),
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
            ],
        );
    }

    /// What the server can hold at most, once it knows.
    pub(crate) fn set_capacity(&self, connections_max: usize, requests_in_work_max: usize) {
        let gauge = |number| i64::try_from(number).unwrap_or(i64::MAX);
        self.connections_max.set(gauge(connections_max));
        self.in_work_max.set(gauge(requests_in_work_max));
    }

    /// A connection that is open until the answer is dropped.
    pub(crate) fn accepted(&self) -> OpenConnection {
        self.connections_accepted.inc();
        OpenConnection {
            _open: Raised::new(&self.connections_open),
            closed: self.connections_closed.clone(),
        }
    }

    pub(crate) fn accept_failed(&self) {
        self.accept_failures.inc();
    }

    /// A request that is in work until the answer is dropped.
    pub(crate) fn in_work(&self) -> Raised {
        Raised::new(&self.in_work)
    }

    pub(crate) fn refused(&self, refusal: &Refusal) {
        self.refused.with_label_values(&[refusal.reason()]).inc();
    }

    pub(crate) fn dropped(&self, bytes_in: u64) {
        self.dropped.inc();
        self.request_bytes.inc_by(bytes_in);
    }

    pub(crate) fn answered(&self, answered: &Answered<'_>) {
        let method = method_label(answered.method);
        let route = answered.route;
        self.requests
            .with_label_values(&[route, method, answered.status.as_str()])
            .inc();
        self.duration
            .with_label_values(&[route, method])
            .observe(answered.duration.as_secs_f64());
        self.request_bytes.inc_by(answered.bytes_in);
        self.response_bytes.inc_by(answered.bytes_out);
        self.replays.inc_by(u64::from(answered.is_replay));
        let is_rate_limited = answered.status == StatusCode::TOO_MANY_REQUESTS;
        self.rate_limited.inc_by(u64::from(is_rate_limited));
    }
}

/// A method as a label: those that HTTP defines, so that nobody makes series with methods of their own.
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

/// A gauge that is one higher until this is dropped.
#[derive(Debug)]
pub(crate) struct Raised(IntGauge);

impl Raised {
    fn new(gauge: &IntGauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// A connection that counts as open until this is dropped.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    _open: Raised,
    closed: IntCounterVec,
}

impl OpenConnection {
    pub(crate) fn close(self, reason: CloseReason) {
        self.closed.with_label_values(&[reason.label()]).inc();
    }
}
