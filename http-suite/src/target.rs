//! Targets of the suite: services that it starts and sends requests to.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use async_trait::async_trait;
use knowledge_core::service::AttemptOutcome;
use knowledge_testing::fixture::{self, Fixture, OrgFixture};
use tokio::runtime::{self, Runtime};

use crate::client::{Answer, Call};

/// Number of organisations that no case changes.
const UNCHANGED_ORGS: usize = 2;

/// Something that starts services for the suite: a front end with a store.
#[async_trait(?Send)]
pub trait Target: Send + Sync {
    /// Starts a service over a new store with a fixture in it, and returns it with its address.
    ///
    /// The suite starts one that most cases share, when the first one needs it. If that one makes
    /// deliveries of its own accord, or none, the cases about deliveries start another one each.
    /// Tasks that this function spawns run as long as those that use the service.
    ///
    /// Panics if there can be none.
    async fn start(&self, settings: &Settings) -> Service;
}

/// Requirements of a case on the service.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// Minimum number of organisations in the fixture.
    pub orgs: usize,
    /// True if the service must make no deliveries but those that [`Deliveries`] orders.
    pub delivers_on_demand: bool,
}

/// A running service, which dropping may stop.
pub struct Service {
    /// Content of its store, with its address as the `base_url`.
    pub fixture: Fixture,
    /// Control of its deliveries, if it makes none by itself.
    pub deliveries: Option<Box<dyn Deliveries>>,
    /// True if the service has its connections itself, and says `connection: close` when it ends
    /// one; false if it leaves them to a host.
    pub has_its_connections: bool,
}

/// Control of the deliveries of a service.
#[async_trait(?Send)]
pub trait Deliveries: Send + Sync {
    /// Creates the deliveries of all events.
    async fn fan_out(&self);

    /// Attempts the one delivery that is due, which is to this URL.
    ///
    /// The receiver responds with this status, or is unreachable. Returns the outcome, if the
    /// service reports it.
    async fn attempt(&self, url: &str, status: Option<u16>) -> Option<AttemptOutcome>;
}

impl Service {
    /// Returns the address.
    pub(crate) fn base_url(&self) -> &str {
        self.fixture.base_url.as_deref().expect("an address")
    }

    /// Sends a request, and returns the response of the service, without what its host adds.
    pub(crate) async fn send(&self, call: Call) -> Answer {
        let mut answer = call.send_to(self.base_url()).await;
        if !self.has_its_connections {
            answer.headers.remove("connection");
        }
        answer
    }
}

/// The target of this process, and the service that most cases share.
struct Shared {
    target: Box<dyn Target>,
    /// Runs what belongs to the shared service, as the runtime of a case ends with the case.
    runtime: Runtime,
    /// `None` if it did not start.
    service: OnceLock<Option<Service>>,
    /// Number of organisations that cases have taken.
    taken: AtomicUsize,
}

static SHARED: OnceLock<Shared> = OnceLock::new();

/// Sets the target of this process, once.
pub(crate) fn set(target: Box<dyn Target>) {
    let mut runtime = runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build();
    let shared = Shared {
        target,
        runtime: runtime.expect("a runtime"),
        service: OnceLock::new(),
        taken: AtomicUsize::new(0),
    };
    assert!(SHARED.set(shared).is_ok(), "the suite runs once");
}

fn shared() -> &'static Shared {
    SHARED.get().expect("a case runs after the target is set")
}

/// Returns the service that most cases share.
pub(crate) fn service() -> &'static Service {
    let shared = shared();
    let start = || {
        let settings = Settings {
            orgs: fixture::ORGS,
            delivers_on_demand: false,
        };
        let start = || shared.runtime.block_on(shared.target.start(&settings));
        // On another thread, because that of a case is inside a runtime.
        thread::scope(|scope| scope.spawn(start).join()).ok()
    };
    let service = shared.service.get_or_init(start).as_ref();
    service.expect("the service starts; its panic is above")
}

/// Starts a service with one organisation that makes deliveries only on demand.
pub(crate) async fn start_on_demand() -> Service {
    let settings = Settings {
        orgs: 1,
        delivers_on_demand: true,
    };
    shared().target.start(&settings).await
}

/// Returns the address of the service that most cases share.
pub(crate) fn base_url() -> &'static str {
    service().base_url()
}

/// Returns an organisation that no case changes, for reads and for rejected requests.
pub(crate) fn quiet_org() -> &'static OrgFixture {
    &service().fixture.orgs[0]
}

/// Returns another one, as a foreign organisation.
pub(crate) fn foreign_org() -> &'static OrgFixture {
    &service().fixture.orgs[1]
}

/// Returns a freshly seeded organisation that no other case uses.
pub(crate) fn own_org() -> &'static OrgFixture {
    let index = UNCHANGED_ORGS + shared().taken.fetch_add(1, Ordering::Relaxed);
    let orgs = &service().fixture.orgs;
    orgs.get(index)
        .expect("the fixture has an organisation for each case")
}
