//! The server's library in this process, over a store that the test controls.

use std::sync::Arc;

use knowledge_core::env::Env;
use knowledge_core::service::{KnowledgeService, Options, SealingKey};
use knowledge_core::store::{MemoryStore, Store};
use knowledge_server::app::App;
use knowledge_server::net::NetConfig;
use knowledge_testing::fixture::{self, Fixture, OrgFixture};
use tokio::task::JoinHandle;

/// Number of seeded organisations, one for each operation of `docs/interface.md`.
const ORGS: usize = 8;

/// A running server over a seeded store, which dropping stops.
pub(crate) struct InProcess {
    pub(crate) base_url: String,
    pub(crate) fixture: Fixture,
    pub(crate) service: KnowledgeService,
    task: JoinHandle<()>,
}

impl InProcess {
    pub(crate) async fn start(store: Arc<dyn Store>) -> Self {
        Self::start_with(store, ORGS, NetConfig::default()).await
    }

    /// Starts a server over its own store with one organisation, and this network configuration.
    pub(crate) async fn behind(net: NetConfig) -> Self {
        Self::start_with(Arc::new(MemoryStore::new()), 1, net).await
    }

    /// Starts a server over this store, with one organisation.
    pub(crate) async fn over(store: Arc<dyn Store>) -> Self {
        Self::start_with(store, 1, NetConfig::default()).await
    }

    /// Starts a server over its own store with one organisation, after which these limits apply.
    pub(crate) async fn limited(adapt: impl FnOnce(&mut Options)) -> Self {
        let store = Arc::new(MemoryStore::new());
        Self::start_adapted(store, 1, NetConfig::default(), adapt).await
    }

    /// Returns the only organisation.
    pub(crate) fn org(&self) -> &OrgFixture {
        &self.fixture.orgs[0]
    }

    async fn start_with(store: Arc<dyn Store>, orgs: usize, net: NetConfig) -> Self {
        Self::start_adapted(store, orgs, net, |_| {}).await
    }

    async fn start_adapted(
        store: Arc<dyn Store>,
        orgs: usize,
        net: NetConfig,
        adapt: impl FnOnce(&mut Options),
    ) -> Self {
        let env = Env::system();
        let mut options = Options::new(SealingKey::generate(&env));
        let open = async |options: &Options| {
            let (store, env) = (Arc::clone(&store), env.clone());
            let service = KnowledgeService::open(store, env, options.clone()).await;
            service.expect("open the service")
        };
        let fixture = fixture::seed_orgs(&open(&options).await, orgs)
            .await
            .expect("seed the store");
        adapt(&mut options);
        let service = open(&options).await;
        let net = NetConfig {
            address: "127.0.0.1:0".parse().expect("an address"),
            ..net
        };
        let app = App::bind(service, net).await.expect("bind");
        Self {
            base_url: app.base_url(),
            fixture,
            service: app.service().clone(),
            task: tokio::spawn(async move {
                app.run(std::future::pending()).await;
            }),
        }
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        self.task.abort();
    }
}
