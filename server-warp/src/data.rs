//! Data directory: opened by one process at a time, together with the key that seals its secrets.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use knowledge_core::env::Env;
use knowledge_core::limits::Limits;
use knowledge_core::service::{KnowledgeService, OpenError, Options, SealingKey};
use knowledge_core::store::{MemoryStore, Store, StoreError};
use knowledge_storage_embedded::{
    CACHE_BYTES_DEFAULT, DirectoryLock, Embedded, FREE_BYTES_MIN_DEFAULT, StoreOptions,
    WRITE_TIME_MAX_DEFAULT, store_kind,
};
use knowledge_storage_fjall::FjallStore;
use knowledge_storage_sled::{Mode, SledSettings, SledStore};

use crate::backup::switch::{SwapPaths, SwitchError};
use crate::metrics::Metrics;
use crate::private_file;
use crate::sealing::{self, KeyFileError};
use crate::store_address::{Engine, StoreAddress};
use crate::system::system_env;

/// Default data directory.
pub const DATA_DIR_DEFAULT: &str = "./knowledge-data";

/// Maximum time for which a starting server waits for another process to release the directory.
pub const LOCK_WAIT_MAX: Duration = Duration::from_secs(5);
/// Time between two attempts to lock a directory that another process holds.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum number of attempts to lock a directory that a compaction keeps replacing.
const LOCK_ATTEMPTS_MAX: usize = 8;

/// Configuration of the store and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataConfig {
    /// Address of the store. Without one, the store in [`directory`](Self::directory) is used, with
    /// its engine; a new store uses sled.
    pub store: Option<StoreAddress>,
    /// Directory of the store if [`store`](Self::store) is not set; it must contain nothing else.
    pub directory: PathBuf,
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
    /// Value of
    /// [`accept_old_formats`](knowledge_storage_embedded::StoreOptions::accept_old_formats).
    pub accepts_old_formats: bool,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self {
            store: None,
            directory: DATA_DIR_DEFAULT.into(),
            sealing_key_file: None,
            cache_bytes: CACHE_BYTES_DEFAULT,
            free_bytes_min: FREE_BYTES_MIN_DEFAULT,
            write_timeout: WRITE_TIME_MAX_DEFAULT,
            mode: Mode::default(),
            verifies_entries: true,
            accepts_old_formats: false,
        }
    }
}

/// Error of opening the data.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// The directory contains no store, and none is to be created.
    #[error(
        "there is no store in {}; create one with `knowledge init` or `knowledge serve`",
        path.display()
    )]
    Missing {
        /// Path of the directory.
        path: PathBuf,
    },
    /// The path has no name to append a suffix to, such as `/`.
    #[error("{} cannot be a data directory", path.display())]
    Unnamed {
        /// The path.
        path: PathBuf,
    },
    /// The directory is inside that of another store.
    #[error(
        "{} is inside the store {}; choose a directory outside it",
        path.display(), outer.display()
    )]
    Nested {
        /// Path of the directory.
        path: PathBuf,
        /// Path of the other store's directory.
        outer: PathBuf,
    },
    /// A command cannot open a store in the memory of another process.
    #[error(
        "a store in memory exists only in the process of `knowledge serve` or `knowledge demo`; \
         use the server's admin socket"
    )]
    InMemory,
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] knowledge_storage_embedded::OpenError),
    /// The store was opened but cannot be read.
    #[error("the store cannot be read: {0}")]
    Read(#[from] StoreError),
    /// The store is being compacted, or an interrupted compaction cannot be recovered.
    #[error(transparent)]
    Switch(#[from] SwitchError),
    /// The sealing key cannot be read.
    #[error(transparent)]
    Key(#[from] KeyFileError),
    /// The service cannot use the store, for example because its sealing key is another one.
    #[error("{store}: {source}")]
    Service {
        /// Name of the store.
        store: String,
        /// The error of the service.
        source: OpenError,
    },
}

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

impl std::fmt::Debug for Data {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Data")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl DataConfig {
    /// Creates a configuration of a directory with its default key file and defaults for the rest.
    #[must_use]
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            ..Self::default()
        }
    }

    /// Creates a configuration of a store with its default key file and defaults for the rest.
    #[must_use]
    pub fn of(store: StoreAddress) -> Self {
        Self {
            store: Some(store),
            ..Self::default()
        }
    }

    /// Returns the directory of the store as configured; `None` for a store in memory.
    #[must_use]
    pub fn directory(&self) -> Option<&Path> {
        match &self.store {
            Some(address) => address.directory(),
            None => Some(&self.directory),
        }
    }

    /// Returns the store as configured, for messages.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.store {
            Some(address) => address.to_string(),
            None => self.directory.display().to_string(),
        }
    }

    /// Returns the path of a sibling of the directory: its name with `suffix` appended.
    ///
    /// # Errors
    /// [`DataError::InMemory`], [`DataError::Unnamed`].
    pub fn beside(&self, suffix: &str) -> Result<PathBuf, DataError> {
        Ok(private_file::with_suffix(&self.path()?, suffix))
    }

    /// Opens the store, and creates it if the directory is missing or empty.
    ///
    /// # Errors
    /// See [`DataError`], except for [`DataError::Missing`] and [`DataError::Service`].
    pub async fn open(&self) -> Result<Data, DataError> {
        let backend = match self.store {
            Some(StoreAddress::Memory) => Backend::Memory(Arc::default()),
            _ => Backend::Embedded(self.make_store()?),
        };
        let store = backend.store();
        let sealing_key = self.key(&store).await?;
        Ok(Data {
            store,
            sealing_key,
            backend,
            name: self.name(),
        })
    }

    /// Opens the store like [`open`](Self::open), but waits for another process to release it.
    ///
    /// It waits up to [`LOCK_WAIT_MAX`] for a command or the previous server.
    ///
    /// # Errors
    /// Those of [`DataConfig::open`].
    pub async fn open_when_free(&self) -> Result<Data, DataError> {
        let deadline = Instant::now() + LOCK_WAIT_MAX;
        let mut is_logged = false;
        loop {
            match self.open().await {
                Err(
                    held @ DataError::Store(knowledge_storage_embedded::OpenError::InUse { .. }),
                ) if Instant::now() < deadline => {
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

    /// Opens an existing store.
    ///
    /// # Errors
    /// See [`DataError`], except for [`DataError::Service`].
    pub async fn open_existing(&self) -> Result<Data, DataError> {
        self.require_store()?;
        self.open().await
    }

    /// Opens an existing store without its key, to read its entries rather than to serve them.
    ///
    /// # Errors
    /// [`DataError::Missing`], [`DataError::InMemory`], [`DataError::Unnamed`],
    /// [`DataError::Store`], [`DataError::Switch`].
    pub fn open_store(&self) -> Result<Arc<dyn Embedded>, DataError> {
        self.require_store()?;
        self.make_store()
    }

    /// Opens the store without its key, and creates it if the directory is missing or empty.
    ///
    /// # Errors
    /// [`DataError::InMemory`], [`DataError::Unnamed`], [`DataError::Store`],
    /// [`DataError::Switch`].
    pub fn make_store(&self) -> Result<Arc<dyn Embedded>, DataError> {
        let path = self.path()?;
        let lock = lock(&path)?;
        // Detected under the lock, so that the engine is that of the store that is opened.
        Ok(open_store(self.engine_at(&path)?, lock, self)?)
    }

    /// Returns the resolved directory, so that two names of one directory give the same path.
    ///
    /// # Errors
    /// [`DataError::InMemory`], [`DataError::Unnamed`].
    pub fn path(&self) -> Result<PathBuf, DataError> {
        resolved(self.directory().ok_or(DataError::InMemory)?)
    }

    /// Returns this configuration with the store's resolved path and engine.
    ///
    /// Later changes of a symlink have no effect on it. Background verification is off: for
    /// commands that verify the store first.
    ///
    /// # Errors
    /// Those of [`DataConfig::engine`].
    pub fn resolved(&self) -> Result<Self, DataError> {
        let (path, engine) = (self.path()?, self.engine()?);
        Ok(Self {
            store: Some(StoreAddress::Directory { engine, path }),
            verifies_entries: false,
            ..self.clone()
        })
    }

    /// Returns the engine of the store, or the default for a new one.
    ///
    /// # Errors
    /// [`DataError::InMemory`], [`DataError::Unnamed`], [`DataError::Store`].
    pub fn engine(&self) -> Result<Engine, DataError> {
        self.engine_at(&self.path()?)
    }

    fn engine_at(&self, path: &Path) -> Result<Engine, DataError> {
        match &self.store {
            Some(StoreAddress::Directory { engine, .. }) => Ok(*engine),
            Some(StoreAddress::Memory) => Err(DataError::InMemory),
            None => Ok(Engine::of_directory(path)?.unwrap_or_default()),
        }
    }

    /// Returns the path of the sealing key file, which need not exist.
    ///
    /// # Errors
    /// [`DataError::InMemory`] for a store in memory without a key file, [`DataError::Unnamed`].
    pub fn sealing_key_path(&self) -> Result<PathBuf, DataError> {
        match &self.sealing_key_file {
            Some(file) => Ok(file.clone()),
            None => Ok(sealing::default_path(&self.path()?)),
        }
    }

    fn require_store(&self) -> Result<(), DataError> {
        let path = self.path()?;
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
            return Ok(sealing::read(file)?);
        }
        if self.directory().is_none() {
            return Ok(SealingKey::generate(&system_env()));
        }
        let file = sealing::default_path(&self.path()?);
        let is_new = KnowledgeService::is_new(store.as_ref()).await?;
        Ok(if is_new {
            sealing::read_or_create(&file, &system_env())?
        } else {
            sealing::read(&file)?
        })
    }
}

/// Locks a directory without an interrupted or running compaction.
///
/// An interrupted one is completed or rolled back. This is checked before and again under the lock,
/// because a compaction may have begun in between.
fn lock(path: &Path) -> Result<DirectoryLock, DataError> {
    let paths = SwapPaths::of(path);
    for _ in 0..LOCK_ATTEMPTS_MAX {
        paths.recover()?;
        let lock = DirectoryLock::acquire(path)?;
        if paths.is_idle()? {
            return Ok(lock);
        }
        lock.abandon();
    }
    paths.recover()?;
    Err(SwitchError::InProgress {
        path: path.to_owned(),
    }
    .into())
}

impl Data {
    /// Records metrics of the store from now on: its calls and its own statistics. At most once per
    /// `metrics`.
    pub fn measure(&mut self, metrics: &Metrics) {
        self.store = metrics.meter_store(Arc::clone(&self.store));
        if let Backend::Embedded(store) = &self.backend {
            metrics.register_embedded(store);
        }
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
        Options {
            limits,
            ..Options::new(self.sealing_key.clone())
        }
    }
}

/// Maximum number of symlinks on the way to a directory that does not exist.
const LINKS_MAX: usize = 16;

/// Resolves a directory to its path without symlinks. The part of the path that exists is resolved,
/// and a link to a missing directory is followed, because a compaction may be between its two
/// renames.
fn resolved(directory: &Path) -> Result<PathBuf, DataError> {
    let unnamed = || DataError::Unnamed {
        path: directory.to_owned(),
    };
    let (mut missing, mut links) = (Vec::new(), 0);
    let mut existing = directory.to_owned();
    loop {
        if existing.as_os_str().is_empty() {
            existing.push(".");
        }
        if let Ok(mut path) = existing.canonicalize() {
            path.extend(missing.iter().rev());
            reject_nested(&path)?;
            return path
                .file_name()
                .is_some()
                .then_some(path)
                .ok_or_else(unnamed);
        }
        let parent = existing.parent().ok_or_else(unnamed)?.to_owned();
        match fs::read_link(&existing) {
            Ok(_) if links == LINKS_MAX => return Err(unnamed()),
            Ok(target) => {
                links += 1;
                existing = parent.join(target);
            }
            Err(_) => {
                missing.push(existing.file_name().ok_or_else(unnamed)?.to_owned());
                existing = parent;
            }
        }
    }
}

/// Rejects a store inside the directory of another one, with which it would be lost.
fn reject_nested(path: &Path) -> Result<(), DataError> {
    let outer = path.ancestors().skip(1);
    for outer in outer {
        if matches!(store_kind(outer), Ok(Some(_))) {
            return Err(DataError::Nested {
                path: path.to_owned(),
                outer: outer.to_owned(),
            });
        }
    }
    Ok(())
}

fn is_missing_or_empty(directory: &Path) -> bool {
    match fs::read_dir(directory) {
        Ok(mut entries) => entries.next().is_none(),
        // Other errors are reported by opening the store.
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Opens the store of an engine in a directory, or creates one if it is empty.
pub(crate) fn open_store(
    engine: Engine,
    lock: DirectoryLock,
    config: &DataConfig,
) -> Result<Arc<dyn Embedded>, knowledge_storage_embedded::OpenError> {
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

#[cfg(test)]
mod tests;
