//! One request and its answer: what every exchange has, whoever answers. An identifier, a line in the log, and an
//! answer even to a panic.

use std::any::Any;
use std::convert::Infallible;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::FutureExt;
use http::header::ORIGIN;
use http::{HeaderName, HeaderValue, Method, Request, Uri};
use hyper::body::{Body, Incoming};
use knowledge_core::api::MatchedRoute;
use opentelemetry::context::FutureExt as _;
use tokio::time::Instant;
use tower_service::Service;
use tracing::{Instrument, Span};
use warp::Reply;
use warp::reply::Response;

use super::cors::Cors;
use super::rate_limit::Standing;
use super::responder::{Refusal, Responder};
use super::routes::{HEALTH_PATH, READY_PATH};
use super::server::Shared;
use crate::metrics::{Answered, HttpMetrics, METRICS_PATH, ROUTE_UNMATCHED};
use crate::telemetry::RequestSpan;

/// The header that identifies an exchange, in the answer and in the log.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");

/// Core's word for an answer that is that of an earlier request.
const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// The target of the lines that requests make in the log.
const ACCESS: &str = "knowledge_server::access";

/// The target of the span that the other lines of a request stand in.
const REQUEST: &str = "knowledge_server::request";

/// What is known of a request apart from what is handed on with it.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) method: Method,
    pub(super) uri: Uri,
    /// Where the connection comes from.
    pub(super) peer: IpAddr,
    /// The origin of the page that makes the request, where one does.
    pub(super) origin: Option<HeaderValue>,
    /// When the header had arrived.
    pub(super) started: Instant,
    /// Bytes of the body that have arrived.
    pub(super) bytes_in: AtomicU64,
    /// Where the caller stands, once the request was counted.
    pub(super) standing: OnceLock<Standing>,
}

/// Answers one request, whatever happens.
pub(super) async fn exchange<R, S>(
    shared: Arc<Shared<R>>,
    mut routes: S,
    peer: IpAddr,
    mut request: Request<Incoming>,
) -> Result<Response, Infallible>
where
    R: Responder,
    S: Service<Request<Incoming>, Response = Response, Error = Infallible>,
{
    let exchange = Arc::new(Exchange {
        method: request.method().clone(),
        uri: request.uri().clone(),
        peer,
        origin: request.headers().get(ORIGIN).cloned(),
        started: Instant::now(),
        bytes_in: AtomicU64::new(0),
        standing: OnceLock::new(),
    });
    let mut record = Record::begin(&shared, &exchange, &request);
    request.extensions_mut().insert(Arc::clone(&exchange));

    if let Some(cors) = &shared.cors
        && Cors::is_preflight(request.method(), request.headers())
    {
        let mut response = cors.preflight(request.headers()).await;
        record.answer(&mut response);
        return Ok(response);
    }

    // The routes own everything that the panic could have left half done, but for what the responder shares between
    // requests; that is its own to keep whole.
    let work = AssertUnwindSafe(async { routes.call(request).await }).catch_unwind();
    let work = work.instrument(record.log_span());
    let outcome = match &record.span {
        None => work.await,
        Some(span) => work.with_context(span.context()).await,
    };
    let mut response = match outcome {
        Ok(Ok(response)) => response,
        Err(payload) => {
            let (request_id, panic) = (&record.request_id, panic_message(payload.as_ref()));
            tracing::error!(request_id, panic, "answering a request panicked");
            shared.refuse(&exchange, &Refusal::Panicked).into_response()
        }
    };

    if let Some(standing) = exchange.standing.get() {
        standing.write(response.headers_mut());
    }
    if let Some(cors) = &shared.cors {
        response = cors.apply(&exchange, response).await;
    }
    record.answer(&mut response);
    Ok(response)
}

/// Health checks and scrapes come every few seconds for ever: among what is asked they would drown the rest.
fn is_probe(path: &str) -> bool {
    matches!(path, HEALTH_PATH | READY_PATH | METRICS_PATH)
}

/// Writes the line of an exchange in the log, counts it and ends its span: when it is answered, or when it is dropped
/// unanswered because the client has gone or the server was stopped.
struct Record<'a> {
    exchange: &'a Exchange,
    metrics: &'a HttpMetrics,
    span: Option<RequestSpan>,
    request_id: String,
    trace_id: Option<String>,
    answered: bool,
}

impl<'a> Record<'a> {
    fn begin<R>(
        shared: &'a Shared<R>,
        exchange: &'a Exchange,
        request: &Request<Incoming>,
    ) -> Self {
        let request_id = shared.env.uuid().to_string();
        let tracer = shared.tracer.as_ref();
        let span = tracer
            .filter(|_| !is_probe(exchange.uri.path()))
            .map(|tracer| tracer.begin(request, shared.scheme(), &request_id));
        Self {
            exchange,
            metrics: &shared.metrics,
            trace_id: span.as_ref().map(RequestSpan::trace_id),
            span,
            request_id,
            answered: false,
        }
    }

    /// Whatever is logged within it carries the identifiers of the request. At the highest level, so that it is there
    /// for a line of any.
    fn log_span(&self) -> Span {
        let (request_id, trace_id) = (&self.request_id, self.trace_id.as_deref());
        tracing::error_span!(target: REQUEST, "request", request_id, trace_id)
    }

    /// Names the request in its answer, and notes what was answered.
    fn answer(&mut self, response: &mut Response) {
        self.answered = true;
        let request_id = HeaderValue::try_from(&self.request_id);
        let request_id = request_id.expect("a UUID is visible ASCII");
        response.headers_mut().insert(REQUEST_ID, request_id);
        let Exchange { method, uri, .. } = self.exchange;
        let (path, route) = (uri.path(), response.extensions().get::<MatchedRoute>());
        let bytes_out = response.body().size_hint().exact();
        let answered = Answered {
            route: route.map_or(ROUTE_UNMATCHED, |route| route.0),
            method,
            status: response.status(),
            duration: self.exchange.started.elapsed(),
            bytes_in: self.exchange.bytes_in.load(Ordering::Relaxed),
            bytes_out: bytes_out.unwrap_or(0),
            is_replay: response.headers().contains_key(IDEMPOTENT_REPLAYED),
        };
        self.metrics.answered(&answered);
        if let Some(span) = &self.span {
            span.answered(&answered);
        }
        let Answered { bytes_in, .. } = answered;
        let (status, duration_ms) = (answered.status.as_u16(), milliseconds(answered.duration));
        let (request_id, trace_id) = (&self.request_id, self.trace_id.as_deref());
        macro_rules! line {
            ($level:ident) => {
                tracing::$level!(
                    target: ACCESS,
                    %method, path, status, duration_ms, request_id, trace_id, bytes_in, bytes_out,
                    "request"
                )
            };
        }
        if is_probe(path) {
            line!(debug);
        } else {
            line!(info);
        }
    }
}

/// Milliseconds, to the microsecond.
fn milliseconds(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1_000.0
}

impl Drop for Record<'_> {
    fn drop(&mut self) {
        if self.answered {
            return;
        }
        let Exchange { method, uri, .. } = self.exchange;
        let bytes_in = self.exchange.bytes_in.load(Ordering::Relaxed);
        self.metrics.dropped(bytes_in);
        if let Some(span) = &self.span {
            span.dropped();
        }
        let path = uri.path();
        let duration_ms = milliseconds(self.exchange.started.elapsed());
        let (request_id, trace_id) = (&self.request_id, self.trace_id.as_deref());
        tracing::info!(
            target: ACCESS,
            %method, path, duration_ms, request_id, trace_id, bytes_in,
            "request dropped unanswered"
        );
    }
}

fn panic_message(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("not a text")
}
