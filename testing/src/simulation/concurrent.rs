//! Concurrent callers, whose calls must be linearizable in the order of their commits.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::call::{Call, execute};
use super::env::SimulatedTime;
use super::operations::Op;
use super::resolve::Step;
use super::run::{Divergence, Simulation, shown, simulated_options};
use super::world::World;
use crate::model::Model;
use crate::model::{ErrorResponse, Outcome, agrees};
use knowledge_core::api::Api;
use knowledge_core::env::Env;
use knowledge_core::service::KnowledgeService;
use knowledge_core::store::{
    Commit, CommitOutcome, Found, Mark, Mutation, Read, Store, StoreError, Version,
};
use knowledge_store::conformance::Task;
use knowledge_store::faults::{FaultPlan, FaultRates, FaultStore};

/// Logical clock of the starts and ends of calls and commits.
///
/// A call that ended before another one began precedes it.
type LogicalClock = Arc<AtomicU64>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Applied commit.
#[derive(Clone, Copy, Debug)]
struct Applied {
    version: Version,
    begun: u64,
    ended: u64,
}

/// Call with its result.
#[derive(Clone, Debug)]
struct ObservedCall {
    caller: usize,
    call: Call,
    outcome: Outcome,
    begun: u64,
    ended: u64,
    applied: Vec<Applied>,
}

/// Store of one caller, which records its applied commits and sometimes yields before an access.
struct RecordingStore {
    store: Arc<dyn Store>,
    clock: LogicalClock,
    applied: Mutex<Vec<Applied>>,
    random: Mutex<fastrand::Rng>,
}

impl RecordingStore {
    async fn give_way(&self) {
        let turns = lock(&self.random).u8(0..4);
        for _ in 0..turns {
            let mut yielded = false;
            std::future::poll_fn(|context| {
                if std::mem::replace(&mut yielded, true) {
                    return std::task::Poll::Ready(());
                }
                context.waker().wake_by_ref();
                std::task::Poll::Pending
            })
            .await;
        }
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }
}

#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
impl Store for RecordingStore {
    async fn read(&self, reads: &[Read<'_>]) -> Result<Vec<Found>, StoreError> {
        self.give_way().await;
        self.store.read(reads).await
    }

    fn mark(&self, area: &[u8]) -> Option<Mark> {
        self.store.mark(area)
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome, StoreError> {
        self.give_way().await;
        let begun = self.tick();
        let is_note = is_note(&commit);
        let outcome = self.store.commit(commit).await;
        if let Ok(CommitOutcome::Committed(version)) = outcome
            && !is_note
        {
            let ended = self.tick();
            lock(&self.applied).push(Applied {
                version,
                begun,
                ended,
            });
        }
        outcome
    }
}

/// Returns true for a commit that records the use of a credential or a refusal.
///
/// The interface makes it after the operation, whose response does not depend on it.
fn is_note(commit: &Commit) -> bool {
    let mut keys = commit.mutations().iter().map(Mutation::key);
    keys.any(|key| {
        let family = key.to_string();
        matches!(
            family.split('/').next(),
            Some("credential_use" | "member_refusals")
        )
    })
}

/// Concurrent callers of one store.
pub struct ConcurrentRun {
    shared: Arc<Shared>,
    model: Model,
    past: Vec<ObservedCall>,
}

struct Shared {
    store: Arc<dyn Store>,
    time: SimulatedTime,
    world: Mutex<World>,
    clock: LogicalClock,
    observed: Mutex<Vec<ObservedCall>>,
}

impl std::fmt::Debug for ConcurrentRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConcurrentRun").finish_non_exhaustive()
    }
}

impl ConcurrentRun {
    /// Creates both organisations in an empty store.
    ///
    /// # Errors
    /// A [`Divergence`] where this already goes wrong.
    pub async fn begin(store: Arc<dyn Store>, seed: u64) -> Result<Self, Divergence> {
        let begun = Simulation::begin(Arc::clone(&store), seed, FaultRates::default()).await?;
        let (time, world, model) = begun.into_parts();
        let shared = Shared {
            store,
            time,
            world: Mutex::new(world),
            clock: LogicalClock::default(),
            observed: Mutex::default(),
        };
        Ok(Self {
            shared: Arc::new(shared),
            model,
            past: Vec::new(),
        })
    }

    /// Creates one task per caller, to be run concurrently.
    ///
    /// Each has its own service, whose store occasionally conflicts and loses responses.
    #[must_use]
    pub fn tasks(&self, seed: u64, callers: &[Vec<Op>]) -> Vec<Task<'static>> {
        let callers = callers.iter().cloned().enumerate();
        callers
            .map(|(caller, ops)| {
                let shared = Arc::clone(&self.shared);
                let seed = seed.wrapping_mul(31).wrapping_add(caller as u64);
                Box::pin(shared.act(caller, ops, seed)) as Task<'static>
            })
            .collect()
    }

    /// Finds a valid order of the calls of each organisation, which is one of all calls: no call
    /// reads what another organisation has.
    ///
    /// Commits are ordered by their versions; every other call is at a point within its duration.
    /// Commits of two organisations may have the same version, or versions in the opposite order.
    ///
    /// # Errors
    /// A [`Divergence`] if there is no such order, or if the stored data differs from the model.
    pub async fn check(mut self) -> Result<(), Divergence> {
        let observed = std::mem::take(&mut *lock(&self.shared.observed));
        let mut histories = BTreeMap::<_, Vec<_>>::new();
        for observed in observed {
            if !observed.call.is_maintenance() {
                let history = histories.entry(observed.call.org()).or_default();
                history.push(observed);
            }
        }
        for history in histories.into_values() {
            self.explain(history)?;
        }
        self.compare().await
    }

    /// Finds a valid order of the calls of an organisation.
    fn explain(&mut self, history: Vec<ObservedCall>) -> Result<(), Divergence> {
        let (mut commits, quiet): (Vec<_>, Vec<_>) = history
            .into_iter()
            .partition(|observed| !observed.applied.is_empty());
        commits.sort_by_key(|observed| observed.applied[0].version);
        let mut open: Vec<(usize, usize, ObservedCall)> = quiet
            .into_iter()
            .map(|observed| {
                let (first, last) = places_of(&observed, &commits);
                (first, last, observed)
            })
            .collect();
        let places = 0..=commits.len();
        let mut commits = commits.into_iter();
        for place in places {
            self.explain_some(&mut open, place)?;
            if let Some(observed) = commits.next() {
                self.replay(observed)?;
            }
        }
        Ok(())
    }

    /// Applies a call with a commit to the model, which must return the same result.
    fn replay(&mut self, observed: ObservedCall) -> Result<(), Divergence> {
        let now = self.shared.time.now();
        let expected = self
            .model
            .apply(&observed.call, now, observed.outcome.as_ref().ok());
        let is_indeterminate =
            observed.outcome == Err(ErrorResponse::Unavailable) && expected.is_ok();
        let is_right = is_indeterminate || agrees(&expected, &observed.outcome);
        let is_single = observed.applied.len() == 1;
        self.past.push(observed);
        if !is_single {
            Err(self.diverged("this call committed more than once".to_owned()))
        } else if is_right {
            Ok(())
        } else {
            Err(self.diverged(format!("the model expects {expected:?}")))
        }
    }

    /// Finds the calls without a commit that are consistent with the state at this point.
    fn explain_some(
        &mut self,
        open: &mut Vec<(usize, usize, ObservedCall)>,
        place: usize,
    ) -> Result<(), Divergence> {
        let now = self.shared.time.now();
        for (first, last, observed) in std::mem::take(open) {
            if place < first {
                open.push((first, last, observed));
                continue;
            }
            let learned = observed.outcome.as_ref().ok();
            let mut here = self.model.clone();
            let expected = here.apply(&observed.call, now, learned);
            let is_of_the_store = observed
                .outcome
                .as_ref()
                .is_err_and(ErrorResponse::is_of_the_store);
            let is_right = agrees(&expected, &observed.outcome) && here.is_as(&self.model);
            if is_of_the_store || is_right {
                self.past.push(observed);
                if !is_of_the_store {
                    self.model = here;
                }
            } else if place == last {
                let problem = format!(
                    "no order explains {}\nat the end the model expects {expected:?}, with a \
                     commit: {}",
                    line(&observed),
                    !here.is_as(&self.model),
                );
                return Err(self.diverged(problem));
            } else {
                open.push((first, last, observed));
            }
        }
        Ok(())
    }

    async fn compare(&self) -> Result<(), Divergence> {
        let store = Arc::clone(&self.shared.store);
        let wrong = |error: String| self.diverged(error);
        let differences = self.model.differences(&*store).await;
        let mut differences = differences.map_err(|error| wrong(error.to_string()))?;
        let service = service(Arc::clone(&store), self.shared.time.env(0)).await;
        let service = service.map_err(wrong)?;
        let now = self.shared.time.now();
        // At an unchanged time it only clears what deletions left.
        let maintained = async {
            while service.maintain(now).await?.has_more {}
            Ok::<_, knowledge_core::Error>(())
        };
        maintained
            .await
            .map_err(|error| wrong(format!("maintain: {error:?}")))?;
        let expanding = (0..2).map(|_| async {
            while service.dispatcher().fan_out(now).await?.has_more {}
            Ok::<_, knowledge_core::Error>(())
        });
        let expanded = futures::future::try_join_all(expanding).await;
        expanded.map_err(|error| wrong(format!("fan-out: {error:?}")))?;
        let unheard = self.model.delivery_differences(&*store, now).await;
        differences.extend(unheard.map_err(|error| wrong(error.to_string()))?);
        let verified = service.verify().await;
        let verified = verified.map_err(|error| wrong(format!("{error:?}")))?;
        differences.extend(verified.differences.iter().map(ToString::to_string));
        if differences.is_empty() {
            Ok(())
        } else {
            Err(wrong(differences.join("\n")))
        }
    }

    fn diverged(&self, problem: String) -> Divergence {
        Divergence {
            trace: self.past.iter().map(line).collect(),
            problem,
        }
    }
}

/// Returns the range of positions between commits that a call may take.
///
/// It follows all commits that ended before it started, and precedes those that started after it
/// ended.
fn places_of(observed: &ObservedCall, commits: &[ObservedCall]) -> (usize, usize) {
    let place = |is_before: &dyn Fn(&Applied) -> bool| {
        let last = commits
            .iter()
            .rposition(|other| is_before(&other.applied[0]));
        last.map_or(0, |index| index + 1)
    };
    let first = place(&|applied| applied.ended < observed.begun);
    let last = place(&|applied| applied.begun < observed.ended);
    (first, last)
}

fn line(observed: &ObservedCall) -> String {
    let call = shown(&observed.call, &observed.outcome);
    let versions = observed.applied.iter().map(|applied| applied.version);
    let versions: Vec<_> = versions.collect();
    format!("caller {}: {call} (versions {versions:?})", observed.caller)
}

async fn service(store: Arc<dyn Store>, env: Env) -> Result<KnowledgeService, String> {
    let opened = KnowledgeService::open(store, env, simulated_options()).await;
    opened.map_err(|error| format!("the service does not open: {error}"))
}

impl Shared {
    async fn act(self: Arc<Self>, caller: usize, ops: Vec<Op>, seed: u64) {
        let recording = Arc::new(RecordingStore {
            store: Arc::clone(&self.store),
            clock: Arc::clone(&self.clock),
            applied: Mutex::default(),
            random: Mutex::new(fastrand::Rng::with_seed(seed)),
        });
        let rates = FaultRates {
            conflict: 0.05,
            lost_applied: 0.05,
            lost_not_applied: 0.05,
            ..FaultRates::default()
        };
        let plan = FaultPlan::seeded(seed, rates);
        let store = FaultStore::new(Arc::clone(&recording) as Arc<dyn Store>, plan);
        let service = service(Arc::new(store), self.time.env(seed)).await;
        let api = Api::new(service.expect("a store that was set up opens"));
        for op in &ops {
            let resolved = lock(&self.world).resolve(op);
            // The clock does not advance: the moment at which a call reads it would be unknown.
            let Step::Call(call) = resolved else {
                continue;
            };
            let begun = recording.tick();
            let outcome = execute(&api, &call).await;
            let ended = recording.tick();
            if let Ok(response) = &outcome {
                lock(&self.world).learn(&call, response);
            }
            lock(&self.observed).push(ObservedCall {
                caller,
                call,
                outcome,
                begun,
                ended,
                applied: std::mem::take(&mut *lock(&recording.applied)),
            });
        }
    }
}
