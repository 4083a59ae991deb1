//! Open stores of each engine.

use std::sync::Arc;

use knowledge_core::store::{MemoryStore, Store};
use knowledge_storage_embedded::{DirectoryLock, Embedded, OpenError, StoreOptions};
use knowledge_storage_fjall::FjallStore;
use knowledge_storage_sled::{SledSettings, SledStore};

use super::DataConfig;
use crate::store_address::Engine;

/// Open store.
#[derive(Clone)]
pub enum Backend {
    /// Store in a directory.
    Embedded(Arc<dyn Embedded>),
    /// Store in the memory of this process.
    Memory(Arc<MemoryStore>),
}

impl std::fmt::Debug for Backend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Embedded(store) => store.engine(),
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
            Self::Memory(store) => Arc::<MemoryStore>::clone(store),
        }
    }

    /// Returns a snapshot, which stays readable during writes. Old values kept for it take at most
    /// `bytes_max` bytes, see [`Embedded::snapshot`].
    #[must_use]
    pub fn snapshot(&self, bytes_max: usize) -> Arc<dyn Store> {
        match self {
            Self::Embedded(store) => Arc::clone(store).snapshot(bytes_max),
            Self::Memory(store) => Arc::new(store.snapshot()),
        }
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn entries(&self) -> u64 {
        match self {
            Self::Embedded(store) => store.entries(),
            Self::Memory(store) => store.len() as u64,
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
        .accept_old_formats(config.accepts_old_formats)
}
