//! Metrics in the Prometheus format.
//!
//! Nothing here is global: each server has its own [`Metrics`], so that several in one process are
//! counted separately. Frequent events are counted when they happen; statistics of the store and
//! the operating system are read on each scrape. A request is labelled with its route, never its
//! path, so that clients cannot create series.
//!
//! The library is `prometheus`: it keeps its metrics in a registry that is a value, and writes the
//! text format that every scraper of the last ten years reads. The `metrics` facade supports only
//! one recorder per process.
//!
//! ```
//! use std::sync::Arc;
//!
//! use knowledge_core::env::Env;
//! use knowledge_core::service::{KnowledgeService, Options, SealingKey};
//! use knowledge_core::store::MemoryStore;
//! use knowledge_server::app::App;
//! use knowledge_server::metrics::{self, Metrics};
//! use knowledge_server::net::NetConfig;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let metrics = Metrics::new();
//! let store = metrics.meter_store(Arc::new(MemoryStore::new()));
//! let env = Env::system();
//! let options = Options::new(SealingKey::generate(&env));
//! let service = KnowledgeService::open(store, env, options).await?;
//!
//! let net = NetConfig { address: "127.0.0.1:0".parse()?, ..NetConfig::default() };
//! let app = App::bind_with_metrics(service.clone(), net, metrics.clone()).await?;
//! let endpoint = metrics::serve("127.0.0.1:0".parse()?, metrics.clone(), service).await?;
//! println!("http://{}/metrics", endpoint.local_addr());
//! app.run(async { /* until a signal arrives */ }).await;
//! endpoint.stop().await;
//! assert!(metrics.render().contains("# TYPE knowledge_http_requests_in_work gauge\n"));
//! # Ok(())
//! # }
//! ```

mod catalogue;
mod deliveries;
mod embedded;
mod endpoint;
mod http;
mod maintenance;
mod memories;
mod process;
mod scrape;
mod store;

use std::sync::Arc;

use knowledge_core::env::Clock;
use knowledge_core::store::Store;
use knowledge_storage_embedded::Embedded;
use prometheus::{IntCounterVec, Registry, TextEncoder};

pub use self::catalogue::{CATALOGUE, Description, Kind};
pub(crate) use self::deliveries::RecordResult;
pub use self::deliveries::{DeliveryMetrics, DispatchStep};
pub use self::endpoint::{Endpoint, serve};
pub use self::http::{CloseReason, HttpMetrics, METRICS_PATH, ROUTE_UNMATCHED};
pub(crate) use self::http::{GaugeGuard, ResponseSummary, method_label};
pub use self::maintenance::MaintenanceMetrics;
pub use self::memories::MemoryMetrics;
pub(crate) use self::store::label as store_error_label;
use self::store::{MeteredClock, MeteredStore, StoreMetrics};

/// Metrics of one server and of the service and store behind it.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    http: HttpMetrics,
    store: StoreMetrics,
    maintenance: MaintenanceMetrics,
    deliveries: DeliveryMetrics,
    memories: MemoryMetrics,
    trace_exports: IntCounterVec,
}

impl Metrics {
    /// Creates metrics that are all zero.
    #[must_use]
    pub fn new() -> Arc<Self> {
        let metrics = Self {
            registry: Registry::new(),
            http: HttpMetrics::default(),
            store: StoreMetrics::new(),
            maintenance: MaintenanceMetrics::new(),
            deliveries: DeliveryMetrics::new(),
            memories: MemoryMetrics::default(),
            trace_exports: catalogue::TRACE_EXPORTS.counters(),
        };
        let registry = &metrics.registry;
        metrics.http.register(registry);
        metrics.store.register(registry);
        metrics.maintenance.register(registry);
        metrics.deliveries.register(registry);
        metrics.deliveries.register_outbox(registry);
        metrics.memories.register(registry);
        let exports = Box::new(metrics.trace_exports.clone());
        catalogue::register(registry, vec![exports, Box::new(process::collector())]);
        Arc::new(metrics)
    }

    /// Returns the metrics of the HTTP server.
    #[must_use]
    pub fn http(&self) -> &HttpMetrics {
        &self.http
    }

    /// Returns the metrics of background maintenance.
    #[must_use]
    pub fn maintenance(&self) -> &MaintenanceMetrics {
        &self.maintenance
    }

    /// Returns the metrics of deliveries.
    #[must_use]
    pub fn deliveries(&self) -> &DeliveryMetrics {
        &self.deliveries
    }

    /// Returns the metrics of memories.
    #[must_use]
    pub fn memories(&self) -> &MemoryMetrics {
        &self.memories
    }

    /// Returns the counter of exported span batches by outcome: `ok` or `failed`.
    #[must_use]
    pub fn trace_exports(&self) -> &IntCounterVec {
        &self.trace_exports
    }

    /// Wraps a store to record metrics of its calls.
    #[must_use]
    pub fn meter_store(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(MeteredStore {
            store,
            metrics: self.store.clone(),
        })
    }

    /// Wraps a clock to count its waits as transaction retries. Core waits before a retry and at no
    /// other time.
    #[must_use]
    pub fn meter_clock(&self, clock: impl Clock) -> impl Clock {
        MeteredClock {
            clock,
            metrics: self.store.clone(),
        }
    }

    /// Adds the statistics of this store for as long as others keep it open. At most once: its
    /// metrics have no label to distinguish two stores.
    ///
    /// # Panics
    /// Panics if such a store was added before.
    pub fn register_embedded(&self, store: &Arc<dyn Embedded>) {
        catalogue::register(&self.registry, vec![Box::new(embedded::collector(store))]);
    }

    /// Returns all metrics in the Prometheus text format 0.0.4.
    #[must_use]
    pub fn render(&self) -> String {
        TextEncoder::new()
            .encode_to_string(&self.registry.gather())
            .expect("writing to a string succeeds, and every family has a name")
    }
}
