//! Events leave: the dispatcher that delivers what core has put into its outbox, and the client that it sends with.
//!
//! What is to be sent, when and to whom is core's to say (see [`knowledge_core::service::KnowledgeService`]). Here is
//! what needs threads, sockets and a timer: [`Deliveries`] beside an [`App`](crate::app::App) expand events, claim what
//! is due, make the exchanges at once, renew the leases of those that take long, and record what came of each.
//!
//! Any number of servers may deliver from one store: a delivery is claimed by one of them at a time.

mod answer;
mod attempt;
mod client;
mod dispatcher;
mod failure;
mod in_flight;
mod look_up;
mod resolver;
mod wake;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use knowledge_core::service::DeliverySender;

pub use self::client::{DeliveryClient, DeliveryClientError};
pub(crate) use self::dispatcher::Dispatcher;
pub use self::look_up::SystemLookUp;
pub use self::resolver::LookUp;
pub use self::wake::Wake;
use crate::telemetry::DeliveryTracer;

/// How many exchanges are under way at once, with all endpoints together.
pub const IN_FLIGHT_MAX_DEFAULT: usize = 256;

/// Files that deliveries have open at once: a connection for each exchange, as many that are kept for the next ones, and
/// the look-ups of names.
#[must_use]
pub const fn open_files_max(in_flight_max: usize) -> usize {
    2 * in_flight_max + look_up::LOOK_UPS_MAX
}

/// Time between two looks at the store where nobody gives a signal: what another process has put there is found so.
pub const POLL_INTERVAL_DEFAULT: Duration = Duration::from_secs(1);

/// How the deliveries of a server are made.
///
/// ```
/// use std::sync::Arc;
///
/// use knowledge_core::service::{DeliverySender, KnowledgeService, Options, SealingKey};
/// use knowledge_core::store::MemoryStore;
/// use knowledge_server::app::App;
/// use knowledge_server::deliveries::{Deliveries, Wake};
/// use knowledge_server::net::NetConfig;
/// use knowledge_server::system::system_env;
///
/// # async fn start(sender: Arc<dyn DeliverySender>) -> Result<(), Box<dyn std::error::Error>> {
/// let wake = Wake::new();
/// let store = wake.watch_store(Arc::new(MemoryStore::new()));
/// let env = system_env();
/// let options = Options::new(SealingKey::generate(&env));
/// let service = KnowledgeService::open(store, env, options).await?;
/// let deliveries = Deliveries::through(sender).woken_by(wake);
/// let app = App::bind(service, NetConfig::default()).await?.deliver_with(deliveries);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Deliveries {
    sender: Arc<dyn DeliverySender>,
    wake: Wake,
    tracer: Option<DeliveryTracer>,
    in_flight_max: usize,
    poll_interval: Duration,
}

impl Deliveries {
    /// Deliveries that are sent by this client.
    #[must_use]
    pub fn through(sender: Arc<dyn DeliverySender>) -> Self {
        Self {
            sender,
            wake: Wake::new(),
            tracer: None,
            in_flight_max: IN_FLIGHT_MAX_DEFAULT,
            poll_interval: POLL_INTERVAL_DEFAULT,
        }
    }

    /// Wakes the dispatcher by this signal, which has to watch the store of the service.
    #[must_use]
    pub fn woken_by(mut self, wake: Wake) -> Self {
        self.wake = wake;
        self
    }

    /// Makes a span of each exchange.
    #[must_use]
    pub fn traced_by(mut self, tracer: DeliveryTracer) -> Self {
        self.tracer = Some(tracer);
        self
    }

    /// Has at most this many exchanges under way at once, and at least one; [`IN_FLIGHT_MAX_DEFAULT`] unless told.
    #[must_use]
    pub fn in_flight_max(mut self, exchanges: usize) -> Self {
        self.in_flight_max = exchanges.max(1);
        self
    }

    /// Looks at the store at least this often; [`POLL_INTERVAL_DEFAULT`] unless told.
    #[must_use]
    pub fn poll_every(mut self, interval: Duration) -> Self {
        self.poll_interval = interval;
        self
    }
}

impl fmt::Debug for Deliveries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deliveries")
            .field("wake", &self.wake)
            .field("tracer", &self.tracer)
            .field("in_flight_max", &self.in_flight_max)
            .field("poll_interval", &self.poll_interval)
            .finish_non_exhaustive()
    }
}
