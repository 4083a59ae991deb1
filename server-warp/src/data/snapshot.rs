//! Stores as of one point in time, for commands that read all of one.

use std::sync::Arc;

use knowledge_core::store::{Store, StoreError};
#[cfg(feature = "postgres")]
use knowledge_storage_postgres::PostgresSnapshot;

use super::Backend;
use crate::partial_debug::partial_debug;

/// Store that is read as of one point in time, although it may be used by servers.
///
/// A directory, which only this process has open, is read itself; of a database it is a snapshot.
pub struct StableView {
    /// The store to read.
    pub store: Arc<dyn Store>,
    #[cfg(feature = "postgres")]
    snapshot: Option<Arc<PostgresSnapshot>>,
}

partial_debug!(StableView);

impl StableView {
    /// Creates a view of the present state.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn of(backend: &Backend) -> Result<Self, StoreError> {
        #[cfg(feature = "postgres")]
        if let Backend::Postgres(store) = backend {
            let snapshot = Arc::new(store.snapshot().await?);
            return Ok(Self {
                store: Arc::<PostgresSnapshot>::clone(&snapshot),
                snapshot: Some(snapshot),
            });
        }
        Ok(Self {
            store: backend.store(),
            #[cfg(feature = "postgres")]
            snapshot: None,
        })
    }

    /// Returns true if the store has changed since, so that the view lacks something.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn is_outdated(&self) -> Result<bool, StoreError> {
        #[cfg(feature = "postgres")]
        if let Some(snapshot) = &self.snapshot {
            return Ok(!snapshot.is_current().await?);
        }
        Ok(false)
    }
}
