//! The whole service over a store, compared with the reference model: property tests in one call.
//!
//! [`check_store`] generates sequences of operations and runs each one through the service, over a
//! new store, and through the [model](super::model). It compares every response and error, at the
//! end all stored data, and every counter and index with a recount. With faults, the store
//! conflicts, fails and loses responses. A failing sequence is shortened as far as possible and
//! reported with its seed.
//!
//! It needs no runtime of its own: it is a future, and awaits only the store.
//!
//! ```
//! use std::sync::Arc;
//! use knowledge_core::store::{MemoryStore, Store};
//! use knowledge_testing::simulation::{self, Config};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! // Your own store here: each case gets an empty one.
//! let make_store = || async { Arc::new(MemoryStore::new()) as Arc<dyn Store> };
//! simulation::check_store(&Config::new(4), make_store).await;
//! simulation::check_store(&Config::new(4).with_faults(), make_store).await;
//! # }
//! ```

mod call;
mod concurrent;
mod cross_tenant;
mod env;
mod first_calls;
mod indeterminate;
pub mod operations;
mod part;
mod refusals;
mod resolve;
mod run;
mod world;

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use proptest::prelude::any;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config as ProptestConfig, RngAlgorithm, RngSeed, TestRng, TestRunner};

pub use self::call::{Call, execute};
pub use self::concurrent::ConcurrentRun;
pub use self::env::SimulatedTime;
use self::operations::Op;
pub use self::resolve::Step;
pub use self::run::{Divergence, Simulation, contents, simulated_limits, simulated_options};
pub use self::world::World;
pub use crate::model::{Caller, ErrorResponse, Expected, Outcome, Response, agrees};
use crate::strategies::{concurrent_operations, operations};
use knowledge_core::store::Store;
use knowledge_store::conformance::Task;
use knowledge_store::faults::FaultRates;

/// Maximum number of shorter sequences tried after a failure.
const SHRINK_TRIES_MAX: usize = 3_000;
/// Number of concurrent callers.
const CALLERS: usize = 4;

/// Extent of a check, such as [`check_store`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// Number of sequences.
    pub cases: u32,
    /// Maximum number of operations in a sequence.
    pub operations: usize,
    /// Probabilities of faults of the store. [`check_callers`] has its own.
    pub faults: FaultRates,
    /// Seed of the first case; each further case uses the next number.
    ///
    /// Without one it is proptest's: random, or `PROPTEST_RNG_SEED` of the environment.
    pub seed: Option<u64>,
}

impl Config {
    /// Creates a configuration of this many cases of up to 120 operations, without faults.
    #[must_use]
    pub fn new(cases: u32) -> Self {
        Self {
            cases,
            operations: 120,
            faults: FaultRates::default(),
            seed: None,
        }
    }

    /// Adds conflicts, failures and lost responses of every kind.
    #[must_use]
    pub fn with_faults(mut self) -> Self {
        self.faults = FaultRates {
            conflict: 0.15,
            unavailable: 0.03,
            full: 0.01,
            lost_applied: 0.05,
            lost_not_applied: 0.05,
            lost_applied_later: 0.05,
            read: 0.004,
        };
        self
    }

    /// Generates the value of a case, counted from 0, with its seed.
    pub(crate) fn generate<S: Strategy>(&self, case: u32, strategy: &S) -> (u64, S::Value) {
        let first = self.seed.unwrap_or_else(seed_of_proptest);
        let (seed, tree) = case_of(first, case, strategy);
        (seed, tree.current())
    }

    /// Sets the seed of the first case.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }
}

/// Runs the property tests over stores of one kind.
///
/// `make_store` creates an empty store for each case.
///
/// # Panics
/// If the service over such a store differs from the model: with the shortest failing sequence of
/// operations found, its calls, and the seed.
pub async fn check_store<F, R>(config: &Config, make_store: F)
where
    F: Fn() -> R,
    R: Future<Output = Arc<dyn Store>>,
{
    let make_store = &make_store;
    check_cases(config, operations(config.operations), |seed, ops| async move {
        check_operations(make_store().await, seed, config.faults, &ops).await
    })
    .await;
}

/// Runs the property tests with concurrent callers over stores of one kind.
///
/// The store of each caller sometimes conflicts and loses responses, whatever the configuration
/// says.
///
/// The calls must be linearizable: one order of the calls of each organisation, by the versions of
/// their commits, in which the model returns the same results. Versions of commits that share a key
/// must therefore increase, which no other test requires.
///
/// `run` runs all tasks concurrently. Threads reveal races inside a store; if the tasks take turns
/// on a single thread, as in the example, a seed always gives the same run.
///
/// ```
/// # use std::sync::Arc;
/// # use knowledge_core::store::{MemoryStore, Store};
/// # use knowledge_testing::simulation::{self, Config};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let make_store = || async { Arc::new(MemoryStore::new()) as Arc<dyn Store> };
/// let take_turns = |tasks| async { drop(futures::future::join_all(tasks).await) };
/// simulation::check_callers(&Config::new(4), make_store, take_turns).await;
/// # }
/// ```
///
/// # Panics
/// As [`check_store`].
pub async fn check_callers<F, R, G, T>(config: &Config, make_store: F, run: G)
where
    F: Fn() -> R,
    R: Future<Output = Arc<dyn Store>>,
    G: Fn(Vec<Task<'static>>) -> T,
    T: Future<Output = ()>,
{
    let (make_store, run) = (&make_store, &run);
    check_cases(
        config,
        concurrent_operations(CALLERS, config.operations / CALLERS),
        |seed, callers| async move {
            let concurrent = ConcurrentRun::begin(make_store().await, seed).await?;
            run(concurrent.tasks(seed, &callers)).await;
            concurrent.check().await
        },
    )
    .await;
}

/// Runs a custom property on the values of a strategy, each with a seed.
///
/// The number of cases and the reports are as in [`check_store`].
///
/// ```
/// # use std::sync::Arc;
/// # use knowledge_core::store::MemoryStore;
/// # use knowledge_store::faults::FaultRates;
/// use knowledge_testing::simulation::{Config, Simulation, check_cases};
/// use knowledge_testing::strategies::operations;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// // The store is consistent after every step.
/// check_cases(&Config::new(2), operations(10), |seed, ops| async move {
///     let store = Arc::new(MemoryStore::new());
///     let mut simulation = Simulation::begin(store, seed, FaultRates::default()).await?;
///     for op in &ops {
///         simulation.step(op).await?;
///         assert_eq!(simulation.service().verify().await.unwrap().differences, []);
///     }
///     Ok(())
/// })
/// .await;
/// # }
/// ```
///
/// # Panics
/// If `run` fails or panics: with the simplest failing value found.
pub async fn check_cases<T, S, F, R>(config: &Config, strategy: S, run: F)
where
    T: std::fmt::Debug,
    S: Strategy<Value = T>,
    F: Fn(u64, T) -> R,
    R: Future<Output = Result<(), Divergence>>,
{
    let first = config.seed.unwrap_or_else(seed_of_proptest);
    for case in 0..config.cases {
        let (seed, mut tree) = case_of(first, case, &strategy);
        if let Err(divergence) = without_panic(run(seed, tree.current())).await {
            // Shortening may take longer than anybody waits.
            eprintln!("case with seed {seed} fails: {}", divergence.problem);
            let simplest = simplify(&mut tree, divergence, |value| run(seed, value)).await;
            panic!(
                "case {} of {} fails; run it again with PROPTEST_RNG_SEED={seed}\n{simplest}",
                case + 1,
                config.cases,
            );
        }
    }
}

/// Runs one sequence of operations over an empty store.
///
/// # Errors
/// A [`Divergence`] if the service differs from the model.
pub async fn check_operations(
    store: Arc<dyn Store>,
    seed: u64,
    faults: FaultRates,
    ops: &[Op],
) -> Result<(), Divergence> {
    let mut simulation = Simulation::begin(store, seed, faults).await?;
    for op in ops {
        simulation.step(op).await?;
    }
    simulation.finish().await
}

async fn without_panic(
    run: impl Future<Output = Result<(), Divergence>>,
) -> Result<(), Divergence> {
    match AssertUnwindSafe(run).catch_unwind().await {
        Ok(outcome) => outcome,
        Err(panic) => Err(Divergence {
            trace: Vec::new(),
            problem: format!("panicked: {}", panic_message(&*panic)),
        }),
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("without a message")
}

/// Returns the divergence of the simplest failing value found.
async fn simplify<T, F, R>(
    tree: &mut impl ValueTree<Value = T>,
    mut divergence: Divergence,
    run: F,
) -> Divergence
where
    F: Fn(T) -> R,
    R: Future<Output = Result<(), Divergence>>,
{
    let mut goes_on = tree.simplify();
    for _ in 0..SHRINK_TRIES_MAX {
        if !goes_on {
            break;
        }
        goes_on = match without_panic(run(tree.current())).await {
            Ok(()) => tree.complicate(),
            Err(simpler) => {
                divergence = simpler;
                tree.simplify()
            }
        };
    }
    divergence
}

/// Returns the seed of a case and what it generates.
fn case_of<S: Strategy>(first: u64, case: u32, strategy: &S) -> (u64, S::Tree) {
    let seed = first.wrapping_add(u64::from(case));
    let tree = strategy.new_tree(&mut runner(seed));
    (seed, tree.expect("no strategy rejects anything"))
}

/// Creates a runner whose values are determined by the seed.
fn runner(seed: u64) -> TestRunner {
    let mut bytes = [0; 32];
    fastrand::Rng::with_seed(seed).fill(&mut bytes);
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    TestRunner::new_with_rng(ProptestConfig::default(), rng)
}

fn seed_of_proptest() -> u64 {
    match ProptestConfig::default().rng_seed {
        RngSeed::Fixed(seed) => seed,
        // Short enough to be read aloud.
        RngSeed::Random => {
            let number = any::<u32>().new_tree(&mut TestRunner::default());
            u64::from(number.expect("a number is never rejected").current())
        }
    }
}
