//! The whole server over any store: core's service behind the network, and the work in its background.
//!
//! ```
//! use std::sync::Arc;
//!
//! use knowledge_core::service::{KnowledgeService, Options, SealingKey};
//! use knowledge_core::store::MemoryStore;
//! use knowledge_server::app::App;
//! use knowledge_server::net::NetConfig;
//! use knowledge_server::system::system_env;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let env = system_env();
//! let options = Options::new(SealingKey::generate(&env));
//! let service = KnowledgeService::open(Arc::new(MemoryStore::new()), env, options).await?;
//! let net = NetConfig { address: "127.0.0.1:0".parse()?, ..NetConfig::default() };
//! let app = App::bind(service, net).await?;
//! println!("listening on {}", app.base_url());
//! app.run(async { /* until a signal comes */ }).await;
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
use crate::responder::ApiResponder;
use crate::telemetry::RequestTracer;

/// Time between two looks for what is due in the background.
pub const MAINTENANCE_INTERVAL_DEFAULT: Duration = Duration::from_secs(60);

/// A service behind its network, bound and not yet accepting.
#[derive(Debug)]
pub struct App {
    service: KnowledgeService,
    server: Server<ApiResponder>,
    metrics: Arc<Metrics>,
    maintenance_interval: Duration,
    deliveries: Option<Deliveries>,
    shutdown_timeout: Duration,
    #[cfg(unix)]
    admin: Option<AdminSocket>,
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The service does not take the store.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The network does not take the address or the configuration.
    #[error(transparent)]
    Bind(#[from] BindError),
}

impl App {
    /// Binds the address of the configuration. Nothing is delivered to webhooks and subscriptions unless
    /// [`deliver_with`](Self::deliver_with) says by what; events wait in the store until then. Origins that may call with credentials may write with a session cookie
    /// too, which core refuses to other sites. From here on clients can connect; they are answered by
    /// [`run`](Self::run).
    ///
    /// # Errors
    /// Those of [`Server::bind`].
    pub async fn bind(service: KnowledgeService, config: NetConfig) -> Result<Self, BindError> {
        Self::bind_measured(service, config, Metrics::new()).await
    }

    /// The same, counted with these metrics. Those of the store are counted where the service was opened over a
    /// [metered](Metrics::meter_store) one.
    ///
    /// # Errors
    /// Those of [`Server::bind`].
    pub async fn bind_measured(
        service: KnowledgeService,
        config: NetConfig,
        metrics: Arc<Metrics>,
    ) -> Result<Self, BindError> {
        let trusted_origins = match &config.cors {
            Some(cors) => cors.origins_with_credentials(),
            None => &[],
        };
        let shutdown_timeout = config.shutdown_timeout;
        let api = Api::new(service.clone()).trust_origins(trusted_origins);
        let server = Server::bind(config, ApiResponder::new(api)).await?;
        Ok(Self {
            server: server.measured_by(metrics.http().clone()),
            metrics,
            service,
            maintenance_interval: MAINTENANCE_INTERVAL_DEFAULT,
            deliveries: None,
            shutdown_timeout,
            #[cfg(unix)]
            admin: None,
        })
    }

    /// Makes a span of each request from here on. Those of the store are made where the service was opened over a
    /// [traced](crate::telemetry::Telemetry::trace_store) one.
    #[must_use]
    pub fn traced_by(mut self, tracer: RequestTracer) -> Self {
        self.server = self.server.traced_by(tracer);
        self
    }

    /// Looks this often for what is due in the background; [`MAINTENANCE_INTERVAL_DEFAULT`] unless told.
    #[must_use]
    pub fn maintain_every(mut self, interval: Duration) -> Self {
        self.maintenance_interval = interval;
        self
    }

    /// Delivers events to webhooks and citation subscriptions as long as clients are served.
    #[must_use]
    pub fn deliver_with(mut self, deliveries: Deliveries) -> Self {
        self.deliveries = Some(deliveries);
        self
    }

    /// Serves the operator on this socket too, as long as clients are served.
    #[cfg(unix)]
    #[must_use]
    pub fn with_admin(mut self, socket: Option<AdminSocket>) -> Self {
        self.admin = socket;
        self
    }

    /// The address that the server listens on, with the port that it was given.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.server.local_addr()
    }

    /// Where clients on this machine find the server, without a slash at the end.
    #[must_use]
    pub fn base_url(&self) -> String {
        let mut address = self.local_addr();
        // An address that stands for all of the machine's is none to connect to.
        match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
            IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
            _ => {}
        }
        let scheme = match self.server.certificates() {
            Some(_) => "https",
            None => "http",
        };
        format!("{scheme}://{address}")
    }

    /// The certificate that is shown, where the server speaks TLS: for those who want it read again at once.
    #[must_use]
    pub fn certificates(&self) -> Option<Arc<Certificates>> {
        self.server.certificates()
    }

    /// The service behind the network.
    #[must_use]
    pub fn service(&self) -> &KnowledgeService {
        &self.service
    }

    /// Serves until `shutdown` resolves, then finishes what is in work, see [`Server::run`]. Beside it the service is
    /// maintained: what expired is swept and what time alone changes is announced. Where it
    /// [delivers](Self::deliver_with), nothing more is sent from then on, and what is being sent has as long to end as a
    /// request in work.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> ShutdownReport {
        let mut dispatching = JoinSet::new();
        let (stop_dispatching, stopped) = oneshot::channel();
        let shutdown = async move {
            shutdown.await;
            drop(stop_dispatching);
        };
        if let Some(deliveries) = self.deliveries {
            let metrics = self.metrics.deliveries().clone();
            let dispatcher = Dispatcher::new(self.service.clone(), deliveries, metrics);
            dispatching.spawn(dispatcher.run(dropped(stopped), self.shutdown_timeout));
        }
        let mut background = JoinSet::new();
        background.spawn(maintain(
            self.service,
            self.maintenance_interval,
            self.metrics,
        ));
        #[cfg(unix)]
        let (stop_admin, admin) = spawn_admin(self.admin);
        let report = self.server.run(shutdown).await;
        #[cfg(unix)]
        {
            drop(stop_admin);
            if let Err(error) = admin.await {
                tracing::error!(%error, "the admin socket ended");
            }
        }
        if let Some(Err(error)) = dispatching.join_next().await {
            tracing::error!(%error, "the dispatcher of deliveries ended");
        }
        // Stopped between two steps or within one, which then counts as not done: each is one commit.
        background.shutdown().await;
        report
    }
}

/// Resolves when the other side is dropped.
async fn dropped(signal: oneshot::Receiver<()>) {
    let _ = signal.await;
}

/// Serves the operator until what is returned first is dropped.
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

/// Opens a service over the store and serves it until `shutdown` resolves. Nothing is delivered: that takes a client,
/// and an [`App`] that [delivers](App::deliver_with).
///
/// # Errors
/// - [`StartError::Open`]: the service does not take the store.
/// - [`StartError::Bind`]: the network does not take the address or the configuration.
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

/// Does what is due, now and at every interval, for ever.
async fn maintain(service: KnowledgeService, interval: Duration, metrics: Arc<Metrics>) {
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let turn = maintain_until_done(&service, metrics.maintenance());
        // A defect that panics ends the turn and no more.
        let turn = AssertUnwindSafe(turn).catch_unwind().await;
        let outcome = turn.unwrap_or_else(|_| Err(Error::internal("maintenance panicked")));
        let now = service.env().now();
        metrics.maintenance().ended(outcome.is_ok(), now);
        if let Err(error) = outcome {
            let detail = explain(&error);
            tracing::warn!(
                detail,
                "maintenance stopped early; it goes on at the next turn"
            );
        }
    }
}

async fn maintain_until_done(
    service: &KnowledgeService,
    metrics: &MaintenanceMetrics,
) -> Result<(), Error> {
    let mut is_first = true;
    loop {
        let now = service.env().now();
        let done = service.maintain(now).await?;
        if std::mem::take(&mut is_first) {
            metrics.began(now, done.oldest_due);
        }
        metrics.did(&done);
        if done.swept > 0 || done.holders_rewritten > 0 {
            tracing::debug!(
                swept = done.swept,
                holders_rewritten = done.holders_rewritten,
                "maintained"
            );
        }
        if !done.has_more {
            return Ok(());
        }
        // Requests come first where there is much to do.
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
    use crate::system::system_env;

    /// A store of which one read of a range panics when a test wants it.
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
    async fn maintenance_goes_on_after_a_panic() {
        let (env, store) = (system_env(), Arc::new(PanickingStore::default()));
        let options = Options::new(SealingKey::generate(&env));
        let service = KnowledgeService::open(store.clone(), env, options).await;
        store.panics.store(true, Ordering::SeqCst);
        let metrics = Metrics::new();
        let interval = MAINTENANCE_INTERVAL_DEFAULT;
        let maintaining = maintain(service.unwrap(), interval, Arc::clone(&metrics));
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
