//! A storage backend of two methods, with the conformance suite and the property tests of the
//! service.
//!
//! `cargo run -p knowledge-core --example log_store`

#![allow(
    clippy::disallowed_types,
    reason = "a backend does input and output; core does not"
)]

mod store;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use knowledge_core::store::Store;
use knowledge_store::conformance::{self, Harness, Lifetime, Task};
use knowledge_testing::simulation::{self, Config};

use self::store::LogStore;

/// Random sequences of operations that the service runs on this backend.
const PROPERTY_CASES: u32 = 10;

/// Opens stores of this backend, and runs tasks concurrently, for the suite.
struct LogStores {
    directory: tempfile::TempDir,
    opened: AtomicU32,
    /// The file of the one store that the suite has open.
    path: std::sync::Mutex<PathBuf>,
}

impl LogStores {
    fn new() -> std::io::Result<Self> {
        let directory = tempfile::tempdir()?;
        let path = std::sync::Mutex::new(directory.path().join("none"));
        Ok(Self {
            directory,
            opened: AtomicU32::new(0),
            path,
        })
    }
}

#[async_trait]
impl Harness for LogStores {
    fn lifetime(&self) -> Lifetime {
        Lifetime::Durable
    }

    async fn open(&self) -> Arc<dyn Store> {
        let number = self.opened.fetch_add(1, Ordering::Relaxed);
        let path = self.directory.path().join(format!("{number}.log"));
        self.path
            .lock()
            .expect("no case panics here")
            .clone_from(&path);
        Arc::new(LogStore::open(&path).expect("a new log opens"))
    }

    async fn reopen(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        drop(store);
        let path = self.path.lock().expect("no case panics here").clone();
        Arc::new(LogStore::open(&path).expect("the log opens again"))
    }

    async fn run_concurrently(&self, tasks: Vec<Task<'static>>) {
        let running: Vec<_> = tasks.into_iter().map(tokio::spawn).collect();
        for task in running {
            task.await.expect("a task ends without a panic");
        }
    }
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let report = conformance::run(&LogStores::new()?).await;
    println!("{report}");
    let stores = LogStores::new()?;
    simulation::check_store(&Config::new(PROPERTY_CASES).with_faults(), || stores.open()).await;
    println!(
        "{PROPERTY_CASES} random sequences of operations, faults among them: the model agrees"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn the_log_store_passes_the_conformance_suite() {
        let report = conformance::run(&LogStores::new().unwrap()).await;
        assert_eq!(report.passed.len(), conformance::case_names().count());
    }

    #[tokio::test]
    async fn the_service_over_the_log_store_does_what_the_model_says() {
        let stores = LogStores::new().unwrap();
        let config = Config::new(PROPERTY_CASES).with_faults();
        simulation::check_store(&config, || stores.open()).await;
    }
}
