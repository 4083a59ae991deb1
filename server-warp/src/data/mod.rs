//! Stores, each with the key that seals its secrets: data directories, opened by one process at a
//! time, and databases, which several processes share.

mod backend;
mod directory;
mod error;
#[cfg(unix)]
mod owner;
mod partitions;
#[cfg(feature = "postgres")]
mod postgres;
mod snapshot;
#[cfg(feature = "postgres")]
mod views;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use knowledge_core::env::Env;
use knowledge_core::limits::Limits;
use knowledge_core::partition::HoldingStore;
use knowledge_core::service::{KnowledgeService, Options, SealingKey};
use knowledge_core::store::Store;
use knowledge_storage_embedded::{
    CACHE_BYTES_DEFAULT, Embedded, FREE_BYTES_MIN_DEFAULT, OpenError, WRITE_TIME_MAX_DEFAULT,
};
use knowledge_storage_sled::Mode;

pub use self::backend::Backend;
pub(crate) use self::backend::open_store;
use self::directory::{is_missing_or_empty, lock, resolved};
pub use self::error::DataError;
#[cfg(feature = "postgres")]
pub use self::postgres::PostgresConfig;
pub use self::snapshot::StableView;
use crate::backup::switch::SwapPaths;
use crate::metrics::Metrics;
use crate::partial_debug::partial_debug;
use crate::partitions::PartitionAddress;
use crate::private_file;
use crate::sealing::{self, KeyFileError};
use crate::store_address::{Engine, StoreAddress};

/// Default data directory.
pub const DATA_DIR_DEFAULT: &str = "./knowledge-data";

/// Maximum time for which a starting server waits for another process to release the directory.
pub const LOCK_WAIT_MAX: Duration = Duration::from_secs(5);
/// Time between two attempts to lock a directory that another process holds.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Configuration of the store and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataConfig {
    /// Address of the store.
    pub store: StoreAddress,
    /// Further partitions, in the order of their names.
    pub partitions: Vec<PartitionAddress>,
    /// File of the sealing key. Without one, it is [`sealing::default_path`], created with the
    /// store.
    pub sealing_key_file: Option<PathBuf>,
    /// Value of [`cache_bytes`](knowledge_storage_embedded::StoreOptions::cache_bytes).
    pub cache_bytes: u64,
    /// Value of [`free_bytes_min`](knowledge_storage_embedded::StoreOptions::free_bytes_min).
    pub free_bytes_min: u64,
    /// Value of [`write_time_max`](knowledge_storage_embedded::StoreOptions::write_time_max).
    pub write_timeout: Duration,
    /// Trade-off between speed and space in sled.
    pub mode: Mode,
    /// Value of [`verify_entries`](knowledge_storage_embedded::StoreOptions::verify_entries).
    pub verifies_entries: bool,
    /// Configuration of a store in a PostgreSQL database.
    #[cfg(feature = "postgres")]
    pub postgres: PostgresConfig,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self {
            store: StoreAddress::in_directory(DATA_DIR_DEFAULT),
            partitions: Vec::new(),
            sealing_key_file: None,
            cache_bytes: CACHE_BYTES_DEFAULT,
            free_bytes_min: FREE_BYTES_MIN_DEFAULT,
            write_timeout: WRITE_TIME_MAX_DEFAULT,
            mode: Mode::default(),
            verifies_entries: true,
            #[cfg(feature = "postgres")]
            postgres: PostgresConfig::default(),
        }
    }
}

/// Open store with its key.
pub struct Data {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The key.
    pub sealing_key: SealingKey,
    /// The same store as `store`, undecorated.
    backend: Backend,
    name: String,
}

partial_debug!(Data: name);

impl DataConfig {
    /// Creates a configuration of a directory with its default key file and defaults for the rest.
    #[must_use]
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        Self::of(StoreAddress::in_directory(directory))
    }

    /// Creates a configuration of a store with its default key file and defaults for the rest.
    #[must_use]
    pub fn of(store: StoreAddress) -> Self {
        Self {
            store,
            ..Self::default()
        }
    }

    /// Returns the directory of the store as configured; `None` for a database or a store in memory.
    #[must_use]
    pub fn directory(&self) -> Option<&Path> {
        self.store.directory()
    }

    /// Returns the store as configured, for messages.
    #[must_use]
    pub fn name(&self) -> String {
        self.store.to_string()
    }

    /// Returns the path of a sibling of the directory: its name with `suffix` appended.
    ///
    /// # Errors
    /// Errors of [`DataConfig::path`].
    pub fn beside(&self, suffix: &str) -> Result<PathBuf, DataError> {
        Ok(private_file::with_suffix(&self.path()?, suffix))
    }

    /// Opens the store, and creates it if the directory is missing, or the directory or the database
    /// is empty.
    ///
    /// # Errors
    /// See [`DataError`], except for [`DataError::Missing`], [`DataError::Empty`] and
    /// [`DataError::Service`].
    pub async fn open(&self) -> Result<Data, DataError> {
        // Before anything is created.
        if self.store.is_shared() {
            self.sealing_key_path()?;
        } else if let Some(file) = &self.sealing_key_file {
            sealing::read(file)?;
        }
        let backend = self.backend().await?;
        let mut store = backend.store();
        if self.store.is_shared() || !self.partitions.is_empty() {
            store = Arc::new(HoldingStore::new(store));
        }
        let sealing_key = self.key(&store).await?;
        Ok(Data {
            store,
            sealing_key,
            backend,
            name: self.name(),
        })
    }

    async fn backend(&self) -> Result<Backend, DataError> {
        match self.store {
            StoreAddress::Memory => Ok(Backend::Memory(Arc::default())),
            _ => self.make_backend().await,
        }
    }

    /// Opens the store like [`open`](Self::open), but waits for another process to release it.
    ///
    /// It waits up to [`LOCK_WAIT_MAX`] for a command or the previous server.
    ///
    /// # Errors
    /// Errors of [`DataConfig::open`].
    pub async fn open_when_free(&self) -> Result<Data, DataError> {
        when_free(|| self.open()).await
    }

    /// Opens an existing store.
    ///
    /// # Errors
    /// See [`DataError`], except for [`DataError::Service`].
    pub async fn open_existing(&self) -> Result<Data, DataError> {
        if self.directory().is_some() {
            self.require_store()?;
            return self.open().await;
        }
        self.require_durable()?;
        let data = self.open().await?;
        self.require_contents(&*data.store).await?;
        Ok(data)
    }

    /// Opens an existing store of any kind without its key, to read its entries rather than to serve
    /// them.
    ///
    /// # Errors
    /// See [`DataError`], except for [`DataError::Service`] and errors of keys.
    pub async fn open_backend(&self) -> Result<Backend, DataError> {
        if self.directory().is_some() {
            return Ok(Backend::Embedded(self.open_store()?));
        }
        let backend = self.make_backend().await?;
        self.require_contents(&*backend.store()).await?;
        Ok(backend)
    }

    /// Opens a store of any kind without its key, and creates it if the directory is missing or
    /// empty, or the tables are missing.
    ///
    /// # Errors
    /// See [`DataError`], except for [`DataError::Missing`], [`DataError::Empty`],
    /// [`DataError::Service`] and errors of keys.
    pub async fn make_backend(&self) -> Result<Backend, DataError> {
        match &self.store {
            #[cfg(feature = "postgres")]
            StoreAddress::Postgres(address) => Ok(Backend::Postgres(Arc::new(
                self.postgres.open(address).await?,
            ))),
            #[cfg(not(feature = "postgres"))]
            StoreAddress::Postgres(_) => Err(DataError::WithoutPostgres { store: self.name() }),
            StoreAddress::Directory { .. } | StoreAddress::Memory => {
                Ok(Backend::Embedded(self.make_store()?))
            }
        }
    }

    /// Rejects a store that ends with the process.
    ///
    /// # Errors
    /// [`DataError::InMemory`]; errors of [`DataConfig::path`] for a directory.
    pub(crate) fn require_durable(&self) -> Result<(), DataError> {
        match self.store {
            StoreAddress::Postgres(_) => Ok(()),
            StoreAddress::Directory { .. } | StoreAddress::Memory => self.path().map(drop),
        }
    }

    async fn require_contents(&self, store: &dyn Store) -> Result<(), DataError> {
        if KnowledgeService::is_new(store).await? {
            Err(DataError::Empty { store: self.name() })
        } else {
            Ok(())
        }
    }

    /// Opens the existing store of a directory without its key, to read its entries rather than to
    /// serve them.
    ///
    /// # Errors
    /// [`DataError::Missing`], [`DataError::Store`], [`DataError::Switch`], and those of
    /// [`DataConfig::path`].
    pub fn open_store(&self) -> Result<Arc<dyn Embedded>, DataError> {
        self.require_store()?;
        self.make_store()
    }

    /// Opens the store of a directory without its key, and creates it if the directory is missing or
    /// empty.
    ///
    /// # Errors
    /// [`DataError::Store`], [`DataError::Switch`], and errors of [`DataConfig::path`].
    pub fn make_store(&self) -> Result<Arc<dyn Embedded>, DataError> {
        let path = self.enter()?;
        let lock = lock(&path)?;
        // Detected under the lock, so that the engine is that of the store that is opened.
        Ok(open_store(self.engine_at(&path)?, lock, self)?)
    }

    /// Returns the resolved directory, so that two names of one directory give the same path.
    ///
    /// # Errors
    /// [`DataError::InMemory`], [`DataError::NoDirectory`], [`DataError::Unnamed`].
    pub fn path(&self) -> Result<PathBuf, DataError> {
        match &self.store {
            StoreAddress::Directory { path, .. } => resolved(path),
            StoreAddress::Postgres(_) => Err(DataError::NoDirectory { store: self.name() }),
            StoreAddress::Memory => Err(DataError::InMemory),
        }
    }

    /// Returns the resolved directory, in which this process may write.
    ///
    /// Called before anything is written, because the owner of the directory could not read the
    /// files that another user creates in it.
    ///
    /// # Errors
    /// [`DataError::OtherOwner`], [`DataError::Io`], and errors of [`DataConfig::path`].
    pub(crate) fn enter(&self) -> Result<PathBuf, DataError> {
        let path = self.path()?;
        #[cfg(unix)]
        owner::reject_other(&path, rustix::process::geteuid().as_raw())?;
        Ok(path)
    }

    /// Returns this configuration with the store's resolved path and engine; unchanged for a database.
    ///
    /// Later changes of a symlink have no effect on it. Background verification is off: for
    /// commands that verify the store first.
    ///
    /// # Errors
    /// Errors of [`DataConfig::engine`], and [`DataError::OtherOwner`].
    pub fn resolved(&self) -> Result<Self, DataError> {
        if self.store.is_shared() {
            return Ok(self.clone());
        }
        let (path, engine) = (self.enter()?, Some(self.engine()?));
        Ok(Self {
            store: StoreAddress::Directory { engine, path },
            verifies_entries: false,
            ..self.clone()
        })
    }

    /// Returns the engine of the store in the directory, or the default for a new one.
    ///
    /// # Errors
    /// [`DataError::Store`], and errors of [`DataConfig::path`].
    pub fn engine(&self) -> Result<Engine, DataError> {
        self.engine_at(&self.path()?)
    }

    fn engine_at(&self, path: &Path) -> Result<Engine, DataError> {
        match &self.store {
            StoreAddress::Directory { engine, .. } => match engine {
                Some(engine) => Ok(*engine),
                None => Ok(Engine::of_directory(path)?.unwrap_or_default()),
            },
            StoreAddress::Postgres(_) => Err(DataError::NoDirectory { store: self.name() }),
            StoreAddress::Memory => Err(DataError::InMemory),
        }
    }

    /// Returns the path of the sealing key file, which need not exist.
    ///
    /// # Errors
    /// [`DataError::KeyFileUnset`] for a database without a key file, [`DataError::InMemory`] for a
    /// store in memory without one, [`DataError::Unnamed`].
    pub fn sealing_key_path(&self) -> Result<PathBuf, DataError> {
        match &self.sealing_key_file {
            Some(file) => Ok(file.clone()),
            None if self.store.is_shared() => Err(DataError::KeyFileUnset { store: self.name() }),
            None => Ok(sealing::default_path(&self.path()?)),
        }
    }

    fn require_store(&self) -> Result<(), DataError> {
        let path = self.enter()?;
        SwapPaths::of(&path).recover()?;
        if is_missing_or_empty(&path) {
            return Err(DataError::Missing {
                path: self.directory().unwrap_or(&path).to_owned(),
            });
        }
        Ok(())
    }

    /// Returns the key. A new one is created only if nothing can be sealed yet, never for a store
    /// whose key is missing.
    async fn key(&self, store: &Arc<dyn Store>) -> Result<SealingKey, DataError> {
        if let Some(file) = &self.sealing_key_file {
            return match sealing::read(file) {
                Err(KeyFileError::Missing { path })
                    if self.store.is_shared()
                        && KnowledgeService::is_new(store.as_ref()).await? =>
                {
                    Err(DataError::KeyFileMissing { path })
                }
                read => Ok(read?),
            };
        }
        if self.directory().is_none() {
            return Ok(SealingKey::generate(&Env::system()));
        }
        let file = sealing::default_path(&self.path()?);
        let is_new = KnowledgeService::is_new(store.as_ref()).await?;
        Ok(if is_new {
            sealing::read_or_create(&file, &Env::system())?
        } else {
            sealing::read(&file)?
        })
    }
}

/// Opens something, waiting up to [`LOCK_WAIT_MAX`] while another process holds its directory.
async fn when_free<T>(open: impl AsyncFn() -> Result<T, DataError>) -> Result<T, DataError> {
    let deadline = Instant::now() + LOCK_WAIT_MAX;
    let mut is_logged = false;
    loop {
        match open().await {
            Err(held @ DataError::Store(OpenError::InUse { .. })) if Instant::now() < deadline => {
                if !is_logged {
                    tracing::info!("waiting for the data directory: {held}");
                    is_logged = true;
                }
                tokio::time::sleep(LOCK_RETRY_INTERVAL).await;
            }
            opened => return opened,
        }
    }
}

impl Data {
    /// Records metrics of the store from now on: its calls and its own statistics.
    ///
    /// # Panics
    /// If `metrics` already has the statistics of an embedded store.
    pub fn measure(&mut self, metrics: &Metrics) {
        self.measure_calls(metrics);
        if let Backend::Embedded(store) = &self.backend {
            metrics.register_embedded(store);
        }
    }

    /// Records metrics of the calls of the store from now on, together with those of others.
    pub fn measure_calls(&mut self, metrics: &Metrics) {
        self.store = metrics.meter_store(Arc::clone(&self.store));
    }

    /// Returns the store itself, for its snapshots.
    #[must_use]
    pub fn backend(&self) -> &Backend {
        &self.backend
    }

    /// Opens the service over the store.
    ///
    /// # Errors
    /// [`DataError::Service`].
    pub async fn service(&self, env: Env, options: Options) -> Result<KnowledgeService, DataError> {
        KnowledgeService::open(Arc::clone(&self.store), env, options)
            .await
            .map_err(|source| DataError::Service {
                store: self.name.clone(),
                source,
            })
    }

    /// Returns the options of a service over the store: the key, the limits, and defaults.
    #[must_use]
    pub fn options(&self, limits: Limits) -> Options {
        let mut options = Options::new(self.sealing_key.clone());
        options.limits = limits;
        options
    }
}
