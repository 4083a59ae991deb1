//! The seam between the network and what answers requests.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use uuid::Uuid;

/// What answers requests: core's router in the server, a stub in tests.
///
/// The server calls it for every request but those to `/healthz` and `/readyz`. It gives every answer its `Request-Id`,
/// the one that the log names, in place of any that the answer has.
pub trait Responder: Send + Sync + 'static {
    /// The answer to a request whose body has arrived whole.
    ///
    /// The future is dropped where it stands when the request's time is up, when the client has gone, or when a
    /// shutdown passes its deadline; it must not block its thread, which nothing can end. A panic is answered with [`refuse`](Self::refuse) of [`Refusal::Panicked`].
    fn respond(&self, request: Request<Bytes>) -> impl Future<Output = Response<Bytes>> + Send;

    /// The answer to a request that the server does not hand to [`respond`](Self::respond) or whose answer it gave
    /// up waiting for, with the status of [`Refusal::status`]. `Retry-After` and `Connection` are added by the server.
    fn refuse(&self, method: &Method, uri: &Uri, refusal: &Refusal) -> Response<Bytes>;

    /// Who makes a request, for its rate limit; `None` for nobody that is known. Asked only where there is a limit,
    /// before the body has arrived.
    fn caller(&self, uri: &Uri, headers: &HeaderMap) -> impl Future<Output = Option<Uuid>> + Send {
        let _ = (uri, headers);
        std::future::ready(None)
    }

    /// Whether requests can be answered now, for `/readyz`.
    ///
    /// # Errors
    /// Why not, for the log; clients are not shown it.
    fn ready(&self) -> impl Future<Output = Result<(), String>> + Send;
}

impl<R: Responder> Responder for Arc<R> {
    fn respond(&self, request: Request<Bytes>) -> impl Future<Output = Response<Bytes>> + Send {
        self.as_ref().respond(request)
    }

    fn refuse(&self, method: &Method, uri: &Uri, refusal: &Refusal) -> Response<Bytes> {
        self.as_ref().refuse(method, uri, refusal)
    }

    fn caller(&self, uri: &Uri, headers: &HeaderMap) -> impl Future<Output = Option<Uuid>> + Send {
        self.as_ref().caller(uri, headers)
    }

    fn ready(&self) -> impl Future<Output = Result<(), String>> + Send {
        self.as_ref().ready()
    }
}

/// Why the server refuses a request without the responder's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// 413: the body is longer than the server takes. What was read of it is thrown away, the connection is closed.
    BodyTooLarge {
        /// The longest body that is taken.
        limit_bytes: usize,
    },
    /// 400: the body cannot be read as its header announces it, for example a broken chunk. The connection is closed.
    BodyUnreadable,
    /// 503: the body did not arrive in time. The connection is closed.
    BodyTimedOut {
        /// When to try again.
        retry_after: Duration,
    },
    /// 429: its principal asks more often than it may.
    RateLimited {
        /// When to try again, in whole seconds.
        retry_after: Duration,
    },
    /// 503: as many bytes of bodies are on their way as the server takes on. The connection is closed.
    BodyMemoryFull {
        /// When to try again.
        retry_after: Duration,
    },
    /// 503: as many requests are in work as the server takes on.
    Overloaded {
        /// When to try again.
        retry_after: Duration,
    },
    /// 503: the answer was not found in time. Whether the request took effect is unknown.
    TimedOut {
        /// When to try again.
        retry_after: Duration,
    },
    /// 500: answering panicked. Whether the request took effect is unknown.
    Panicked,
}

impl Refusal {
    /// What [`reason`](Self::reason) may say.
    pub const REASONS: [&'static str; 8] = [
        "body_too_large",
        "body_unreadable",
        "body_timed_out",
        "body_memory_full",
        "rate_limited",
        "in_work_full",
        "timed_out",
        "panicked",
    ];

    /// The reason in one word, for metrics.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
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

    /// The status of the answer.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        match self {
            Self::BodyTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::BodyUnreadable => StatusCode::BAD_REQUEST,
            Self::RateLimited { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::BodyTimedOut { .. }
            | Self::BodyMemoryFull { .. }
            | Self::Overloaded { .. }
            | Self::TimedOut { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::Panicked => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// When to try again, where that can help.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::BodyTimedOut { retry_after }
            | Self::RateLimited { retry_after }
            | Self::BodyMemoryFull { retry_after }
            | Self::Overloaded { retry_after }
            | Self::TimedOut { retry_after } => Some(*retry_after),
            Self::BodyTooLarge { .. } | Self::BodyUnreadable | Self::Panicked => None,
        }
    }
}
