//! State that all connections share.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONNECTION, RETRY_AFTER};
use http::{HeaderValue, Response};
use knowledge_core::env::Env;
use tokio::sync::watch;

use super::body::MemoryBudget;
use super::client_connections::ClientConnections;
use super::config::NetConfig;
use super::cors::Cors;
use super::exchange::Exchange;
use super::rate_limit::{RateLimiter, whole_seconds};
use super::responder::{Rejection, Responder};
use super::shares::Shares;
use super::tls::Certificates;
use crate::metrics::HttpMetrics;
use crate::telemetry::RequestTracer;

/// Phase of the server's life; it only moves forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Serving,
    /// Requests are served, but the server is not ready, so that a load balancer takes it out.
    Leaving,
    /// New connections are refused; requests in flight are completed.
    Draining,
    /// Every connection is closed immediately.
    Killed,
}

/// State shared by all connections.
#[derive(Debug)]
pub(super) struct Shared<R> {
    pub(super) config: NetConfig,
    pub(super) responder: R,
    pub(super) env: Env,
    pub(super) metrics: HttpMetrics,
    pub(super) tracer: Option<RequestTracer>,
    pub(super) phases: watch::Receiver<Phase>,
    pub(super) client_connections: Arc<ClientConnections>,
    pub(super) shares: Shares,
    pub(super) body_budget: Arc<MemoryBudget>,
    /// `None` if the server speaks plain HTTP.
    pub(super) certificates: Option<Arc<Certificates>>,
    /// `Strict-Transport-Security` of every response.
    pub(super) hsts: Option<HeaderValue>,
    pub(super) cors: Option<Cors>,
    pub(super) rate_limiter: Option<RateLimiter>,
}

impl<R> Shared<R> {
    /// Returns the scheme of this server's own URLs; a proxy in front of it may use another.
    pub(super) fn scheme(&self) -> &'static str {
        match self.certificates {
            Some(_) => "https",
            None => "http",
        }
    }

    pub(super) fn is_shutting_down(&self) -> bool {
        *self.phases.borrow() != Phase::Serving
    }
}

impl<R: Responder> Shared<R> {
    /// Returns the responder's error response with the headers that apply to every HTTP client.
    pub(super) fn reject(&self, exchange: &Exchange, rejection: &Rejection) -> Response<Bytes> {
        self.metrics.record_rejection(rejection);
        let mut response = self
            .responder
            .reject(&exchange.method, &exchange.uri, rejection);
        if let Some(wait) = rejection.retry_after() {
            let seconds = whole_seconds(wait);
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response
    }

    /// Rejects a request and closes its connection, whose next bytes are the rest of the body.
    pub(super) fn reject_and_close(
        &self,
        exchange: &Exchange,
        rejection: &Rejection,
    ) -> Response<Bytes> {
        let mut response = self.reject(exchange, rejection);
        response
            .headers_mut()
            .insert(CONNECTION, HeaderValue::from_static("close"));
        response
    }
}
