//! The store itself: reads, and the hand-over of commits.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use async_trait::async_trait;
use futures::channel::oneshot;
use knowledge_core::store::{
    Commit, CommitOutcome, Direction, Entry, Key, KeyEntry, KeyRange, Store, StoreError,
    StoreErrorKind,
};

use crate::commit_thread::Request;
use crate::directory::{Directory, holds_store};
use crate::error::{EngineError, OpenError, guarded};
use crate::open::open;
use crate::options::{FreeBytesFn, SledOptions};
use crate::record::{decode, decode_key, entry_range, write_entry_key};
use crate::shared::Shared;
use crate::stats::StoreStats;
use crate::timeline::Past;

/// How long a store that closed itself may take to let go of sled, when it is dropped.
const RELEASE_TIME_MAX: Duration = Duration::from_secs(5);

/// A store in a directory of its own, kept by sled.
///
/// It needs no runtime: a commit is written by a thread of the store and awaited; reads are answered at once, on the
/// calling thread, in microseconds from the cache and in milliseconds from the disk or beside a large commit. Where
/// it is dropped, it writes what was still handed to it and lets go of its directory; that blocks for as long.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use knowledge_core::store::{Commit, Key, Store};
/// use knowledge_storage_sled::{SledOptions, SledStore};
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path();
/// let store = SledStore::open(path, SledOptions::default())?;
/// let key = Key::new("greeting")?;
/// store.commit(Commit::builder().put(key.clone(), "hello").build()?).await?;
/// drop(store);
///
/// let store = SledStore::open(path, SledOptions::default())?;
/// assert_eq!(store.get(&[key]).await?[0].as_ref().unwrap().value, "hello");
/// # Ok(())
/// # }
/// ```
pub struct SledStore {
    pub(crate) shared: Arc<Shared>,
    /// `None` once it is being dropped.
    pub(crate) running: Option<Running>,
    pub(crate) file: File,
    pub(crate) free_bytes: FreeBytesFn,
    // Last, so that the directory is free when everything in it is closed.
    pub(crate) directory: Directory,
}

/// What works until the store is dropped.
pub(crate) struct Running {
    pub(crate) requests: SyncSender<Request>,
    pub(crate) thread: JoinHandle<()>,
    pub(crate) tree: sled::Tree,
}

impl Running {
    /// Writes what waits, and lets go of sled.
    fn end(self) {
        // Without senders the thread ends after the last commit.
        drop(self.requests);
        if self.thread.join().is_err() {
            tracing::error!("the commit thread panicked");
        }
    }
}

impl fmt::Debug for SledStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SledStore")
            .field("path", &self.directory.path())
            .field("closed_because", &self.closed_because())
            .finish_non_exhaustive()
    }
}

impl SledStore {
    /// Opens the store in the directory `path`, or makes one where there is nothing. Blocks until all is verified, see
    /// [`SledOptions::verify_entries`].
    ///
    /// # Errors
    /// One by one at [`OpenError`].
    pub fn open(path: impl AsRef<Path>, options: SledOptions) -> Result<Self, OpenError> {
        open(path.as_ref(), options)
    }

    /// Whether the directory is a store's: one that is empty, or in the making, is not.
    #[must_use]
    pub fn is_at(path: impl AsRef<Path>) -> bool {
        holds_store(path.as_ref())
    }

    /// What the store did since it was opened, and what it holds.
    #[must_use]
    pub fn stats(&self) -> StoreStats {
        let disk_bytes = self.file.metadata().map_or(0, |metadata| metadata.len());
        let disk_free_bytes = (self.free_bytes)(self.directory.path()).ok();
        self.shared.meters.read(disk_bytes, disk_free_bytes)
    }

    /// Why the store refuses every call until it is opened again; `None` while it works.
    #[must_use]
    pub fn closed_because(&self) -> Option<&str> {
        self.shared.closed_because()
    }

    fn running(&self) -> &Running {
        self.running.as_ref().expect("it is taken by drop alone")
    }

    /// Names the present state: as long as it is the same for one directory, nothing was committed in between, also not
    /// by another process.
    #[must_use]
    pub fn revision(&self) -> String {
        let ledger = self.shared.ledger();
        let (version, entries, digest) = (ledger.last_version, ledger.entries, ledger.digest);
        format!("{version}-{entries}-{digest:016x}")
    }

    /// Reads some keys as they stood in the past, which was begun before.
    pub(crate) fn read_keys(
        &self,
        keys: &[Key],
        past: &impl Past,
    ) -> Result<Vec<Option<Entry>>, EngineError> {
        let tree = &self.running().tree;
        let mut buffer = Vec::new();
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            write_entry_key(&mut buffer, key);
            let stored = tree.get(&buffer)?;
            found.push(stored.map(|stored| decode(&stored)).transpose()?);
        }
        if !past.is_untouched() {
            for (key, found) in keys.iter().zip(&mut found) {
                if let Some(entry) = past.restore(key) {
                    *found = entry;
                }
            }
        }
        Ok(found)
    }

    /// Reads the first entries of a range as they stood in the past, which was begun before.
    pub(crate) fn read_range(
        &self,
        range: &KeyRange,
        limit: usize,
        direction: Direction,
        past: &impl Past,
    ) -> Result<Vec<KeyEntry>, EngineError> {
        let mut rest = range.clone();
        let mut found = Vec::new();
        // One round, unless a group that is under way added entries that do not count yet.
        while found.len() < limit && !rest.is_empty() {
            let wanted = limit - found.len();
            let page = self.read_page(&rest, wanted, direction)?;
            let last = page.last().map(|last| last.key.clone());
            match last.filter(|_| page.len() == wanted) {
                None => {
                    found.extend(as_it_stood(past, page, &rest, direction));
                    break;
                }
                Some(last) => {
                    let (covered, behind) = split_behind(&rest, &last, direction);
                    found.extend(as_it_stood(past, page, &covered, direction));
                    rest = behind;
                }
            }
        }
        found.truncate(limit);
        Ok(found)
    }

    /// The first entries of a range as they stand in sled, synced or not.
    fn read_page(
        &self,
        range: &KeyRange,
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<KeyEntry>, EngineError> {
        let entry = |stored: sled::Result<(sled::IVec, sled::IVec)>| {
            let (key, entry) = stored?;
            Ok(KeyEntry {
                key: decode_key(&key)?,
                entry: decode(&entry)?,
            })
        };
        let found = self.running().tree.range(entry_range(range));
        match direction {
            Direction::Forward => found.take(limit).map(entry).collect(),
            Direction::Reverse => found.rev().take(limit).map(entry).collect(),
        }
    }
}

/// Splits a range behind `last` in the direction of a scan: what is covered by a page that ends with it, and what is left.
fn split_behind(range: &KeyRange, last: &Key, direction: Direction) -> (KeyRange, KeyRange) {
    match direction {
        Direction::Forward => (range.before(&last.successor()), range.after(last)),
        Direction::Reverse => {
            let covered = KeyRange {
                start: last.clone(),
                end: range.end.clone(),
            };
            (covered, range.before(last))
        }
    }
}

/// The entries of `covered` as they stood in the past, from what was found there in sled later.
fn as_it_stood(
    past: &impl Past,
    page: Vec<KeyEntry>,
    covered: &KeyRange,
    direction: Direction,
) -> Vec<KeyEntry> {
    if past.is_untouched() {
        return page;
    }
    let restored = past.restore_range(covered);
    if restored.is_empty() {
        return page;
    }
    let mut entries: BTreeMap<Key, Entry> = page
        .into_iter()
        .map(|found| (found.key, found.entry))
        .collect();
    for (key, entry) in restored {
        match entry {
            Some(entry) => entries.insert(key, entry),
            None => entries.remove(&key),
        };
    }
    let entries = entries
        .into_iter()
        .map(|(key, entry)| KeyEntry { key, entry });
    match direction {
        Direction::Forward => entries.collect(),
        Direction::Reverse => entries.rev().collect(),
    }
}

#[async_trait]
impl Store for SledStore {
    async fn get(&self, keys: &[Key]) -> Result<Vec<Option<Entry>>, StoreError> {
        self.shared.refuse_if_closed()?;
        let moment = self.shared.timeline.present();
        guarded(|| self.read_keys(keys, &*moment)).map_err(|error| self.shared.read_error(&error))
    }

    async fn scan(
        &self,
        range: &KeyRange,
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<KeyEntry>, StoreError> {
        self.shared.refuse_if_closed()?;
        let moment = self.shared.timeline.present();
        guarded(|| self.read_range(range, limit, direction, &*moment))
            .map_err(|error| self.shared.read_error(&error))
    }

    /// Once it was polled, the commit goes its way also if the future is dropped.
    async fn commit(&self, commit: Commit) -> Result<CommitOutcome, StoreError> {
        self.shared.refuse_if_closed()?;
        let (answer, answered) = oneshot::channel();
        match self.running().requests.try_send(Request { commit, answer }) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                let message = "too many commits are waiting";
                return Err(StoreError::new(StoreErrorKind::Unavailable, message));
            }
            Err(TrySendError::Disconnected(_)) => {
                let message = "the commit thread has ended";
                return Err(StoreError::new(StoreErrorKind::Unavailable, message));
            }
        }
        answered.await.unwrap_or_else(|_| {
            let message = "the commit thread ended before it answered";
            Err(StoreError::new(StoreErrorKind::Unknown, message))
        })
    }
}

impl Drop for SledStore {
    fn drop(&mut self) {
        let Some(running) = self.running.take() else {
            return;
        };
        if self.closed_because().is_none() {
            return running.end();
        }
        // After an error of the device sled may never let go, and whoever drops a store must not wait for that.
        let (ended, end) = channel();
        let release = move || {
            running.end();
            let _ = ended.send(());
        };
        let spawned = thread::Builder::new()
            .name("knowledge-release".to_owned())
            .spawn(release);
        if spawned.is_err() || end.recv_timeout(RELEASE_TIME_MAX).is_err() {
            tracing::error!("sled keeps its file until this process ends");
        }
    }
}
