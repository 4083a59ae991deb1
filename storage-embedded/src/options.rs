//! Options of an embedded store.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The default size of the engine's cache, in bytes.
pub const CACHE_BYTES_DEFAULT: u64 = 256 * 1024 * 1024;

/// The default space that stays free on the file system, in bytes.
pub const FREE_BYTES_MIN_DEFAULT: u64 = 64 * 1024 * 1024;

/// The default time for one group of commits to reach the disk.
pub const WRITE_TIME_MAX_DEFAULT: Duration = Duration::from_secs(60);

pub(crate) type SyncHook = Arc<dyn Fn() -> io::Result<()> + Send + Sync>;
pub(crate) type FreeBytesFn = Arc<dyn Fn(&Path) -> io::Result<u64> + Send + Sync>;

/// Options of an embedded store; `S` are the settings of its engine.
#[derive(Clone)]
pub struct StoreOptions<S> {
    pub(crate) cache_bytes: u64,
    pub(crate) free_bytes_min: u64,
    pub(crate) write_time_max: Duration,
    pub(crate) verifies_entries: bool,
    pub(crate) accepts_old_formats: bool,
    pub(crate) sync_hook: SyncHook,
    pub(crate) free_bytes: FreeBytesFn,
    pub(crate) engine: S,
}

/// The part of the options that an engine needs to open.
#[derive(Clone, Debug)]
pub struct EngineOptions<S> {
    /// The size of the cache, in bytes.
    pub cache_bytes: u64,
    /// The number of the layout in the directory.
    pub format: u64,
    /// The engine's own settings.
    pub settings: S,
}

impl<S: Default> Default for StoreOptions<S> {
    fn default() -> Self {
        Self {
            cache_bytes: CACHE_BYTES_DEFAULT,
            free_bytes_min: FREE_BYTES_MIN_DEFAULT,
            write_time_max: WRITE_TIME_MAX_DEFAULT,
            verifies_entries: true,
            accepts_old_formats: false,
            sync_hook: Arc::new(|| Ok(())),
            free_bytes: Arc::new(|path| fs4::available_space(path)),
            engine: S::default(),
        }
    }
}

impl<S: fmt::Debug> fmt::Debug for StoreOptions<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreOptions")
            .field("cache_bytes", &self.cache_bytes)
            .field("free_bytes_min", &self.free_bytes_min)
            .field("write_time_max", &self.write_time_max)
            .field("verifies_entries", &self.verifies_entries)
            .field("accepts_old_formats", &self.accepts_old_formats)
            .field("engine", &self.engine)
            .finish_non_exhaustive()
    }
}

impl<S> StoreOptions<S> {
    /// Sets the size of the engine's cache in bytes; 256 MiB by default. See the engine's crate for the memory that the
    /// process needs.
    #[must_use]
    pub fn cache_bytes(mut self, bytes: u64) -> Self {
        self.cache_bytes = bytes;
        self
    }

    /// Sets the settings of the engine itself.
    #[must_use]
    pub fn engine(mut self, settings: S) -> Self {
        self.engine = settings;
        self
    }

    /// Sets whether a store that was not closed cleanly is checked entry by entry, in the background, once it is open; it
    /// is by default. Damage that the check finds closes the store. Without it, damage is found when an entry is
    /// read, or by [`Embedded::check`](crate::Embedded::check).
    #[must_use]
    pub fn verify_entries(mut self, verifies: bool) -> Self {
        self.verifies_entries = verifies;
        self
    }

    /// Sets whether a store of an older format is opened, to be copied; it is refused by default, because an old format may
    /// not keep what this crate promises.
    #[must_use]
    pub fn accept_old_formats(mut self, accepts: bool) -> Self {
        self.accepts_old_formats = accepts;
        self
    }

    /// Sets the space that stays free on the file system, in bytes; 64 MiB by default. With less, commits are refused
    /// as `Full` and nothing of them is applied; reads go on. It keeps the engine from meeting a full disk: below the
    /// size of two groups, 32 MiB, that is no longer certain.
    #[must_use]
    pub fn free_bytes_min(mut self, bytes: u64) -> Self {
        self.free_bytes_min = bytes;
        self
    }

    /// Sets the time for one group of commits to reach the disk; one minute by default. After an error of the device an
    /// engine may wait for ever. The next call after this time finds that, and closes the store as after any failed
    /// write.
    #[must_use]
    pub fn write_time_max(mut self, time: Duration) -> Self {
        self.write_time_max = time;
        self
    }

    /// Sets a hook that is called on the commit thread, once per group, after the group was handed to the engine and
    /// before it is synced; an error stands for a failed sync. For tests of what happens meanwhile and afterwards.
    #[must_use]
    pub fn sync_hook(mut self, hook: impl Fn() -> io::Result<()> + Send + Sync + 'static) -> Self {
        self.sync_hook = Arc::new(hook);
        self
    }

    /// Replaces the function that tells the free bytes on the file system of a path, for tests of a disk that fills up.
    /// Called once per group of commits, on the commit thread, and for the statistics.
    #[must_use]
    pub fn free_bytes_with(
        mut self,
        free_bytes: impl Fn(&Path) -> io::Result<u64> + Send + Sync + 'static,
    ) -> Self {
        self.free_bytes = Arc::new(free_bytes);
        self
    }
}
