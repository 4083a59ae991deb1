//! The directory with the data: opened by one process at a time, together with the key that seals its secrets.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use knowledge_core::env::Env;
use knowledge_core::limits::Limits;
use knowledge_core::service::{KnowledgeService, OpenError, Options, SealingKey};
use knowledge_core::internals::keys;
use knowledge_core::store::{MemoryStore, Store, StoreError, StoreExt};
use knowledge_storage_embedded::{
    CACHE_BYTES_DEFAULT, DirectoryLock, Embedded, FREE_BYTES_MIN_DEFAULT, WRITE_TIME_MAX_DEFAULT,
    store_kind,
};
use knowledge_storage_sled::Mode;

use crate::backup::switch::{Places, SwitchError};
use crate::metrics::Metrics;
use crate::private_file;
use crate::sealing::{self, KeyFileError};
use crate::store_address::{Engine, StoreAddress};
use crate::system::system_env;

/// Where the data is when nothing else is said.
pub const DATA_DIR_DEFAULT: &str = "./knowledge-data";

/// How long a server waits at its start for whoever has the directory.
pub const HELD_WAIT_MAX: Duration = Duration::from_secs(5);
/// Time between two looks at a directory that another process has.
const HELD_INTERVAL: Duration = Duration::from_millis(100);

/// The most attempts to lock a directory that a compaction replaces meanwhile.
const LOCK_ATTEMPTS_MAX: usize = 8;

/// The store, its key, and the way it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataConfig {
    /// The store. Without it, the one in [`directory`](Self::directory), of whichever engine; a new one is sled's.
    pub store: Option<StoreAddress>,
    /// The directory of the store, if [`store`](Self::store) does not tell; it belongs to the store alone.
    pub directory: PathBuf,
    /// The file of the sealing key. Without one it is [`sealing::default_path`], and made when the store is.
    pub sealing_key_file: Option<PathBuf>,
    /// See [`StoreOptions::cache_bytes`](knowledge_storage_embedded::StoreOptions::cache_bytes).
    pub cache_bytes: u64,
    /// See [`StoreOptions::free_bytes_min`](knowledge_storage_embedded::StoreOptions::free_bytes_min).
    pub free_bytes_min: u64,
    /// See [`StoreOptions::write_time_max`](knowledge_storage_embedded::StoreOptions::write_time_max).
    pub write_timeout: Duration,
    /// The balance of speed and space in sled.
    pub mode: Mode,
    /// See [`StoreOptions::verify_entries`](knowledge_storage_embedded::StoreOptions::verify_entries).
    pub verifies_entries: bool,
    /// See [`StoreOptions::accept_old_formats`](knowledge_storage_embedded::StoreOptions::accept_old_formats).
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

/// Why the data cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// There is no store in the directory, and none was to be made.
    #[error(
        "there is no store in {}: `knowledge init` makes one, `knowledge serve` too",
        path.display()
    )]
    Missing {
        /// The directory.
        path: PathBuf,
    },
    /// The path names no directory that could have a file beside it, such as `/`.
    #[error("{} cannot be a data directory", path.display())]
    Unnamed {
        /// The path.
        path: PathBuf,
    },
    /// The directory is inside that of another store.
    #[error("{} is inside the store {}: choose a directory of its own", path.display(), outer.display())]
    Nested {
        /// The directory.
        path: PathBuf,
        /// The directory of the other store.
        outer: PathBuf,
    },
    /// A command was to open a store in memory, which nobody but its own process has.
    #[error(
        "a store in memory goes with its process: `knowledge serve` and `knowledge demo` can have one, and commands reach it \
         over the server's admin socket"
    )]
    InMemory,
    /// The store does not open.
    #[error(transparent)]
    Store(#[from] knowledge_storage_embedded::OpenError),
    /// The store opens and cannot be read.
    #[error("the store cannot be read: {0}")]
    Read(#[from] StoreError),
    /// The store is being compacted, or what an interrupted compaction left cannot be settled.
    #[error(transparent)]
    Switch(#[from] SwitchError),
    /// There is no sealing key.
    #[error(transparent)]
    Key(#[from] KeyFileError),
    /// The service does not take the store, for example because of another sealing key.
    #[error("{store}: {source}")]
    Service {
        /// The store.
        store: String,
        /// Why.
        source: OpenError,
    },
}

/// An open store.
#[derive(Clone)]
pub enum Backend {
    /// In a directory.
    Embedded(Arc<dyn Embedded>),
    /// In the memory of this process.
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
    /// The store itself.
    #[must_use]
    pub fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::Embedded(store) => Arc::<dyn Embedded>::clone(store),
            Self::Memory(store) => Arc::<MemoryStore>::clone(store),
        }
    }

    /// The present state, which stays readable while others write. Old values kept for it take at most `bytes_max` bytes,
    /// see [`Embedded::snapshot`].
    #[must_use]
    pub fn snapshot(&self, bytes_max: usize) -> Arc<dyn Store> {
        match self {
            Self::Embedded(store) => Arc::clone(store).snapshot(bytes_max),
            Self::Memory(store) => Arc::new(store.snapshot()),
        }
    }

    /// The number of entries.
    #[must_use]
    pub fn entries(&self) -> u64 {
        match self {
            Self::Embedded(store) => store.entries(),
            Self::Memory(store) => store.len() as u64,
        }
    }
}

/// An open store and its key.
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
    /// A directory, the key beside it, and everything else at its default.
    #[must_use]
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            ..Self::default()
        }
    }

    /// The store at this address, the key beside it, and everything else at its default.
    #[must_use]
    pub fn of(store: StoreAddress) -> Self {
        Self {
            store: Some(store),
            ..Self::default()
        }
    }

    /// The directory of the store as it was given; `None` for a store in memory.
    #[must_use]
    pub fn directory(&self) -> Option<&Path> {
        match &self.store {
            Some(address) => address.directory(),
            None => Some(&self.directory),
        }
    }

    /// The store as it was given, for messages.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.store {
            Some(address) => address.to_string(),
            None => self.directory.display().to_string(),
        }
    }

    /// The path beside the directory that has its name with `suffix` behind it.
    ///
    /// # Errors
    /// [`DataError::InMemory`], [`DataError::Unnamed`].
    pub fn beside(&self, suffix: &str) -> Result<PathBuf, DataError> {
        Ok(private_file::with_suffix(&self.path()?, suffix))
    }

    /// Opens the store, and creates it if the directory is missing or empty.
    ///
    /// # Errors
    /// [`DataError`], one by one, but for [`DataError::Missing`] and [`DataError::Service`].
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

    /// The same for a server, which may start while another process still has the directory: a command, or the server
    /// before it. That process is waited for, up to [`HELD_WAIT_MAX`].
    ///
    /// # Errors
    /// As [`DataConfig::open`].
    pub async fn open_when_free(&self) -> Result<Data, DataError> {
        let deadline = Instant::now() + HELD_WAIT_MAX;
        let mut is_told = false;
        loop {
            match self.open().await {
                Err(
                    held @ DataError::Store(knowledge_storage_embedded::OpenError::InUse { .. }),
                ) if Instant::now() < deadline => {
                    if !is_told {
                        tracing::info!("waiting: {held}");
                        is_told = true;
                    }
                    tokio::time::sleep(HELD_INTERVAL).await;
                }
                opened => return opened,
            }
        }
    }

    /// Opens an existing store.
    ///
    /// # Errors
    /// [`DataError`], one by one, but for [`DataError::Service`].
    pub async fn open_existing(&self) -> Result<Data, DataError> {
        self.refuse_missing()?;
        self.open().await
    }

    /// Opens an existing store without its key: to look at the entries, not to serve them.
    ///
    /// # Errors
    /// [`DataError::Missing`], [`DataError::InMemory`], [`DataError::Unnamed`], [`DataError::Store`],
    /// [`DataError::Switch`].
    pub fn open_store(&self) -> Result<Arc<dyn Embedded>, DataError> {
        self.refuse_missing()?;
        self.make_store()
    }

    /// Opens the store without its key, and creates it if the directory is missing or empty.
    ///
    /// # Errors
    /// [`DataError::InMemory`], [`DataError::Unnamed`], [`DataError::Store`], [`DataError::Switch`].
    pub fn make_store(&self) -> Result<Arc<dyn Embedded>, DataError> {
        let path = self.path()?;
        let lock = lock(&path)?;
        // Asked under the lock: only then is the store that is found the one that is opened.
        Ok(self.engine_at(&path)?.open(lock, self)?)
    }

    /// The directory, resolved: two names of one directory give the same path.
    ///
    /// # Errors
    /// [`DataError::InMemory`], [`DataError::Unnamed`].
    pub fn path(&self) -> Result<PathBuf, DataError> {
        resolved(self.directory().ok_or(DataError::InMemory)?)
    }

    /// The same configuration with the store's resolved path and engine, so that a link which is changed meanwhile leads
    /// nobody elsewhere. The entries are not checked in the background: for commands that check them first.
    ///
    /// # Errors
    /// As [`DataConfig::engine`].
    pub fn resolved(&self) -> Result<Self, DataError> {
        let (path, engine) = (self.path()?, self.engine()?);
        Ok(Self {
            store: Some(StoreAddress::Directory { engine, path }),
            verifies_entries: false,
            ..self.clone()
        })
    }

    /// The engine of the store, or that of a new one.
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

    /// The place of the sealing key, whether it is there or not.
    ///
    /// # Errors
    /// [`DataError::InMemory`] for a store in memory whose key is in memory too, [`DataError::Unnamed`].
    pub fn sealing_key_path(&self) -> Result<PathBuf, DataError> {
        match &self.sealing_key_file {
            Some(file) => Ok(file.clone()),
            None => Ok(sealing::default_path(&self.path()?)),
        }
    }

    fn refuse_missing(&self) -> Result<(), DataError> {
        let path = self.path()?;
        Places::of(&path).settle()?;
        if is_missing_or_empty(&path) {
            return Err(DataError::Missing {
                path: self.directory().unwrap_or(&path).to_owned(),
            });
        }
        Ok(())
    }

    /// The key. A new one is made only if nothing can be sealed yet: never beside a store whose key is missing.
    async fn key(&self, store: &Arc<dyn Store>) -> Result<SealingKey, DataError> {
        if let Some(file) = &self.sealing_key_file {
            return Ok(sealing::read(file)?);
        }
        if self.directory().is_none() {
            return Ok(SealingKey::generate(&system_env()));
        }
        let file = sealing::default_path(&self.path()?);
        let is_new = store
            .get(&[keys::meta()])
            .await?
            .iter()
            .all(Option::is_none);
        Ok(if is_new {
            sealing::read_or_make(&file, &system_env())?
        } else {
            sealing::read(&file)?
        })
    }
}

/// Locks a directory that is ready to be opened: a compaction that was interrupted is finished or undone, and none is
/// under way. That is settled before the lock is taken, and again under it, because a compaction may have begun meanwhile.
fn lock(path: &Path) -> Result<DirectoryLock, DataError> {
    let places = Places::of(path);
    for _ in 0..LOCK_ATTEMPTS_MAX {
        places.settle()?;
        let lock = DirectoryLock::acquire(path)?;
        if places.is_settled()? {
            return Ok(lock);
        }
        lock.abandon();
    }
    places.settle()?;
    Err(SwitchError::UnderWay {
        path: path.to_owned(),
    }
    .into())
}

impl Data {
    /// Measures the store from here on: its calls, and its own statistics. Once for these metrics.
    pub fn measure(&mut self, metrics: &Metrics) {
        self.store = metrics.meter_store(Arc::clone(&self.store));
        if let Backend::Embedded(store) = &self.backend {
            metrics.show_embedded(store);
        }
    }

    /// The store itself, for its snapshots.
    #[must_use]
    pub fn backend(&self) -> &Backend {
        &self.backend
    }

    /// The service over the store.
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

    /// The options of a service over the store: the key, the limits, and defaults.
    #[must_use]
    pub fn options(&self, limits: Limits) -> Options {
        Options {
            limits,
            ..Options::new(self.sealing_key.clone())
        }
    }
}

/// The most links on the way to a directory that is not there.
const LINKS_MAX: usize = 16;

/// The directory under its own name, without links: the part of the path that exists is resolved, and a link that leads
/// to a missing directory is followed, because a compaction may be between two renames of it.
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
            refuse_nested(&path)?;
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

/// A store inside the directory of another one would be lost with it.
fn refuse_nested(path: &Path) -> Result<(), DataError> {
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
        // Whatever else is wrong, opening says it better.
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_names_of_a_directory_are_one_path() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().canonicalize().unwrap();
        fs::create_dir(root.join("data")).unwrap();
        let resolved_of = |path: &Path| resolved(path).unwrap();
        assert_eq!(resolved_of(&root.join("data/")), root.join("data"));
        assert_eq!(resolved_of(&root.join("data/../data")), root.join("data"));
        assert_eq!(resolved_of(&root.join("new/deep")), root.join("new/deep"));
        let here = std::env::current_dir().unwrap().canonicalize().unwrap();
        assert_eq!(resolved_of(Path::new(".")), here);
        assert_eq!(resolved_of(Path::new("new")), here.join("new"));
        assert!(matches!(
            resolved(Path::new("/")),
            Err(DataError::Unnamed { .. })
        ));
        #[cfg(unix)]
        {
            use std::os::unix::fs::symlink;

            symlink("data", root.join("link")).unwrap();
            assert_eq!(resolved_of(&root.join("link")), root.join("data"));
            symlink("nowhere", root.join("broken")).unwrap();
            assert_eq!(resolved_of(&root.join("broken")), root.join("nowhere"));
            symlink("endless", root.join("endless")).unwrap();
            assert!(resolved(&root.join("endless")).is_err());
        }
    }
}
