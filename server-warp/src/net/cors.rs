//! Which pages of other origins may call the server from a browser (the CORS protocol of the Fetch standard).
//!
//! tower-http's layer decides and writes the headers. It is put over answers that are finished, rather than over the
//! routes, so that those have them too that no route makes: a page that cannot read a 503 cannot wait for its
//! `Retry-After`. warp's own filter refuses other origins with an error of its own and leaves such answers out.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::{
    ACCESS_CONTROL_REQUEST_METHOD, AUTHORIZATION, CONTENT_TYPE, ETAG, IF_MATCH, IF_NONE_MATCH,
    LOCATION, ORIGIN, RETRY_AFTER, WWW_AUTHENTICATE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use knowledge_core::model::is_origin;
use tower_http::cors::{AllowOrigin, Cors as CorsService, CorsLayer};
use tower_layer::Layer;
use tower_service::Service;
use warp::reply::Response;

use super::exchange::{Exchange, REQUEST_ID};

/// Time for which a browser may remember what a preflight said.
pub const CORS_MAX_AGE_DEFAULT: Duration = Duration::from_secs(60 * 60);

/// The methods of the interface.
const METHODS: [Method; 6] = [
    Method::GET,
    Method::HEAD,
    Method::POST,
    Method::PUT,
    Method::PATCH,
    Method::DELETE,
];

/// The headers of the interface that pages may not send unasked.
fn request_headers() -> [HeaderName; 6] {
    [
        AUTHORIZATION,
        CONTENT_TYPE,
        HeaderName::from_static("idempotency-key"),
        IF_MATCH,
        IF_NONE_MATCH,
        HeaderName::from_static("traceparent"),
    ]
}

/// The headers of answers that pages may not read unasked.
fn answer_headers() -> [HeaderName; 10] {
    [
        ETAG,
        HeaderName::from_static("error-code"),
        HeaderName::from_static("error-message"),
        HeaderName::from_static("idempotent-replayed"),
        LOCATION,
        HeaderName::from_static("ratelimit"),
        HeaderName::from_static("ratelimit-policy"),
        REQUEST_ID,
        RETRY_AFTER,
        WWW_AUTHENTICATE,
    ]
}

/// Which pages may call the server from a browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorsConfig {
    /// The origins whose pages may.
    pub origins: CorsOrigins,
    /// Whether the browser sends the session cookie along. The responder has to take cookies from such pages too: by
    /// itself core refuses what a page of another site writes with one, see `Api::trust_origins`.
    pub credentials: bool,
    /// Time for which a browser may remember what a preflight said. Browsers have bounds of their own, of two hours
    /// and less.
    pub max_age: Duration,
}

/// The origins whose pages may call the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CorsOrigins {
    /// Any. Never with [`credentials`](CorsConfig::credentials): a session would be every page's.
    Any,
    /// These, each written as browsers send it: `https://app.example.com`, with the port where it is not the scheme's.
    These(Vec<String>),
}

impl CorsConfig {
    /// For these origins, without credentials.
    #[must_use]
    pub fn new(origins: CorsOrigins) -> Self {
        Self {
            origins,
            credentials: false,
            max_age: CORS_MAX_AGE_DEFAULT,
        }
    }

    /// The origins whose pages send the session cookie along.
    #[must_use]
    pub fn origins_with_credentials(&self) -> &[String] {
        match &self.origins {
            CorsOrigins::These(origins) if self.credentials => origins,
            _ => &[],
        }
    }

    /// What is wrong with this configuration: the field and what it must be.
    pub(super) fn problem(&self) -> Option<(&'static str, &'static str)> {
        match &self.origins {
            CorsOrigins::Any if self.credentials => Some((
                "cors.credentials",
                "off where every origin may call: name the origins",
            )),
            CorsOrigins::These(origins) if !origins.iter().all(|origin| is_origin(origin)) => {
                Some((
                    "cors.origins",
                    "a list of origins such as https://app.example.com: scheme and host in lower case, the port where it \
                 is not the scheme's, and no path",
                ))
            }
            _ => None,
        }
    }
}

/// What puts the headers of the protocol on answers.
#[derive(Clone, Debug)]
pub(super) struct Cors {
    layer: CorsLayer,
}

impl Cors {
    /// For a configuration without a [`problem`](CorsConfig::problem).
    pub(super) fn new(config: &CorsConfig) -> Self {
        let origins = match &config.origins {
            CorsOrigins::Any => AllowOrigin::any(),
            CorsOrigins::These(origins) => AllowOrigin::list(origins.iter().map(|origin| {
                HeaderValue::from_str(origin).expect("an origin that was checked is visible ASCII")
            })),
        };
        let layer = CorsLayer::new()
            .allow_origin(origins)
            .allow_credentials(config.credentials)
            .allow_methods(METHODS)
            .allow_headers(request_headers())
            .expose_headers(answer_headers())
            .max_age(config.max_age);
        Self { layer }
    }

    /// Whether a request asks for permission and for nothing else.
    pub(super) fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
        method == Method::OPTIONS
            && headers.contains_key(ORIGIN)
            && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
    }

    /// The answer to a preflight.
    pub(super) async fn preflight(&self, headers: &HeaderMap) -> Response {
        let mut response = self
            .with_headers(Method::OPTIONS, headers, Response::default())
            .await;
        *response.status_mut() = StatusCode::NO_CONTENT;
        response
    }

    /// The answer with what a browser has to know to give it to a page.
    pub(super) async fn apply(&self, exchange: &Exchange, response: Response) -> Response {
        // The layer takes every OPTIONS for a preflight.
        let method = match exchange.method {
            Method::OPTIONS => Method::GET,
            ref method => method.clone(),
        };
        let mut headers = HeaderMap::new();
        headers.extend(exchange.origin.clone().map(|origin| (ORIGIN, origin)));
        self.with_headers(method, &headers, response).await
    }

    async fn with_headers(
        &self,
        method: Method,
        headers: &HeaderMap,
        response: Response,
    ) -> Response {
        let mut request = Request::new(());
        *request.method_mut() = method;
        request.headers_mut().clone_from(headers);
        let mut service: CorsService<Finished> = self.layer.layer(Finished(Some(response)));
        let Ok(response) = service.call(request).await;
        response
    }
}

/// A service whose answer is there already.
struct Finished(Option<Response>);

impl Service<Request<()>> for Finished {
    type Response = Response;
    type Error = Infallible;
    type Future = Ready<Result<Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        ready(Ok(self.0.take().unwrap_or_default()))
    }
}
