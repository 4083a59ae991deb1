//! One simulation: operations on the service and the model, compared step by step.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::call::{Call, execute};
use super::env::SimulatedTime;
use super::indeterminate::{Changes, Contents};
use super::operations::{Maintain, Op};
use super::resolve::Step;
use super::world::World;
use crate::model::Model;
use crate::model::{ErrorResponse, Outcome, Response, agrees};
use crate::requests::with;
use knowledge_core::api::Api;
use knowledge_core::limits::Limits;
use knowledge_core::model::Timestamp;
use knowledge_core::service::{FanOutLimits, KnowledgeService, Options, SealingKey};
use knowledge_core::store::{Key, KeyRange, Store, StoreError, StoreExt};
use knowledge_store::faults::{FaultPlan, FaultRates, FaultStore};

/// Maximum number of characters of a call or a result in a report.
const SHOWN_CHARS_MAX: usize = 1_000;
/// Maximum number of calls until maintenance must be complete.
const MAINTAIN_CALLS_MAX: usize = 50;
/// Maximum number of calls until the fan-out of events must be complete.
const EXPAND_CALLS_MAX: usize = 12;

/// Difference between the service and the model, with the calls that led to it.
#[derive(Clone, Debug)]
pub struct Divergence {
    /// Calls so far with their results.
    pub trace: Vec<String>,
    /// Description of the difference.
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

/// Returns small limits, which short sequences reach.
#[must_use]
pub fn simulated_limits() -> Limits {
    with(Limits::default(), |limits| {
        limits.bulk_memories_max = 6;
        limits.webhooks_per_workspace_max = 2;
        limits.inbound_webhooks_per_workspace_max = 2;
        limits.connectors_per_workspace_max = 3;
        limits.mcp_keys_per_workspace_max = 3;
        limits.tokens_per_member_max = 4;
        limits.custom_roles_per_org_max = 6;
        limits.memories_per_org_max = 40;
        limits.recalls_per_org_max = 8;
        limits.chats_per_org_max = 6;
        limits.chat_messages_per_org_max = 12;
        limits.sources_per_org_max = 6;
        limits.members_per_org_max = 12;
        limits.endpoints_per_org_max = 6;
        limits.subscriptions_per_recall_max = 2;
    })
}

/// Returns the options of the service in a simulation.
#[must_use]
pub fn simulated_options() -> Options {
    with(Options::new(SealingKey::new([7; 32])), |options| {
        options.limits = simulated_limits();
    })
}

/// Reads the whole contents of a store.
///
/// # Errors
/// Errors of the store.
pub async fn contents(store: &dyn Store) -> Result<BTreeMap<Key, Bytes>, StoreError> {
    let found = store.scan_all(&KeyRange::all()).await?;
    Ok(found
        .into_iter()
        .map(|found| (found.key, found.entry.value))
        .collect())
}

/// Service over a store that may fail, beside the model.
#[derive(Debug)]
pub struct Simulation {
    time: SimulatedTime,
    pub(super) store: Arc<FaultStore>,
    api: Api,
    pub(super) model: Model,
    world: World,
    is_faulty: bool,
    past: Vec<(Timestamp, Call, Outcome)>,
}

impl Simulation {
    /// Creates two organisations with members, tokens and some memories in an empty store.
    ///
    /// From then on the store fails at these rates.
    ///
    /// # Errors
    /// A [`Divergence`] if this already fails.
    pub async fn begin(
        store: Arc<dyn Store>,
        seed: u64,
        rates: FaultRates,
    ) -> Result<Self, Divergence> {
        let plan = FaultPlan::seeded(seed, rates);
        let store = Arc::new(FaultStore::new(store, plan));
        store.disable_faults();
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
            api: Api::new(service),
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
            simulation.store.enable_faults();
        }
        Ok(simulation)
    }

    /// Returns the service, for additional calls that change nothing.
    #[must_use]
    pub fn service(&self) -> &KnowledgeService {
        self.api.service()
    }

    /// Returns the clock.
    #[must_use]
    pub fn time(&self) -> &SimulatedTime {
        &self.time
    }

    /// Returns the entities created so far.
    #[must_use]
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Returns the model.
    #[must_use]
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Returns the store of the service, with its faults.
    #[must_use]
    pub fn store(&self) -> &Arc<FaultStore> {
        &self.store
    }

    /// Returns the calls so far with their times and results.
    pub fn past(&self) -> &[(Timestamp, Call, Outcome)] {
        &self.past
    }

    /// Splits the simulation into the time, the world and the model, for further use.
    pub(super) fn into_parts(self) -> (SimulatedTime, World, Model) {
        (self.time, self.world, self.model)
    }

    /// Resolves an operation against the current entities.
    #[must_use]
    pub fn resolve(&mut self, op: &Op) -> Step {
        self.world.resolve(op)
    }

    /// Runs an operation on the service and the model, and compares.
    ///
    /// # Errors
    /// A [`Divergence`] if they differ.
    pub async fn step(&mut self, op: &Op) -> Result<(), Divergence> {
        match self.world.resolve(op) {
            Step::Nothing => Ok(()),
            Step::Advance(by) => {
                self.time.advance(by);
                Ok(())
            }
            Step::Call(call) => self.call(call).await,
        }
    }

    /// Makes a call to the service and the model, and compares.
    ///
    /// # Errors
    /// A [`Divergence`] if they differ.
    pub async fn call(&mut self, call: Call) -> Result<(), Divergence> {
        let before = if self.is_faulty || call.request().is_silent() {
            Some(self.contents().await?)
        } else {
            None
        };
        let outcome = execute(&self.api, &call).await;
        let now = self.time.now();
        self.past.push((now, call.clone(), outcome.clone()));
        match (before, &outcome) {
            (Some(before), Err(error)) if error.is_of_the_store() => {
                self.resolve_indeterminate(&before, &call, error, now)
                    .await?;
            }
            (before, _) => {
                let learned = self.learned(before.as_ref(), &call, &outcome).await?;
                let expected = self.model.apply(&call, now, learned.as_ref());
                if !agrees(&expected, &outcome) {
                    return Err(self.diverged(format!("the model expects {expected:?}")));
                }
                if outcome == Err(ErrorResponse::Forbidden) {
                    self.note_refusal(before.as_ref(), &call, now).await?;
                }
                if before.is_some() {
                    self.settle().await?;
                }
                if let Some(response) = &learned {
                    self.world.learn(&call, response);
                }
            }
        }
        if self.is_faulty {
            let is_rejected = |error: &ErrorResponse| !error.is_of_the_store();
            if call.request().leaves_work() && !outcome.is_err_and(|error| is_rejected(&error)) {
                self.settle().await?;
                self.maintain().await?;
            }
            self.store.enable_faults();
        }
        Ok(())
    }

    /// Returns the response to learn from, which is reconstructed if it says too little.
    async fn learned(
        &self,
        before: Option<&Contents>,
        call: &Call,
        outcome: &Outcome,
    ) -> Result<Option<Response>, Divergence> {
        match (before, outcome) {
            (_, Err(_)) => Ok(None),
            (Some(before), Ok(_)) if call.request().is_silent() => {
                self.settle().await?;
                let after = self.contents().await?;
                self.reconstructed(call, before, &after).map(Some)
            }
            (_, Ok(response)) => Ok(Some(response.clone())),
        }
    }

    fn reconstructed(
        &self,
        call: &Call,
        before: &Contents,
        after: &Contents,
    ) -> Result<Response, Divergence> {
        let changes = Changes { before, after };
        let response = call.request().reconstruct(&self.model, &changes);
        response.map_err(|problem| self.diverged(problem))
    }

    /// Disables faults and waits for delayed commits.
    pub(super) async fn settle(&self) -> Result<(), Divergence> {
        self.store.disable_faults();
        let settled = self.store.get(&[]).await;
        settled.map(drop).map_err(|error| self.broken(&error))
    }

    /// Resolves an indeterminate call and updates the model accordingly.
    ///
    /// The call must have been applied as a whole or not at all.
    async fn resolve_indeterminate(
        &mut self,
        before: &Contents,
        call: &Call,
        error: &ErrorResponse,
        now: Timestamp,
    ) -> Result<(), Divergence> {
        self.settle().await?;
        let after = self.contents().await?;
        if call.is_maintenance() {
            self.model.lose_announcements();
            // It may have erased some of the expired chats: the rest follows.
            if self.model.has_retention() {
                self.maintain().await?;
            }
            return Ok(());
        }
        if *before == after {
            return Ok(());
        }
        if *error == ErrorResponse::Conflict {
            return Err(self.diverged("a conflict changed something".to_owned()));
        }
        let response = self.reconstructed(call, before, &after)?;
        let is_silent = call.request().is_silent();
        match self.model.recover(call, now, &response) {
            Ok(recovered) => {
                let learned = if is_silent { response } else { recovered };
                self.world.learn(call, &learned);
                Ok(())
            }
            // A rejected message is recorded too.
            Err(_) if is_silent => Ok(()),
            Err(errors) => Err(self.diverged(format!(
                "the call changed something; the model expects {errors:?}"
            ))),
        }
    }

    /// Compares the whole contents with the model, and every counter and index with a recount.
    ///
    /// Then completes maintenance, compares again, fans out the events and compares the deliveries.
    ///
    /// # Errors
    /// A [`Divergence`] if anything differs.
    pub async fn finish(&mut self) -> Result<(), Divergence> {
        let was_faulty = std::mem::take(&mut self.is_faulty);
        self.settle().await?;
        self.compare().await?;
        for call in self.world.last_calls() {
            self.call(call).await?;
        }
        self.maintain().await?;
        self.compare().await?;
        self.announce(was_faulty).await
    }

    /// Runs maintenance until it is complete.
    async fn maintain(&mut self) -> Result<(), Divergence> {
        for _ in 0..MAINTAIN_CALLS_MAX {
            let now = self.time.now();
            let done = self.service().maintain(now).await;
            let applied = self.model.apply(&Maintain.into(), now, None);
            applied.map_err(|errors| self.diverged(format!("maintain: {errors:?}")))?;
            match done {
                Ok(done) if done.has_more => {}
                Ok(_) => return Ok(()),
                Err(error) => return Err(self.diverged(format!("maintain: {error:?}"))),
            }
        }
        Err(self.diverged("maintenance does not complete".to_owned()))
    }

    /// Fans out the events, first over the failing store in steps of all sizes, and compares.
    async fn announce(&self, is_faulty: bool) -> Result<(), Divergence> {
        let now = self.time.now();
        if is_faulty {
            self.store.enable_faults();
            for deliveries in 1..EXPAND_CALLS_MAX {
                let part = FanOutLimits {
                    steps: 2,
                    deliveries,
                    ..FanOutLimits::default()
                };
                // The comparison below reveals any damage.
                drop(self.service().dispatcher().fan_out_within(now, part).await);
            }
            self.settle().await?;
        }
        for _ in 0..EXPAND_CALLS_MAX {
            let done = self.service().dispatcher().fan_out(now).await;
            let done = done.map_err(|error| self.diverged(format!("fan-out: {error:?}")))?;
            if !done.has_more {
                return self.compare_deliveries(now).await;
            }
        }
        Err(self.diverged("the fan-out does not complete".to_owned()))
    }

    async fn compare_deliveries(&self, now: Timestamp) -> Result<(), Divergence> {
        let differences = self
            .model
            .delivery_differences(&**self.store.inner(), now)
            .await
            .map_err(|error| self.broken(&error))?;
        self.verified(differences).await
    }

    async fn compare(&self) -> Result<(), Divergence> {
        let differences = self.model.differences(&**self.store.inner()).await;
        let differences = differences.map_err(|error| self.broken(&error))?;
        self.verified(differences).await
    }

    /// Fails if there are any of these differences, or of those that verification finds.
    async fn verified(&self, mut differences: Vec<String>) -> Result<(), Divergence> {
        let verified = self.service().verify().await;
        let verified = verified.map_err(|error| self.diverged(format!("verify: {error:?}")))?;
        let recounted = verified.differences.iter().map(ToString::to_string);
        differences.extend(recounted);
        if differences.is_empty() {
            Ok(())
        } else {
            Err(self.diverged(differences.join("\n")))
        }
    }

    pub(super) async fn contents(&self) -> Result<Contents, Divergence> {
        let found = contents(&**self.store.inner()).await;
        found.map_err(|error| self.broken(&error))
    }

    pub(super) fn broken(&self, error: &StoreError) -> Divergence {
        self.diverged(format!("the store itself failed: {error}"))
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

/// Formats a call with its result.
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
