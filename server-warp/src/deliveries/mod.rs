//! Deliveries of events: the dispatcher that processes the service's outbox, and its HTTP client.
//!
//! The service decides what is sent to which endpoint and when (see
//! [`knowledge_core::service::KnowledgeService`]). This module has the parts that need threads,
//! sockets and a timer: [`Deliveries`] of an [`App`](crate::app::App) fan out events, claim due
//! deliveries, run the HTTP exchanges concurrently, renew the leases of slow ones, and record each
//! outcome.
//!
//! Any number of servers may deliver from one store: each delivery is claimed by one of them at a
//! time.

mod attempt;
mod client;
mod clock;
mod connections;
mod dispatcher;
mod failure;
mod in_flight;
mod look_up;
mod resolver;
mod retry_after;
mod settings;

use std::sync::Arc;
use std::time::Duration;

use knowledge_core::service::DeliverySender;

pub use self::client::{DeliveryClient, DeliveryClientError};
pub(crate) use self::dispatcher::Dispatcher;
pub use self::look_up::SystemResolver;
pub use self::resolver::Resolver;
pub use self::settings::WebhookSettings;
use crate::partial_debug::partial_debug;
use crate::telemetry::DeliveryTracer;

/// Default maximum of concurrent exchanges with all endpoints together.
pub const IN_FLIGHT_MAX_DEFAULT: usize = 256;

/// Returns the maximum of files that deliveries open.
///
/// Each exchange needs a connection, as many connections may be idle, and look-ups of names open
/// files too.
#[must_use]
pub const fn open_files_max(in_flight_max: usize) -> usize {
    connections_max(in_flight_max) + look_up::LOOK_UPS_MAX
}

/// Returns the maximum of connections, in use and idle.
const fn connections_max(in_flight_max: usize) -> usize {
    2 * in_flight_max
}

/// Default time between two polls of the store without a notification. Polling finds the work that
/// another process has committed.
pub const POLL_INTERVAL_DEFAULT: Duration = Duration::from_secs(1);

/// Time between two polls of a store that other servers write to, and whose events they may have
/// left to this one.
pub const POLL_INTERVAL_SHARED: Duration = Duration::from_millis(250);

/// Configuration of a server's deliveries.
///
/// ```
/// use std::sync::Arc;
///
/// use knowledge_core::env::Env;
/// use knowledge_core::service::{DeliverySender, KnowledgeService, Options, SealingKey};
/// use knowledge_core::store::MemoryStore;
/// use knowledge_server::app::App;
/// use knowledge_server::deliveries::Deliveries;
/// use knowledge_server::net::NetConfig;
///
/// # async fn start(sender: Arc<dyn DeliverySender>) -> Result<(), Box<dyn std::error::Error>> {
/// let env = Env::system();
/// let options = Options::new(SealingKey::generate(&env));
/// let service = KnowledgeService::open(Arc::new(MemoryStore::new()), env, options).await?;
/// let deliveries = Deliveries::through(sender);
/// let app = App::bind(service, NetConfig::default()).await?.deliver_with(deliveries);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Deliveries {
    sender: Arc<dyn DeliverySender>,
    tracer: Option<DeliveryTracer>,
    in_flight_max: usize,
    poll_interval: Duration,
}

impl Deliveries {
    /// Creates deliveries that this client sends.
    #[must_use]
    pub fn through(sender: Arc<dyn DeliverySender>) -> Self {
        Self {
            sender,
            tracer: None,
            in_flight_max: IN_FLIGHT_MAX_DEFAULT,
            poll_interval: POLL_INTERVAL_DEFAULT,
        }
    }

    /// Records a span for each exchange.
    #[must_use]
    pub fn with_tracer(mut self, tracer: DeliveryTracer) -> Self {
        self.tracer = Some(tracer);
        self
    }

    /// Sets the maximum of concurrent exchanges; at least 1, [`IN_FLIGHT_MAX_DEFAULT`] by default.
    #[must_use]
    pub fn in_flight_max(mut self, exchanges: usize) -> Self {
        self.in_flight_max = exchanges.max(1);
        self
    }

    /// Polls the store at least this often; [`POLL_INTERVAL_DEFAULT`] by default.
    #[must_use]
    pub fn poll_every(mut self, interval: Duration) -> Self {
        self.poll_interval = interval;
        self
    }
}

partial_debug!(Deliveries: tracer, in_flight_max, poll_interval);
