//! Numbers for an operator, as Prometheus reads them.
//!
//! Nothing here is global: each server has its [`Metrics`], so that several in one process count apart. What happens
//! often is counted where it happens; what the store and the operating system know is read when somebody asks.
//! The label of a request is its route, never its path, so that no client makes series.
//!
//! The library is `prometheus`: it keeps its numbers in a registry that is a value, and writes the text format that
//! every scraper of the last ten years reads. The facade `metrics` records into one recorder per process.
//!
//! ```
//! use std::sync::Arc;
//!
//! use knowledge_core::service::{KnowledgeService, Options, SealingKey};
//! use knowledge_core::store::MemoryStore;
//! use knowledge_server::app::App;
//! use knowledge_server::metrics::{self, Metrics};
//! use knowledge_server::net::NetConfig;
//! use knowledge_server::system::system_env;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let numbers = Metrics::new();
//! let store = numbers.meter_store(Arc::new(MemoryStore::new()));
//! let env = system_env();
//! let options = Options::new(SealingKey::generate(&env));
//! let service = KnowledgeService::open(store, env, options).await?;
//!
//! let net = NetConfig { address: "127.0.0.1:0".parse()?, ..NetConfig::default() };
//! let app = App::bind_measured(service.clone(), net, numbers.clone()).await?;
//! let endpoint = metrics::serve("127.0.0.1:0".parse()?, numbers.clone(), service).await?;
//! println!("http://{}/metrics", endpoint.local_addr());
//! app.run(async { /* until a signal comes */ }).await;
//! endpoint.stop().await;
//! assert!(numbers.render().contains("# TYPE knowledge_http_requests_in_work gauge\n"));
//! # Ok(())
//! # }
//! ```

mod catalogue;
mod deliveries;
mod embedded;
mod endpoint;
mod http;
mod maintenance;
mod process;
mod scraped;
mod store;

use std::sync::Arc;

use knowledge_core::env::Clock;
use knowledge_core::store::Store;
use knowledge_storage_embedded::Embedded;
use prometheus::{IntCounterVec, Registry, TextEncoder};

pub use self::catalogue::{CATALOGUE, Description, Kind};
pub use self::deliveries::DeliveryMetrics;
pub(crate) use self::deliveries::{DispatchStep, Recorded};
pub use self::endpoint::{Endpoint, METRICS_PATH, serve};
pub(crate) use self::http::method_label;
pub(crate) use self::http::{Answered, CloseReason};
pub use self::http::{HttpMetrics, ROUTE_UNMATCHED};
pub use self::maintenance::MaintenanceMetrics;
pub(crate) use self::store::label as store_error_label;
use self::store::{MeteredClock, MeteredStore, StoreMetrics};

/// The numbers of one server and of what is behind it.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    http: HttpMetrics,
    store: StoreMetrics,
    maintenance: MaintenanceMetrics,
    deliveries: DeliveryMetrics,
    trace_exports: IntCounterVec,
}

impl Metrics {
    /// Numbers that are all nothing yet.
    #[must_use]
    pub fn new() -> Arc<Self> {
        let metrics = Self {
            registry: Registry::new(),
            http: HttpMetrics::default(),
            store: StoreMetrics::new(),
            maintenance: MaintenanceMetrics::new(),
            deliveries: DeliveryMetrics::new(),
            trace_exports: catalogue::TRACE_EXPORTS.counters(),
        };
        let registry = &metrics.registry;
        metrics.http.register(registry);
        metrics.store.register(registry);
        metrics.maintenance.register(registry);
        metrics.deliveries.register(registry);
        let exports = Box::new(metrics.trace_exports.clone());
        catalogue::register(registry, vec![exports, Box::new(process::scraped())]);
        Arc::new(metrics)
    }

    /// What the network half counts.
    #[must_use]
    pub fn http(&self) -> &HttpMetrics {
        &self.http
    }

    /// What the work in the background counts.
    #[must_use]
    pub fn maintenance(&self) -> &MaintenanceMetrics {
        &self.maintenance
    }

    /// What the deliveries count.
    #[must_use]
    pub fn deliveries(&self) -> &DeliveryMetrics {
        &self.deliveries
    }

    /// Batches of spans, by what became of them: `ok` or `failed`.
    #[must_use]
    pub fn trace_exports(&self) -> &IntCounterVec {
        &self.trace_exports
    }

    /// The store with its calls counted.
    #[must_use]
    pub fn meter_store(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(MeteredStore {
            store,
            metrics: self.store.clone(),
        })
    }

    /// The clock with its waits counted: core waits before it decides a transaction anew, and at no other time.
    #[must_use]
    pub fn meter_clock(&self, clock: impl Clock) -> impl Clock {
        MeteredClock {
            clock,
            metrics: self.store.clone(),
        }
    }

    /// Shows the statistics of this store too, for as long as others keep it open. Once: its numbers have no label that
    /// would tell two apart.
    ///
    /// # Panics
    /// When there is such a store already.
    pub fn show_embedded(&self, store: &Arc<dyn Embedded>) {
        catalogue::register(&self.registry, vec![Box::new(embedded::scraped(store))]);
    }

    /// Everything in the text format 0.0.4 of Prometheus.
    #[must_use]
    pub fn render(&self) -> String {
        TextEncoder::new()
            .encode_to_string(&self.registry.gather())
            .expect("text takes everything, and every family has a name")
    }
}
