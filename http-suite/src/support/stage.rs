//! A service that delivers only on demand.

use knowledge_core::service::AttemptOutcome;
use knowledge_testing::fixture::OrgFixture;
use tokio::sync::{Mutex, MutexGuard};

use crate::client::{Answer, Call};
use crate::target::{self, Deliveries, Service, own_org};

/// A service that makes no deliveries by itself, and a caller.
///
/// It is the one that the cases share if that delivers on demand, and otherwise one of its own.
pub(crate) struct Stage {
    place: Place,
    token: String,
}

enum Place {
    Own(Box<Service>),
    Shared {
        service: &'static Service,
        org: &'static OrgFixture,
        /// A lock: each order covers all due deliveries, so only one case at a time may give any.
        _turn: MutexGuard<'static, ()>,
    },
}

impl Stage {
    pub(crate) async fn set() -> Self {
        static TURN: Mutex<()> = Mutex::const_new(());
        let service = target::service();
        let place = if service.deliveries.is_some() {
            Place::Shared {
                service,
                org: own_org(),
                _turn: TURN.lock().await,
            }
        } else {
            Place::Own(Box::new(target::start_on_demand().await))
        };
        let mut stage = Self {
            place,
            token: String::new(),
        };
        stage.token = stage.org().members.admin.token.clone();
        stage
    }

    fn service(&self) -> &Service {
        match &self.place {
            Place::Own(service) => service,
            Place::Shared { service, .. } => service,
        }
    }

    fn deliveries(&self) -> &dyn Deliveries {
        let deliveries = self.service().deliveries.as_deref();
        deliveries.expect("the target starts a service that delivers on demand")
    }

    pub(crate) fn org(&self) -> &OrgFixture {
        match &self.place {
            Place::Own(service) => &service.fixture.orgs[0],
            Place::Shared { org, .. } => org,
        }
    }

    pub(crate) fn base_url(&self) -> &str {
        self.service().base_url()
    }

    /// Sends a request of an administrator.
    pub(crate) async fn send(&self, call: Call) -> Answer {
        self.service().send(call.bearer(&self.token)).await
    }

    /// Fans out the events.
    pub(crate) async fn fan_out(&self) {
        self.deliveries().fan_out().await;
    }

    /// Attempts the one due delivery to this URL.
    ///
    /// The receiver responds with this status, or is unreachable. Returns the outcome, if it is
    /// reported.
    pub(crate) async fn attempt(&self, url: &str, status: Option<u16>) -> Option<AttemptOutcome> {
        self.deliveries().attempt(url, status).await
    }
}
