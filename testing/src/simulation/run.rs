//! One simulation: operations on the service and on the model, compared step by step.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::env::SimulatedTime;
use super::execute::execute;
use super::lost::made_up;
use super::resolve::Step;
use super::world::World;
use knowledge_core::limits::Limits;
use knowledge_core::model::Timestamp;
use knowledge_core::service::{ExpansionLimits, KnowledgeService, Options, SealingKey};
use knowledge_core::store::{Key, KeyRange, Store, StoreError, StoreExt};
use knowledge_store::faults::{FaultPlan, FaultRates, FaultStore};
use crate::model::{Call, Model, Outcome, Refusal, agrees};
use crate::strategies::Op;

/// How many characters of a call or an answer a report shows.
const SHOWN_CHARS_MAX: usize = 1_000;
/// How often maintenance is called until it has to be done.
const MAINTAIN_CALLS_MAX: usize = 50;
/// How often expansion is.
const EXPAND_CALLS_MAX: usize = 12;

/// Where the service and the model part, with all that led there.
#[derive(Clone, Debug)]
pub struct Divergence {
    /// The calls so far and what became of them.
    pub trace: Vec<String>,
    /// What is wrong.
    pub problem: String,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, line) in self.trace.iter().enumerate() {
            writeln!(f, "{:3}. {line}", number + 1)?;
        }
        f.write_str(&self.problem)
    }
}

/// Small limits, so that a short sequence reaches them.
#[must_use]
pub fn simulated_limits() -> Limits {
    Limits {
        bulk_memories_max: 6,
        webhooks_per_workspace_max: 2,
        inbound_webhooks_per_workspace_max: 2,
        connectors_per_workspace_max: 3,
        mcp_keys_per_workspace_max: 3,
        custom_roles_per_org_max: 6,
        subscriptions_per_recall_max: 2,
        ..Limits::default()
    }
}

/// What a service of a simulation is opened with.
#[must_use]
pub fn simulated_options() -> Options {
    Options {
        limits: simulated_limits(),
        ..Options::new(SealingKey::new([7; 32]))
    }
}

/// Everything that a store holds, by key.
pub(super) type Contents = BTreeMap<Key, Bytes>;

/// Everything that a store holds.
///
/// # Errors
/// Those of the store.
pub async fn contents(store: &dyn Store) -> Result<BTreeMap<Key, Bytes>, StoreError> {
    let found = store.scan_all(&KeyRange::all()).await?;
    Ok(found
        .into_iter()
        .map(|found| (found.key, found.entry.value))
        .collect())
}

/// The service over a store that may fail, beside the model.
#[derive(Debug)]
pub struct Simulation {
    time: SimulatedTime,
    store: Arc<FaultStore>,
    service: KnowledgeService,
    model: Model,
    world: World,
    is_faulty: bool,
    past: Vec<(Timestamp, Call, Outcome)>,
}

impl Simulation {
    /// Makes two organisations with members, tokens and some memories in an empty store. From then on the store
    /// fails at these rates.
    ///
    /// # Errors
    /// A [`Divergence`] where this already goes wrong.
    pub async fn begin(
        store: Arc<dyn Store>,
        seed: u64,
        rates: FaultRates,
    ) -> Result<Self, Divergence> {
        let plan = FaultPlan::seeded(seed, rates);
        let store = Arc::new(FaultStore::new(store, plan));
        store.heal();
        let time = SimulatedTime::new();
        let early = |error: &dyn fmt::Display| Divergence {
            trace: Vec::new(),
            problem: format!("the service cannot be set up: {error}"),
        };
        let service = KnowledgeService::open(
            Arc::clone(&store) as Arc<dyn Store>,
            time.env(seed),
            simulated_options(),
        )
        .await
        .map_err(|error| early(&error))?;
        let mut model = Model::new(simulated_limits());
        let world = World::set_up(&service, &mut model).await;
        let world = world.map_err(|error| early(&error))?;
        let mut simulation = Self {
            time,
            store,
            service,
            model,
            world,
            is_faulty: false,
            past: Vec::new(),
        };
        for stage in 0.. {
            let calls = simulation.world.first_calls(stage);
            if calls.is_empty() {
                break;
            }
            for call in calls {
                simulation.call(call).await?;
            }
        }
        simulation.past.clear();
        simulation.is_faulty = rates != FaultRates::default();
        if simulation.is_faulty {
            simulation.store.relapse();
        }
        Ok(simulation)
    }

    /// The service, for calls beside the sequence that change nothing.
    #[must_use]
    pub fn service(&self) -> &KnowledgeService {
        &self.service
    }

    /// The clock.
    #[must_use]
    pub fn time(&self) -> &SimulatedTime {
        &self.time
    }

    /// What there is so far.
    #[must_use]
    pub fn world(&self) -> &World {
        &self.world
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The store under the service, with its faults.
    #[must_use]
    pub fn store(&self) -> &Arc<FaultStore> {
        &self.store
    }

    /// The calls so far, when they were made and what became of them.
    pub fn past(&self) -> &[(Timestamp, Call, Outcome)] {
        &self.past
    }

    /// The time, the world and the model, for others to go on with.
    pub(super) fn into_parts(self) -> (SimulatedTime, World, Model) {
        (self.time, self.world, self.model)
    }

    /// What an operation would become now.
    #[must_use]
    pub fn resolve(&mut self, op: &Op) -> Step {
        self.world.resolve(op)
    }

    /// Carries out an operation on both sides and compares.
    ///
    /// # Errors
    /// A [`Divergence`] where they differ.
    pub async fn step(&mut self, op: &Op) -> Result<(), Divergence> {
        match self.world.resolve(op) {
            Step::Nothing => Ok(()),
            Step::Advance(by) => {
                self.time.advance(by);
                Ok(())
            }
            Step::Call(call) => self.call(*call).await,
        }
    }

    /// Carries out a call on both sides and compares.
    ///
    /// # Errors
    /// A [`Divergence`] where they differ.
    pub async fn call(&mut self, call: Call) -> Result<(), Divergence> {
        let before = match self.is_faulty {
            true => Some(self.contents().await?),
            false => None,
        };
        let outcome = execute(&self.service, &call).await;
        let now = self.time.now();
        self.past.push((now, call.clone(), outcome.clone()));
        match (before, &outcome) {
            (Some(before), Err(refusal)) if refusal.is_of_the_store() => {
                self.find_out(&before, &call, refusal, now).await?;
            }
            (before, _) => {
                let expected = self.model.apply(&call, now, outcome.as_ref().ok());
                if !agrees(&expected, &outcome) {
                    return Err(self.diverged(format!("the model expects {expected:?}")));
                }
                if before.is_some() {
                    self.settle().await?;
                }
                if let Ok(answer) = &outcome {
                    self.world.learn(&call, answer);
                }
            }
        }
        if self.is_faulty {
            self.store.relapse();
        }
        Ok(())
    }

    /// Lets what is still on its way to the store arrive, and looks no faults in the eye.
    async fn settle(&self) -> Result<(), Divergence> {
        self.store.heal();
        let settled = self.store.get(&[]).await;
        settled.map(drop).map_err(|error| self.broken(&error))
    }

    /// The answer was lost: looks whether the call was carried out, as a whole or not at all, and lets the model
    /// follow.
    async fn find_out(
        &mut self,
        before: &Contents,
        call: &Call,
        refusal: &Refusal,
        now: Timestamp,
    ) -> Result<(), Divergence> {
        self.settle().await?;
        let after = self.contents().await?;
        if matches!(call, Call::Maintain) {
            self.model.lose_announcements();
            return Ok(());
        }
        if *before == after {
            return Ok(());
        }
        if *refusal == Refusal::Conflict {
            return Err(self.diverged("a conflict has changed something".to_owned()));
        }
        let answer = made_up(&self.model, call, before, &after);
        let answer = answer.map_err(|problem| self.diverged(problem))?;
        match self.model.recover(call, now, &answer) {
            Ok(answer) => {
                self.world.learn(call, &answer);
                Ok(())
            }
            Err(refusals) => Err(self.diverged(format!(
                "something was changed; the model expects {refusals:?}"
            ))),
        }
    }

    /// Compares everything that is stored with the model, and every counter and index with a recount; lets
    /// maintenance finish and compares again; expands the events, and compares who hears of what.
    ///
    /// # Errors
    /// A [`Divergence`] where anything differs.
    pub async fn finish(&mut self) -> Result<(), Divergence> {
        let was_faulty = std::mem::take(&mut self.is_faulty);
        self.settle().await?;
        self.compare().await?;
        for _ in 0..MAINTAIN_CALLS_MAX {
            let done = self.service.maintain(self.time.now()).await;
            let now = self.time.now();
            let applied = self.model.apply(&Call::Maintain, now, None);
            applied.map_err(|refusals| self.diverged(format!("maintain: {refusals:?}")))?;
            match done {
                Ok(done) if done.has_more => {}
                Ok(_) => {
                    self.compare().await?;
                    return self.announce(was_faulty).await;
                }
                Err(error) => return Err(self.diverged(format!("maintain: {error:?}"))),
            }
        }
        Err(self.diverged("maintenance has more to do for ever".to_owned()))
    }

    /// Expands what was announced, at first over the failing store in steps of all sizes, and compares who hears of what.
    async fn announce(&self, is_faulty: bool) -> Result<(), Divergence> {
        let now = self.time.now();
        if is_faulty {
            self.store.relapse();
            for deliveries in 1..EXPAND_CALLS_MAX {
                let part = ExpansionLimits {
                    steps: 2,
                    deliveries,
                    ..ExpansionLimits::default()
                };
                // Whatever goes wrong is found out by those who come after.
                drop(self.service.expand_within(now, part).await);
            }
            self.settle().await?;
        }
        for _ in 0..EXPAND_CALLS_MAX {
            let done = self.service.expand_events(now).await;
            let done = done.map_err(|error| self.diverged(format!("expand: {error:?}")))?;
            if !done.has_more {
                return self.compare_deliveries().await;
            }
        }
        Err(self.diverged("events have more to be expanded for ever".to_owned()))
    }

    async fn compare_deliveries(&self) -> Result<(), Divergence> {
        let differences = self.model.delivery_differences(&**self.store.inner());
        let differences = differences.await.map_err(|error| self.broken(&error))?;
        self.verified(differences).await
    }

    async fn compare(&self) -> Result<(), Divergence> {
        let differences = self.model.differences(&**self.store.inner()).await;
        let differences = differences.map_err(|error| self.broken(&error))?;
        self.verified(differences).await
    }

    /// Refuses these differences and those that verification finds.
    async fn verified(&self, mut differences: Vec<String>) -> Result<(), Divergence> {
        let verified = self.service.verify().await;
        let verified = verified.map_err(|error| self.diverged(format!("verify: {error:?}")))?;
        let recounted = verified.differences.iter().map(ToString::to_string);
        differences.extend(recounted);
        if differences.is_empty() {
            Ok(())
        } else {
            Err(self.diverged(differences.join("\n")))
        }
    }

    async fn contents(&self) -> Result<Contents, Divergence> {
        let found = contents(&**self.store.inner()).await;
        found.map_err(|error| self.broken(&error))
    }

    fn broken(&self, error: &StoreError) -> Divergence {
        self.diverged(format!("the store fails by itself: {error}"))
    }

    fn diverged(&self, problem: String) -> Divergence {
        let begin = SimulatedTime::new().now();
        let line = |(at, call, outcome): &(Timestamp, Call, Outcome)| {
            let after = at.since(begin).as_millis();
            format!("after {after} ms {}", shown(call, outcome))
        };
        Divergence {
            trace: self.past.iter().map(line).collect(),
            problem,
        }
    }
}

/// A call and what became of it, for people.
pub(super) fn shown(call: &Call, outcome: &Outcome) -> String {
    let (call, outcome) = (format!("{call:?}"), format!("{outcome:?}"));
    format!("{}\n     -> {}", shortened(&call), shortened(&outcome))
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
