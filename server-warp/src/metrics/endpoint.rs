//! `GET /metrics`, on an address of its own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri};
use knowledge_core::service::KnowledgeService;
use prometheus::TEXT_FORMAT;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::Metrics;
use crate::explain::explain;
use crate::net::{BindError, NetConfig, Refusal, Responder, Server, ShutdownReport};

/// The path of the metrics.
pub const METRICS_PATH: &str = "/metrics";

/// Connections to the metrics at once: a scraper or two, and somebody who looks.
const CONNECTIONS_MAX: usize = 16;
/// Scrapes in work at once.
const REQUESTS_IN_WORK_MAX: usize = 4;
/// No scrape has a body.
const BODY_BYTES_MAX: usize = 1;
/// Scrapes take milliseconds: nothing is worth waiting for when the server stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// Answers scrapes.
#[derive(Clone, Debug)]
struct MetricsResponder {
    metrics: Arc<Metrics>,
    service: KnowledgeService,
}

/// Metrics that are being served. Dropping it ends that too, without waiting for it.
#[derive(Debug)]
pub struct Endpoint {
    local_addr: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<ShutdownReport>,
}

impl Endpoint {
    /// The address that it listens on, with the port that it was given.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Finishes the scrape that is in work, and ends.
    pub async fn stop(self) {
        // A server that has ended already wants no more.
        let _ = self.stop.send(());
        if let Err(error) = self.task.await {
            tracing::error!(%error, "serving the metrics panicked");
        }
    }
}

/// Serves the metrics on an address of their own, from now on, beside `/healthz` and the `/readyz` of this service.
/// What serves them counts nothing of itself.
///
/// # Errors
/// Those of [`Server::bind`].
pub async fn serve(
    address: SocketAddr,
    metrics: Arc<Metrics>,
    service: KnowledgeService,
) -> Result<Endpoint, BindError> {
    let config = NetConfig {
        address,
        connections_max: CONNECTIONS_MAX,
        requests_in_work_max: REQUESTS_IN_WORK_MAX,
        body_bytes_max: BODY_BYTES_MAX,
        shutdown_timeout: SHUTDOWN_TIMEOUT,
        ..NetConfig::default()
    };
    let server = Server::bind(config, MetricsResponder { metrics, service }).await?;
    let local_addr = server.local_addr();
    tracing::info!("metrics on http://{local_addr}{METRICS_PATH}");
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(server.run(async {
        // Dropped is told too.
        let _ = stopped.await;
    }));
    Ok(Endpoint {
        local_addr,
        stop,
        task,
    })
}

impl Responder for MetricsResponder {
    async fn respond(&self, request: Request<Bytes>) -> Response<Bytes> {
        if request.uri().path() != METRICS_PATH {
            return plain(
                StatusCode::NOT_FOUND,
                "there is nothing here but /metrics\n",
            );
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "");
            let allow = HeaderValue::from_static("GET, HEAD");
            response.headers_mut().insert(ALLOW, allow);
            return response;
        }
        self.metrics.deliveries().read_outbox(&self.service).await;
        let mut response = plain(StatusCode::OK, "");
        // hyper leaves the body out of an answer to HEAD and keeps its length.
        *response.body_mut() = self.metrics.render().into();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(TEXT_FORMAT));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }

    fn refuse(&self, _: &Method, _: &Uri, refusal: &Refusal) -> Response<Bytes> {
        plain(refusal.status(), "")
    }

    async fn ready(&self) -> Result<(), String> {
        let ready = self.service.ready().await;
        ready.map_err(|error| explain(&error))
    }
}

fn plain(status: StatusCode, text: &'static str) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from_static(text.as_bytes()));
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}
