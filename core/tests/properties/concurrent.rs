//! Properties of concurrent callers.

use knowledge_store::conformance::Task;
use knowledge_testing::simulation::{Config, check_callers};

use crate::{cases, memory};

/// Tasks yield to each other at every store access, in an order that the seed determines.
#[tokio::test]
async fn interleaved_calls_are_linearizable() {
    let take_turns = |tasks: Vec<Task<'static>>| async {
        futures::future::join_all(tasks).await;
    };
    check_callers(&Config::new(cases(400)), memory, take_turns).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn calls_on_threads_are_linearizable() {
    check_callers(&Config::new(cases(100)), memory, on_threads).await;
}

async fn on_threads(tasks: Vec<Task<'static>>) {
    let running: Vec<_> = tasks.into_iter().map(tokio::spawn).collect();
    for task in running {
        task.await.expect("a caller ends without a panic");
    }
}
