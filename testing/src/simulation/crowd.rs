//! Several callers at once: whatever the order in which their commits came to stand, there is one in which the model
//! gives the same answers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::env::SimulatedTime;
use super::execute::execute;
use super::resolve::Step;
use super::run::{Divergence, Simulation, shown, simulated_options};
use super::world::World;
use knowledge_core::env::Env;
use knowledge_core::service::KnowledgeService;
use knowledge_core::store::{Commit, CommitOutcome, Found, Read, Store, StoreError, Version};
use knowledge_store::conformance::Task;
use knowledge_store::faults::{FaultPlan, FaultRates, FaultStore};
use crate::model::{Call, Model, Outcome, Refusal, agrees};
use crate::strategies::Op;

/// Counts the beginnings and ends of calls and commits: what ended before something else began was before it.
type Ticks = Arc<AtomicU64>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A commit that was applied.
#[derive(Clone, Copy, Debug)]
struct Applied {
    version: Version,
    begun: u64,
    ended: u64,
}

/// A call with what became of it.
#[derive(Clone, Debug)]
struct Heard {
    caller: usize,
    call: Call,
    outcome: Outcome,
    begun: u64,
    ended: u64,
    applied: Vec<Applied>,
}

/// The store of one caller: notes what the caller's commits became, and gives way to the others before each access, now
/// and then.
struct Watched {
    store: Arc<dyn Store>,
    ticks: Ticks,
    applied: Mutex<Vec<Applied>>,
    random: Mutex<fastrand::Rng>,
}

impl Watched {
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
        self.ticks.fetch_add(1, Ordering::SeqCst)
    }
}

#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
impl Store for Watched {
    async fn read(&self, reads: &[Read<'_>]) -> Result<Vec<Found>, StoreError> {
        self.give_way().await;
        self.store.read(reads).await
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome, StoreError> {
        self.give_way().await;
        let begun = self.tick();
        let outcome = self.store.commit(commit).await;
        if let Ok(CommitOutcome::Committed(version)) = outcome {
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

/// Callers about to act on one store.
pub struct Crowd {
    shared: Arc<Shared>,
    model: Model,
    past: Vec<String>,
}

struct Shared {
    store: Arc<dyn Store>,
    time: SimulatedTime,
    world: Mutex<World>,
    ticks: Ticks,
    heard: Mutex<Vec<Heard>>,
}

impl std::fmt::Debug for Crowd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Crowd").finish_non_exhaustive()
    }
}

impl Crowd {
    /// Sets up both organisations in an empty store.
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
            ticks: Ticks::default(),
            heard: Mutex::default(),
        };
        Ok(Self {
            shared: Arc::new(shared),
            model,
            past: Vec::new(),
        })
    }

    /// One task per caller, to be run at the same time. Each acts through a service of its own, whose store conflicts
    /// and loses answers now and then.
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

    /// Finds the one order: commits by their versions, and everything else somewhere between what had ended before
    /// it began and what had begun before it ended.
    ///
    /// # Errors
    /// A [`Divergence`] where there is none, or where what is stored is not what the model says.
    pub async fn check(mut self) -> Result<(), Divergence> {
        let heard = std::mem::take(&mut *lock(&self.shared.heard));
        let (mut commits, quiet): (Vec<_>, Vec<_>) = heard
            .into_iter()
            .filter(|heard| !matches!(heard.call, Call::Maintain))
            .partition(|heard| !heard.applied.is_empty());
        commits.sort_by_key(|heard| heard.applied[0].version);
        let mut open: Vec<(usize, usize, Heard)> = quiet
            .into_iter()
            .map(|heard| {
                let (first, last) = places_of(&heard, &commits);
                (first, last, heard)
            })
            .collect();
        for place in 0..=commits.len() {
            self.explain_some(&mut open, place)?;
            if let Some(heard) = commits.get(place) {
                self.replay(heard)?;
            }
        }
        self.compare().await
    }

    /// Applies a commit to the model, which has to answer the same.
    fn replay(&mut self, heard: &Heard) -> Result<(), Divergence> {
        let line = format!("{} (version {:?})", line(heard), heard.applied[0].version);
        self.past.push(line);
        if heard.applied.len() > 1 {
            return Err(self.diverged("this call has committed more than once".to_owned()));
        }
        let now = self.shared.time.now();
        let expected = self
            .model
            .apply(&heard.call, now, heard.outcome.as_ref().ok());
        let is_lost = heard.outcome == Err(Refusal::Unavailable) && expected.is_ok();
        if is_lost || agrees(&expected, &heard.outcome) {
            Ok(())
        } else {
            Err(self.diverged(format!("the model expects {expected:?}")))
        }
    }

    /// Looks which of the calls without a commit are explained by the state at this place.
    fn explain_some(
        &mut self,
        open: &mut Vec<(usize, usize, Heard)>,
        place: usize,
    ) -> Result<(), Divergence> {
        let now = self.shared.time.now();
        for (first, last, heard) in std::mem::take(open) {
            if place < first {
                open.push((first, last, heard));
                continue;
            }
            let learned = heard.outcome.as_ref().ok();
            let mut here = self.model.clone();
            let expected = here.apply(&heard.call, now, learned);
            let is_of_the_store = heard.outcome.as_ref().is_err_and(Refusal::is_of_the_store);
            let is_right = agrees(&expected, &heard.outcome) && here.is_as(&self.model);
            if is_of_the_store || is_right {
                self.past.push(line(&heard));
                if !is_of_the_store {
                    self.model = here;
                }
            } else if place == last {
                let problem = format!(
                    "nothing explains {}\nat last the model expects {expected:?}, with a commit: {}",
                    line(&heard),
                    !here.is_as(&self.model),
                );
                return Err(self.diverged(problem));
            } else {
                open.push((first, last, heard));
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
        let expanding = (0..2).map(|_| async {
            while service.expand_events(now).await?.has_more {}
            Ok::<_, knowledge_core::Error>(())
        });
        let expanded = futures::future::try_join_all(expanding).await;
        expanded.map_err(|error| wrong(format!("expand: {error:?}")))?;
        let unheard = self.model.delivery_differences(&*store).await;
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
            trace: self.past.clone(),
            problem,
        }
    }
}

/// Between which commits a call may stand: after all that had ended before it began, and not after one that began when
/// it had ended.
fn places_of(heard: &Heard, commits: &[Heard]) -> (usize, usize) {
    let place = |is_before: &dyn Fn(&Applied) -> bool| {
        let last = commits
            .iter()
            .rposition(|other| is_before(&other.applied[0]));
        last.map_or(0, |index| index + 1)
    };
    let first = place(&|applied| applied.ended < heard.begun);
    let last = place(&|applied| applied.begun < heard.ended);
    (first, last)
}

fn line(heard: &Heard) -> String {
    format!(
        "caller {}: {}",
        heard.caller,
        shown(&heard.call, &heard.outcome)
    )
}

async fn service(store: Arc<dyn Store>, env: Env) -> Result<KnowledgeService, String> {
    let opened = KnowledgeService::open(store, env, simulated_options()).await;
    opened.map_err(|error| format!("the service does not open: {error}"))
}

impl Shared {
    async fn act(self: Arc<Self>, caller: usize, ops: Vec<Op>, seed: u64) {
        let watched = Arc::new(Watched {
            store: Arc::clone(&self.store),
            ticks: Arc::clone(&self.ticks),
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
        let store = FaultStore::new(Arc::clone(&watched) as Arc<dyn Store>, plan);
        let service = service(Arc::new(store), self.time.env(seed)).await;
        let service = service.expect("a store that was set up opens");
        for op in &ops {
            let resolved = lock(&self.world).resolve(op);
            // Time stands still: nobody could tell at which moment each call looked at the clock.
            let Step::Call(call) = resolved else {
                continue;
            };
            let begun = watched.tick();
            let outcome = execute(&service, &call).await;
            let ended = watched.tick();
            if let Ok(answer) = &outcome {
                lock(&self.world).learn(&call, answer);
            }
            lock(&self.heard).push(Heard {
                caller,
                call: *call,
                outcome,
                begun,
                ended,
                applied: std::mem::take(&mut *lock(&watched.applied)),
            });
        }
    }
}
