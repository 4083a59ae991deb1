//! The server's library in this process, over a store that the test holds in its hands.

use std::sync::Arc;

use knowledge_core::service::{KnowledgeService, Options, SealingKey};
use knowledge_core::store::Store;
use knowledge_core::testing::fixture::{self, Fixture};
use knowledge_server::app::App;
use knowledge_server::net::NetConfig;
use knowledge_server::system::system_env;
use tokio::task::JoinHandle;

/// How many organisations are seeded: one for each of the eight operations.
const ORGS: usize = 8;

/// A running server over a seeded store. It is stopped when dropped.
pub(crate) struct InProcess {
    pub(crate) base_url: String,
    pub(crate) fixture: Fixture,
    task: JoinHandle<()>,
}

impl InProcess {
    pub(crate) async fn start(store: Arc<dyn Store>) -> Self {
        let env = system_env();
        let options = Options::new(SealingKey::generate(&env));
        let service = KnowledgeService::open(store, env, options)
            .await
            .expect("open the service");
        let fixture = fixture::seed_orgs(&service, ORGS)
            .await
            .expect("seed the store");
        let net = NetConfig {
            address: "127.0.0.1:0".parse().expect("an address"),
            ..NetConfig::default()
        };
        let app = App::bind(service, net).await.expect("bind");
        Self {
            base_url: app.base_url(),
            fixture,
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
