//! Interface between the suite and a backend.

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::join_all;

use crate::{BoxFuture, MaybeSendSync, Store};

/// Future of the suite: `Send` on targets with threads.
pub type Task<'a, T = ()> = BoxFuture<'a, T>;

/// Lifetime of the contents of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// The contents are still there when the store is reopened.
    Durable,
    /// The contents are lost with the store; the cases about reopening are skipped.
    Volatile,
}

/// Interface between the suite and a backend.
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
pub trait Harness: MaybeSendSync {
    /// Returns the lifetime of the contents, which decides on the cases about reopening.
    fn lifetime(&self) -> Lifetime;

    /// Opens an empty store; every case opens its own.
    ///
    /// # Panics
    /// If it cannot be opened; the case then fails.
    async fn open(&self) -> Arc<dyn Store>;

    /// Closes `store` and reopens it.
    ///
    /// The suite passes its only reference. It never calls this for [`Lifetime::Volatile`].
    ///
    /// # Panics
    /// If it cannot be reopened; the case then fails.
    async fn reopen(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        drop(store);
        unimplemented_reopen()
    }

    /// Runs all tasks concurrently and returns when all have ended.
    ///
    /// Use threads if the platform has them: the default interleaves the tasks on a single one,
    /// which does not reveal races inside a backend.
    ///
    /// # Panics
    /// If a task panicked; the case then fails.
    async fn run_concurrently(&self, tasks: Vec<Task<'static>>) {
        join_all(tasks).await;
    }

    /// Receives the name of each case before it begins, to show where a backend hangs.
    fn case_begins(&self, case: &'static str) {
        let _ = case;
    }
}

fn unimplemented_reopen() -> ! {
    panic!("the harness of a durable store must implement `reopen`")
}
