//! The whole server over any store: the service, the HTTP server, and background work.
//!
//! ```
//! use std::sync::Arc;
//!
//! use knowledge_core::env::Env;
//! use knowledge_core::service::{KnowledgeService, Options, SealingKey};
//! use knowledge_core::store::MemoryStore;
//! use knowledge_server::app::App;
//! use knowledge_server::net::NetConfig;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let env = Env::system();
//! let options = Options::new(SealingKey::generate(&env));
//! let service = KnowledgeService::open(Arc::new(MemoryStore::new()), env, options).await?;
//! let net = NetConfig { address: "127.0.0.1:0".parse()?, ..NetConfig::default() };
//! let app = App::bind(service, net).await?;
//! println!("listening on {}", app.base_url());
//! app.run(async { /* until a signal arrives */ }).await;
//! # Ok(())
//! # }
//! ```

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use knowledge_core::Error;
use knowledge_core::api::Api;
use knowledge_core::env::Env;
use knowledge_core::service::{KnowledgeService, OpenError, Options};
use knowledge_core::store::Store;
use tokio::sync::oneshot;
#[cfg(unix)]
use tokio::task::JoinHandle;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

#[cfg(unix)]
use crate::admin::AdminSocket;
use crate::deliveries::{Deliveries, Dispatcher};
use crate::explain::explain;
use crate::metrics::{MaintenanceMetrics, Metrics};
use crate::net::{BindError, Certificates, NetConfig, Server, ShutdownReport};
#[cfg(feature = "oidc")]
use crate::oidc::Oidc;
use crate::partitions::Partitions;
use crate::responder::ApiResponder;
use crate::telemetry::RequestTracer;

/// Default time between two maintenance runs.
pub const MAINTENANCE_INTERVAL_DEFAULT: Duration = Duration::from_secs(60);

/// Minimum time between two maintenance runs.
const MAINTENANCE_INTERVAL_MIN: Duration = Duration::from_millis(1);

/// Service with its HTTP server, bound and not yet accepting.
#[derive(Debug)]
pub struct App {
    partitions: Partitions,
    server: Server<ApiResponder>,
    metrics: Arc<Metrics>,
    maintenance_interval: Duration,
    deliveries: Option<Deliveries>,
    shutdown_timeout: Duration,
    #[cfg(unix)]
    admin: Option<AdminSocket>,
}

/// Error of starting a server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The service cannot use the store.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The HTTP server cannot use the address or the configuration.
    #[error(transparent)]
    Bind(#[from] BindError),
}

impl App {
    /// Binds the configured address. From then on clients can connect; [`run`](Self::run) serves
    /// them.
    ///
    /// Events stay in the store, undelivered, unless [`deliver_with`](Self::deliver_with) is
    /// called. Pages of origins that may call with credentials may also write with a session
    /// cookie, which core denies to other sites.
    ///
    /// # Errors
    /// Errors of [`Server::bind`].
    pub async fn bind(service: KnowledgeService, config: NetConfig) -> Result<Self, BindError> {
        Self::bind_with_metrics(service, config, Metrics::new()).await
    }

    /// Binds like [`bind`](Self::bind) and records metrics, with one service or several
    /// [`Partitions`]. Metrics of the store also need a service over a
    /// [metered](Metrics::meter_store) store.
    ///
    /// # Errors
    /// Errors of [`Server::bind`].
    pub async fn bind_with_metrics(
        service: impl Into<Partitions>,
        config: NetConfig,
        metrics: Arc<Metrics>,
    ) -> Result<Self, BindError> {
        let partitions = service.into();
        let shutdown_timeout = config.shutdown_timeout;
        let cors = &config.cors;
        let api = |service: &KnowledgeService| {
            Api::new(service.clone()).trust_origins(cors.origins_with_credentials())
        };
        let responder = ApiResponder::over(partitions.clone(), api);
        let server = Server::bind(config, responder).await?;
        let is_https = server.certificates().is_some();
        for service in partitions.services() {
            service.set_base_url(base_url(server.local_addr(), is_https));
        }
        Ok(Self {
            server: server.with_metrics(metrics.http().clone()),
            metrics,
            partitions,
            maintenance_interval: MAINTENANCE_INTERVAL_DEFAULT,
            deliveries: None,
            shutdown_timeout,
            #[cfg(unix)]
            admin: None,
        })
    }

    /// Records a span for each request from now on. Spans of the store also need a service over a
    /// [traced](crate::telemetry::Telemetry::trace_store) store.
    #[must_use]
    pub fn with_tracer(mut self, tracer: RequestTracer) -> Self {
        self.server = self.server.with_tracer(tracer);
        self
    }

    /// Sets the time between two maintenance runs, at least a millisecond;
    /// [`MAINTENANCE_INTERVAL_DEFAULT`] by default.
    #[must_use]
    pub fn maintain_every(mut self, interval: Duration) -> Self {
        self.maintenance_interval = interval.max(MAINTENANCE_INTERVAL_MIN);
        self
    }

    /// Delivers events to webhooks and citation subscriptions while the server runs.
    #[must_use]
    pub fn deliver_with(mut self, deliveries: Deliveries) -> Self {
        self.deliveries = Some(deliveries);
        self
    }

    /// Signs members in with an OpenID Connect provider too, if there is one.
    #[cfg(feature = "oidc")]
    #[must_use]
    pub fn sign_in_with(mut self, oidc: Option<Oidc>) -> Self {
        if let Some(oidc) = oidc {
            self.server.responder_mut().sign_in_with(oidc);
        }
        self
    }

    /// Serves the operator's API on this socket while the server runs.
    #[cfg(unix)]
    #[must_use]
    pub fn with_admin(mut self, socket: Option<AdminSocket>) -> Self {
        self.admin = socket;
        self
    }

    /// Returns the address that the server listens on, with the assigned port.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.server.local_addr()
    }

    /// Returns the base URL for clients on this machine, without a trailing slash.
    #[must_use]
    pub fn base_url(&self) -> String {
        base_url(self.local_addr(), self.server.certificates().is_some())
    }

    /// Returns the certificates, to reload them on demand; `None` if the server speaks plain HTTP.
    #[must_use]
    pub fn certificates(&self) -> Option<Arc<Certificates>> {
        self.server.certificates()
    }

    /// Returns the service; with several partitions, the one of the home partition.
    #[must_use]
    pub fn service(&self) -> &KnowledgeService {
        self.partitions.home()
    }

    /// Serves until `shutdown` resolves, then shuts down as [`Server::run`] does.
    ///
    /// Meanwhile maintenance runs at intervals: it purges expired data and publishes changes that
    /// depend only on time. If it [delivers](Self::deliver_with), no delivery starts after
    /// `shutdown`, and those in flight have the same time to complete as requests.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> ShutdownReport {
        let mut dispatching = JoinSet::new();
        let (stop_dispatching, stopped) = oneshot::channel();
        let stopped = dropped(stopped).shared();
        let shutdown = async move {
            shutdown.await;
            drop(stop_dispatching);
        };
        let mut background = JoinSet::new();
        for (index, service) in self.partitions.services().iter().enumerate() {
            if let Some(deliveries) = self.deliveries.clone() {
                let metrics = self.metrics.deliveries().clone();
                let dispatcher = Dispatcher::new(service.clone(), deliveries, metrics);
                dispatching.spawn(dispatcher.run(stopped.clone(), self.shutdown_timeout));
            }
            let metrics = self.metrics.maintenance().clone();
            let service = service.clone();
            background.spawn(maintain(index, service, self.maintenance_interval, metrics));
        }
        #[cfg(unix)]
        let (stop_admin, admin) = spawn_admin(self.admin);
        let report = self.server.run(shutdown).await;
        #[cfg(unix)]
        {
            drop(stop_admin);
            if let Err(error) = admin.await {
                tracing::error!(%error, "admin socket failed");
            }
        }
        while let Some(ended) = dispatching.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "dispatcher failed");
            }
        }
        // Each maintenance step is one commit, so an interrupted step has no effect.
        background.shutdown().await;
        report
    }
}

/// Returns the base URL for clients on this machine of a server with this address.
#[must_use]
pub fn base_url(mut address: SocketAddr, is_https: bool) -> String {
    // The unspecified address cannot be connected to.
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    let scheme = if is_https { "https" } else { "http" };
    format!("{scheme}://{address}")
}

/// Resolves when the sender is dropped.
async fn dropped(signal: oneshot::Receiver<()>) {
    let _ = signal.await;
}

/// Serves the operator's API until the returned sender is dropped.
#[cfg(unix)]
fn spawn_admin(socket: Option<AdminSocket>) -> (oneshot::Sender<()>, JoinHandle<()>) {
    let (stop, stopped) = oneshot::channel();
    let serving = tokio::spawn(async move {
        if let Some(socket) = socket {
            socket.run(dropped(stopped)).await;
        }
    });
    (stop, serving)
}

/// Opens a service over the store and serves it until `shutdown` resolves. Delivers no events: that
/// needs a client and an [`App`] that [delivers](App::deliver_with).
///
/// # Errors
/// - [`StartError::Open`]: the service cannot use the store.
/// - [`StartError::Bind`]: the HTTP server cannot use the address or the configuration.
pub async fn serve(
    store: Arc<dyn Store>,
    env: Env,
    options: Options,
    config: NetConfig,
    shutdown: impl Future<Output = ()>,
) -> Result<ShutdownReport, StartError> {
    let service = KnowledgeService::open(store, env, options).await?;
    Ok(App::bind(service, config).await?.run(shutdown).await)
}

/// Runs maintenance of the partition at this position now and at every interval; never returns.
async fn maintain(
    index: usize,
    service: KnowledgeService,
    interval: Duration,
    metrics: MaintenanceMetrics,
) {
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let run = maintain_until_done(index, &service, &metrics);
        // A panic ends this run only.
        let run = AssertUnwindSafe(run).catch_unwind().await;
        let outcome = run.unwrap_or_else(|_| Err(Error::internal("maintenance panicked")));
        let now = service.env().now();
        metrics.record_end(index, outcome.is_ok(), now);
        if let Err(error) = outcome {
            let detail = explain(&error);
            tracing::warn!(detail, "maintenance failed; continuing in the next run");
        }
    }
}

async fn maintain_until_done(
    index: usize,
    service: &KnowledgeService,
    metrics: &MaintenanceMetrics,
) -> Result<(), Error> {
    let mut is_first = true;
    loop {
        let now = service.env().now();
        let done = service.maintain(now).await?;
        if std::mem::take(&mut is_first) {
            metrics.record_start(index, now, done.oldest_due);
        }
        metrics.record_progress(&done);
        if done.purged > 0 || done.holders_rewritten > 0 {
            tracing::debug!(
                swept = done.purged,
                holders_rewritten = done.holders_rewritten,
                "maintained"
            );
        }
        if !done.has_more {
            return Ok(());
        }
        // Requests take precedence over a long run.
        tokio::task::yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use async_trait::async_trait;
    use knowledge_core::service::SealingKey;
    use knowledge_core::store::{Commit, CommitOutcome, Found, MemoryStore, Read, StoreError};

    use super::*;

    /// A store whose next range read panics on demand.
    #[derive(Default)]
    struct PanickingStore {
        store: MemoryStore,
        panics: AtomicBool,
    }

    #[async_trait]
    impl Store for PanickingStore {
        async fn read(&self, reads: &[Read<'_>]) -> Result<Vec<Found>, StoreError> {
            if reads.iter().any(|read| matches!(read, Read::Range { .. })) {
                let panics = self.panics.swap(false, Ordering::SeqCst);
                assert!(!panics, "as the test wanted");
            }
            self.store.read(reads).await
        }

        async fn commit(&self, commit: Commit) -> Result<CommitOutcome, StoreError> {
            self.store.commit(commit).await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn maintenance_continues_after_a_panic() {
        let (env, store) = (Env::system(), Arc::new(PanickingStore::default()));
        let options = Options::new(SealingKey::generate(&env));
        let service = KnowledgeService::open(store.clone(), env, options).await;
        store.panics.store(true, Ordering::SeqCst);
        let metrics = Metrics::new();
        let interval = MAINTENANCE_INTERVAL_DEFAULT;
        let maintaining = maintain(0, service.unwrap(), interval, metrics.maintenance().clone());
        let some_turns = tokio::time::timeout(3 * interval, maintaining);
        assert!(some_turns.await.is_err(), "it never ends by itself");
        let shown = metrics.render();
        let runs = |outcome| format!("knowledge_maintenance_runs_total{{outcome=\"{outcome}\"}}");
        assert!(
            shown.contains(&format!("{} 1\n", runs("failed"))),
            "{shown}"
        );
        assert!(!shown.contains(&format!("{} 0\n", runs("ok"))), "{shown}");
    }
}
