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
use tokio::time::Instant;
use tower_service::Service;
use warp::Reply;
use warp::reply::Response;

use super::cors::Cors;
use super::rate_limit::Standing;
use super::responder::{Refusal, Responder};
use super::routes::{HEALTH_PATH, READY_PATH};
use super::server::Shared;
use crate::metrics::{Answered, HttpMetrics, METRICS_PATH, ROUTE_UNMATCHED};

/// The header that identifies an exchange, in the answer and in the log.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");

/// Core's word for an answer that is that of an earlier request.
const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// The target of the lines that requests make in the log.
const ACCESS: &str = "knowledge_server::access";

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
    request.extensions_mut().insert(Arc::clone(&exchange));
    let mut record = Record {
        exchange: &exchange,
        metrics: &shared.metrics,
        answered: false,
    };

    if let Some(cors) = &shared.cors
        && Cors::is_preflight(request.method(), request.headers())
    {
        let mut response = cors.preflight(request.headers()).await;
        identify(&shared, &mut response);
        record.answer(&response);
        return Ok(response);
    }

    // The routes own everything that the panic could have left half done, but for what the responder shares between
    // requests; that is its own to keep whole.
    let outcome = AssertUnwindSafe(async { routes.call(request).await })
        .catch_unwind()
        .await;
    let mut panic = None;
    let mut response = match outcome {
        Ok(Ok(response)) => response,
        Err(payload) => {
            panic = Some(payload);
            shared.refuse(&exchange, &Refusal::Panicked).into_response()
        }
    };

    if let Some(standing) = exchange.standing.get() {
        standing.write(response.headers_mut());
    }
    if let Some(cors) = &shared.cors {
        response = cors.apply(&exchange, response).await;
    }
    let request_id = identify(&shared, &mut response);
    if let Some(payload) = panic {
        let message = panic_message(payload.as_ref());
        tracing::error!(request_id, panic = message, "answering a request panicked");
    }
    record.answer(&response);
    Ok(response)
}

/// Gives an answer without an identifier one, and tells it.
fn identify<'r, R>(shared: &Shared<R>, response: &'r mut Response) -> &'r str {
    let request_id = response.headers_mut().entry(REQUEST_ID).or_insert_with(|| {
        HeaderValue::try_from(shared.env.uuid().to_string()).expect("a UUID is visible ASCII")
    });
    request_id.to_str().unwrap_or_default()
}

/// Writes the line of an exchange in the log: when it is answered, or when it is dropped unanswered because the client
/// has gone or the server was stopped.
struct Record<'a> {
    exchange: &'a Exchange,
    metrics: &'a HttpMetrics,
    answered: bool,
}

impl Record<'_> {
    fn answer(&mut self, response: &Response) {
        self.answered = true;
        let Exchange { method, uri, .. } = self.exchange;
        let path = uri.path();
        let status = response.status().as_u16();
        let duration = self.exchange.started.elapsed();
        let duration_ms = milliseconds(duration);
        let bytes_in = self.exchange.bytes_in.load(Ordering::Relaxed);
        let bytes_out = response.body().size_hint().exact();
        let route = response.extensions().get::<MatchedRoute>();
        self.metrics.answered(&Answered {
            route: route.map_or(ROUTE_UNMATCHED, |route| route.0),
            method,
            status: response.status(),
            duration,
            bytes_in,
            bytes_out: bytes_out.unwrap_or(0),
            is_replay: response.headers().contains_key(IDEMPOTENT_REPLAYED),
        });
        let request_id = response
            .headers()
            .get(REQUEST_ID)
            .and_then(|id| id.to_str().ok());
        macro_rules! line {
            ($level:ident) => {
                tracing::$level!(
                    target: ACCESS,
                    %method, path, status, duration_ms, request_id, bytes_in, bytes_out,
                    "request"
                )
            };
        }
        // Probes and scrapes come every few seconds for ever: they would drown the rest.
        match path {
            HEALTH_PATH | READY_PATH | METRICS_PATH => line!(debug),
            _ => line!(info),
        }
    }
}

/// Milliseconds, to the microsecond.
fn milliseconds(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1_000.0
}

impl Drop for Record<'_> {
    fn drop(&mut self) {
        if !self.answered {
            let Exchange { method, uri, .. } = self.exchange;
            let bytes_in = self.exchange.bytes_in.load(Ordering::Relaxed);
            self.metrics.dropped(bytes_in);
            let path = uri.path();
            let duration_ms = milliseconds(self.exchange.started.elapsed());
            tracing::info!(
                target: ACCESS,
                %method, path, duration_ms, bytes_in,
                "request dropped unanswered"
            );
        }
    }
}

fn panic_message(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("not a text")
}
