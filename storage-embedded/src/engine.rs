//! The interface of storage engines.

use std::path::Path;

use bytes::Bytes;
use knowledge_store::{Direction, Entry, Key, KeyEntry, KeyRange};

use crate::error::EngineError;
use crate::options::EngineOptions;

/// A storage engine behind an [`EngineStore`](crate::EngineStore).
///
/// It keeps ordered keys in a directory and is written by one thread.
///
/// A group of commits takes three steps: [`apply`](Self::apply), [`sync`](Self::sync) and
/// [`publish`](Self::publish). Readers see it only after the third. An error in any step closes the
/// store, and no further group is written.
pub trait Engine: Sized + Send + Sync + 'static {
    /// Name of the engine in directory markers and messages, for example `sled`.
    const NAME: &'static str;
    /// Layout number. A store of another one is not opened.
    const FORMAT: u64;

    /// Engine-specific settings.
    type Settings: Clone + std::fmt::Debug + Default + Send + Sync + 'static;
    /// Published state for a single read.
    type View: View;
    /// Published state for reads that take minutes while others write.
    type Snapshot: View + 'static;

    /// Opens the engine in a locked directory, or creates it there.
    ///
    /// # Errors
    /// [`EngineError::Locked`] if a closed store still holds the files; [`EngineError`] on any
    /// other failure.
    fn open(path: &Path, options: &EngineOptions<Self::Settings>) -> Result<Self, EngineError>;

    /// True if the directory contains the engine's data. Called before the engine is opened.
    fn has_data(path: &Path) -> bool;

    /// Returns the value last written as [`Changes::ledger`], if any.
    ///
    /// # Errors
    /// [`EngineError`] if data is corrupt or the device fails.
    fn ledger(&self) -> Result<Option<Bytes>, EngineError>;

    /// Writes a group atomically: after a crash, all of it is stored or none.
    ///
    /// # Errors
    /// [`EngineError`] if data is corrupt or the device fails.
    fn apply(&self, changes: &Changes) -> Result<(), EngineError>;

    /// Makes everything applied so far survive a power loss.
    ///
    /// # Errors
    /// [`EngineError`] if data is corrupt or the device fails.
    fn sync(&self) -> Result<(), EngineError>;

    /// Makes everything applied so far visible to readers.
    fn publish(&self);

    /// Returns the published state.
    fn view(&self) -> Self::View;

    /// Returns the published state, readable until it is dropped.
    ///
    /// An engine without native snapshots keeps at most `bytes_max` bytes of old values for it.
    /// Beyond that the snapshot is lost, see [`View::is_lost`].
    fn snapshot(&self, bytes_max: usize) -> Self::Snapshot;

    /// Returns the size of the engine's files, in bytes.
    fn disk_bytes(&self) -> u64;
}

/// State of the store at one point in time.
pub trait View: Send + Sync {
    /// Reads the entries of keys, in the given order.
    ///
    /// # Errors
    /// [`EngineError`] if data is corrupt or the device fails.
    fn get(&self, keys: &[Key]) -> Result<Vec<Option<Entry>>, EngineError>;

    /// Reads the first `limit` entries of a range, which may be empty or inverted.
    ///
    /// # Errors
    /// [`EngineError`] if data is corrupt or the device fails.
    fn scan(
        &self,
        range: &KeyRange,
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<KeyEntry>, EngineError>;

    /// True if the state is no longer available. Checked after each read, whose result is then
    /// discarded.
    fn is_lost(&self) -> bool {
        false
    }
}

/// Change of one entry by a group.
#[derive(Clone, Debug)]
pub struct Change {
    /// Key of the entry.
    pub key: Key,
    /// Entry before the group.
    pub before: Option<Entry>,
    /// Entry after the group; `None` if it is removed.
    pub after: Option<Entry>,
}

/// Everything that a group writes.
#[derive(Clone, Debug)]
pub struct Changes {
    /// Changed entries, each key once, in no particular order.
    pub entries: Vec<Change>,
    /// Ledger, stored under [`record::LEDGER_KEY`](crate::record::LEDGER_KEY).
    pub ledger: Vec<u8>,
}
