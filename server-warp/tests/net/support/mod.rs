//! A server with a stub responder, and a client that sends exactly the given bytes.

mod child;
mod client;
mod stub;

#[path = "../../support/exposition.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
pub(crate) mod exposition;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use knowledge_server::metrics::Metrics;
use knowledge_server::net::{Certificates, NetConfig, RateLimitConfig, Server, ShutdownReport};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub(crate) use child::Child;
pub(crate) use client::{Answer, Client, get, post, start_chunked};
pub(crate) use stub::Stub;

/// Time limit of a test that would hang.
pub(crate) const GUARD: Duration = Duration::from_secs(20);

/// A time-out that a test waits for.
pub(crate) const SHORT: Duration = Duration::from_millis(200);

/// Awaits a future that must complete.
pub(crate) async fn guarded<F: Future>(what: &str, future: F) -> F::Output {
    match tokio::time::timeout(GUARD, future).await {
        Ok(output) => output,
        Err(_) => panic!("waited too long for {what}"),
    }
}

/// Returns the default configuration, on a free port of the loopback interface.
pub(crate) fn config() -> NetConfig {
    NetConfig {
        address: SocketAddr::from(([127, 0, 0, 1], 0)),
        ..NetConfig::default()
    }
}

/// Returns a rate limit that refills too slowly for a test to notice.
pub(crate) fn limit(requests: u32) -> RateLimitConfig {
    RateLimitConfig {
        requests,
        window: Duration::from_secs(60 * 60),
    }
}

/// A running server, which dropping kills.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) stub: Arc<Stub>,
    pub(crate) metrics: Arc<Metrics>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<ShutdownReport>,
}

impl Running {
    pub(crate) async fn start(config: NetConfig) -> Self {
        let stub = Arc::new(Stub::default());
        let server = Server::bind(config, Arc::clone(&stub)).await.expect("bind");
        Self::run(server, stub)
    }

    /// Starts a server with TLS, and returns its certificates.
    pub(crate) async fn start_with_certificates(config: NetConfig) -> (Self, Arc<Certificates>) {
        let stub = Arc::new(Stub::default());
        let server = Server::bind(config, Arc::clone(&stub)).await.expect("bind");
        let certificates = server.certificates().expect("a server that speaks TLS");
        (Self::run(server, stub), certificates)
    }

    fn run(server: Server<Arc<Stub>>, stub: Arc<Stub>) -> Self {
        let address = server.local_addr();
        let metrics = Metrics::new();
        let server = server.with_metrics(metrics.http().clone());
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(server.run(async {
            let _ = stopped.await;
        }));
        Self {
            address,
            stub,
            metrics,
            stop: Some(stop),
            task,
        }
    }

    pub(crate) async fn connect(&self) -> Client {
        Client::connect(self.address).await
    }

    /// Sends a request on its own connection, and returns the response.
    pub(crate) async fn ask(&self, request: impl AsRef<[u8]>) -> Answer {
        let mut client = self.connect().await;
        client.send(request).await;
        client.answer().await
    }

    /// Sends a request from 127.0.0.`last` on its own connection, and returns the response.
    pub(crate) async fn ask_from(&self, last: u8, request: impl AsRef<[u8]>) -> Answer {
        let mut client = Client::connect_from(last, self.address).await;
        client.send(request).await;
        client.answer().await
    }

    /// Begins the shutdown.
    pub(crate) fn stop(&mut self) {
        let _ = self.stop.take().expect("stopped once").send(());
    }

    /// Waits for the end of the shutdown.
    pub(crate) async fn stopped(mut self) -> ShutdownReport {
        guarded("the server to stop", &mut self.task)
            .await
            .expect("the server does not panic")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}
