//! Several callers at once.

use knowledge_store::conformance::Task;
use knowledge_testing::simulation::{Config, check_callers};

use crate::{cases, memory};

/// Each task gives way to the others at every access to the store, as its seed says: the same seed, the same run.
#[tokio::test]
async fn callers_who_take_turns_find_one_order() {
    let take_turns = |tasks: Vec<Task<'static>>| async {
        futures::future::join_all(tasks).await;
    };
    check_callers(&Config::new(cases(400)), memory, take_turns).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn callers_on_threads_find_one_order() {
    check_callers(&Config::new(cases(100)), memory, on_threads).await;
}

async fn on_threads(tasks: Vec<Task<'static>>) {
    let running: Vec<_> = tasks.into_iter().map(tokio::spawn).collect();
    for task in running {
        task.await.expect("a caller ends without a panic");
    }
}
