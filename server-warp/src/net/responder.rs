//! Interface between the HTTP server and the code that handles requests.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, Uri};
use knowledge_core::api::KnownCaller;

/// Handler of requests: core's router in production, a stub in tests.
///
/// The server calls it for every request except those to `/healthz` and `/readyz`. It sets the
/// `Request-Id` of every response to the one in the log, replacing any that the response has.
pub trait Responder: Send + Sync + 'static {
    /// Handles a request whose body has been read completely.
    ///
    /// The future is dropped at any await point if the request times out, the client disconnects,
    /// or a shutdown passes its deadline. It must not block its thread, because nothing can
    /// interrupt that. After a panic the response is [`reject`](Self::reject) with
    /// [`Rejection::Panicked`].
    fn respond(&self, request: Request<Bytes>) -> impl Future<Output = Response<Bytes>> + Send;

    /// Returns the response to a request that the server rejects, see [`Rejection`].
    ///
    /// Its status is [`Rejection::status`]; the server adds `Retry-After` and `Connection`.
    fn reject(&self, method: &Method, uri: &Uri, rejection: &Rejection) -> Response<Bytes>;

    /// Identifies the caller of a request for its rate limit and its share of the work; `None` if
    /// it is unknown. Called once the body has arrived; a rejected body is empty. What it finds out
    /// it may add to the extensions of the request, for [`respond`](Self::respond).
    fn identify(
        &self,
        request: &mut Request<Bytes>,
    ) -> impl Future<Output = Option<KnownCaller>> + Send {
        let _ = request;
        std::future::ready(None)
    }

    /// Checks that requests can be handled now, for `/readyz`.
    ///
    /// # Errors
    /// The reason, for the log only; clients do not see it.
    fn ready(&self) -> impl Future<Output = Result<(), String>> + Send;
}

impl<R: Responder> Responder for Arc<R> {
    fn respond(&self, request: Request<Bytes>) -> impl Future<Output = Response<Bytes>> + Send {
        self.as_ref().respond(request)
    }

    fn reject(&self, method: &Method, uri: &Uri, rejection: &Rejection) -> Response<Bytes> {
        self.as_ref().reject(method, uri, rejection)
    }

    fn identify(
        &self,
        request: &mut Request<Bytes>,
    ) -> impl Future<Output = Option<KnownCaller>> + Send {
        self.as_ref().identify(request)
    }

    fn ready(&self) -> impl Future<Output = Result<(), String>> + Send {
        self.as_ref().ready()
    }
}

/// Reason for which the server answers a request without the responder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rejection {
    /// 400: an HTTP/1.1 request without a `Host`, or one with several (RFC 9112, 3.2).
    HostInvalid,
    /// 413: the body is longer than the limit. The part that was read is discarded and the
    /// connection is closed.
    BodyTooLarge {
        /// The longest accepted body.
        limit_bytes: usize,
    },
    /// 400: the body is malformed, for example a broken chunk. The connection is closed.
    BodyUnreadable,
    /// 503: the body did not arrive in time. The connection is closed.
    BodyTimedOut {
        /// Delay before a retry.
        retry_after: Duration,
    },
    /// 429: the principal exceeds its rate limit.
    RateLimited {
        /// Delay before a retry, in whole seconds.
        retry_after: Duration,
    },
    /// 503: the bodies that are being read use all the memory set aside for them. The connection is
    /// closed.
    BodyMemoryFull {
        /// Delay before a retry.
        retry_after: Duration,
    },
    /// 503: the maximum number of requests is in flight.
    Overloaded {
        /// Delay before a retry.
        retry_after: Duration,
    },
    /// 503: the request timed out. Its effect is unknown.
    TimedOut {
        /// Delay before a retry.
        retry_after: Duration,
    },
    /// 500: the responder panicked. The effect of the request is unknown.
    Panicked,
}

impl Rejection {
    /// All values of [`reason`](Self::reason).
    pub const REASONS: [&'static str; 9] = [
        "host_invalid",
        "body_too_large",
        "body_unreadable",
        "body_timed_out",
        "body_memory_full",
        "rate_limited",
        "in_work_full",
        "timed_out",
        "panicked",
    ];

    /// Returns the reason in one word, for metrics.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::HostInvalid => "host_invalid",
            Self::BodyTooLarge { .. } => "body_too_large",
            Self::BodyUnreadable => "body_unreadable",
            Self::BodyTimedOut { .. } => "body_timed_out",
            Self::BodyMemoryFull { .. } => "body_memory_full",
            Self::RateLimited { .. } => "rate_limited",
            Self::Overloaded { .. } => "in_work_full",
            Self::TimedOut { .. } => "timed_out",
            Self::Panicked => "panicked",
        }
    }

    /// Returns the status of the response.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        match self {
            Self::BodyTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::HostInvalid | Self::BodyUnreadable => StatusCode::BAD_REQUEST,
            Self::RateLimited { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::BodyTimedOut { .. }
            | Self::BodyMemoryFull { .. }
            | Self::Overloaded { .. }
            | Self::TimedOut { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::Panicked => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Returns the delay before a retry; `None` if a retry cannot help.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::BodyTimedOut { retry_after }
            | Self::RateLimited { retry_after }
            | Self::BodyMemoryFull { retry_after }
            | Self::Overloaded { retry_after }
            | Self::TimedOut { retry_after } => Some(*retry_after),
            Self::HostInvalid
            | Self::BodyTooLarge { .. }
            | Self::BodyUnreadable
            | Self::Panicked => None,
        }
    }
}
