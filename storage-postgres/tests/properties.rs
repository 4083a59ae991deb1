//! The service over PostgreSQL, compared with its model.
//!
//! `PROPTEST_CASES` sets the number of cases, `PROPTEST_RNG_SEED` the seed.

use std::sync::Arc;

use knowledge_storage_postgres::testing::{self, Server};
use knowledge_storage_postgres::{PostgresOptions, PostgresStore};
use knowledge_store::Store;
use knowledge_store::conformance::Task;
use knowledge_testing::fuzzing::{check_commands, seeds};
use knowledge_testing::simulation::{Config, check_callers, check_store};
use tokio::runtime::Handle;
use tokio::task::block_in_place;

/// Number of cases per property, unless the environment sets another one.
const CASES: u32 = 8;

fn config() -> Config {
    let cases = std::env::var("PROPTEST_CASES").ok();
    Config::new(cases.and_then(|cases| cases.parse().ok()).unwrap_or(CASES))
}

async fn open(server: &Server, database: &str) -> Arc<dyn Store> {
    let options = PostgresOptions::new(&server.socket(database)).expect("a valid URL");
    let store = PostgresStore::open(options).await;
    Arc::new(store.expect("the store opens"))
}

/// Opens a store in a new database.
async fn create(server: &Server) -> Arc<dyn Store> {
    open(server, &server.create_database().await).await
}

async fn run_on_threads(tasks: Vec<Task<'static>>) {
    let running: Vec<_> = tasks.into_iter().map(tokio::spawn).collect();
    for task in running {
        task.await.expect("a caller ends without a panic");
    }
}

/// Sequences of calls return the results of the model.
#[test]
fn service_matches_the_model() {
    testing::run(|server| async move { check_store(&config(), || create(server)).await });
}

/// Sequences of calls over a store that conflicts and fails return the results of the model.
#[test]
fn service_matches_the_model_over_a_failing_store() {
    testing::run(|server| async move {
        check_store(&config().with_faults(), || create(server)).await;
    });
}

/// Concurrent calls return the results of some serial order of the calls.
#[test]
fn concurrent_calls_match_a_serial_order() {
    testing::run(|server| async move {
        check_callers(&config(), || create(server), run_on_threads).await;
    });
}

/// Commits, reads and scans of the seeds of the fuzz target match a map, across reopens.
#[test]
fn commands_of_seeds_match_a_map() {
    testing::run(|server| async move {
        for (name, script) in seeds("store_model") {
            println!("{name}");
            let database = server.create_database().await;
            let reopen = |store: Option<Arc<dyn Store>>| {
                drop(store);
                block_in_place(|| Handle::current().block_on(open(server, &database)))
            };
            check_commands(&script, reopen).await;
        }
    });
}
