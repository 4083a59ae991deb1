//! One run in full, to be compared with the same run elsewhere.

use std::fmt::Write;
use std::sync::Arc;

use proptest::strategy::{Strategy, ValueTree};

use super::run::{Divergence, Simulation, contents};
use super::runner;
use crate::store::Store;
use crate::testing::faults::FaultRates;
use crate::testing::strategies::operations;

/// How many operations the longest sequence has.
const OPERATIONS: usize = 120;

/// Carries out a sequence of operations over an empty store, and tells everything that came of it: each call with its
/// time and its answer, then each key that is stored with its value. The same seed gives the same text, on every target
/// and over every store.
///
/// # Errors
/// A [`Divergence`] where the service does not do what the model says.
pub async fn transcript(store: Arc<dyn Store>, seed: u64) -> Result<String, Divergence> {
    let ops = operations(OPERATIONS).new_tree(&mut runner(seed));
    let ops = ops.expect("no strategy rejects anything").current();
    let mut simulation = Simulation::begin(Arc::clone(&store), seed, FaultRates::default()).await?;
    for op in &ops {
        simulation.step(op).await?;
    }
    let mut text = String::new();
    for (at, call, outcome) in simulation.past() {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{at} {call:?}\n    {outcome:?}");
    }
    let stored = contents(&*store).await.map_err(|error| Divergence {
        trace: Vec::new(),
        problem: format!("the store fails by itself: {error}"),
    })?;
    for (key, value) in stored {
        let _ = writeln!(text, "{key} {}", value.escape_ascii());
    }
    Ok(text)
}
