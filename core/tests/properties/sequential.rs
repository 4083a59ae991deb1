//! Properties of sequential calls.

use std::collections::BTreeMap;

use knowledge_store::faults::FaultRates;
use knowledge_testing::simulation::{Config, Simulation, check_store};
use knowledge_testing::strategies::operations;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use crate::{cases, memory};

#[tokio::test]
async fn service_matches_model() {
    check_store(&Config::new(cases(400)), memory).await;
}

#[tokio::test]
async fn service_matches_model_over_failing_store() {
    check_store(&Config::new(cases(200)).with_faults(), memory).await;
}

/// A property test whose calls all fail shows nothing, so each kind has to succeed and to fail.
#[tokio::test]
async fn generated_calls_of_each_kind_succeed_and_fail() {
    let mut runner = TestRunner::deterministic();
    let mut heard: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    for seed in 0..90 {
        let ops = operations(120).new_tree(&mut runner).unwrap().current();
        let begun = Simulation::begin(memory().await, seed, FaultRates::default()).await;
        let mut simulation = begun.unwrap();
        for op in &ops {
            simulation.step(op).await.unwrap();
        }
        for (_, call, outcome) in simulation.past() {
            let text = format!("{call:?}");
            let name = text.split('(').next().unwrap().to_owned();
            let (answers, refusals) = heard.entry(name).or_default();
            *(if outcome.is_ok() { answers } else { refusals }) += 1;
        }
    }
    assert_eq!(heard.remove("Maintain").unwrap().1, 0);
    assert_eq!(heard.len(), 23, "{heard:#?}");
    for (call, (answers, refusals)) in &heard {
        assert!(*answers >= 5 && *refusals >= 1, "{call}: {heard:#?}");
    }
}
