//! The service over sled against the plain model. `PROPTEST_CASES` sets how much is tried, `PROPTEST_RNG_SEED` with
//! what a run begins.

mod common;

use std::sync::Arc;

use knowledge_core::store::Store;
use knowledge_core::testing::conformance::Task;
use knowledge_core::testing::simulation::{Config, check_callers, check_store};

/// Gives each case a store in a directory of its own.
struct Stores(tempfile::TempDir);

impl Stores {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    async fn make(&self) -> Arc<dyn Store> {
        let directory = tempfile::tempdir_in(&self.0).unwrap().keep();
        Arc::new(common::open(&directory))
    }
}

/// How many cases to run: so many, or what the environment asks for.
fn cases(usual: u32) -> u32 {
    let asked = std::env::var("PROPTEST_CASES").ok();
    asked.and_then(|cases| cases.parse().ok()).unwrap_or(usual)
}

async fn on_threads(tasks: Vec<Task<'static>>) {
    let running: Vec<_> = tasks.into_iter().map(tokio::spawn).collect();
    for task in running {
        task.await.expect("a caller ends without a panic");
    }
}

#[tokio::test]
async fn the_service_does_what_the_model_says() {
    let stores = Stores::new();
    check_store(&Config::new(cases(60)), || stores.make()).await;
}

#[tokio::test]
async fn the_service_does_what_the_model_says_over_a_failing_store() {
    let stores = Stores::new();
    check_store(&Config::new(cases(60)).with_faults(), || stores.make()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn callers_on_threads_find_one_order() {
    let stores = Stores::new();
    check_callers(&Config::new(cases(60)), || stores.make(), on_threads).await;
}
