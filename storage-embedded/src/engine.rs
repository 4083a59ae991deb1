//! The part of a store that differs from engine to engine.

use std::path::Path;

use bytes::Bytes;
use knowledge_store::{Direction, Entry, Key, KeyEntry, KeyRange};

use crate::error::EngineError;
use crate::options::EngineOptions;

/// A storage engine behind an [`EngineStore`](crate::EngineStore): ordered keys in a directory, written by one thread.
///
/// A group of commits goes through three steps: [`apply`](Self::apply), [`sync`](Self::sync) and
/// [`publish`](Self::publish). Readers see it after the third only. After an error of any step the store is closed
/// and no further group is written.
pub trait Engine: Sized + Send + Sync + 'static {
    /// The name of the engine in the marker of a directory and in messages, for example `sled`.
    const NAME: &'static str;
    /// The number of the layout that new stores get.
    const FORMAT: u64;
    /// The oldest layout that can still be read, with [`StoreOptions::accept_old_formats`](crate::StoreOptions::accept_old_formats).
    const FORMAT_MIN: u64;

    /// Settings of this engine alone.
    type Settings: Clone + std::fmt::Debug + Default + Send + Sync + 'static;
    /// The published state, for one read.
    type View: View;
    /// The published state, for reads that take minutes while others write.
    type Kept: View;

    /// Opens the engine in a directory that is locked, or creates it there.
    ///
    /// # Errors
    /// [`EngineError::Locked`] if a store that was closed has not let go yet; any other, by what is wrong.
    fn open(path: &Path, options: &EngineOptions<Self::Settings>) -> Result<Self, EngineError>;

    /// True if the engine has data in the directory. Asked before it is opened.
    fn has_data(path: &Path) -> bool;

    /// The value last written with [`Changes::ledger`], if there is one.
    ///
    /// # Errors
    /// [`EngineError`], by what is wrong.
    fn ledger(&self) -> Result<Option<Bytes>, EngineError>;

    /// Writes a group atomically: after a crash all of it is there or nothing.
    ///
    /// # Errors
    /// [`EngineError`], by what is wrong.
    fn apply(&self, changes: &Changes) -> Result<(), EngineError>;

    /// Returns once everything that was applied survives a loss of power.
    ///
    /// # Errors
    /// [`EngineError`], by what is wrong.
    fn sync(&self) -> Result<(), EngineError>;

    /// Shows readers everything that was applied.
    fn publish(&self);

    /// Returns the published state.
    fn view(&self) -> Self::View;

    /// Returns the published state, readable for as long as it is held. An engine without snapshots of its own keeps
    /// at most `bytes_max` bytes of old values for it, and loses it beyond that, see [`View::is_lost`].
    fn keep(&self, bytes_max: usize) -> Self::Kept;

    /// The size of the engine's files, in bytes.
    fn disk_bytes(&self) -> u64;
}

/// A state of the store at one point in time.
pub trait View: Send + Sync + 'static {
    /// Reads some keys, in the order asked for.
    ///
    /// # Errors
    /// [`EngineError`], by what is wrong.
    fn keys(&self, keys: &[Key]) -> Result<Vec<Option<Entry>>, EngineError>;

    /// Reads the first `limit` entries of a range. The range may be empty or inverted.
    ///
    /// # Errors
    /// [`EngineError`], by what is wrong.
    fn range(
        &self,
        range: &KeyRange,
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<KeyEntry>, EngineError>;

    /// True once the state could not be kept. Asked after each read: its answer is then thrown away.
    fn is_lost(&self) -> bool {
        false
    }
}

/// One entry that a group changes.
#[derive(Clone, Debug)]
pub struct Change {
    /// The key.
    pub key: Key,
    /// The entry before the group.
    pub before: Option<Entry>,
    /// The entry after it; `None` if it is removed.
    pub after: Option<Entry>,
}

/// Everything that a group writes.
#[derive(Clone, Debug)]
pub struct Changes {
    /// Each key once, in no particular order.
    pub entries: Vec<Change>,
    /// The value of the ledger, stored under [`record::LEDGER_KEY`](crate::record::LEDGER_KEY).
    pub ledger: Vec<u8>,
}
