//! Every case of the conformance suite.

mod common;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use knowledge_core::store::Store;
use knowledge_core::testing::conformance::{self, Harness, Lifetime, Task};

/// Keeps every store in a directory of its own, and knows which is where by its address.
struct Sled {
    root: tempfile::TempDir,
    paths: Mutex<HashMap<usize, PathBuf>>,
}

impl Sled {
    fn new() -> Self {
        Self {
            root: tempfile::tempdir().unwrap(),
            paths: Mutex::default(),
        }
    }

    fn open_at(&self, path: PathBuf) -> Arc<dyn Store> {
        let store: Arc<dyn Store> = Arc::new(common::open(&path));
        self.paths.lock().unwrap().insert(address(&store), path);
        store
    }
}

fn address(store: &Arc<dyn Store>) -> usize {
    Arc::as_ptr(store).cast::<()>().addr()
}

#[async_trait]
impl Harness for Sled {
    fn lifetime(&self) -> Lifetime {
        Lifetime::Durable
    }

    async fn open(&self) -> Arc<dyn Store> {
        self.open_at(tempfile::tempdir_in(&self.root).unwrap().keep())
    }

    async fn reopen(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        let path = self.paths.lock().unwrap().remove(&address(&store));
        assert_eq!(
            Arc::strong_count(&store),
            1,
            "the suite hands in its only reference"
        );
        drop(store);
        self.open_at(path.unwrap())
    }

    async fn run_concurrently(&self, tasks: Vec<Task<'static>>) {
        let running: Vec<_> = tasks.into_iter().map(tokio::spawn).collect();
        for task in running {
            task.await.unwrap();
        }
    }

    fn case_begins(&self, case: &'static str) {
        println!("{case}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_sled_store_passes() {
    let harness = Sled::new();
    let report = conformance::run(&harness).await;
    let all: Vec<_> = conformance::case_names().collect();
    assert_eq!(report.passed, all);
}

/// On a single thread, where a store that waits for another task to go on would never end.
#[tokio::test]
async fn the_sled_store_passes_on_one_thread() {
    let harness = Sled::new();
    conformance::run(&harness).await;
}
