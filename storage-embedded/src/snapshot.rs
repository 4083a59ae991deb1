//! A state of the store that remains readable while others write.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use knowledge_store::{Commit, CommitOutcome, Found, Read, Store, StoreError, StoreErrorKind};

use crate::engine::{Engine, View};
use crate::error::catch_panic;
use crate::store::{EngineStore, execute_reads};

/// State of a store after one commit, read-only, for example for a backup while others write.
///
/// An engine without native snapshots keeps in memory one old value of every key that is changed
/// meanwhile. Beyond the limit given to [`EngineStore::snapshot`] the snapshot is lost and all
/// further reads of it fail; the store is not affected. Writers never wait for a snapshot. A
/// snapshot keeps the store open.
pub struct Snapshot<E: Engine> {
    store: Arc<EngineStore<E>>,
    view: E::Snapshot,
    bytes_max: usize,
}

impl<E: Engine> fmt::Debug for Snapshot<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("store", &self.store)
            .field("is_lost", &self.view.is_lost())
            .finish_non_exhaustive()
    }
}

impl<E: Engine> EngineStore<E> {
    /// Returns the current state, readable while others write.
    ///
    /// It contains all commits before this call and none after it. Old values kept for it take at
    /// most `bytes_max` bytes of memory.
    #[must_use]
    pub fn snapshot(self: &Arc<Self>, bytes_max: usize) -> Snapshot<E> {
        Snapshot {
            view: self.shared().snapshot(bytes_max).0,
            store: Arc::clone(self),
            bytes_max,
        }
    }
}

#[async_trait]
impl<E: Engine> Store for Snapshot<E> {
    async fn read(&self, reads: &[Read<'_>]) -> Result<Vec<Found>, StoreError> {
        let shared = self.store.shared();
        shared.ensure_open()?;
        let found = catch_panic(|| execute_reads(&self.view, reads));
        let found = found.map_err(|error| shared.read_error(&error))?;
        if !self.view.is_lost() {
            return Ok(found);
        }
        let message = format!(
            "the snapshot is lost: old values exceed its limit of {} bytes; take a new one",
            self.bytes_max
        );
        Err(StoreError::new(StoreErrorKind::Unavailable, message))
    }

    /// Rejects the commit: a snapshot is read-only.
    async fn commit(&self, _: Commit) -> Result<CommitOutcome, StoreError> {
        let message = "a snapshot is read-only";
        Err(StoreError::new(StoreErrorKind::Invalid, message))
    }
}
