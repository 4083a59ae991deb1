//! Response to every request, with its request ID, log line and panic handling.

use std::any::Any;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv6Addr};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::FutureExt;
use http::header::{HOST, ORIGIN, STRICT_TRANSPORT_SECURITY, TRANSFER_ENCODING};
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Version};
use hyper::body::{Body, Incoming};
use knowledge_core::api::MatchedRoute;
use opentelemetry::context::FutureExt as _;
use tokio::time::Instant;
use tower_service::Service;
use tracing::{Instrument, Span};
use warp::Reply;
use warp::reply::Response;

use super::cors::Cors;
use super::exchange::{Exchange, REQUEST_ID};
use super::responder::{Rejection, Responder};
use super::routes::{HEALTH_PATH, READY_PATH};
use super::shared::Shared;
use crate::logged_path::logged_path;
use crate::metrics::{HttpMetrics, METRICS_PATH, ROUTE_UNMATCHED, ResponseSummary};
use crate::telemetry::{RequestOrigin, RequestSpan};

/// Core's header of a response that replays an earlier one.
const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// Target of the access log.
const ACCESS: &str = "knowledge_server::access";

/// Target of the span that encloses the other log lines of a request.
const REQUEST: &str = "knowledge_server::request";

/// Responds to one request, even if its handler panics.
pub(super) async fn respond<R, S>(
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
        client: shared.config.proxy.client(peer, request.headers()),
        request_id: shared.env.uuid(),
        is_from_proxy: shared.config.proxy.trusts(peer),
        is_https: shared.certificates.is_some()
            || shared.config.proxy.is_https(peer, request.headers()),
        origin: request.headers().get(ORIGIN).cloned(),
        started: Instant::now(),
        bytes_in: AtomicU64::new(0),
        rate_limit: OnceLock::new(),
    });
    let mut record = Record::begin(&shared, &exchange, &request);
    request.extensions_mut().insert(Arc::clone(&exchange));

    if let Some(rejection) = ambiguity(&request) {
        // What follows on the connection may be something else for a proxy, or for another host.
        let rejected = shared.reject_and_close(&exchange, &rejection);
        let mut response = rejected.into_response();
        record.respond(&mut response);
        return Ok(response);
    }

    if let Some(cors) = &shared.cors
        && Cors::is_preflight(request.method(), request.headers())
    {
        let mut response = cors.preflight(request.headers()).await;
        record.respond(&mut response);
        return Ok(response);
    }

    // The routes own everything that a panic could leave half done, except the state that the
    // responder shares between requests; keeping that consistent is the responder's task.
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
            tracing::error!(request_id, panic, "request handler panicked");
            shared
                .reject(&exchange, &Rejection::Panicked)
                .into_response()
        }
    };

    if let Some(rate_limit) = exchange.rate_limit.get() {
        rate_limit.write(response.headers_mut());
    }
    if let Some(cors) = &shared.cors {
        response = cors.apply(&exchange, response).await;
    }
    record.respond(&mut response);
    Ok(response)
}

/// Returns the rejection of a request that a proxy could have understood otherwise.
///
/// hyper ignores a `Content-Length` beside a `Transfer-Encoding`, and closes the connection.
fn ambiguity<B>(request: &Request<B>) -> Option<Rejection> {
    if !has_valid_host(request) {
        Some(Rejection::HostInvalid)
    } else if !has_known_coding(request.headers()) {
        Some(Rejection::BodyUnreadable)
    } else {
        None
    }
}

/// Returns true if a body has no transfer coding but chunks, once (RFC 9112, 6.1 and 7).
fn has_known_coding(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(TRANSFER_ENCODING).into_iter();
    let is_chunked = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"chunked");
    codings.next().is_none_or(is_chunked) && codings.next().is_none()
}

/// Returns true if a request names its host as RFC 9112, 3.2, requires.
///
/// HTTP/1.1 requires one `Host`, and HTTP/1.0 permits none. It is empty if the target has no
/// authority.
fn has_valid_host<B>(request: &Request<B>) -> bool {
    let mut hosts = request.headers().get_all(HOST).into_iter();
    match (hosts.next().map(HeaderValue::as_bytes), hosts.next()) {
        (None, _) => request.version() < Version::HTTP_11,
        (Some(b""), None) => true,
        (Some(host), None) => Authority::try_from(host).is_ok_and(|host| is_host(&host)),
        (Some(_), Some(_)) => false,
    }
}

/// Returns true for a host and an optional port, without the user that an authority may have.
fn is_host(authority: &Authority) -> bool {
    let host = authority.host();
    let Some(port) = authority.as_str().strip_prefix(host) else {
        return false;
    };
    let is_port = |port: &str| port.bytes().all(|digit| digit.is_ascii_digit());
    let address = host
        .strip_prefix('[')
        .map(|host| host.trim_end_matches(']'));
    address.is_none_or(|address| address.parse::<Ipv6Addr>().is_ok())
        && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port))
}

/// True for health checks and scrapes, which are so frequent that they would drown everything else.
fn is_probe(path: &str) -> bool {
    matches!(path, HEALTH_PATH | READY_PATH | METRICS_PATH)
}

/// Writes the access log line of an exchange, records its metrics and ends its span.
///
/// This happens on response, or on drop if the client disconnected or the server stopped.
struct Record<'a> {
    exchange: &'a Exchange,
    metrics: &'a HttpMetrics,
    hsts: Option<&'a HeaderValue>,
    span: Option<RequestSpan>,
    request_id: String,
    trace_id: Option<String>,
    responded: bool,
}

impl<'a> Record<'a> {
    fn begin<R>(
        shared: &'a Shared<R>,
        exchange: &'a Exchange,
        request: &Request<Incoming>,
    ) -> Self {
        let request_id = exchange.request_id.to_string();
        let tracer = shared.tracer.as_ref();
        let span = tracer
            .filter(|_| !is_probe(exchange.uri.path()))
            .map(|tracer| {
                let origin = RequestOrigin {
                    client: exchange.client,
                    is_trusted: exchange.is_from_proxy,
                };
                tracer.start(request, shared.scheme(), &request_id, origin)
            });
        Self {
            exchange,
            metrics: &shared.metrics,
            hsts: shared.hsts.as_ref(),
            trace_id: span.as_ref().map(RequestSpan::trace_id),
            span,
            request_id,
            responded: false,
        }
    }

    /// Returns a span that adds the request's IDs to the lines within it. It has the highest level,
    /// so that it is enabled whenever a line is.
    fn log_span(&self) -> Span {
        let (request_id, trace_id) = (&self.request_id, self.trace_id.as_deref());
        tracing::error_span!(target: REQUEST, "request", request_id, trace_id)
    }

    /// Sets the headers that every response has, and records the response.
    fn respond(&mut self, response: &mut Response) {
        self.responded = true;
        let request_id = HeaderValue::try_from(&self.request_id);
        let request_id = request_id.expect("a UUID is visible ASCII");
        response.headers_mut().insert(REQUEST_ID, request_id);
        if let Some(hsts) = self.hsts {
            let headers = response.headers_mut();
            headers.insert(STRICT_TRANSPORT_SECURITY, hsts.clone());
        }
        let Exchange {
            method,
            uri,
            client,
            ..
        } = self.exchange;
        let path = &*logged_path(uri.path());
        let route = response.extensions().get::<MatchedRoute>();
        let bytes_out = response.body().size_hint().exact();
        let summary = ResponseSummary {
            route: route.map_or(ROUTE_UNMATCHED, |route| route.0),
            method,
            status: response.status(),
            duration: self.exchange.started.elapsed(),
            bytes_in: self.exchange.bytes_in.load(Ordering::Relaxed),
            bytes_out: bytes_out.unwrap_or(0),
            is_replay: response.headers().contains_key(IDEMPOTENT_REPLAYED),
        };
        self.metrics.record_response(&summary);
        if let Some(span) = &self.span {
            span.record_response(&summary);
        }
        let ResponseSummary { bytes_in, .. } = summary;
        let (status, duration_ms) = (summary.status.as_u16(), milliseconds(summary.duration));
        let (request_id, trace_id) = (&self.request_id, self.trace_id.as_deref());
        macro_rules! line {
            ($level:ident) => {
                tracing::$level!(
                    target: ACCESS,
                    %method, path, %client, status, duration_ms, request_id, trace_id, bytes_in,
                    bytes_out,
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

/// Converts to milliseconds, with a precision of a microsecond.
fn milliseconds(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1_000.0
}

impl Drop for Record<'_> {
    fn drop(&mut self) {
        if self.responded {
            return;
        }
        let Exchange {
            method,
            uri,
            client,
            ..
        } = self.exchange;
        let bytes_in = self.exchange.bytes_in.load(Ordering::Relaxed);
        self.metrics.record_drop(bytes_in);
        if let Some(span) = &self.span {
            span.record_drop();
        }
        let path = &*logged_path(uri.path());
        let duration_ms = milliseconds(self.exchange.started.elapsed());
        let (request_id, trace_id) = (&self.request_id, self.trace_id.as_deref());
        tracing::info!(
            target: ACCESS,
            %method, path, %client, duration_ms, request_id, trace_id, bytes_in,
            "request dropped without a response"
        );
    }
}

fn panic_message(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_names_one_host() {
        let accepted = |version, hosts: &[&str]| {
            let request = Request::builder().version(version);
            let request = hosts
                .iter()
                .fold(request, |request, host| request.header(HOST, *host));
            has_valid_host(&request.body(()).unwrap())
        };
        let (old, new) = (Version::HTTP_10, Version::HTTP_11);
        assert!(accepted(old, &[]) && !accepted(new, &[]));
        for host in ["", "localhost", "knowledge.example:443", "[::1]:80"] {
            assert!(accepted(old, &[host]) && accepted(new, &[host]), "{host}");
        }
        for host in [
            "a b",
            "user@example.com",
            "example.com/path",
            "example.com, b",
            "example.com:b",
            "example.com:-1",
            "[::1]b",
            "[b]",
        ] {
            assert!(!accepted(old, &[host]) && !accepted(new, &[host]), "{host}");
        }
        for version in [old, new] {
            assert!(!accepted(version, &["example.com", "example.com"]));
        }
    }
}
