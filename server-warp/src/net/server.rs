//! Binding, accepting, and stopping.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, RETRY_AFTER};
use http::{HeaderValue, Response};
use knowledge_core::env::Env;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Semaphore, watch};

use super::body::Room;
use super::config::{InvalidConfig, NetConfig};
use super::connection;
use super::cors::Cors;
use super::exchange::Exchange;
use super::open_files;
use super::rate_limit::RateLimiter;
use super::responder::{Refusal, Responder};
use super::tls::{Certificates, TlsError};
use crate::metrics::{CloseReason, HttpMetrics};
use crate::system::system_env;
use crate::telemetry::RequestTracer;

/// How long accepting rests after the process or the machine has run out of files or memory. Trying again at once
/// would burn a processor and free nothing.
const ACCEPT_REST: Duration = Duration::from_millis(100);

/// How long a killed connection may take to notice. Only code that blocks its thread takes longer.
const KILL_TIMEOUT: Duration = Duration::from_secs(1);

/// A server that is bound to its address and not yet accepting.
#[derive(Debug)]
pub struct Server<R> {
    listener: TcpListener,
    local_addr: SocketAddr,
    connections_max: usize,
    phase: watch::Sender<Phase>,
    shared: Arc<Shared<R>>,
}

/// Why a server could not be bound.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// The configuration cannot be kept.
    #[error(transparent)]
    Config(#[from] InvalidConfig),
    /// The operating system refused the address: in use, not this machine's, or not permitted.
    #[error("cannot listen on {address}: {source}")]
    Address {
        /// The address of the configuration.
        address: SocketAddr,
        /// What the operating system said.
        source: io::Error,
    },
    /// The certificate or its key cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// How a server stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShutdownReport {
    /// Connections accepted over the life of the server.
    pub connections_accepted: u64,
    /// Connections that were open when the shutdown began.
    pub connections_at_shutdown: usize,
    /// Those that were still open at the deadline, and were closed whatever they did.
    pub connections_killed: usize,
    /// Times that accepting failed for want of files or memory.
    pub accept_failures: u64,
}

/// Where the server stands; it only moves forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Serving,
    /// No new connections; what is in work is finished.
    Draining,
    /// Every connection is closed at once.
    Killed,
}

/// What all connections share.
#[derive(Debug)]
pub(super) struct Shared<R> {
    pub(super) config: NetConfig,
    pub(super) responder: R,
    pub(super) env: Env,
    pub(super) metrics: HttpMetrics,
    pub(super) tracer: Option<RequestTracer>,
    pub(super) phases: watch::Receiver<Phase>,
    pub(super) requests_in_work: Semaphore,
    pub(super) body_room: Arc<Room>,
    /// `None` where the server speaks plain HTTP.
    pub(super) certificates: Option<Arc<Certificates>>,
    pub(super) cors: Option<Cors>,
    pub(super) rate_limiter: Option<RateLimiter>,
}

impl<R: Responder> Server<R> {
    /// Binds the address of the configuration. From here on the kernel takes connections and holds them until
    /// [`run`](Self::run).
    ///
    /// The process's soft limit on open files is raised as far as its hard limit lets it and the configured number of
    /// connections needs; where that is not enough, fewer connections are held.
    ///
    /// # Errors
    /// - [`BindError::Config`]: the configuration is not [valid](NetConfig::validate).
    /// - [`BindError::Address`]: the operating system refused the address.
    /// - [`BindError::Tls`]: the certificate or its key cannot be used.
    pub async fn bind(config: NetConfig, responder: R) -> Result<Self, BindError> {
        config.validate()?;
        let certificates = config.tls.clone().map(Certificates::open).transpose()?;
        let address = config.address;
        let refused = |source| BindError::Address { address, source };
        let listener = listen(address, config.accept_backlog).map_err(refused)?;
        let local_addr = listener.local_addr().map_err(refused)?;
        let connections_max =
            open_files::connections_max(config.connections_max, config.open_files_reserved);
        if connections_max < config.connections_max {
            let wanted = config.connections_max;
            tracing::warn!(
                wanted,
                connections_max,
                "the limit on open files lowers the connections"
            );
        }
        let (phase, phases) = watch::channel(Phase::Serving);
        let shared = Shared {
            requests_in_work: Semaphore::new(config.requests_in_work_max),
            body_room: Room::new(config.body_bytes_held_max),
            env: system_env(),
            cors: config.cors.as_ref().map(Cors::new),
            rate_limiter: config.rate_limit.as_ref().map(RateLimiter::new),
            metrics: HttpMetrics::default(),
            tracer: None,
            config,
            responder,
            phases,
            certificates,
        };
        Ok(Self {
            listener,
            local_addr,
            connections_max,
            phase,
            shared: Arc::new(shared),
        })
    }

    /// Counts with these metrics what happens from here on.
    #[must_use]
    pub fn measured_by(mut self, metrics: HttpMetrics) -> Self {
        let connections_max = self.connections_max;
        let shared = self.unshared();
        metrics.set_capacity(connections_max, shared.config.requests_in_work_max);
        shared.metrics = metrics;
        self
    }

    /// Makes a span of each request from here on.
    #[must_use]
    pub fn traced_by(mut self, tracer: RequestTracer) -> Self {
        self.unshared().tracer = Some(tracer);
        self
    }

    fn unshared(&mut self) -> &mut Shared<R> {
        Arc::get_mut(&mut self.shared).expect("nothing runs yet that could share it")
    }

    /// The address that the server listens on, with the port that it was given.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// The certificate that is shown, where the server speaks TLS: for those who want it read again at once.
    #[must_use]
    pub fn certificates(&self) -> Option<Arc<Certificates>> {
        self.shared.certificates.clone()
    }

    /// The connections that are held at once: the configured number, or what the limit on open files leaves of it.
    #[must_use]
    pub fn connections_max(&self) -> usize {
        self.connections_max
    }

    /// Serves until `shutdown` resolves; then stops accepting, closes idle connections, finishes the requests in work,
    /// and closes what is left after the configured time. Dropping the future closes every connection at once.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> ShutdownReport {
        let Self {
            listener,
            local_addr,
            connections_max,
            phase,
            shared,
        } = self;
        let slots = Arc::new(Semaphore::new(connections_max));
        let tally = Arc::new(Tally::default());
        tracing::info!(%local_addr, connections_max, "serving");
        tokio::select! {
            () = shutdown => {}
            () = accept(&listener, &shared, &slots, &tally) => {}
            () = watch_certificates(&shared) => {}
            () = forget_callers(&shared) => {}
        }
        // Refuses those who come later, and those in the backlog, who have not been served a byte.
        drop(listener);

        let connections_at_shutdown = connections_max - slots.available_permits();
        tracing::info!(connections_at_shutdown, "shutting down");
        phase.send_replace(Phase::Draining);
        let all = u32::try_from(connections_max).unwrap_or(u32::MAX);
        let drained = slots.acquire_many(all);
        if tokio::time::timeout(shared.config.shutdown_timeout, drained)
            .await
            .is_err()
        {
            phase.send_replace(Phase::Killed);
            let _ = tokio::time::timeout(KILL_TIMEOUT, slots.acquire_many(all)).await;
        }
        let report = ShutdownReport {
            connections_accepted: tally.accepted.load(Ordering::Relaxed),
            connections_at_shutdown,
            // What has not even noticed is as good as killed.
            connections_killed: tally.killed.load(Ordering::Relaxed) + connections_max
                - slots.available_permits(),
            accept_failures: tally.accept_failures.load(Ordering::Relaxed),
        };
        tracing::info!(?report, "shut down");
        report
    }
}

impl<R> Shared<R> {
    /// Of the URLs under which clients find this server; a proxy in front of it may have another.
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
    /// The responder's refusal, with what the refusal says to every HTTP client.
    pub(super) fn refuse(&self, exchange: &Exchange, refusal: &Refusal) -> Response<Bytes> {
        self.metrics.refused(refusal);
        let mut response = self
            .responder
            .refuse(&exchange.method, &exchange.uri, refusal);
        if let Some(wait) = refusal.retry_after() {
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response
    }

    /// A refusal after which the connection cannot be used again: the rest of the body stands before the next request.
    pub(super) fn refuse_and_close(
        &self,
        exchange: &Exchange,
        refusal: &Refusal,
    ) -> Response<Bytes> {
        let mut response = self.refuse(exchange, refusal);
        response
            .headers_mut()
            .insert(CONNECTION, HeaderValue::from_static("close"));
        response
    }
}

/// What is counted over the life of a server.
#[derive(Debug, Default)]
struct Tally {
    accepted: AtomicU64,
    accept_failures: AtomicU64,
    killed: AtomicUsize,
}

fn listen(address: SocketAddr, backlog: u32) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    // As std does: elsewhere than on Unix it means that two servers may share a port.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(backlog)
}

/// Keeps the certificate that is shown up to date, for ever.
async fn watch_certificates<R>(shared: &Shared<R>) {
    match &shared.certificates {
        Some(certificates) => Arc::clone(certificates).watch().await,
        None => std::future::pending().await,
    }
}

/// Keeps the rate limits of those who have gone from being kept, for ever.
async fn forget_callers<R>(shared: &Shared<R>) {
    match &shared.rate_limiter {
        Some(limiter) => limiter.forget_for_ever().await,
        None => std::future::pending().await,
    }
}

/// Accepts for ever. A slot is taken before a connection is: without one, clients wait in the kernel's backlog.
async fn accept<R: Responder>(
    listener: &TcpListener,
    shared: &Arc<Shared<R>>,
    slots: &Arc<Semaphore>,
    tally: &Arc<Tally>,
) {
    let protocol = connection::protocol(&shared.config);
    let mut was_full = false;
    loop {
        let is_full = slots.available_permits() == 0;
        if is_full && !was_full {
            tracing::warn!(
                "as many connections are open as the server holds; further clients wait"
            );
        }
        was_full = is_full;
        let Ok(slot) = Arc::clone(slots).acquire_owned().await else {
            return; // The semaphore is never closed.
        };
        let (stream, peer) = accept_one(listener, &shared.metrics, tally).await;
        tally.accepted.fetch_add(1, Ordering::Relaxed);
        let open = shared.metrics.accepted();
        let (shared, protocol, tally) = (Arc::clone(shared), protocol.clone(), Arc::clone(tally));
        tokio::spawn(async move {
            let reason = connection::open(shared, protocol, stream, peer).await;
            if reason == CloseReason::Killed {
                tally.killed.fetch_add(1, Ordering::Relaxed);
            }
            open.close(reason);
            drop(slot);
        });
    }
}

/// The next connection; rests while there are no files or no memory for one.
async fn accept_one(
    listener: &TcpListener,
    metrics: &HttpMetrics,
    tally: &Tally,
) -> (TcpStream, IpAddr) {
    let mut resting = false;
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // Small answers are not held back to be sent together. A socket that refuses is about to fail anyway.
                let _ = stream.set_nodelay(true);
                return (stream, peer.ip());
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tally.accept_failures.fetch_add(1, Ordering::Relaxed);
                metrics.accept_failed();
                if !resting {
                    tracing::error!(%error, "cannot accept connections; trying again until it works");
                }
                resting = true;
                tokio::time::sleep(ACCEPT_REST).await;
            }
        }
    }
}

/// Whether the error is that of a connection that broke before it was accepted, not of accepting.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}
