//! The store: reads, and the submission of commits.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use async_trait::async_trait;
use futures::channel::oneshot;
use knowledge_store::{
    Commit, CommitOutcome, Found, Mark, Read, Store, StoreError, StoreErrorKind,
};

use crate::check_state::CheckState;
use crate::commit_thread::Request;
use crate::directory::Directory;
use crate::engine::{Engine, View};
use crate::error::{EngineError, catch_panic};
use crate::lock::DirectoryLock;
use crate::options::FreeBytesFn;
use crate::shared::Shared;
use crate::stats::StoreStats;

/// Longest wait on drop for a failed store to release its engine.
const RELEASE_TIME_MAX: Duration = Duration::from_secs(5);

/// A store in a directory of its own, over the engine `E`.
///
/// It needs no runtime: commits are written by a thread of the store and awaited. Reads run on the
/// calling thread, in microseconds from the cache and in milliseconds from the disk.
///
/// Dropping the store writes all pending commits and releases the directory; it blocks until then.
pub struct EngineStore<E: Engine> {
    /// `None` while the store is being dropped.
    pub(crate) workers: Option<Workers<E>>,
    pub(crate) path: PathBuf,
    pub(crate) free_bytes: FreeBytesFn,
    /// `None` after its release. Last field, so that everything in the directory is closed before.
    pub(crate) directory: Option<Directory>,
}

/// Threads and shared state of an open store.
pub(crate) struct Workers<E: Engine> {
    pub(crate) requests: SyncSender<Request>,
    pub(crate) thread: JoinHandle<bool>,
    pub(crate) check: Option<JoinHandle<()>>,
    pub(crate) shared: Arc<Shared<E>>,
}

impl<E: Engine> Workers<E> {
    /// Writes pending commits and releases the engine.
    ///
    /// Returns true if the next start can skip the check.
    fn end(self, was_closed_cleanly: bool) -> bool {
        // The thread ends after the last commit once all senders are dropped.
        drop(self.requests);
        let ended = self.thread.join();
        if ended.is_err() {
            tracing::error!("the commit thread panicked");
        }
        self.shared.check_progress.cancel();
        if let Some(check) = self.check {
            check.thread().unpark();
            let _ = check.join();
        }
        let is_checked =
            was_closed_cleanly || self.shared.check_progress.state() == CheckState::Passed;
        // Corruption that a read found must be checked at the next start.
        let is_sound = self.shared.meters.corrupt_reads() == 0;
        let released = catch_panic(|| Ok(Arc::into_inner(self.shared).map(drop)));
        if let Err(error) = &released {
            tracing::error!(%error, "failed to close the engine");
        }
        ended.unwrap_or(false) && is_checked && is_sound && matches!(released, Ok(Some(())))
    }
}

impl<E: Engine> fmt::Debug for EngineStore<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineStore")
            .field("engine", &E::NAME)
            .field("path", &self.path)
            .field("close_reason", &self.close_reason())
            .finish_non_exhaustive()
    }
}

impl<E: Engine> EngineStore<E> {
    /// Returns the number of entries.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.shared().ledger().entries
    }

    /// Returns the current size of the engine's files, in bytes. It may wait for a write.
    #[must_use]
    pub fn disk_bytes(&self) -> u64 {
        self.shared().engine.disk_bytes()
    }

    /// Returns the statistics of the store.
    #[must_use]
    pub fn stats(&self) -> StoreStats {
        let shared = self.shared();
        let disk_free_bytes = (self.free_bytes)(&self.path).ok();
        shared
            .meters
            .read(shared.check_progress.state(), disk_free_bytes)
    }

    /// Returns the reason if the store has closed itself and must be reopened.
    #[must_use]
    pub fn close_reason(&self) -> Option<&str> {
        self.workers.as_ref()?.shared.close_reason()
    }

    /// Returns an identifier of the current state.
    ///
    /// While it is the same for a directory, no process has committed a change.
    #[must_use]
    pub fn revision(&self) -> String {
        let ledger = self.shared().ledger();
        let (version, entries, digest) = (ledger.last_version, ledger.entries, ledger.digest);
        format!("{version}-{entries}-{digest:016x}")
    }

    /// Compares every entry with the ledger, while others read and write.
    ///
    /// Every entry must exist in the version last written, and no other may exist. `progress`
    /// receives the number of entries read and their total. Blocks until all entries are read.
    ///
    /// # Errors
    /// [`StoreErrorKind::Corrupt`] if the store is corrupt; it is then closed.
    /// [`StoreErrorKind::Unavailable`] if it cannot be read.
    pub fn check(&self, mut progress: impl FnMut(u64, u64)) -> Result<(), StoreError> {
        self.shared().check(&mut progress)
    }

    /// Closes the store and keeps its directory locked, so that it can be moved or removed.
    ///
    /// # Errors
    /// [`StoreErrorKind::Unavailable`] if the store had closed itself.
    pub fn close(mut self) -> Result<DirectoryLock, StoreError> {
        self.shared().ensure_open()?;
        match self.end() {
            Some(lock) => Ok(lock),
            None => Err(StoreError::new(
                StoreErrorKind::Unavailable,
                "the store could not be closed cleanly",
            )),
        }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared<E>> {
        &self.workers().shared
    }

    fn workers(&self) -> &Workers<E> {
        self.workers.as_ref().expect("only drop takes it")
    }

    /// Ends the store and returns the lock of its directory, unless the store had closed itself.
    fn end(&mut self) -> Option<DirectoryLock> {
        let workers = self.workers.take()?;
        let directory = self.directory.take()?;
        if workers.shared.close_reason().is_some() {
            release(workers);
            return None;
        }
        let is_clean = workers.end(directory.was_closed_cleanly);
        Some(directory.close(is_clean))
    }
}

/// Releases a store that closed itself.
///
/// After a device error the engine may block for ever, and a drop must not wait for that.
fn release<E: Engine>(workers: Workers<E>) {
    let (ended, end) = channel();
    let release = move || {
        workers.end(false);
        let _ = ended.send(());
    };
    let spawned = thread::Builder::new()
        .name("knowledge-release".to_owned())
        .spawn(release);
    if spawned.is_err() || end.recv_timeout(RELEASE_TIME_MAX).is_err() {
        tracing::error!("engine not released; its files stay open until this process ends");
    }
}

/// Executes reads on one state.
pub(crate) fn execute_reads(
    view: &impl View,
    reads: &[Read<'_>],
) -> Result<Vec<Found>, EngineError> {
    let execute = |read: &Read<'_>| {
        Ok(match *read {
            Read::Keys(keys) => Found::Keys(view.get(keys)?),
            Read::Range {
                range,
                limit,
                direction,
            } => Found::Range(view.scan(range, limit, direction)?),
        })
    };
    reads.iter().map(execute).collect()
}

#[async_trait]
impl<E: Engine> Store for EngineStore<E> {
    async fn read(&self, reads: &[Read<'_>]) -> Result<Vec<Found>, StoreError> {
        let shared = self.shared();
        shared.ensure_open()?;
        catch_panic(|| execute_reads(&shared.view(), reads))
            .map_err(|error| shared.read_error(&error))
    }

    /// Once polled, the commit is written even if the future is dropped.
    async fn commit(&self, commit: Commit) -> Result<CommitOutcome, StoreError> {
        self.shared().ensure_open()?;
        let (reply, replied) = oneshot::channel();
        match self.workers().requests.try_send(Request { commit, reply }) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                let message = "too many pending commits; try again later";
                return Err(StoreError::new(StoreErrorKind::Unavailable, message));
            }
            Err(TrySendError::Disconnected(_)) => {
                let message = "the commit thread has ended";
                return Err(StoreError::new(StoreErrorKind::Unavailable, message));
            }
        }
        replied.await.unwrap_or_else(|_| {
            let message = "the commit thread ended before it replied";
            Err(StoreError::new(StoreErrorKind::Unknown, message))
        })
    }

    fn mark(&self, area: &[u8]) -> Option<Mark> {
        let shared = self.shared();
        // Whatever was read before the store closed itself has to be read again.
        shared.ensure_open().ok()?;
        shared.marks.get(area)
    }
}

impl<E: Engine> Drop for EngineStore<E> {
    fn drop(&mut self) {
        drop(self.end());
    }
}

/// An embedded store of any engine, for programs that let users choose one.
pub trait Embedded: Store + fmt::Debug {
    /// Returns the name of the engine.
    fn engine(&self) -> &'static str;

    /// See [`EngineStore::entries`].
    fn entries(&self) -> u64;

    /// See [`EngineStore::disk_bytes`].
    fn disk_bytes(&self) -> u64;

    /// See [`EngineStore::stats`].
    fn stats(&self) -> StoreStats;

    /// See [`EngineStore::close_reason`].
    fn close_reason(&self) -> Option<&str>;

    /// See [`EngineStore::revision`].
    fn revision(&self) -> String;

    /// See [`EngineStore::snapshot`].
    fn snapshot(self: Arc<Self>, bytes_max: usize) -> Arc<dyn Store>;

    /// See [`EngineStore::check`].
    ///
    /// # Errors
    /// Errors of [`EngineStore::check`].
    fn check(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<(), StoreError>;

    /// See [`EngineStore::close`].
    ///
    /// # Errors
    /// Errors of [`EngineStore::close`]; [`StoreErrorKind::Unavailable`] too if the store is still
    /// in use.
    fn close(self: Arc<Self>) -> Result<DirectoryLock, StoreError>;
}

impl<E: Engine> Embedded for EngineStore<E> {
    fn engine(&self) -> &'static str {
        E::NAME
    }

    fn entries(&self) -> u64 {
        self.entries()
    }

    fn disk_bytes(&self) -> u64 {
        self.disk_bytes()
    }

    fn stats(&self) -> StoreStats {
        self.stats()
    }

    fn close_reason(&self) -> Option<&str> {
        self.close_reason()
    }

    fn revision(&self) -> String {
        self.revision()
    }

    fn snapshot(self: Arc<Self>, bytes_max: usize) -> Arc<dyn Store> {
        Arc::new(EngineStore::snapshot(&self, bytes_max))
    }

    fn check(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<(), StoreError> {
        self.shared().check(progress)
    }

    fn close(self: Arc<Self>) -> Result<DirectoryLock, StoreError> {
        match Arc::into_inner(self) {
            Some(store) => EngineStore::close(store),
            None => Err(StoreError::new(
                StoreErrorKind::Unavailable,
                "the store is still in use",
            )),
        }
    }
}
