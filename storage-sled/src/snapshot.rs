//! A state of the store that stays while others write.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use knowledge_core::store::{
    Commit, CommitOutcome, Direction, Entry, Key, KeyEntry, KeyRange, Store, StoreError,
    StoreErrorKind,
};

use crate::capture::Capture;
use crate::error::guarded;
use crate::store::SledStore;

/// The store as it stood after one commit, for reading alone: for a backup while others write.
///
/// It costs memory for what is changed meanwhile: one old value for each key. Where that passes the bound which
/// [`SledStore::snapshot`] was given, the snapshot is lost, and every further read says so; the store itself goes on. No
/// writer waits for a snapshot. It keeps the store open.
pub struct SledSnapshot {
    store: Arc<SledStore>,
    capture: Arc<Capture>,
    bytes_max: usize,
}

impl fmt::Debug for SledSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SledSnapshot")
            .field("store", &self.store)
            .field("is_lost", &self.capture.is_given_up())
            .finish_non_exhaustive()
    }
}

impl SledStore {
    /// Keeps the present state readable while others write: everything that was committed before this call, and nothing
    /// that is committed later. What is changed since takes at most `bytes_max` bytes of memory.
    #[must_use]
    pub fn snapshot(self: &Arc<Self>, bytes_max: usize) -> SledSnapshot {
        SledSnapshot {
            store: Arc::clone(self),
            capture: self.shared.timeline.capture(bytes_max),
            bytes_max,
        }
    }
}

impl SledSnapshot {
    /// What was read, if the capture was whole until it was put together.
    fn unless_lost<T>(&self, read: T) -> Result<T, StoreError> {
        if !self.capture.is_given_up() {
            return Ok(read);
        }
        let message = format!(
            "the snapshot is lost: more than {} bytes were changed while it was read",
            self.bytes_max
        );
        Err(StoreError::new(StoreErrorKind::Unavailable, message))
    }
}

#[async_trait]
impl Store for SledSnapshot {
    async fn get(&self, keys: &[Key]) -> Result<Vec<Option<Entry>>, StoreError> {
        let shared = &self.store.shared;
        shared.refuse_if_closed()?;
        let found = guarded(|| self.store.read_keys(keys, &*self.capture));
        self.unless_lost(found.map_err(|error| shared.read_error(&error))?)
    }

    async fn scan(
        &self,
        range: &KeyRange,
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<KeyEntry>, StoreError> {
        let shared = &self.store.shared;
        shared.refuse_if_closed()?;
        let found = guarded(|| {
            self.store
                .read_range(range, limit, direction, &*self.capture)
        });
        self.unless_lost(found.map_err(|error| shared.read_error(&error))?)
    }

    /// Refused: a snapshot does not change.
    async fn commit(&self, _: Commit) -> Result<CommitOutcome, StoreError> {
        let message = "a snapshot does not change";
        Err(StoreError::new(StoreErrorKind::Invalid, message))
    }
}
