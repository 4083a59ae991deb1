//! Options of an embedded store.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Default size of the caches, in bytes.
pub const CACHE_BYTES_DEFAULT: u64 = 256 * 1024 * 1024;

/// Default minimum of free space on the file system, in bytes.
pub const FREE_BYTES_MIN_DEFAULT: u64 = 64 * 1024 * 1024;

/// Default time limit for making one group of commits durable.
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
    pub(crate) sync_hook: SyncHook,
    pub(crate) free_bytes: FreeBytesFn,
    pub(crate) engine: S,
}

/// Options for opening an engine.
#[derive(Clone, Debug)]
pub struct EngineOptions<S> {
    /// Size of the engine's cache, in bytes.
    pub cache_bytes: u64,
    /// Engine-specific settings.
    pub settings: S,
}

impl<S: Default> Default for StoreOptions<S> {
    fn default() -> Self {
        Self {
            cache_bytes: CACHE_BYTES_DEFAULT,
            free_bytes_min: FREE_BYTES_MIN_DEFAULT,
            write_time_max: WRITE_TIME_MAX_DEFAULT,
            verifies_entries: true,
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
            .field("engine", &self.engine)
            .finish_non_exhaustive()
    }
}

impl<S> StoreOptions<S> {
    /// Sets the size of the caches in bytes; 256 MiB by default.
    ///
    /// An eighth is for single entries of up to 4 KiB, the rest for the engine.
    /// See the engine's crate for the memory that the process needs.
    #[must_use]
    pub fn cache_bytes(mut self, bytes: u64) -> Self {
        self.cache_bytes = bytes;
        self
    }

    /// Sets the engine-specific settings.
    #[must_use]
    pub fn engine(mut self, settings: S) -> Self {
        self.engine = settings;
        self
    }

    /// Enables the background check of a store that was not closed cleanly; enabled by default.
    ///
    /// The check reads every entry after the store has opened, and closes the store if it finds
    /// corruption. Without it, corruption is found when an entry is read, or by
    /// [`Embedded::check`](crate::Embedded::check).
    #[must_use]
    pub fn verify_entries(mut self, verifies: bool) -> Self {
        self.verifies_entries = verifies;
        self
    }

    /// Sets the minimum of free space on the file system, in bytes; 64 MiB by default.
    ///
    /// With less free space, commits are rejected as `Full` without any effect, and reads continue.
    /// The minimum keeps the engine from filling the disk; below the size of two groups, 32 MiB, it
    /// may not.
    #[must_use]
    pub fn free_bytes_min(mut self, bytes: u64) -> Self {
        self.free_bytes_min = bytes;
        self
    }

    /// Sets the time limit for making one group of commits durable; one minute by default.
    ///
    /// After a device error an engine may block for ever. The first call after the time limit
    /// detects this and closes the store, as after any failed write.
    #[must_use]
    pub fn write_time_max(mut self, time: Duration) -> Self {
        self.write_time_max = time;
        self
    }

    /// Sets a hook for tests that simulate slow and failing syncs.
    ///
    /// The commit thread calls it once per group, after the group was applied and before it is
    /// synced. An error acts as a failed sync.
    #[must_use]
    pub fn sync_hook(mut self, hook: impl Fn() -> io::Result<()> + Send + Sync + 'static) -> Self {
        self.sync_hook = Arc::new(hook);
        self
    }

    /// Replaces the function that returns the free space at a path, for tests of a full disk.
    ///
    /// The commit thread calls it once per group of commits; the statistics call it too.
    #[must_use]
    pub fn free_bytes_with(
        mut self,
        free_bytes: impl Fn(&Path) -> io::Result<u64> + Send + Sync + 'static,
    ) -> Self {
        self.free_bytes = Arc::new(free_bytes);
        self
    }
}
