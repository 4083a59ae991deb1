//! The store itself: reads, and the hand-over of commits.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use async_trait::async_trait;
use futures::channel::oneshot;
use knowledge_store::{
    Commit, CommitOutcome, Found, Read, Store, StoreError, StoreErrorKind,
};

use crate::check::CheckState;
use crate::commit_thread::Request;
use crate::directory::Directory;
use crate::engine::{Engine, View};
use crate::error::{EngineError, OpenError, guarded};
use crate::lock::DirectoryLock;
use crate::open::open;
use crate::options::{FreeBytesFn, StoreOptions};
use crate::shared::Shared;
use crate::stats::StoreStats;

/// The longest wait for a store that closed itself to let go of its engine, when it is dropped.
const RELEASE_TIME_MAX: Duration = Duration::from_secs(5);

/// A store in a directory of its own, over the engine `E`.
///
/// It needs no runtime: a commit is written by a thread of the store and awaited; reads are answered at once, on the
/// calling thread, in microseconds from the cache and in milliseconds from the disk. When it is dropped, it writes
/// everything that was handed to it and lets go of its directory; that blocks for as long.
pub struct EngineStore<E: Engine> {
    /// `None` once it is being dropped.
    pub(crate) running: Option<Running<E>>,
    pub(crate) path: PathBuf,
    pub(crate) free_bytes: FreeBytesFn,
    /// `None` once it was let go. Last, so that the directory is free when everything in it is closed.
    pub(crate) directory: Option<Directory>,
}

/// The parts that work until the store is dropped.
pub(crate) struct Running<E: Engine> {
    pub(crate) requests: SyncSender<Request>,
    pub(crate) thread: JoinHandle<bool>,
    pub(crate) check: Option<JoinHandle<()>>,
    pub(crate) shared: Arc<Shared<E>>,
}

impl<E: Engine> Running<E> {
    /// Writes the commits that wait, and lets go of the engine. Returns true if the next start need not check the store.
    fn end(self, was_closed: bool) -> bool {
        // Without senders the thread ends after the last commit.
        drop(self.requests);
        let ended = self.thread.join();
        if ended.is_err() {
            tracing::error!("the commit thread panicked");
        }
        self.shared.checking.cancel();
        if let Some(check) = self.check {
            check.thread().unpark();
            let _ = check.join();
        }
        let is_checked = was_closed || self.shared.checking.state() == CheckState::Passed;
        // Damage that was read has to be looked for at the next start.
        let is_sound = self.shared.meters.corrupt_reads() == 0;
        let released = guarded(|| Ok(Arc::into_inner(self.shared).map(drop)));
        if let Err(error) = &released {
            tracing::error!(%error, "the engine could not be closed");
        }
        ended.unwrap_or(false) && is_checked && is_sound && matches!(released, Ok(Some(())))
    }
}

impl<E: Engine> fmt::Debug for EngineStore<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineStore")
            .field("engine", &E::NAME)
            .field("path", &self.path)
            .field("closed_because", &self.closed_because())
            .finish_non_exhaustive()
    }
}

impl<E: Engine> EngineStore<E> {
    /// Opens the store in the directory `path`, or creates one if there is nothing. The time it takes does not depend
    /// on the number of entries but for the engine's own recovery.
    ///
    /// # Errors
    /// One by one at [`OpenError`].
    pub fn open(
        path: impl AsRef<Path>,
        options: StoreOptions<E::Settings>,
    ) -> Result<Self, OpenError> {
        Self::open_locked(DirectoryLock::acquire(path)?, options)
    }

    /// Opens the store in a directory that is locked already, or creates one if it is empty.
    ///
    /// # Errors
    /// One by one at [`OpenError`].
    pub fn open_locked(
        lock: DirectoryLock,
        options: StoreOptions<E::Settings>,
    ) -> Result<Self, OpenError> {
        open(lock, options)
    }

    /// The number of entries in the present state.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.shared().ledger().entries
    }

    /// The size of the engine's files now, in bytes. It may have to wait for a write that is under way.
    #[must_use]
    pub fn disk_bytes(&self) -> u64 {
        self.shared().engine.disk_bytes()
    }

    /// The statistics of the store.
    #[must_use]
    pub fn stats(&self) -> StoreStats {
        let shared = self.shared();
        let disk_free_bytes = (self.free_bytes)(&self.path).ok();
        shared.meters.read(shared.checking.state(), disk_free_bytes)
    }

    /// The reason why the store refuses every call until it is opened again; `None` while it works.
    #[must_use]
    pub fn closed_because(&self) -> Option<&str> {
        self.running.as_ref()?.shared.closed_because()
    }

    /// Names the present state: as long as it is the same for one directory, nothing was committed in between, also not
    /// by another process.
    #[must_use]
    pub fn revision(&self) -> String {
        let ledger = self.shared().ledger();
        let (version, entries, digest) = (ledger.last_version, ledger.entries, ledger.digest);
        format!("{version}-{entries}-{digest:016x}")
    }

    /// Reads every entry of the present state and compares them with the ledger, which every commit keeps: each entry
    /// has to be there, in the version that was last written, and no other. Others may read and write meanwhile.
    /// `progress` is told how many entries were read, of how many. Blocks for as long as reading everything takes.
    ///
    /// # Errors
    /// [`StoreErrorKind::Corrupt`] if the store is damaged: it is then closed. [`StoreErrorKind::Unavailable`] if it
    /// cannot be read.
    pub fn check(&self, mut progress: impl FnMut(u64, u64)) -> Result<(), StoreError> {
        self.shared().check(&mut progress)
    }

    /// Closes the store and keeps its directory locked, so that it can be moved or removed.
    ///
    /// # Errors
    /// [`StoreErrorKind::Unavailable`] if the store had closed itself.
    pub fn close(mut self) -> Result<DirectoryLock, StoreError> {
        self.shared().refuse_if_closed()?;
        match self.end() {
            Some(lock) => Ok(lock),
            None => Err(StoreError::new(
                StoreErrorKind::Unavailable,
                "the store could not be closed cleanly",
            )),
        }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared<E>> {
        &self.running().shared
    }

    fn running(&self) -> &Running<E> {
        self.running.as_ref().expect("only drop takes it")
    }

    /// Ends the store; the lock of its directory, if it had not closed itself.
    fn end(&mut self) -> Option<DirectoryLock> {
        let running = self.running.take()?;
        let directory = self.directory.take()?;
        if running.shared.closed_because().is_some() {
            release(running);
            return None;
        }
        let is_clean = running.end(directory.was_closed);
        Some(directory.end(is_clean))
    }
}

/// Lets go of a store that closed itself. After an error of the device the engine may never let go, and whoever drops a
/// store must not wait for that.
fn release<E: Engine>(running: Running<E>) {
    let (ended, end) = channel();
    let release = move || {
        running.end(false);
        let _ = ended.send(());
    };
    let spawned = thread::Builder::new()
        .name("knowledge-release".to_owned())
        .spawn(release);
    if spawned.is_err() || end.recv_timeout(RELEASE_TIME_MAX).is_err() {
        tracing::error!("the engine keeps its files until this process ends");
    }
}

/// Answers reads from one state.
pub(crate) fn answer(view: &impl View, reads: &[Read<'_>]) -> Result<Vec<Found>, EngineError> {
    let answer = |read: &Read<'_>| {
        Ok(match *read {
            Read::Keys(keys) => Found::Keys(view.keys(keys)?),
            Read::Range {
                range,
                limit,
                direction,
            } => Found::Range(view.range(range, limit, direction)?),
        })
    };
    reads.iter().map(answer).collect()
}

#[async_trait]
impl<E: Engine> Store for EngineStore<E> {
    async fn read(&self, reads: &[Read<'_>]) -> Result<Vec<Found>, StoreError> {
        let shared = self.shared();
        shared.refuse_if_closed()?;
        guarded(|| answer(&shared.engine.view(), reads)).map_err(|error| shared.read_error(&error))
    }

    /// Once it was polled, the commit is written also if the future is dropped.
    async fn commit(&self, commit: Commit) -> Result<CommitOutcome, StoreError> {
        self.shared().refuse_if_closed()?;
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

impl<E: Engine> Drop for EngineStore<E> {
    fn drop(&mut self) {
        drop(self.end());
    }
}

/// An embedded store, whatever its engine: for programs that let their users choose one.
pub trait Embedded: Store + fmt::Debug {
    /// The name of the engine.
    fn engine(&self) -> &'static str;

    /// See [`EngineStore::entries`].
    fn entries(&self) -> u64;

    /// See [`EngineStore::disk_bytes`].
    fn disk_bytes(&self) -> u64;

    /// See [`EngineStore::stats`].
    fn stats(&self) -> StoreStats;

    /// See [`EngineStore::closed_because`].
    fn closed_because(&self) -> Option<&str>;

    /// See [`EngineStore::revision`].
    fn revision(&self) -> String;

    /// See [`EngineStore::snapshot`].
    fn snapshot(self: Arc<Self>, bytes_max: usize) -> Arc<dyn Store>;

    /// See [`EngineStore::check`].
    ///
    /// # Errors
    /// As there.
    fn check(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<(), StoreError>;

    /// See [`EngineStore::close`].
    ///
    /// # Errors
    /// As there; [`StoreErrorKind::Unavailable`] too if others still use the store.
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

    fn closed_because(&self) -> Option<&str> {
        self.closed_because()
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
