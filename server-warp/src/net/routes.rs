//! Routes as warp filters: two for health, and one that passes everything else to the responder.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::{Buf, Bytes};
use futures::Stream;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, EXPECT};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use knowledge_core::api::{ClientInfo, KnownCaller, MatchedRoute};
use tokio::time::Instant;
use tower_service::Service;
use warp::reply::Response as WarpResponse;
use warp::{Filter, Reply};

use super::body::{self, BodyError, Bounds};
use super::compression::{AcceptEncoding, compress};
use super::exchange::Exchange;
use super::rate_limit::Key;
use super::responder::{Rejection, Responder};
use super::shared::Shared;
use super::shares::Group;

/// Path that responds with 200 as long as the process responds at all.
pub const HEALTH_PATH: &str = "/healthz";
/// Path that responds with 200 while requests can be served, otherwise with 503.
pub const READY_PATH: &str = "/readyz";

/// Returns the routes as a service. Every request needs its [`Exchange`] among its extensions.
pub(super) fn service<R: Responder>(
    shared: Arc<Shared<R>>,
) -> impl Service<Request<Incoming>, Response = WarpResponse, Error = Infallible, Future: Send>
+ Clone
+ Send
+ 'static {
    let health = warp::path!("healthz").and(warp::method()).map(|method| {
        let response = probe(&method, StatusCode::OK, r#"{"status":"ok"}"#);
        routed(HEALTH_PATH, response).into_response()
    });

    let ready_shared = Arc::clone(&shared);
    let ready = warp::path!("readyz")
        .and(warp::method())
        .then(move |method| {
            let shared = Arc::clone(&ready_shared);
            async move { routed(READY_PATH, ready(&shared, &method).await).into_response() }
        });

    let everything_else = warp::ext::get::<Arc<Exchange>>()
        .and(warp::header::headers_cloned())
        .and(warp::body::stream())
        .then(move |exchange: Arc<Exchange>, headers, body| {
            let shared = Arc::clone(&shared);
            // Boxed: each layer around it moves it, and hyper keeps the room of one response for the
            // next as long as the connection is open (see `connection::open` for the figure).
            Box::pin(async move {
                respond(&shared, &exchange, headers, body)
                    .await
                    .into_response()
            })
        });

    warp::service(health.or(ready).unify().or(everything_else).unify())
}

/// Sets the matched route of a response, as core does for its own routes.
fn routed(route: &'static str, mut response: Response<Bytes>) -> Response<Bytes> {
    response.extensions_mut().insert(MatchedRoute(route));
    response
}

/// Returns the response to a health check.
fn probe(method: &Method, status: StatusCode, json: &'static str) -> Response<Bytes> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        let mut response = Response::new(Bytes::new());
        *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
        response
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    // hyper omits the body of a response to HEAD and keeps its length.
    let mut response = Response::new(Bytes::from_static(json.as_bytes()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

async fn ready<R: Responder>(shared: &Shared<R>, method: &Method) -> Response<Bytes> {
    if shared.is_shutting_down() {
        return probe(
            method,
            StatusCode::SERVICE_UNAVAILABLE,
            r#"{"status":"shutting_down"}"#,
        );
    }
    let readiness = tokio::time::timeout(shared.config.ready_timeout, shared.responder.ready())
        .await
        .unwrap_or_else(|_| Err("timed out".to_owned()));
    match readiness {
        Ok(()) => probe(method, StatusCode::OK, r#"{"status":"ready"}"#),
        Err(reason) => {
            tracing::warn!(reason, "not ready");
            probe(
                method,
                StatusCode::SERVICE_UNAVAILABLE,
                r#"{"status":"not_ready"}"#,
            )
        }
    }
}

/// Reads the body, counts the request, takes a place and its turn, and calls the responder. In this
/// order, because bodies that never arrive would otherwise hold every place, and because a
/// signature covers the body. The body of a rate-limited request has to be read in any case, so that its
/// connection can be used again.
async fn respond<R, S, B>(
    shared: &Shared<R>,
    exchange: &Exchange,
    headers: HeaderMap,
    mut stream: S,
) -> Response<Bytes>
where
    R: Responder,
    S: Stream<Item = Result<B, warp::Error>> + Send + Unpin + 'static,
    B: Buf + Send + 'static,
{
    let config = &shared.config;
    let deadline = exchange.started + config.request_timeout;
    let (body, body_error) =
        match read_body(shared, exchange, &headers, &mut stream, deadline).await {
            Ok(body) => (body, None),
            Err(error) => (Bytes::new(), Some(error)),
        };
    let mut request = new_request(exchange, headers, body);
    let caller = shared.responder.identify(&mut request);
    let caller = tokio::time::timeout_at(deadline, caller).await;
    let caller = caller.ok().flatten();
    let excess = count(shared, exchange, caller);
    if let Some(error) = body_error {
        // A client that waits for `100 Continue` gets the error response instead.
        let is_waiting = request.headers().contains_key(EXPECT)
            && exchange.bytes_in.load(Ordering::Relaxed) == 0;
        if error != BodyError::Unreadable && !is_waiting {
            tokio::spawn(body::linger(
                stream,
                config.linger_timeout,
                config.linger_bytes_max,
            ));
        }
        return shared.reject_and_close(exchange, &rejection(shared, error));
    }
    if let Some(rejection) = excess {
        return shared.reject(exchange, &rejection);
    }
    let retry_after = config.retry_after;
    let group = match caller {
        Some(caller) => Group::Organization(caller.organization.0),
        None => Group::of_address(exchange.client),
    };
    let Some(place) = shared.shares.enter(group) else {
        return shared.reject(exchange, &Rejection::Overloaded { retry_after });
    };
    let _in_work = shared.metrics.start_request();
    let compression = &config.compression;
    let accepted = compression
        .enabled
        .then(|| AcceptEncoding::read(request.headers()));
    let response = async {
        let _turn = place.turn(request.body().len()).await;
        shared.responder.respond(request).await
    };
    let Ok(response) = tokio::time::timeout_at(deadline, response).await else {
        return shared.reject(exchange, &Rejection::TimedOut { retry_after });
    };
    match accepted {
        Some(accepted) => compress(compression, &exchange.method, accepted, response).await,
        None => response,
    }
}

/// Returns the request as the responder receives it, with the facts of the exchange.
fn new_request(exchange: &Exchange, headers: HeaderMap, body: Bytes) -> Request<Bytes> {
    let mut request = Request::new(body);
    *request.method_mut() = exchange.method.clone();
    *request.uri_mut() = exchange.uri.clone();
    *request.headers_mut() = headers;
    let extensions = request.extensions_mut();
    extensions.insert(ClientInfo {
        address: Some(exchange.client),
        request_id: Some(exchange.request_id),
    });
    extensions.insert(exchange.scheme());
    request
}

/// Counts the request against its rate limit, if any; returns the rejection of an excess request.
fn count<R>(
    shared: &Shared<R>,
    exchange: &Exchange,
    caller: Option<KnownCaller>,
) -> Option<Rejection> {
    let limiter = shared.rate_limiter.as_ref()?;
    let (key, member) = match caller {
        Some(caller) => (Key::Principal(caller.principal), caller.acts_for),
        None => (Key::of_address(exchange.client), None),
    };
    let count = || limiter.count_for(key, member.map(Key::Principal));
    let rate_limit = exchange.rate_limit.get_or_init(count);
    let retry_after = rate_limit.retry_after?;
    Some(Rejection::RateLimited { retry_after })
}

async fn read_body<R, S, B>(
    shared: &Shared<R>,
    exchange: &Exchange,
    headers: &HeaderMap,
    stream: &mut S,
    deadline: Instant,
) -> Result<Bytes, BodyError>
where
    S: Stream<Item = Result<B, warp::Error>> + Unpin,
    B: Buf,
{
    let config = &shared.config;
    // A body whose announced length is too long is rejected before any of it is read. hyper has
    // already rejected lengths that are not numbers.
    let announced = headers
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|length| length > config.body_bytes_max as u64) {
        return Err(BodyError::TooLarge);
    }
    let bounds = Bounds {
        bytes_max: config.body_bytes_max,
        deadline: deadline.min(exchange.started + config.body_read_timeout),
        budget: &shared.body_budget,
        client: exchange.client,
        arrived: &exchange.bytes_in,
    };
    body::read(stream, &bounds).await
}

fn rejection<R>(shared: &Shared<R>, error: BodyError) -> Rejection {
    let retry_after = shared.config.retry_after;
    match error {
        BodyError::TooLarge => Rejection::BodyTooLarge {
            limit_bytes: shared.config.body_bytes_max,
        },
        BodyError::Unreadable => Rejection::BodyUnreadable,
        BodyError::TimedOut => Rejection::BodyTimedOut { retry_after },
        BodyError::BudgetExhausted => Rejection::BodyMemoryFull { retry_after },
    }
}
