//! Cross-origin requests from browsers (the CORS protocol of the Fetch standard).
//!
//! tower-http's layer decides and sets the headers. It is applied to finished responses rather than
//! to the routes, so that responses from outside the routes have the headers too: a page that
//! cannot read a 503 cannot honour its `Retry-After`. warp's own filter rejects other origins with
//! an error of its own and skips such responses.

use std::convert::Infallible;
use std::fmt;
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

/// Methods of the API.
const METHODS: [Method; 6] = [
    Method::GET,
    Method::HEAD,
    Method::POST,
    Method::PUT,
    Method::PATCH,
    Method::DELETE,
];

/// Returns the request headers of the API that need permission in a preflight.
fn request_headers() -> [HeaderName; 10] {
    [
        AUTHORIZATION,
        CONTENT_TYPE,
        HeaderName::from_static("idempotency-key"),
        IF_MATCH,
        IF_NONE_MATCH,
        HeaderName::from_static("knowledge-act-for"),
        HeaderName::from_static("mcp-method"),
        HeaderName::from_static("mcp-name"),
        HeaderName::from_static("mcp-protocol-version"),
        HeaderName::from_static("traceparent"),
    ]
}

/// Returns the response headers of the API that pages cannot read by default.
fn response_headers() -> [HeaderName; 10] {
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

/// Configuration of cross-origin requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorsConfig {
    /// Allowed origins; empty for none.
    pub origins: Vec<AllowedOrigin>,
    /// True if the browser includes the session cookie. The responder has to accept cookies from
    /// such pages too: by default core rejects writes from another site that use one, see
    /// `Api::trust_origins`.
    pub credentials: bool,
    /// Time for which browsers may cache the result of a preflight. Browsers have limits of their
    /// own, of two hours and less.
    pub max_age: Duration,
}

/// Origin whose pages may call the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedOrigin {
    /// Any origin, written `*`. Invalid beside others, and with
    /// [`credentials`](CorsConfig::credentials), which would open every session to every page.
    Any,
    /// Origin as browsers send it: `https://app.example.com`. The port is included if it is not the
    /// scheme's default.
    Origin(String),
}

impl AllowedOrigin {
    /// Parses an origin or `*`; `None` if browsers send no such origin.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "*" => Some(Self::Any),
            origin => is_origin(origin).then(|| Self::Origin(origin.to_owned())),
        }
    }

    fn is_valid(&self) -> bool {
        match self {
            Self::Any => true,
            Self::Origin(origin) => is_origin(origin),
        }
    }
}

impl fmt::Display for AllowedOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Any => "*",
            Self::Origin(origin) => origin,
        })
    }
}

/// No other origin.
impl Default for CorsConfig {
    fn default() -> Self {
        Self {
            origins: Vec::new(),
            credentials: false,
            max_age: Duration::from_secs(60 * 60),
        }
    }
}

impl CorsConfig {
    /// Creates a configuration without credentials.
    #[must_use]
    pub fn new(origins: impl Into<Vec<AllowedOrigin>>) -> Self {
        Self {
            origins: origins.into(),
            ..Self::default()
        }
    }

    /// True if the pages of every origin may call the server.
    pub(crate) fn allows_any(&self) -> bool {
        self.origins.contains(&AllowedOrigin::Any)
    }

    /// Returns the origins whose pages may send the session cookie.
    pub fn origins_with_credentials(&self) -> impl Iterator<Item = &str> {
        let origins = self.credentials.then_some(&self.origins);
        origins.into_iter().flatten().filter_map(|it| match it {
            AllowedOrigin::Any => None,
            AllowedOrigin::Origin(origin) => Some(origin.as_str()),
        })
    }

    /// Returns the invalid field and its requirement, if any.
    pub(super) fn problem(&self) -> Option<(&'static str, &'static str)> {
        if self.allows_any() && self.credentials {
            return Some((
                "cors.credentials",
                "false if every origin is allowed; list the origins",
            ));
        }
        if self.allows_any() && self.origins.len() > 1 {
            return Some(("cors.origins", "either * or a list of other origins"));
        }
        let is_valid = self.origins.iter().all(AllowedOrigin::is_valid);
        (!is_valid).then_some((
            "cors.origins",
            "a list of origins such as https://app.example.com: scheme and host in lower case, the \
             port if it is not the scheme's default, and no path",
        ))
    }
}

/// Layer that adds the headers of the protocol to responses.
#[derive(Clone, Debug)]
pub(super) struct Cors {
    layer: CorsLayer,
}

impl Cors {
    /// Creates a layer from a configuration without a [`problem`](CorsConfig::problem); `None` if
    /// no other origin may call.
    pub(super) fn new(config: &CorsConfig) -> Option<Self> {
        if config.origins.is_empty() {
            return None;
        }
        let origins = if config.allows_any() {
            AllowOrigin::any()
        } else {
            AllowOrigin::list(config.origins.iter().map(|origin| {
                let origin = HeaderValue::try_from(origin.to_string());
                origin.expect("a validated origin is visible ASCII")
            }))
        };
        let layer = CorsLayer::new()
            .allow_origin(origins)
            .allow_credentials(config.credentials)
            .allow_methods(METHODS)
            .allow_headers(request_headers())
            .expose_headers(response_headers())
            .max_age(config.max_age);
        Some(Self { layer })
    }

    /// True for a preflight request.
    pub(super) fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
        method == Method::OPTIONS
            && headers.contains_key(ORIGIN)
            && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
    }

    /// Returns the response to a preflight.
    pub(super) async fn preflight(&self, headers: &HeaderMap) -> Response {
        let mut response = self
            .with_headers(Method::OPTIONS, headers, Response::default())
            .await;
        *response.status_mut() = StatusCode::NO_CONTENT;
        response
    }

    /// Adds the headers that let a page read the response.
    pub(super) async fn apply(&self, exchange: &Exchange, response: Response) -> Response {
        // The layer treats every OPTIONS request as a preflight.
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
        let mut service: CorsService<FinishedService> =
            self.layer.layer(FinishedService(Some(response)));
        let Ok(response) = service.call(request).await;
        response
    }
}

/// Service that returns a finished response.
struct FinishedService(Option<Response>);

impl Service<Request<()>> for FinishedService {
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
