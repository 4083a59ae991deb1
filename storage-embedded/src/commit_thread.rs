//! The one thread that writes: it takes the commits that wait, makes a group of them, brings it to the disk and only
//! then shows it to readers and answers its callers.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use futures::channel::oneshot;
use knowledge_store::{Commit, CommitOutcome, Mutation, StoreError, StoreErrorKind};

use crate::engine::{Changes, Engine};
use crate::error::{EngineError, closed, guarded};
use crate::group::Group;
use crate::mark::{self, Mark};
use crate::options::{FreeBytesFn, SyncHook};
use crate::record::Ledger;
use crate::shared::Shared;

/// The most commits of one group.
const GROUP_COMMITS_MAX: usize = 1_024;
/// The time between two measurements of the engine's files.
const MEASURE_INTERVAL: Duration = Duration::from_secs(1);
/// A group takes no further commit once it has this many bytes of values.
const GROUP_BYTES_MAX: usize = 8 * 1024 * 1024;

pub(crate) type Answer = Result<CommitOutcome, StoreError>;

/// A commit that waits for its answer.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) commit: Commit,
    pub(crate) answer: oneshot::Sender<Answer>,
}

/// The state of the commit thread.
pub(crate) struct Committer<E: Engine> {
    pub(crate) path: PathBuf,
    pub(crate) sync_hook: SyncHook,
    pub(crate) free_bytes_min: u64,
    pub(crate) free_bytes: FreeBytesFn,
    /// True if the last group was refused for want of room.
    pub(crate) is_full: bool,
    /// Time of the last measurement of the engine's files; none before the first commit.
    pub(crate) measured_at: Option<Instant>,
    pub(crate) mark: Mark,
    pub(crate) ledger: Ledger,
    pub(crate) shared: Arc<Shared<E>>,
}

impl<E: Engine> Committer<E> {
    /// Works until every sender is gone and nothing waits any more. Returns true if the store ended without a failure.
    pub(crate) fn run(mut self, requests: &Receiver<Request>) -> bool {
        while let Some(waiting) = self.next_group(requests) {
            match self.refusal() {
                None => {
                    self.commit(waiting);
                    if self
                        .measured_at
                        .is_none_or(|at| at.elapsed() >= MEASURE_INTERVAL)
                    {
                        self.measure();
                    }
                }
                Some(error) => {
                    for request in waiting {
                        let _ = request.answer.send(Err(error.clone()));
                    }
                }
            }
        }
        if self.shared.refuse_if_closed().is_err() {
            return false;
        }
        let synced = self.mark.sync();
        if let Err(error) = &synced {
            tracing::warn!(%error, "the mark of the last commit could not be synced");
        }
        synced.is_ok()
    }

    /// Measures the size of the engine's files. An engine may have to wait for a write first: this thread waits, so
    /// that readers of statistics do not.
    fn measure(&mut self) {
        self.measured_at = Some(Instant::now());
        let bytes = self.shared.engine.disk_bytes();
        self.shared.meters.set_disk_bytes(bytes);
    }

    /// The reason why nothing may be written now.
    fn refusal(&mut self) -> Option<StoreError> {
        if let Err(closed) = self.shared.refuse_if_closed() {
            return Some(closed);
        }
        // Where the system does not tell, the write has to.
        let free_bytes = (self.free_bytes)(&self.path).unwrap_or(u64::MAX);
        let was_full = std::mem::replace(&mut self.is_full, free_bytes < self.free_bytes_min);
        let (path, free_bytes_min) = (self.path.display(), self.free_bytes_min);
        match (was_full, self.is_full) {
            (false, true) => {
                tracing::error!(%path, free_bytes, free_bytes_min, "the disk is full: commits are refused until there is room");
            }
            (true, false) => {
                tracing::info!(%path, free_bytes, free_bytes_min, "there is room on the disk again: commits are taken");
            }
            _ => {}
        }
        self.is_full.then(|| {
            let message = format!(
                "the disk of {path} is full: {free_bytes} bytes are free, {free_bytes_min} have to stay free"
            );
            StoreError::new(StoreErrorKind::Full, message)
        })
    }

    /// Waits for a commit and takes those that wait with it; `None` at the end.
    fn next_group(&mut self, requests: &Receiver<Request>) -> Option<Vec<Request>> {
        let first = match requests.try_recv() {
            Ok(request) => request,
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) => self.wait(requests)?,
        };
        let mut bytes = size(&first.commit);
        let mut waiting = vec![first];
        while waiting.len() < GROUP_COMMITS_MAX
            && bytes < GROUP_BYTES_MAX
            && let Ok(request) = requests.try_recv()
        {
            bytes += size(&request.commit);
            waiting.push(request);
        }
        Some(waiting)
    }

    fn wait(&mut self, requests: &Receiver<Request>) -> Option<Request> {
        if !self.mark.is_synced() && self.shared.refuse_if_closed().is_ok() {
            match requests.recv_timeout(mark::SYNC_INTERVAL) {
                Ok(request) => return Some(request),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {
                    self.measure();
                    let _watched = self.shared.watch.begin();
                    if let Err(error) = self.mark.sync() {
                        self.shared.close(&error.into());
                    }
                }
            }
        }
        requests.recv().ok()
    }

    /// Decides a group, makes it durable, and answers.
    fn commit(&mut self, waiting: Vec<Request>) {
        let mut group = Group::new(&self.shared, self.ledger);
        let mut answers = Vec::with_capacity(waiting.len());
        for Request { commit, answer } in waiting {
            answers.push((group.admit(commit), answer));
        }
        let (ledger, changes) = group.finish();
        let failure = match changes {
            None => {
                self.ledger = ledger;
                None
            }
            Some(changes) => {
                let commits = answers.iter().filter(|(outcome, _)| is_committed(outcome));
                self.write(&changes, ledger, commits.count()).err()
            }
        };
        if let Some(failure) = &failure {
            if !matches!(failure, EngineError::Closed(_) | EngineError::Overtaken(_)) {
                self.shared.meters.sync_failure();
            }
            self.shared.close(failure);
        }
        for (outcome, answer) in answers {
            let outcome = match &failure {
                None => self.counted(outcome),
                Some(failure) => after_failure(outcome, failure),
            };
            // Whoever does not wait for the answer any more does not need it.
            let _ = answer.send(outcome);
        }
    }

    /// Applies a group and returns once it is on the disk; readers see it from then on.
    fn write(
        &mut self,
        changes: &Changes,
        ledger: Ledger,
        commits: usize,
    ) -> Result<(), EngineError> {
        let shared = &*self.shared;
        // A read of this group's may have closed the store.
        shared.refuse_if_closed().map_err(EngineError::Closed)?;
        let _watched = shared.watch.begin();
        let began = Instant::now();
        guarded(|| {
            shared.engine.apply(changes)?;
            (self.sync_hook)()?;
            shared.engine.sync()
        })?;
        // Once the store is closed, nothing is made visible any more.
        if let Some(reason) = shared.closed_because() {
            return Err(match shared.watch.is_overdue() {
                true => EngineError::TimedOut,
                false => EngineError::Overtaken(reason.to_owned()),
            });
        }
        self.mark.advance(ledger.last_version)?;
        self.ledger = ledger;
        guarded(|| {
            shared.publish(ledger);
            Ok(())
        })?;
        shared.meters.group(commits as u64, began.elapsed());
        Ok(())
    }

    fn counted(&self, outcome: Answer) -> Answer {
        match &outcome {
            Ok(CommitOutcome::Committed(_)) => self.shared.meters.commit(),
            Ok(CommitOutcome::Conflict) => self.shared.meters.conflict(),
            Err(_) => {}
        }
        outcome
    }
}

fn is_committed(outcome: &Answer) -> bool {
    matches!(outcome, Ok(CommitOutcome::Committed(_)))
}

/// The answer to a commit whose group did not reach the disk for certain.
fn after_failure(outcome: Answer, failure: &EngineError) -> Answer {
    match outcome {
        Ok(_) if let EngineError::Closed(error) = failure => Err(error.clone()),
        Ok(CommitOutcome::Committed(_)) => Err(StoreError::new(
            StoreErrorKind::Unknown,
            format!("the outcome of the commit is unknown: {failure}"),
        )),
        // It may have conflicted with a commit of the same group.
        Ok(CommitOutcome::Conflict) => Err(closed(&failure.to_string())),
        Err(error) => Err(error),
    }
}

fn size(commit: &Commit) -> usize {
    let value_bytes = |mutation: &Mutation| match mutation {
        Mutation::Put { value, .. } => value.len(),
        Mutation::Delete { .. } | Mutation::Add { .. } => 0,
    };
    commit.mutations().iter().map(value_bytes).sum()
}
