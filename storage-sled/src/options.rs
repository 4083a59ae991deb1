//! How a store is opened.

use std::fmt;
use std::fs::File;
use std::io;
use std::sync::Arc;

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

/// How a store is opened.
#[derive(Clone)]
pub struct SledOptions {
    pub(crate) cache_capacity_bytes: u64,
    pub(crate) mode: Mode,
    pub(crate) verifies_entries: bool,
    pub(crate) sync: SyncFn,
}

impl Default for SledOptions {
    fn default() -> Self {
        Self {
            cache_capacity_bytes: 256 * 1024 * 1024,
            mode: Mode::default(),
            verifies_entries: true,
            sync: Arc::new(File::sync_data),
        }
    }
}

impl fmt::Debug for SledOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SledOptions")
            .field("cache_capacity_bytes", &self.cache_capacity_bytes)
            .field("mode", &self.mode)
            .field("verifies_entries", &self.verifies_entries)
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
}
