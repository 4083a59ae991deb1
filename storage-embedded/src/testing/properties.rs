//! The service over an engine, compared with its model.
//!
//! `PROPTEST_CASES` sets the number of cases, `PROPTEST_RNG_SEED` the seed.

use std::marker::PhantomData;
use std::sync::Arc;

use knowledge_store::Store;
use knowledge_store::conformance::Task;
use knowledge_testing::simulation::{Config, check_callers, check_store};

use super::support::{open, temp_directory};
use crate::Engine;

/// Number of cases per property, unless the environment sets another one.
const CASES: u32 = 60;

/// Creates a store in a new directory for each case.
struct StoreFactory<E> {
    root: tempfile::TempDir,
    engine: PhantomData<fn() -> E>,
}

impl<E: Engine> StoreFactory<E> {
    fn new() -> Self {
        Self {
            root: temp_directory(),
            engine: PhantomData,
        }
    }

    async fn create(&self) -> Arc<dyn Store> {
        let directory = tempfile::tempdir_in(&self.root).expect("a directory can be created");
        Arc::new(open::<E>(&directory.keep()))
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
pub async fn service_matches_the_model<E: Engine>() {
    let stores = StoreFactory::<E>::new();
    check_store(&config(), || stores.create()).await;
}

/// Sequences of calls over a store that conflicts and fails return the results of the model.
pub async fn service_matches_the_model_over_a_failing_store<E: Engine>() {
    let stores = StoreFactory::<E>::new();
    check_store(&config().with_faults(), || stores.create()).await;
}

/// Concurrent calls return the results of some serial order of the calls.
pub async fn concurrent_calls_match_a_serial_order<E: Engine>() {
    let stores = StoreFactory::<E>::new();
    check_callers(&config(), || stores.create(), run_on_threads).await;
}
