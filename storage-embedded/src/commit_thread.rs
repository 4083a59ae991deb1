//! The only thread that writes.
//!
//! It groups pending commits, makes each group durable, and only then publishes it and replies to
//! its callers.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use futures::channel::oneshot;
use knowledge_store::{Commit, CommitOutcome, Mutation, StoreError, StoreErrorKind};

use crate::engine::{Changes, Engine};
use crate::error::{EngineError, catch_panic, closed_error};
use crate::group::Group;
use crate::mark::{self, Mark};
use crate::options::{FreeBytesFn, SyncHook};
use crate::record::Ledger;
use crate::shared::Shared;

/// Maximum number of commits per group.
const GROUP_COMMITS_MAX: usize = 1_024;
/// Time between two measurements of the engine's files.
const MEASURE_INTERVAL: Duration = Duration::from_secs(1);
/// Size of a group's values, in bytes, at which the group accepts no further commit.
const GROUP_BYTES_MAX: usize = 8 * 1024 * 1024;

pub(crate) type CommitResult = Result<CommitOutcome, StoreError>;

/// A pending commit.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) commit: Commit,
    pub(crate) reply: oneshot::Sender<CommitResult>,
}

/// State of the commit thread.
pub(crate) struct Committer<E: Engine> {
    pub(crate) path: PathBuf,
    pub(crate) sync_hook: SyncHook,
    pub(crate) free_bytes_min: u64,
    pub(crate) free_bytes: FreeBytesFn,
    /// True if the last group was rejected because the disk is full.
    pub(crate) is_full: bool,
    /// Time of the last measurement of the engine's files; `None` before the first commit.
    pub(crate) measured_at: Option<Instant>,
    /// False if a commit has followed the last measurement.
    pub(crate) is_measured: bool,
    pub(crate) mark: Mark,
    pub(crate) ledger: Ledger,
    pub(crate) shared: Arc<Shared<E>>,
}

impl<E: Engine> Committer<E> {
    /// Runs until every sender is dropped and no commit is pending.
    ///
    /// Returns true if the store ended without a failure.
    pub(crate) fn run(mut self, requests: &Receiver<Request>) -> bool {
        while let Some(pending) = self.next_group(requests) {
            match self.rejection() {
                None => {
                    self.commit(pending);
                    self.is_measured = false;
                    if self
                        .measured_at
                        .is_none_or(|at| at.elapsed() >= MEASURE_INTERVAL)
                    {
                        self.measure();
                    }
                }
                Some(error) => {
                    for request in pending {
                        let _ = request.reply.send(Err(error.clone()));
                    }
                }
            }
        }
        if self.shared.ensure_open().is_err() {
            return false;
        }
        let synced = self.mark.sync();
        if let Err(error) = &synced {
            tracing::warn!(%error, "failed to sync the mark of the last commit");
        }
        synced.is_ok()
    }

    /// Measures the engine's files.
    ///
    /// An engine may wait for a write before it reports its size. This thread can wait; a caller
    /// that requests statistics must not.
    fn measure(&mut self) {
        self.measured_at = Some(Instant::now());
        self.is_measured = true;
        let bytes = self.shared.engine.disk_bytes();
        self.shared.meters.set_disk_bytes(bytes);
    }

    /// Returns the error for pending commits if nothing may be written now.
    fn rejection(&mut self) -> Option<StoreError> {
        if let Err(closed) = self.shared.ensure_open() {
            return Some(closed);
        }
        // If free space cannot be determined, the write itself fails on a full disk.
        let free_bytes = (self.free_bytes)(&self.path).unwrap_or(u64::MAX);
        let was_full = std::mem::replace(&mut self.is_full, free_bytes < self.free_bytes_min);
        let (path, free_bytes_min) = (self.path.display(), self.free_bytes_min);
        match (was_full, self.is_full) {
            (false, true) => {
                tracing::error!(%path, free_bytes, free_bytes_min, "disk full; rejecting commits");
            }
            (true, false) => {
                tracing::info!(%path, free_bytes, free_bytes_min, "disk space available again; \
                                                                   accepting commits");
            }
            _ => {}
        }
        self.is_full.then(|| {
            let message = format!(
                "the disk of {path} is full: {free_bytes} bytes are free, {free_bytes_min} are \
                 required; free up space"
            );
            StoreError::new(StoreErrorKind::Full, message)
        })
    }

    /// Waits for a commit and collects those pending with it; `None` once all senders are dropped.
    fn next_group(&mut self, requests: &Receiver<Request>) -> Option<Vec<Request>> {
        let first = match requests.try_recv() {
            Ok(request) => request,
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) => self.wait(requests)?,
        };
        let mut bytes = value_bytes(&first.commit);
        let mut pending = vec![first];
        while pending.len() < GROUP_COMMITS_MAX
            && bytes < GROUP_BYTES_MAX
            && let Ok(request) = requests.try_recv()
        {
            bytes += value_bytes(&request.commit);
            pending.push(request);
        }
        Some(pending)
    }

    fn wait(&mut self, requests: &Receiver<Request>) -> Option<Request> {
        let is_settled = self.mark.is_synced() && self.is_measured;
        if !is_settled && self.shared.ensure_open().is_ok() {
            match requests.recv_timeout(mark::SYNC_INTERVAL) {
                Ok(request) => return Some(request),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {
                    self.measure();
                    let _write = self.shared.watchdog.begin();
                    if let Err(error) = self.mark.sync() {
                        self.shared.close(&error.into());
                    }
                }
            }
        }
        requests.recv().ok()
    }

    /// Checks a group, makes it durable, and replies to its callers.
    fn commit(&mut self, pending: Vec<Request>) {
        let mut group = Group::new(&self.shared, self.ledger);
        let mut results = Vec::with_capacity(pending.len());
        for Request { commit, reply } in pending {
            results.push((group.add(commit), reply));
        }
        let (ledger, changes) = group.finish();
        let failure = match changes {
            None => {
                self.ledger = ledger;
                None
            }
            Some(changes) => {
                let commits = results.iter().filter(|(outcome, _)| is_committed(outcome));
                self.write(&changes, ledger, commits.count()).err()
            }
        };
        if let Some(failure) = &failure {
            if !matches!(
                failure,
                EngineError::Closed(_) | EngineError::ClosedDuringWrite(_)
            ) {
                self.shared.meters.count_sync_failure();
            }
            self.shared.close(failure);
        }
        for (outcome, reply) in results {
            let outcome = match &failure {
                None => self.count(outcome),
                Some(failure) => result_after_failure(outcome, failure),
            };
            // A caller that dropped its future needs no reply.
            let _ = reply.send(outcome);
        }
    }

    /// Applies a group, makes it durable and publishes it.
    fn write(
        &mut self,
        changes: &Changes,
        ledger: Ledger,
        commits: usize,
    ) -> Result<(), EngineError> {
        let shared = &*self.shared;
        // A read for this group may have closed the store.
        shared.ensure_open().map_err(EngineError::Closed)?;
        let _write = shared.watchdog.begin();
        let began = Instant::now();
        catch_panic(|| {
            shared.engine.apply(changes)?;
            (self.sync_hook)()?;
            shared.engine.sync()
        })?;
        // A closed store publishes nothing more.
        if let Some(reason) = shared.close_reason() {
            return Err(if shared.watchdog.is_overdue() {
                EngineError::TimedOut
            } else {
                EngineError::ClosedDuringWrite(reason.to_owned())
            });
        }
        self.mark.advance(ledger.last_version)?;
        self.ledger = ledger;
        catch_panic(|| {
            shared.publish(changes, ledger);
            Ok(())
        })?;
        shared.meters.record_group(commits as u64, began.elapsed());
        Ok(())
    }

    fn count(&self, outcome: CommitResult) -> CommitResult {
        match &outcome {
            Ok(CommitOutcome::Committed(_)) => self.shared.meters.count_commit(),
            Ok(CommitOutcome::Conflict) => self.shared.meters.count_conflict(),
            Err(_) => {}
        }
        outcome
    }
}

fn is_committed(outcome: &CommitResult) -> bool {
    matches!(outcome, Ok(CommitOutcome::Committed(_)))
}

/// Returns the result of a commit whose group may not be durable.
fn result_after_failure(outcome: CommitResult, failure: &EngineError) -> CommitResult {
    match outcome {
        Ok(_) if let EngineError::Closed(error) = failure => Err(error.clone()),
        Ok(CommitOutcome::Committed(_)) => Err(StoreError::new(
            StoreErrorKind::Unknown,
            format!("the outcome of the commit is unknown: {failure}"),
        )),
        // The conflict may be with a commit of the same group.
        Ok(CommitOutcome::Conflict) => Err(closed_error(&failure.to_string())),
        Err(error) => Err(error),
    }
}

fn value_bytes(commit: &Commit) -> usize {
    let bytes = |mutation: &Mutation| match mutation {
        Mutation::Put { value, .. } => value.len(),
        Mutation::Delete { .. } | Mutation::Add { .. } => 0,
    };
    commit.mutations().iter().map(bytes).sum()
}
