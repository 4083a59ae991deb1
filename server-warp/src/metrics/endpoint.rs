//! `GET /metrics` on its own address.

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
use super::http::METRICS_PATH;
use crate::explain::explain;
use crate::net::{BindError, NetConfig, Rejection, Responder, Server, ShutdownReport};

/// Maximum number of open connections: a scraper or two, and a person.
const CONNECTIONS_MAX: usize = 16;
/// Maximum number of scrapes in flight.
const REQUESTS_IN_WORK_MAX: usize = 4;
/// Scrapes have no body.
const BODY_BYTES_MAX: usize = 1;
/// Scrapes take milliseconds, so a shutdown need not wait long.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// Responder to scrapes.
#[derive(Clone, Debug)]
struct MetricsResponder {
    metrics: Arc<Metrics>,
    service: KnowledgeService,
}

/// Running server of the metrics. Dropping it shuts the server down without waiting.
#[derive(Debug)]
pub struct Endpoint {
    local_addr: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<ShutdownReport>,
}

impl Endpoint {
    /// Returns the address that it listens on, with the assigned port.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Shuts down after the scrape in flight.
    pub async fn stop(self) {
        // The send fails only if the server has already ended.
        let _ = self.stop.send(());
        if let Err(error) = self.task.await {
            tracing::error!(%error, "metrics endpoint panicked");
        }
    }
}

/// Serves the metrics on their own address from now on.
///
/// The address also has `/healthz` and the `/readyz` of this service. Scrapes themselves are not
/// counted.
///
/// # Errors
/// Errors of [`Server::bind`].
pub async fn serve(
    address: SocketAddr,
    metrics: Arc<Metrics>,
    service: KnowledgeService,
) -> Result<Endpoint, BindError> {
    let config = NetConfig {
        address,
        connections_max: CONNECTIONS_MAX,
        connections_per_client_ratio: 1.0,
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
        // A dropped sender means shutdown as well.
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
                "not found; metrics are at /metrics\n",
            );
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "");
            let allow = HeaderValue::from_static("GET, HEAD");
            response.headers_mut().insert(ALLOW, allow);
            return response;
        }
        tokio::join!(
            self.metrics.deliveries().read_outbox(&self.service),
            self.metrics.memories().read(&self.service),
        );
        let mut response = plain(StatusCode::OK, "");
        // hyper omits the body of a response to HEAD and keeps its length.
        *response.body_mut() = self.metrics.render().into();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(TEXT_FORMAT));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }

    fn reject(&self, _: &Method, _: &Uri, rejection: &Rejection) -> Response<Bytes> {
        plain(rejection.status(), "")
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
