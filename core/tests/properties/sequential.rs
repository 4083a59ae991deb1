//! Properties of sequential calls.

use std::collections::BTreeMap;

use knowledge_core::api::{OPERATIONS, Operation};
use knowledge_store::faults::FaultRates;
use knowledge_testing::simulation::{Config, Simulation, check_store};
use knowledge_testing::strategies::operations;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use crate::{cases, memory};

/// Number of sequences in which each operation has to occur.
const CASES_OF_EACH_OPERATION: u64 = 300;

#[tokio::test]
async fn service_matches_model() {
    check_store(&Config::new(cases(400)), memory).await;
}

#[tokio::test]
async fn service_matches_model_over_failing_store() {
    check_store(&Config::new(cases(200)).with_faults(), memory).await;
}

/// A property test whose calls all fail shows nothing, so each operation has to succeed and to fail.
///
/// It fails for an operation of the interface that the simulation does not call.
#[tokio::test]
async fn generated_calls_of_each_operation_succeed_and_fail() {
    let mut runner = TestRunner::deterministic();
    let mut heard: BTreeMap<Option<String>, (u32, u32)> = BTreeMap::new();
    for seed in 0..CASES_OF_EACH_OPERATION {
        let ops = operations(120).new_tree(&mut runner).unwrap().current();
        let begun = Simulation::begin(memory().await, seed, FaultRates::default()).await;
        let mut simulation = begun.unwrap();
        for op in &ops {
            simulation.step(op).await.unwrap();
        }
        for (_, call, outcome) in simulation.past() {
            let operation = call.operation().map(Operation::id);
            let (responses, errors) = heard.entry(operation).or_default();
            *(if outcome.is_ok() { responses } else { errors }) += 1;
        }
    }
    let mut rare = Vec::new();
    for spec in OPERATIONS {
        let operation = Some(spec.operation.id());
        let (responses, errors) = heard.remove(&operation).unwrap_or_default();
        if responses < 5 || errors < 1 {
            rare.push((operation, responses, errors));
        }
    }
    assert_eq!(rare, []);
    // What the operator does has no operation.
    assert_eq!(heard.keys().collect::<Vec<_>>(), [&None]);
}
