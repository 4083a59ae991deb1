//! Facts about one request and its response.

use std::net::IpAddr;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

use http::{HeaderName, HeaderValue, Method, Uri};
use knowledge_core::api::ClientScheme;
use tokio::time::Instant;
use uuid::Uuid;

use super::rate_limit::RateLimitStatus;

/// Header with the ID of an exchange, in the response and in the log.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");

/// Facts about a request besides those that the request itself carries.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) method: Method,
    pub(super) uri: Uri,
    /// Address of the client, see [`ProxyConfig`](super::ProxyConfig).
    pub(super) client: IpAddr,
    /// Identifier of the request, in the response, the log and the audit log.
    pub(super) request_id: Uuid,
    /// True if a trusted proxy sent the request.
    pub(super) is_from_proxy: bool,
    /// True if the client used HTTPS: to this server, or to a trusted proxy that says so.
    pub(super) is_https: bool,
    /// Origin of the page that sent the request, if any.
    pub(super) origin: Option<HeaderValue>,
    /// Time at which the header had arrived.
    pub(super) started: Instant,
    /// Bytes of the body that have arrived.
    pub(super) bytes_in: AtomicU64,
    /// Rate limit of the caller, once the request has been counted.
    pub(super) rate_limit: OnceLock<RateLimitStatus>,
}

impl Exchange {
    /// Returns the scheme that the client used.
    pub(super) fn scheme(&self) -> ClientScheme {
        if self.is_https {
            ClientScheme::Https
        } else {
            ClientScheme::Http
        }
    }
}
