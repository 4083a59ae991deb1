//! A whole server with its metrics endpoint.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use knowledge_core::env::{Env, OsRandomness, SystemClock};
use knowledge_core::service::{KnowledgeService, Options, SealingKey};
use knowledge_core::store::Store;
use knowledge_server::app::App;
use knowledge_server::config::BaseUrl;
use knowledge_server::metrics::{self, Endpoint, Metrics};
use knowledge_server::net::{NetConfig, ProxyConfig};
use knowledge_server::telemetry::{Telemetry, TelemetryConfig};
use knowledge_storage_embedded::Embedded;
use knowledge_storage_sled::{SledOptions, SledStore};
use knowledge_testing::fixture::{self, Fixture};
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

#[path = "../support/exposition.rs"]
mod exposition;

pub(crate) use self::exposition::Exposition;
use knowledge_http_suite::client::Answer;
pub(crate) use knowledge_http_suite::client::{Call, GUARD};

/// The path template of the bulk update.
pub(crate) const BULK: &str = "/v1/memories/bulk";

/// Waits until a condition is true.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let waited = tokio::time::timeout(GUARD, async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    waited
        .await
        .unwrap_or_else(|_| panic!("waited too long for {what}"));
}

/// A running server over a store that the test controls.
pub(crate) struct Observed {
    pub(crate) base_url: String,
    pub(crate) fixture: Fixture,
    endpoint: Endpoint,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Observed {
    pub(crate) async fn start(store: Arc<dyn Store>) -> Self {
        Self::start_with(store, &Metrics::new(), None).await
    }

    /// Starts a server with everything that has metrics, and lets it answer one request.
    ///
    /// The store is in the returned directory.
    pub(crate) async fn start_with_everything() -> (Self, TempDir) {
        let directory = tempfile::tempdir().expect("a directory");
        let options = SledOptions::default().cache_bytes(16 << 20);
        let store = SledStore::open(directory.path().join("data"), options).expect("open");
        let store: Arc<dyn Embedded> = Arc::new(store);
        let metrics = Metrics::new();
        metrics.register_embedded(&store);
        // There is no collector, so the batches are counted as failed.
        let config = TelemetryConfig {
            otlp_endpoint: BaseUrl::parse("http://127.0.0.1:1"),
            ..TelemetryConfig::default()
        };
        let telemetry = Telemetry::start(&config, &metrics).expect("start");
        let server = Self::start_with(store, &metrics, telemetry.as_ref()).await;
        server.ask_dashboard().await;
        (server, directory)
    }

    /// Creates one organisation, then serves, with these metrics and traces.
    pub(crate) async fn start_with(
        store: Arc<dyn Store>,
        metrics: &Arc<Metrics>,
        telemetry: Option<&Telemetry>,
    ) -> Self {
        Self::start_behind(ProxyConfig::default(), store, metrics, telemetry).await
    }

    /// Creates one organisation, then serves behind these proxies, with these metrics and traces.
    pub(crate) async fn start_behind(
        proxy: ProxyConfig,
        store: Arc<dyn Store>,
        metrics: &Arc<Metrics>,
        telemetry: Option<&Telemetry>,
    ) -> Self {
        let options = || Options::new(SealingKey::new([7; 32]));
        let seeding = KnowledgeService::open(Arc::clone(&store), Env::system(), options())
            .await
            .expect("open the service");
        let fixture = fixture::seed_orgs(&seeding, 1)
            .await
            .expect("seed the store");

        let mut store = metrics.meter_store(store);
        if let Some(telemetry) = telemetry {
            store = telemetry.trace_store(store);
        }
        let env = Env::new(metrics.meter_clock(SystemClock), OsRandomness);
        let service = KnowledgeService::open(store, env, options())
            .await
            .expect("open the service again");
        let net = NetConfig {
            address: "127.0.0.1:0".parse().expect("an address"),
            proxy,
            ..NetConfig::default()
        };
        let mut app = App::bind_with_metrics(service, net, Arc::clone(metrics))
            .await
            .expect("bind")
            .maintain_every(Duration::from_millis(20));
        if let Some(telemetry) = telemetry {
            app = app.with_tracer(telemetry.requests());
        }
        let address = "127.0.0.1:0".parse().expect("an address");
        let endpoint = metrics::serve(address, Arc::clone(metrics), app.service().clone())
            .await
            .expect("bind");
        let (stop, stopped) = oneshot::channel();
        Self {
            base_url: app.base_url(),
            fixture,
            endpoint,
            stop: Some(stop),
            task: tokio::spawn(async move {
                app.run(async {
                    let _ = stopped.await;
                })
                .await;
            }),
        }
    }

    /// Stops the server and waits for its end.
    pub(crate) async fn stop(mut self) {
        let _ = self.stop.take().expect("stopped once").send(());
        (&mut self.task).await.expect("the server does not panic");
    }

    /// Returns the URL of the metrics endpoint.
    pub(crate) fn metrics_url(&self) -> String {
        format!("http://{}", self.endpoint.local_addr())
    }

    /// Returns all metrics, as a scraper gets them.
    pub(crate) async fn scrape(&self) -> Exposition {
        let call = Call::new(Method::GET, "/metrics");
        let answer = call.send_to(&self.metrics_url()).await;
        assert_eq!(answer.status, 200);
        Exposition::parse(std::str::from_utf8(&answer.body).expect("UTF-8"))
    }

    pub(crate) async fn number(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.scrape().await.value(name, labels)
    }

    pub(crate) async fn number_becomes(
        &self,
        name: &str,
        labels: &[(&str, &str)],
        is_so: impl Fn(f64) -> bool,
    ) {
        until(name, async || is_so(self.number(name, labels).await)).await;
    }

    /// Returns a bulk update of one memory that its caller may change.
    pub(crate) fn bulk(&self, key: &str, status: &str) -> Call {
        let org = &self.fixture.orgs[0];
        let body = json!({
            "memoryIds": [org.main.memories.internal[0]],
            "reviewStatus": status,
        });
        Call::new(Method::PATCH, BULK)
            .bearer(&org.members.owner.token)
            .key(key)
            .json(&body)
    }

    /// Sends the update that approves the memory, with the same key each time.
    pub(crate) async fn approve(&self) -> Answer {
        let call = self.bulk("key", "approved");
        call.send_to(&self.base_url).await
    }

    /// Requests the dashboard of the main workspace.
    pub(crate) async fn ask_dashboard(&self) -> Answer {
        self.dashboard().send_to(&self.base_url).await
    }

    /// Returns a request for the dashboard of the main workspace.
    pub(crate) fn dashboard(&self) -> Call {
        let org = &self.fixture.orgs[0];
        let path = format!("/v1/workspaces/{}/dashboard-summary", org.main.id);
        Call::new(Method::GET, path).bearer(&org.members.owner.token)
    }
}

impl Drop for Observed {
    fn drop(&mut self) {
        self.task.abort();
    }
}
