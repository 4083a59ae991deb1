//! The conformance suite of the storage trait.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use knowledge_storage_postgres::testing::{self, Server};
use knowledge_storage_postgres::{PostgresOptions, PostgresStore};
use knowledge_store::Store;
use knowledge_store::conformance::{self, Harness, Lifetime, Task};

/// Harness with a database for each store, found by the store's address.
struct DatabaseHarness {
    server: &'static Server,
    databases: Mutex<HashMap<usize, String>>,
}

impl DatabaseHarness {
    fn new(server: &'static Server) -> Self {
        Self {
            server,
            databases: Mutex::default(),
        }
    }

    async fn open_database(&self, database: String) -> Arc<dyn Store> {
        let options = PostgresOptions::new(&self.server.socket(&database)).expect("a valid URL");
        let store = PostgresStore::open(options).await.expect("the store opens");
        let store: Arc<dyn Store> = Arc::new(store);
        let mut databases = self.databases.lock().unwrap();
        databases.insert(address(&store), database);
        store
    }
}

fn address(store: &Arc<dyn Store>) -> usize {
    Arc::as_ptr(store).cast::<()>().addr()
}

#[async_trait]
impl Harness for DatabaseHarness {
    fn lifetime(&self) -> Lifetime {
        Lifetime::Durable
    }

    async fn open(&self) -> Arc<dyn Store> {
        let database = self.server.create_database().await;
        self.open_database(database).await
    }

    async fn reopen(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        let database = self.databases.lock().unwrap().remove(&address(&store));
        drop(store);
        let database = database.expect("a store of this harness");
        self.open_database(database).await
    }

    async fn run_concurrently(&self, tasks: Vec<Task<'static>>) {
        let running: Vec<_> = tasks.into_iter().map(tokio::spawn).collect();
        for task in running {
            task.await.expect("a task ends without a panic");
        }
    }

    fn case_begins(&self, case: &'static str) {
        println!("{case}");
    }
}

#[test]
fn suite_passes() {
    testing::run(|server| async move {
        let report = conformance::run(&DatabaseHarness::new(server)).await;
        let all: Vec<_> = conformance::case_names().collect();
        assert_eq!(report.passed, all);
    });
}

#[test]
fn suite_passes_on_one_thread() {
    for server in testing::servers() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime starts");
        runtime.block_on(conformance::run(&DatabaseHarness::new(server)));
    }
}
