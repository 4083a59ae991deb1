//! The service over an engine, compared with its model. The tests of each engine include this file.
//!
//! `PROPTEST_CASES` sets the number of cases, `PROPTEST_RNG_SEED` the seed.

use std::sync::Arc;

use knowledge_storage_embedded::testing::support::{open, run, temp_directory};
use knowledge_store::Store;
use knowledge_store::conformance::Task;
use knowledge_testing::fuzzing::{check_commands, seeds};
use knowledge_testing::simulation::{Config, check_callers, check_store};

use super::Engine;

/// Number of cases per property, unless the environment sets another one.
const CASES: u32 = 60;

/// Creates a store in a new directory for each case.
struct StoreFactory(tempfile::TempDir);

impl StoreFactory {
    fn new() -> Self {
        Self(temp_directory())
    }

    async fn create(&self) -> Arc<dyn Store> {
        let directory = tempfile::tempdir_in(&self.0).expect("a directory can be created");
        Arc::new(open::<Engine>(&directory.keep()))
    }
}

fn config() -> Config {
    let cases = std::env::var("PROPTEST_CASES").ok();
    Config::new(cases.and_then(|cases| cases.parse().ok()).unwrap_or(CASES))
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
    let stores = StoreFactory::new();
    run(check_store(&config(), || stores.create()));
}

/// Sequences of calls over a store that conflicts and fails return the results of the model.
#[test]
fn service_matches_the_model_over_a_failing_store() {
    let stores = StoreFactory::new();
    run(check_store(&config().with_faults(), || stores.create()));
}

/// Concurrent calls return the results of some serial order of the calls.
#[test]
fn concurrent_calls_match_a_serial_order() {
    let stores = StoreFactory::new();
    run(check_callers(&config(), || stores.create(), run_on_threads));
}

/// Commits, reads and scans of the seeds of the fuzz target match a map, across reopens.
#[test]
fn commands_of_seeds_match_a_map() {
    for (name, script) in seeds("store_model") {
        println!("{name}");
        let directory = temp_directory();
        let reopen = |store: Option<Arc<dyn Store>>| -> Arc<dyn Store> {
            drop(store);
            Arc::new(open::<Engine>(directory.path()))
        };
        run(check_commands(&script, reopen));
    }
}
