//! A store that injects faults, to test callers against failures of a backend.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use crate::{Commit, CommitOutcome, Found, Mark, Read, Store, StoreError, StoreErrorKind, Version};

/// Fault injected into a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CommitFault {
    /// Returns [`CommitOutcome::Conflict`]; nothing is applied.
    Conflict,
    /// Fails as [`StoreErrorKind::Unavailable`]; nothing is applied.
    Unavailable,
    /// Fails as [`StoreErrorKind::Full`]; nothing is applied.
    Full,
    /// Applies the commit and loses the response: [`StoreErrorKind::Unknown`].
    LostApplied,
    /// Loses the commit itself: [`StoreErrorKind::Unknown`].
    LostNotApplied,
    /// Returns [`StoreErrorKind::Unknown`] and applies the commit, if its checks hold, after the
    /// next call.
    ///
    /// A caller that looks once, too early, does not find it.
    LostAppliedLater,
    /// Closes the store permanently, as [`FaultStore::close`] does; nothing is applied.
    Close,
}

/// Probability of each fault, from 0 to 1.
///
/// The faults of commits are mutually exclusive: their sum is at most 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FaultRates {
    /// Probability of [`CommitFault::Conflict`].
    pub conflict: f64,
    /// Probability of [`CommitFault::Unavailable`].
    pub unavailable: f64,
    /// Probability of [`CommitFault::Full`].
    pub full: f64,
    /// Probability of [`CommitFault::LostApplied`].
    pub lost_applied: f64,
    /// Probability of [`CommitFault::LostNotApplied`].
    pub lost_not_applied: f64,
    /// Probability of [`CommitFault::LostAppliedLater`].
    pub lost_applied_later: f64,
    /// Probability of a read that fails as [`StoreErrorKind::Unavailable`].
    pub read: f64,
}

impl FaultRates {
    fn of_commits(&self) -> [(CommitFault, f64); 6] {
        [
            (CommitFault::Conflict, self.conflict),
            (CommitFault::Unavailable, self.unavailable),
            (CommitFault::Full, self.full),
            (CommitFault::LostApplied, self.lost_applied),
            (CommitFault::LostNotApplied, self.lost_not_applied),
            (CommitFault::LostAppliedLater, self.lost_applied_later),
        ]
    }
}

/// Plan of the faults. Two stores with the same plan and the same calls fail alike.
#[derive(Clone, Debug, Default)]
pub struct FaultPlan {
    scripted: BTreeMap<u64, CommitFault>,
    random: Option<(fastrand::Rng, FaultRates)>,
}

impl FaultPlan {
    /// Creates a plan without faults: the store only counts.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Creates a plan of random faults from a seed.
    #[must_use]
    pub fn seeded(seed: u64, rates: FaultRates) -> Self {
        Self {
            scripted: BTreeMap::new(),
            random: Some((fastrand::Rng::with_seed(seed), rates)),
        }
    }

    /// Injects a fault into the commit with this number, regardless of chance. The first commit is
    /// number 1.
    #[must_use]
    pub fn at_commit(mut self, number: u64, fault: CommitFault) -> Self {
        self.scripted.insert(number, fault);
        self
    }

    fn of_commit(&mut self, number: u64) -> Option<CommitFault> {
        if let Some(fault) = self.scripted.get(&number) {
            return Some(*fault);
        }
        let (rng, rates) = self.random.as_mut()?;
        let mut drawn = rng.f64();
        for (fault, rate) in rates.of_commits() {
            if drawn < rate {
                return Some(fault);
            }
            drawn -= rate;
        }
        None
    }

    fn fails_read(&mut self) -> bool {
        self.random
            .as_mut()
            .is_some_and(|(rng, rates)| rng.f64() < rates.read)
    }
}

/// Counts of the calls of a store, including those that failed by plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallCounts {
    /// Calls of [`Store::read`].
    pub reads: u64,
    /// Keys that they requested.
    pub keys_read: u64,
    /// Ranges that they requested.
    pub ranges_read: u64,
    /// Entries of ranges that they returned.
    pub entries_scanned: u64,
    /// Calls of [`Store::commit`].
    pub commits: u64,
    /// Injected faults, in reads and commits together.
    pub faults: u64,
}

impl CallCounts {
    fn asked(&mut self, reads: &[Read<'_>]) {
        self.reads += 1;
        for read in reads {
            match read {
                Read::Keys(keys) => self.keys_read += keys.len() as u64,
                Read::Range { .. } => self.ranges_read += 1,
            }
        }
    }

    fn answered(&mut self, found: &[Found]) {
        for found in found {
            if let Found::Range(entries) = found {
                self.entries_scanned += entries.len() as u64;
            }
        }
    }
}

/// [`Store`] over another one that injects faults, counts calls and can record applied commits.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use knowledge_store::{Commit, Key, MemoryStore, Store, StoreErrorKind, StoreExt};
/// use knowledge_store::faults::{CommitFault, FaultPlan, FaultStore};
///
/// let plan = FaultPlan::none().at_commit(1, CommitFault::LostApplied);
/// let store = FaultStore::new(Arc::new(MemoryStore::new()), plan);
/// let key = Key::new("k")?;
/// let error = store.commit(Commit::builder().put(key.clone(), "v").build()?).await.unwrap_err();
/// assert_eq!(error.kind(), StoreErrorKind::Unknown);
/// assert!(store.get(&[key]).await?[0].is_some());
/// # Ok(())
/// # }
/// ```
pub struct FaultStore {
    inner: Arc<dyn Store>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    plan: FaultPlan,
    counts: CallCounts,
    late: Vec<Commit>,
    history: Option<Vec<(Version, Commit)>>,
    is_healed: bool,
    fails_reads: bool,
    is_closed: bool,
}

impl State {
    fn reject_if_closed(&self) -> Result<(), StoreError> {
        if self.is_closed {
            Err(unavailable("a test closed the store"))
        } else {
            Ok(())
        }
    }

    fn begin_read(&mut self) -> Result<(), StoreError> {
        self.reject_if_closed()?;
        let fails = !self.is_healed && (self.fails_reads || self.plan.fails_read());
        if fails {
            self.counts.faults += 1;
            return Err(unavailable("a test made a read fail"));
        }
        Ok(())
    }

    fn begin_commit(&mut self) -> Result<Option<CommitFault>, StoreError> {
        self.counts.commits += 1;
        self.reject_if_closed()?;
        // Drawn while disabled too, so that the sequence of a seed does not shift.
        let fault = self.plan.of_commit(self.counts.commits);
        let fault = fault.filter(|_| !self.is_healed);
        self.counts.faults += u64::from(fault.is_some());
        Ok(fault)
    }
}

impl fmt::Debug for FaultStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultStore")
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

impl FaultStore {
    /// Creates a store that injects the faults of `plan` into calls of `inner`.
    pub fn new(inner: Arc<dyn Store>, plan: FaultPlan) -> Self {
        Self {
            inner,
            state: Mutex::new(State {
                plan,
                ..State::default()
            }),
        }
    }

    /// Starts to record applied commits, see [`FaultStore::history`].
    #[must_use]
    pub fn recording(self) -> Self {
        self.state().history = Some(Vec::new());
        self
    }

    /// Returns the inner store, which neither fails nor counts.
    #[must_use]
    pub fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    /// Disables the injection of faults.
    ///
    /// Delayed commits are still applied; a closed store stays closed.
    pub fn disable_faults(&self) {
        self.state().is_healed = true;
    }

    /// Injects faults again after [`FaultStore::disable_faults`].
    pub fn enable_faults(&self) {
        self.state().is_healed = false;
    }

    /// Makes every read fail as [`StoreErrorKind::Unavailable`], or ends that.
    ///
    /// [`FaultStore::disable_faults`] suspends it.
    pub fn fail_reads(&self, fails: bool) {
        self.state().fails_reads = fails;
    }

    /// Rejects every call from now on as [`StoreErrorKind::Unavailable`], as after a failed write.
    ///
    /// Delayed commits are discarded.
    pub fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        state.late.clear();
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn counts(&self) -> CallCounts {
        self.state().counts
    }

    /// Returns every commit applied since [`FaultStore::recording`], ordered by version.
    ///
    /// Responses make no difference. Replayed into an empty store, the commits must produce the
    /// same contents. Empty if nothing was recorded.
    #[must_use]
    pub fn history(&self) -> Vec<(Version, Commit)> {
        let mut history = self.state().history.clone().unwrap_or_default();
        history.sort_by_key(|(version, _)| *version);
        history
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn apply(&self, commit: Commit) -> Result<CommitOutcome, StoreError> {
        let recorded = self.state().history.is_some().then(|| commit.clone());
        let outcome = self.inner.commit(commit).await;
        if let (Ok(CommitOutcome::Committed(version)), Some(commit)) = (&outcome, recorded)
            && let Some(history) = &mut self.state().history
        {
            history.push((*version, commit));
        }
        outcome
    }

    /// Applies the delayed commits after the current call.
    async fn apply_late(&self, late: Vec<Commit>) {
        for commit in late {
            // No caller waits for the result any more; after a conflict the commit is lost after
            // all.
            let _ = self.apply(commit).await;
        }
    }

    async fn commit_with(
        &self,
        commit: Commit,
        fault: Option<CommitFault>,
    ) -> Result<CommitOutcome, StoreError> {
        let Some(fault) = fault else {
            return self.apply(commit).await;
        };
        match fault {
            CommitFault::Conflict => return Ok(CommitOutcome::Conflict),
            CommitFault::Unavailable => return Err(unavailable("a test rejected a commit")),
            CommitFault::Full => {
                return Err(StoreError::new(
                    StoreErrorKind::Full,
                    "a test made the store full",
                ));
            }
            CommitFault::Close => {
                self.close();
                return Err(unavailable("a test closed the store"));
            }
            CommitFault::LostNotApplied => {}
            // A conflict or a failure of the inner store is lost like any other response.
            CommitFault::LostApplied => drop(self.apply(commit).await),
            CommitFault::LostAppliedLater => self.state().late.push(commit),
        }
        Err(StoreError::new(
            StoreErrorKind::Unknown,
            "a test lost the response to a commit",
        ))
    }
}

fn unavailable(message: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, message)
}

#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
impl Store for FaultStore {
    async fn read(&self, reads: &[Read<'_>]) -> Result<Vec<Found>, StoreError> {
        let (begun, late) = {
            let mut state = self.state();
            state.counts.asked(reads);
            state.reject_if_closed()?;
            (state.begin_read(), std::mem::take(&mut state.late))
        };
        let found = match begun {
            Ok(()) => self.inner.read(reads).await,
            Err(error) => Err(error),
        };
        if let Ok(found) = &found {
            self.state().counts.answered(found);
        }
        self.apply_late(late).await;
        found
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome, StoreError> {
        let (fault, late) = {
            let mut state = self.state();
            let fault = state.begin_commit()?;
            (fault, std::mem::take(&mut state.late))
        };
        let outcome = self.commit_with(commit, fault).await;
        self.apply_late(late).await;
        outcome
    }

    fn mark(&self, area: &[u8]) -> Option<Mark> {
        self.state().reject_if_closed().ok()?;
        self.inner.mark(area)
    }
}

#[cfg(test)]
mod tests;
