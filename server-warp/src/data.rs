//! The directory with the data: opened by one process at a time, together with the key that seals its secrets.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use knowledge_core::env::Env;
use knowledge_core::limits::Limits;
use knowledge_core::service::{KnowledgeService, OpenError, Options, SealingKey};
use knowledge_core::store::{Store, StoreError, keys};
use knowledge_storage_sled::{
    CACHE_CAPACITY_BYTES_DEFAULT, FREE_BYTES_MIN_DEFAULT, Mode, SledOptions, SledStore,
    WRITE_TIME_MAX_DEFAULT,
};

use crate::backup::switch::{Places, SwitchError};
use crate::metrics::Metrics;
use crate::private_file;
use crate::sealing::{self, KeyFileError};
use crate::system::system_env;

/// Where the data is when nothing else is said.
pub const DATA_DIR_DEFAULT: &str = "./knowledge-data";

/// How long a server waits at its start for whoever has the directory.
pub const HELD_WAIT_MAX: Duration = Duration::from_secs(5);
/// Time between two looks at a directory that another process has.
const HELD_INTERVAL: Duration = Duration::from_millis(100);

/// Which store, which key, and how the store is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataConfig {
    /// The directory of the store; it belongs to the store alone.
    pub directory: PathBuf,
    /// The file of the sealing key. Without one it is [`sealing::default_path`], and made when the store is.
    pub sealing_key_file: Option<PathBuf>,
    /// See [`SledOptions::cache_capacity_bytes`].
    pub cache_bytes: u64,
    /// See [`SledOptions::free_bytes_min`].
    pub free_bytes_min: u64,
    /// See [`SledOptions::write_time_max`].
    pub write_timeout: Duration,
    /// See [`SledOptions::mode`].
    pub mode: Mode,
    /// See [`SledOptions::verify_entries`].
    pub verifies_entries: bool,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self {
            directory: DATA_DIR_DEFAULT.into(),
            sealing_key_file: None,
            cache_bytes: CACHE_CAPACITY_BYTES_DEFAULT,
            free_bytes_min: FREE_BYTES_MIN_DEFAULT,
            write_timeout: WRITE_TIME_MAX_DEFAULT,
            mode: Mode::default(),
            verifies_entries: true,
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
    /// The store does not open.
    #[error(transparent)]
    Store(#[from] knowledge_storage_sled::OpenError),
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
    #[error("{}: {source}", path.display())]
    Service {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: OpenError,
    },
}

/// An open store and its key.
pub struct Data {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The key.
    pub sealing_key: SealingKey,
    /// The same store as `store`, known as what it is.
    sled: Arc<SledStore>,
    path: PathBuf,
}

impl std::fmt::Debug for Data {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Data")
            .field("path", &self.path)
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

    /// How the store is opened.
    #[must_use]
    pub fn store_options(&self) -> SledOptions {
        SledOptions::default()
            .cache_capacity_bytes(self.cache_bytes)
            .free_bytes_min(self.free_bytes_min)
            .write_time_max(self.write_timeout)
            .mode(self.mode)
            .verify_entries(self.verifies_entries)
    }

    /// The path beside the directory that has its name with `suffix` behind it.
    ///
    /// # Errors
    /// [`DataError::Unnamed`].
    pub fn beside(&self, suffix: &str) -> Result<PathBuf, DataError> {
        Ok(private_file::with_suffix(&named(&self.directory)?, suffix))
    }

    /// Opens the store, and makes it where the directory is missing or empty. Blocks until all is verified.
    ///
    /// # Errors
    /// [`DataError`], one by one, but for [`DataError::Missing`] and [`DataError::Service`].
    pub async fn open(&self) -> Result<Data, DataError> {
        let path = self.enter()?;
        let sled = Arc::new(SledStore::open(&path, self.store_options())?);
        let store: Arc<dyn Store> = sled.clone();
        let sealing_key = self.key(&path, &store).await?;
        Ok(Data {
            store,
            sealing_key,
            sled,
            path: self.directory.clone(),
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
                Err(held @ DataError::Store(knowledge_storage_sled::OpenError::InUse { .. }))
                    if Instant::now() < deadline =>
                {
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

    /// Opens the store that is there.
    ///
    /// # Errors
    /// [`DataError`], one by one, but for [`DataError::Service`].
    pub async fn open_existing(&self) -> Result<Data, DataError> {
        self.refuse_missing()?;
        self.open().await
    }

    /// Opens the store that is there, without its key: for what looks at the entries and does not serve them.
    ///
    /// # Errors
    /// [`DataError::Missing`], [`DataError::Unnamed`], [`DataError::Store`], [`DataError::Switch`].
    pub fn open_store(&self) -> Result<Arc<SledStore>, DataError> {
        self.refuse_missing()?;
        self.make_store()
    }

    /// Opens the store without its key, and makes it where the directory is missing or empty.
    ///
    /// # Errors
    /// [`DataError::Unnamed`], [`DataError::Store`], [`DataError::Switch`].
    pub fn make_store(&self) -> Result<Arc<SledStore>, DataError> {
        let path = self.enter()?;
        Ok(Arc::new(SledStore::open(path, self.store_options())?))
    }

    /// The directory, under a name of its own.
    ///
    /// # Errors
    /// [`DataError::Unnamed`].
    pub fn path(&self) -> Result<PathBuf, DataError> {
        named(&self.directory)
    }

    /// Where the sealing key is, or has to be put.
    ///
    /// # Errors
    /// [`DataError::Unnamed`].
    pub fn sealing_key_path(&self) -> Result<PathBuf, DataError> {
        match &self.sealing_key_file {
            Some(file) => Ok(file.clone()),
            None => Ok(sealing::default_path(&self.path()?)),
        }
    }

    /// The directory, ready to be opened: a compaction that was interrupted is finished or undone.
    fn enter(&self) -> Result<PathBuf, DataError> {
        let path = self.path()?;
        Places::of(&path).settle()?;
        Ok(path)
    }

    fn refuse_missing(&self) -> Result<(), DataError> {
        self.enter()?;
        if is_missing_or_empty(&self.directory) {
            return Err(DataError::Missing {
                path: self.directory.clone(),
            });
        }
        Ok(())
    }

    /// The key. One is made where nothing can be sealed yet: never beside a store whose key is only not there.
    async fn key(&self, path: &Path, store: &Arc<dyn Store>) -> Result<SealingKey, DataError> {
        if let Some(file) = &self.sealing_key_file {
            return Ok(sealing::read(file)?);
        }
        let file = sealing::default_path(path);
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

impl Data {
    /// Counts from here on what the store does: its calls, and what it tells of itself. Once for these metrics.
    pub fn measure(&mut self, metrics: &Metrics) {
        self.store = metrics.meter_store(Arc::clone(&self.store));
        metrics.show_sled(&self.sled);
    }

    /// The store as what it is, for its snapshots.
    #[must_use]
    pub fn sled(&self) -> &Arc<SledStore> {
        &self.sled
    }

    /// The service over the store.
    ///
    /// # Errors
    /// [`DataError::Service`].
    pub async fn service(&self, env: Env, options: Options) -> Result<KnowledgeService, DataError> {
        KnowledgeService::open(Arc::clone(&self.store), env, options)
            .await
            .map_err(|source| DataError::Service {
                path: self.path.clone(),
                source,
            })
    }

    /// What a service over the store is opened with: the key, and everything else at its default but the limits.
    #[must_use]
    pub fn options(&self, limits: Limits) -> Options {
        Options {
            limits,
            ..Options::new(self.sealing_key.clone())
        }
    }
}

/// The directory under a name of its own, so that a file can stand beside it: `.` and `..` are resolved.
fn named(directory: &Path) -> Result<PathBuf, DataError> {
    let unnamed = || DataError::Unnamed {
        path: directory.to_owned(),
    };
    if directory.file_name().is_some() {
        return Ok(directory.to_owned());
    }
    let resolved = directory.canonicalize().map_err(|_| unnamed())?;
    resolved.file_name().ok_or_else(unnamed)?;
    Ok(resolved)
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
    fn a_directory_has_a_name() {
        assert_eq!(named(Path::new("data/")).unwrap(), Path::new("data/"));
        let here = std::env::current_dir().unwrap();
        assert_eq!(named(Path::new(".")).unwrap().file_name(), here.file_name());
        assert!(matches!(
            named(Path::new("/")),
            Err(DataError::Unnamed { .. })
        ));
    }
}
