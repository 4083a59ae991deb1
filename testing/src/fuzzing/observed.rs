//! A store that remembers which keys its commits change.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use knowledge_core::store::{
    Commit, CommitOutcome, Found, Key, Mark, MemoryStore, Mutation, Read, Store, StoreError,
};

#[derive(Debug)]
pub(super) struct ObservedStore {
    store: MemoryStore,
    changed: Mutex<Vec<Key>>,
}

impl ObservedStore {
    pub(super) fn new(store: MemoryStore) -> Self {
        Self {
            store,
            changed: Mutex::default(),
        }
    }

    /// Returns the keys that were changed since the last call.
    pub(super) fn take_changed(&self) -> Vec<Key> {
        let mut changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *changed)
    }
}

#[async_trait]
impl Store for ObservedStore {
    async fn read(&self, reads: &[Read<'_>]) -> Result<Vec<Found>, StoreError> {
        self.store.read(reads).await
    }

    fn mark(&self, area: &[u8]) -> Option<Mark> {
        self.store.mark(area)
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome, StoreError> {
        let keys: Vec<Key> = commit
            .mutations()
            .iter()
            .map(Mutation::key)
            .cloned()
            .collect();
        let outcome = self.store.commit(commit).await?;
        if matches!(outcome, CommitOutcome::Committed(_)) {
            let mut changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
            changed.extend(keys);
        }
        Ok(outcome)
    }
}
