//! How a store is opened.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The size of the page cache when nothing else is said, in bytes.
pub const CACHE_CAPACITY_BYTES_DEFAULT: u64 = 256 * 1024 * 1024;

/// How much of the file system stays free when nothing else is said, in bytes.
pub const FREE_BYTES_MIN_DEFAULT: u64 = 64 * 1024 * 1024;

/// How long one group of commits may take to reach the disk when nothing else is said.
pub const WRITE_TIME_MAX_DEFAULT: Duration = Duration::from_secs(60);

/// What sled favours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Speed; the file grows to several times its contents under overwrites.
    #[default]
    HighThroughput,
    /// A smaller file, for more writing.
    LowSpace,
}

pub(crate) type SyncFn = Arc<dyn Fn(&File) -> io::Result<()> + Send + Sync>;
pub(crate) type FreeBytesFn = Arc<dyn Fn(&Path) -> io::Result<u64> + Send + Sync>;

/// How a store is opened.
#[derive(Clone)]
pub struct SledOptions {
    pub(crate) cache_capacity_bytes: u64,
    pub(crate) mode: Mode,
    pub(crate) verifies_entries: bool,
    pub(crate) free_bytes_min: u64,
    pub(crate) write_time_max: Duration,
    pub(crate) sync: SyncFn,
    pub(crate) free_bytes: FreeBytesFn,
}

impl Default for SledOptions {
    fn default() -> Self {
        Self {
            cache_capacity_bytes: CACHE_CAPACITY_BYTES_DEFAULT,
            mode: Mode::default(),
            verifies_entries: true,
            free_bytes_min: FREE_BYTES_MIN_DEFAULT,
            write_time_max: WRITE_TIME_MAX_DEFAULT,
            sync: Arc::new(File::sync_data),
            free_bytes: Arc::new(|path| fs4::available_space(path)),
        }
    }
}

impl fmt::Debug for SledOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SledOptions")
            .field("cache_capacity_bytes", &self.cache_capacity_bytes)
            .field("mode", &self.mode)
            .field("verifies_entries", &self.verifies_entries)
            .field("free_bytes_min", &self.free_bytes_min)
            .field("write_time_max", &self.write_time_max)
            .finish_non_exhaustive()
    }
}

impl SledOptions {
    /// The size of the page cache in bytes; 256 MiB unless told. The process needs about twice as much.
    #[must_use]
    pub fn cache_capacity_bytes(mut self, bytes: u64) -> Self {
        self.cache_capacity_bytes = bytes;
        self
    }

    /// What sled favours; speed unless told.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Whether opening reads every entry once and compares them with the ledger of the store; it does unless told. Without
    /// it a large store opens sooner, and damage to entries is found only when they are read, or never.
    #[must_use]
    pub fn verify_entries(mut self, verifies: bool) -> Self {
        self.verifies_entries = verifies;
        self
    }

    /// How much of the file system stays free, in bytes; 64 MiB unless told. With less, commits are refused as `Full`, and
    /// nothing of them is applied; reads go on. It keeps sled from meeting a full disk, which it does not survive: below
    /// the size of two groups, 32 MiB, that is not certain any more.
    #[must_use]
    pub fn free_bytes_min(mut self, bytes: u64) -> Self {
        self.free_bytes_min = bytes;
        self
    }

    /// How long one group of commits may take to reach the disk; a minute unless told. After an error of the device sled may wait
    /// for ever. The next call after this time finds that, and closes the store as after any failed write.
    #[must_use]
    pub fn write_time_max(mut self, time: Duration) -> Self {
        self.write_time_max = time;
        self
    }

    /// Replaces what brings sled's file to the disk, [`File::sync_data`], for tests: of what happens while a sync is
    /// under way, and of what follows when one fails. Called once when the store is opened and once per group of
    /// commits, on the thread that commits.
    #[must_use]
    pub fn sync_with(
        mut self,
        sync: impl Fn(&File) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.sync = Arc::new(sync);
        self
    }

    /// Replaces what tells how many bytes are free on the file system of a path, for tests of a disk that fills up.
    /// Asked once per group of commits, on the thread that commits, and for the statistics.
    #[must_use]
    pub fn free_bytes_with(
        mut self,
        free_bytes: impl Fn(&Path) -> io::Result<u64> + Send + Sync + 'static,
    ) -> Self {
        self.free_bytes = Arc::new(free_bytes);
        self
    }
}
