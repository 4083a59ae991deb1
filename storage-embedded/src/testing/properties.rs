//! The service over an engine against the plain model. `PROPTEST_CASES` sets how much is tried, `PROPTEST_RNG_SEED`
//! with what a run begins.

use std::marker::PhantomData;
use std::sync::Arc;

use knowledge_store::Store;
use knowledge_store::conformance::Task;
use knowledge_testing::simulation::{Config, check_callers, check_store};

use super::support::{directory, open};
use crate::Engine;

/// The cases of one property, unless the environment sets another number.
const CASES: u32 = 60;

/// Gives each case a store in a directory of its own.
struct Stores<E> {
    root: tempfile::TempDir,
    engine: PhantomData<fn() -> E>,
}

impl<E: Engine> Stores<E> {
    fn new() -> Self {
        Self {
            root: directory(),
            engine: PhantomData,
        }
    }

    async fn make(&self) -> Arc<dyn Store> {
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

/// Sequences of calls have the results of the model.
pub async fn service_matches_the_model<E: Engine>() {
    let stores = Stores::<E>::new();
    check_store(&config(), || stores.make()).await;
}

/// So they have over a store that conflicts and fails.
pub async fn service_matches_the_model_over_a_failing_store<E: Engine>() {
    let stores = Stores::<E>::new();
    check_store(&config().with_faults(), || stores.make()).await;
}

/// The results of concurrent callers are those of some order of their calls.
pub async fn concurrent_callers_find_one_order<E: Engine>() {
    let stores = Stores::<E>::new();
    check_callers(&config(), || stores.make(), run_on_threads).await;
}
