//! Binding, accepting and shutting down.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use knowledge_core::env::Env;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Semaphore, watch};

use super::body::MemoryBudget;
use super::client_connections::ClientConnections;
use super::config::{InvalidConfig, NetConfig};
use super::connection;
use super::cors::Cors;
use super::open_files;
use super::rate_limit::RateLimiter;
use super::responder::Responder;
use super::shared::{Phase, Shared};
use super::shares::Shares;
use super::tls::{Certificates, TlsError};
use crate::metrics::{CloseReason, HttpMetrics};
use crate::telemetry::RequestTracer;

/// Delay before accepting again after file descriptors or memory ran out. Retrying immediately
/// would burn a processor and free nothing.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Time for a killed connection to end. Only code that blocks its thread takes longer.
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

/// Error of [`Server::bind`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] InvalidConfig),
    /// The operating system rejected the address: in use, not this machine's, or not permitted.
    #[error("cannot listen on {address}: {source}")]
    Address {
        /// The address of the configuration.
        address: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The certificate or its key cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// Report of a server's shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShutdownReport {
    /// Connections accepted over the life of the server.
    pub connections_accepted: u64,
    /// Connections that were open when the shutdown began.
    pub connections_at_shutdown: usize,
    /// Connections that were still open at the deadline and were closed regardless.
    pub connections_killed: usize,
    /// Failures to accept for lack of file descriptors or memory.
    pub accept_failures: u64,
}

impl<R: Responder> Server<R> {
    /// Binds the configured address. From then on the kernel accepts connections and holds them
    /// until [`run`](Self::run).
    ///
    /// The process's soft limit on open files is raised to what the configured number of
    /// connections needs, up to the hard limit. If that is not enough, fewer connections are held.
    ///
    /// # Errors
    /// - [`BindError::Config`]: the configuration is not [valid](NetConfig::validate).
    /// - [`BindError::Address`]: the operating system rejected the address.
    /// - [`BindError::Tls`]: the certificate or its key cannot be used.
    pub async fn bind(config: NetConfig, responder: R) -> Result<Self, BindError> {
        config.validate()?;
        let certificates = Certificates::open(&config.tls)?;
        let address = config.address;
        let at_address = |source| BindError::Address { address, source };
        let listener = listen(address, config.accept_backlog).map_err(at_address)?;
        let local_addr = listener.local_addr().map_err(at_address)?;
        let connections_max =
            open_files::connections_max(config.connections_max, config.open_files_reserved);
        if connections_max < config.connections_max {
            let wanted = config.connections_max;
            tracing::warn!(
                wanted,
                connections_max,
                "the limit on open files reduces the number of connections"
            );
        }
        let (phase, phases) = watch::channel(Phase::Serving);
        let shared = Shared {
            client_connections: ClientConnections::new(
                connections_max,
                config.connections_per_client_ratio,
            ),
            shares: Shares::new(config.requests_in_work_max, config.body_bytes_in_work_max),
            body_budget: MemoryBudget::new(config.body_bytes_held_max),
            env: Env::system(),
            cors: Cors::new(&config.cors),
            rate_limiter: RateLimiter::new(&config.rate_limit),
            hsts: config.tls.hsts(),
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

    /// Records the server's metrics in `metrics` from now on.
    #[must_use]
    pub fn with_metrics(mut self, metrics: HttpMetrics) -> Self {
        let connections_max = self.connections_max;
        let shared = self.unshared();
        metrics.set_capacity(connections_max, shared.config.requests_in_work_max);
        if let Some(certificates) = &shared.certificates {
            certificates.record_expiry(metrics.certificate_expiry());
        }
        shared.metrics = metrics;
        self
    }

    /// Records a span for each request from now on.
    #[must_use]
    pub fn with_tracer(mut self, tracer: RequestTracer) -> Self {
        self.unshared().tracer = Some(tracer);
        self
    }

    /// Returns the responder, to complete it before the server runs.
    pub(crate) fn responder_mut(&mut self) -> &mut R {
        &mut self.unshared().responder
    }

    fn unshared(&mut self) -> &mut Shared<R> {
        Arc::get_mut(&mut self.shared).expect("the server is not running yet")
    }

    /// Returns the address that the server listens on, with the assigned port.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Returns the certificates, to reload them on demand; `None` if the server speaks plain HTTP.
    #[must_use]
    pub fn certificates(&self) -> Option<Arc<Certificates>> {
        self.shared.certificates.clone()
    }

    /// Returns the maximum of open connections, which the limit on open files may have lowered.
    #[must_use]
    pub fn connections_max(&self) -> usize {
        self.connections_max
    }

    /// Serves until `shutdown` resolves, then shuts down gracefully.
    ///
    /// For the configured delay it serves on but is not ready. Then it stops accepting, closes idle
    /// connections, completes the requests in flight, and closes the remaining connections at the
    /// configured deadline. Dropping the future closes every
    /// connection immediately.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> ShutdownReport {
        let Self {
            listener,
            local_addr,
            connections_max,
            phase,
            shared,
        } = self;
        let slots = Arc::new(Semaphore::new(connections_max));
        let counters = Arc::new(Counters::default());
        tracing::info!(%local_addr, connections_max, "serving");
        let told = async {
            shutdown.await;
            let delay = shared.config.shutdown_delay;
            if !delay.is_zero() {
                tracing::info!(?delay, "not ready; shutting down after the delay");
                phase.send_replace(Phase::Leaving);
                tokio::time::sleep(delay).await;
            }
        };
        tokio::select! {
            () = told => {}
            () = accept(&listener, &shared, &slots, &counters) => {}
            () = watch_certificates(&shared) => {}
            () = evict_idle_callers(&shared) => {}
        }
        // Refuses new connections and drops those in the backlog, which have not been served a
        // byte.
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
            connections_accepted: counters.accepted.load(Ordering::Relaxed),
            connections_at_shutdown,
            // Connections that have not even noticed count as killed.
            connections_killed: counters.killed.load(Ordering::Relaxed) + connections_max
                - slots.available_permits(),
            accept_failures: counters.accept_failures.load(Ordering::Relaxed),
        };
        tracing::info!(?report, "shut down");
        report
    }
}

/// Counters over the life of a server.
#[derive(Debug, Default)]
struct Counters {
    accepted: AtomicU64,
    accept_failures: AtomicU64,
    killed: AtomicUsize,
}

fn listen(address: SocketAddr, backlog: u32) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    // As in `std`: on platforms other than Unix the option lets two servers share a port.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(backlog)
}

/// Keeps the certificate up to date; never returns.
async fn watch_certificates<R>(shared: &Shared<R>) {
    match &shared.certificates {
        Some(certificates) => Arc::clone(certificates).watch().await,
        None => std::future::pending().await,
    }
}

/// Evicts idle callers from the rate limiter; never returns.
async fn evict_idle_callers<R>(shared: &Shared<R>) {
    match &shared.rate_limiter {
        Some(limiter) => limiter.evict_forever().await,
        None => std::future::pending().await,
    }
}

/// Accepts connections; never returns. A slot is acquired before a connection is accepted: without
/// one, clients wait in the kernel's backlog.
async fn accept<R: Responder>(
    listener: &TcpListener,
    shared: &Arc<Shared<R>>,
    slots: &Arc<Semaphore>,
    counters: &Arc<Counters>,
) {
    let protocol = connection::protocol(&shared.config);
    let mut was_full = false;
    loop {
        let is_full = slots.available_permits() == 0;
        if is_full && !was_full {
            tracing::warn!("connection limit reached; further clients wait");
        }
        was_full = is_full;
        let Ok(slot) = Arc::clone(slots).acquire_owned().await else {
            return; // The semaphore is never closed.
        };
        let (stream, peer) = accept_one(listener, &shared.metrics, counters).await;
        counters.accepted.fetch_add(1, Ordering::Relaxed);
        let open = shared.metrics.open_connection();
        let (shared, protocol, counters) =
            (Arc::clone(shared), protocol.clone(), Arc::clone(counters));
        tokio::spawn(async move {
            let reason = connection::open(shared, protocol, stream, peer).await;
            if reason == CloseReason::Killed {
                counters.killed.fetch_add(1, Ordering::Relaxed);
            }
            open.close(reason);
            drop(slot);
        });
    }
}

/// Accepts the next connection; backs off while there are no file descriptors or no memory.
async fn accept_one(
    listener: &TcpListener,
    metrics: &HttpMetrics,
    counters: &Counters,
) -> (TcpStream, IpAddr) {
    let mut backing_off = false;
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // Small responses must not be delayed to be sent together. A socket that fails here
                // is about to fail anyway.
                let _ = stream.set_nodelay(true);
                return (stream, peer.ip());
            }
            Err(error) if is_connection_error(&error) => {}
            Err(error) => {
                counters.accept_failures.fetch_add(1, Ordering::Relaxed);
                metrics.record_accept_failure();
                if !backing_off {
                    tracing::error!(%error, "accepting connections failed; retrying");
                }
                backing_off = true;
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
}

/// True if a connection broke before it was accepted, as opposed to a failure to accept.
fn is_connection_error(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}
