//! Test of reproducibility.

use std::collections::BTreeMap;

use bytes::Bytes;
use knowledge_core::store::Key;
use knowledge_testing::simulation::{Config, Simulation, contents};
use knowledge_testing::strategies::{Op, operations};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use crate::memory;

async fn stored(seed: u64, ops: &[Op]) -> BTreeMap<Key, Bytes> {
    let faults = Config::new(1).with_faults().faults;
    let begun = Simulation::begin(memory().await, seed, faults).await;
    let mut simulation = begun.unwrap();
    for op in ops {
        simulation.step(op).await.unwrap();
    }
    simulation.finish().await.unwrap();
    contents(&**simulation.store().inner()).await.unwrap()
}

#[tokio::test]
async fn same_seed_stores_same_bytes() {
    let mut runner = TestRunner::deterministic();
    for seed in 0..15 {
        let ops = operations(80).new_tree(&mut runner).unwrap().current();
        let first = stored(seed, &ops).await;
        assert!(first == stored(seed, &ops).await, "seed {seed}");
        assert!(first != stored(seed + 1_000, &ops).await, "seed {seed}");
    }
}
