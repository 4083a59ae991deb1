//! The conformance suite of `knowledge-core`.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use knowledge_store::Store;
use knowledge_store::conformance::{self, Harness, Lifetime, Task};

use super::support::{open, temp_directory};
use crate::Engine;

/// Harness with a directory for each store, found by the store's address.
struct DirectoryHarness<E> {
    root: tempfile::TempDir,
    paths: Mutex<HashMap<usize, PathBuf>>,
    engine: PhantomData<fn() -> E>,
}

impl<E: Engine> DirectoryHarness<E> {
    fn new() -> Self {
        Self {
            root: temp_directory(),
            paths: Mutex::default(),
            engine: PhantomData,
        }
    }

    fn paths(&self) -> std::sync::MutexGuard<'_, HashMap<usize, PathBuf>> {
        self.paths.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open_at(&self, path: PathBuf) -> Arc<dyn Store> {
        let store: Arc<dyn Store> = Arc::new(open::<E>(&path));
        self.paths().insert(address(&store), path);
        store
    }
}

fn address(store: &Arc<dyn Store>) -> usize {
    Arc::as_ptr(store).cast::<()>().addr()
}

#[async_trait]
impl<E: Engine> Harness for DirectoryHarness<E> {
    fn lifetime(&self) -> Lifetime {
        Lifetime::Durable
    }

    async fn open(&self) -> Arc<dyn Store> {
        let directory = tempfile::tempdir_in(&self.root).expect("a directory can be created");
        self.open_at(directory.keep())
    }

    async fn reopen(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        let path = self.paths().remove(&address(&store));
        assert_eq!(
            Arc::strong_count(&store),
            1,
            "the suite hands in its only reference"
        );
        drop(store);
        self.open_at(path.expect("a store of this harness"))
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

/// All cases pass on several threads.
pub async fn suite_passes<E: Engine>() {
    let report = conformance::run(&DirectoryHarness::<E>::new()).await;
    let all: Vec<_> = conformance::case_names().collect();
    assert_eq!(report.passed, all);
}

/// All cases pass on a single thread, on which a store that blocks on another task would hang.
pub async fn suite_passes_on_one_thread<E: Engine>() {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let harness = DirectoryHarness::<E>::new();
        let run = conformance::run(&harness);
        runtime.expect("a runtime starts").block_on(run);
    };
    let task = tokio::task::spawn_blocking(move || std::thread::spawn(run).join());
    let result = task.await.expect("a task ends");
    result.expect("the cases end without a panic");
}
