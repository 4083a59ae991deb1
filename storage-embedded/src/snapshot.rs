//! A state of the store that stays readable while others write.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use knowledge_store::{
    Commit, CommitOutcome, Found, Read, Store, StoreError, StoreErrorKind,
};

use crate::engine::{Engine, View};
use crate::error::guarded;
use crate::store::{EngineStore, answer};

/// The state of a store after one commit, read-only: for a backup while others write.
///
/// With an engine that has no snapshots of its own it costs memory for everything that is changed meanwhile: one old value
/// per key. Beyond the bound which [`EngineStore::snapshot`] was given, the snapshot is lost, and every further read
/// says so; the store itself goes on. No writer waits for a snapshot. It keeps the store open.
pub struct Snapshot<E: Engine> {
    store: Arc<EngineStore<E>>,
    kept: E::Kept,
    bytes_max: usize,
}

impl<E: Engine> fmt::Debug for Snapshot<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("store", &self.store)
            .field("is_lost", &self.kept.is_lost())
            .finish_non_exhaustive()
    }
}

impl<E: Engine> EngineStore<E> {
    /// Keeps the present state readable while others write: everything that was committed before this call, and nothing
    /// that is committed later. Old values kept for it take at most `bytes_max` bytes of memory.
    #[must_use]
    pub fn snapshot(self: &Arc<Self>, bytes_max: usize) -> Snapshot<E> {
        Snapshot {
            kept: self.shared().keep(bytes_max).0,
            store: Arc::clone(self),
            bytes_max,
        }
    }
}

#[async_trait]
impl<E: Engine> Store for Snapshot<E> {
    async fn read(&self, reads: &[Read<'_>]) -> Result<Vec<Found>, StoreError> {
        let shared = self.store.shared();
        shared.refuse_if_closed()?;
        let found = guarded(|| answer(&self.kept, reads));
        let found = found.map_err(|error| shared.read_error(&error))?;
        if !self.kept.is_lost() {
            return Ok(found);
        }
        let message = format!(
            "the snapshot is lost: more than {} bytes were changed while it was read",
            self.bytes_max
        );
        Err(StoreError::new(StoreErrorKind::Unavailable, message))
    }

    /// Refused: a snapshot does not change.
    async fn commit(&self, _: Commit) -> Result<CommitOutcome, StoreError> {
        let message = "a snapshot does not change";
        Err(StoreError::new(StoreErrorKind::Invalid, message))
    }
}
