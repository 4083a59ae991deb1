//! Open stores of each engine.

use std::sync::Arc;

use knowledge_core::store::{MemoryStore, Store, StoreError};
use knowledge_storage_embedded::{DirectoryLock, Embedded, OpenError, StoreOptions};
use knowledge_storage_fjall::FjallStore;
#[cfg(feature = "postgres")]
use knowledge_storage_postgres::PostgresStore;
use knowledge_storage_sled::{SledSettings, SledStore};

use super::DataConfig;
use crate::store_address::Engine;

/// Open store.
#[derive(Clone)]
pub enum Backend {
    /// Store in a directory.
    Embedded(Arc<dyn Embedded>),
    /// Store in a PostgreSQL database.
    #[cfg(feature = "postgres")]
    Postgres(Arc<PostgresStore>),
    /// Store in the memory of this process.
    Memory(Arc<MemoryStore>),
}

impl std::fmt::Debug for Backend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Embedded(store) => store.engine(),
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => "postgres",
            Self::Memory(_) => "memory",
        })
    }
}

impl Backend {
    /// Returns the store itself.
    #[must_use]
    pub fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::Embedded(store) => Arc::<dyn Embedded>::clone(store),
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => Arc::<PostgresStore>::clone(store),
            Self::Memory(store) => Arc::<MemoryStore>::clone(store),
        }
    }

    /// Returns a snapshot, which stays readable during writes.
    ///
    /// A snapshot of an embedded store takes at most `bytes_max` bytes of memory, for values that
    /// changed since, see [`Embedded::snapshot`]; one of a database takes a connection, see
    /// [`PostgresSnapshot`](knowledge_storage_postgres::PostgresSnapshot).
    ///
    /// # Errors
    /// Errors of a database.
    pub async fn snapshot(&self, bytes_max: usize) -> Result<Arc<dyn Store>, StoreError> {
        Ok(match self {
            Self::Embedded(store) => Arc::clone(store).snapshot(bytes_max),
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => Arc::new(store.snapshot().await?),
            Self::Memory(store) => Arc::new(store.snapshot()),
        })
    }

    /// Returns the number of entries, if it is known without reading them.
    #[must_use]
    pub fn entries(&self) -> Option<u64> {
        match self {
            Self::Embedded(store) => Some(store.entries()),
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => None,
            Self::Memory(store) => Some(store.len() as u64),
        }
    }

    /// Compares the entries of an embedded store with its ledger, see [`Embedded::check`].
    ///
    /// A database has its own checks, and nothing is read.
    ///
    /// # Errors
    /// Errors of [`Embedded::check`].
    pub fn check(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<(), StoreError> {
        match self {
            Self::Embedded(store) => store.check(progress),
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => Ok(()),
            Self::Memory(_) => Ok(()),
        }
    }
}

/// Opens the store of an engine in a directory, or creates one if it is empty.
pub(crate) fn open_store(
    engine: Engine,
    lock: DirectoryLock,
    config: &DataConfig,
) -> Result<Arc<dyn Embedded>, OpenError> {
    Ok(match engine {
        Engine::Sled => {
            let settings = SledSettings { mode: config.mode };
            let options = options(config).engine(settings);
            Arc::new(SledStore::open_locked(lock, options)?)
        }
        Engine::Fjall => Arc::new(FjallStore::open_locked(lock, options(config))?),
    })
}

fn options<S: Default>(config: &DataConfig) -> StoreOptions<S> {
    StoreOptions::default()
        .cache_bytes(config.cache_bytes)
        .free_bytes_min(config.free_bytes_min)
        .write_time_max(config.write_timeout)
        .verify_entries(config.verifies_entries)
}
