//! Store that can refuse commits, so that an erasure is left running.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;

use knowledge_core::store::{
    Commit, CommitOutcome, Found, Mark, Read, Store, StoreError, StoreErrorKind,
};

/// A store that accepts a number of further commits, without a limit at first.
pub(super) struct Gate {
    store: Arc<dyn Store>,
    left: AtomicUsize,
}

impl Gate {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            left: AtomicUsize::new(usize::MAX),
        }
    }

    /// Accepts this many commits and then none.
    pub(super) fn close_after(&self, commits: usize) {
        self.left.store(commits, Ordering::SeqCst);
    }

    /// Accepts all commits again.
    pub(super) fn open(&self) {
        self.close_after(usize::MAX);
    }
}

#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
impl Store for Gate {
    async fn read(&self, reads: &[Read<'_>]) -> Result<Vec<Found>, StoreError> {
        self.store.read(reads).await
    }

    fn mark(&self, area: &[u8]) -> Option<Mark> {
        self.store.mark(area)
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome, StoreError> {
        let left = self.left.load(Ordering::SeqCst);
        if left == 0 {
            let closed = StoreError::new(StoreErrorKind::Unavailable, "the gate is closed");
            return Err(closed);
        }
        if left < usize::MAX {
            self.left.store(left - 1, Ordering::SeqCst);
        }
        self.store.commit(commit).await
    }
}
