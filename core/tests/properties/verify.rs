//! Verification notices what is missing, what is there too much and what does not count right.

use std::collections::BTreeSet;
use std::sync::Arc;

use knowledge_core::service::KnowledgeService;
use knowledge_core::store::{Commit, Key, Store};
use knowledge_core::testing::faults::FaultRates;
use knowledge_core::testing::simulation::{SimulatedTime, Simulation, contents, simulated_options};
use knowledge_core::testing::strategies::operations;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use crate::memory;

/// Families of which an entry may be missing: nothing has to lead to it.
const OPTIONAL: [&str; 9] = [
    "audit",
    "audit_actor",
    "chat_message",
    "due",
    "event",
    "idempotency",
    "last_ingest",
    "mcp_key_use",
    "meta",
];
/// Families of which an entry need not be there as long as nothing refers to it.
const REFERRED_TO: [&str; 3] = ["source", "mcp_key", "org"];

/// A store after all kinds of operations.
async fn lived_in() -> Arc<dyn Store> {
    let ops = operations(150).new_tree(&mut TestRunner::deterministic());
    let store: Arc<dyn Store> = memory().await;
    let begun = Simulation::begin(Arc::clone(&store), 3, FaultRates::default()).await;
    let mut simulation = begun.unwrap();
    for op in ops.unwrap().current() {
        simulation.step(&op).await.unwrap();
    }
    store
}

async fn differing(store: &Arc<dyn Store>) -> BTreeSet<String> {
    let env = SimulatedTime::new().env(1);
    let service = KnowledgeService::open(Arc::clone(store), env, simulated_options()).await;
    let verified = service.unwrap().verify().await.unwrap();
    let differences = verified.differences.iter();
    differences
        .map(|difference| difference.key.to_string())
        .collect()
}

async fn write(store: &Arc<dyn Store>, commit: knowledge_core::store::CommitBuilder) {
    store.commit(commit.build().unwrap()).await.unwrap();
}

fn family(key: &Key) -> String {
    key.to_string().split('/').next().unwrap().to_owned()
}

#[tokio::test]
async fn whatever_is_missing_is_noticed() {
    let store = lived_in().await;
    assert_eq!(differing(&store).await, BTreeSet::new());
    let mut noticed = BTreeSet::new();
    for (key, value) in contents(&*store).await.unwrap() {
        let family = family(&key);
        if OPTIONAL.contains(&&*family) || (family.ends_with("_count") && value == "0") {
            continue;
        }
        write(&store, Commit::builder().delete(key.clone())).await;
        let differences = differing(&store).await;
        if differences.is_empty() {
            assert!(REFERRED_TO.contains(&&*family), "{key} is not missed");
        } else {
            noticed.insert(family);
        }
        write(&store, Commit::builder().put(key, value)).await;
    }
    assert!(noticed.len() >= 30, "{noticed:?}");
    assert_eq!(differing(&store).await, BTreeSet::new());
}

#[tokio::test]
async fn a_counter_that_is_one_off_is_noticed_by_name() {
    let store = lived_in().await;
    for (key, _) in contents(&*store).await.unwrap() {
        if !family(&key).ends_with("_count") {
            continue;
        }
        write(&store, Commit::builder().add(key.clone(), 1)).await;
        assert_eq!(differing(&store).await, BTreeSet::from([key.to_string()]));
        write(&store, Commit::builder().add(key, -1)).await;
    }
}

#[tokio::test]
async fn what_is_of_no_family_and_what_cannot_be_read_is_noticed() {
    let store = lived_in().await;
    let stray = Key::new("stray/1").unwrap();
    write(&store, Commit::builder().put(stray.clone(), "1")).await;
    assert_eq!(differing(&store).await, BTreeSet::from([stray.to_string()]));
    write(&store, Commit::builder().delete(stray)).await;
    let mut all = contents(&*store).await.unwrap().into_iter();
    let (memory, _) = all.find(|(key, _)| family(key) == "memory").unwrap();
    write(&store, Commit::builder().put(memory.clone(), "{}")).await;
    assert!(differing(&store).await.contains(&memory.to_string()));
}
