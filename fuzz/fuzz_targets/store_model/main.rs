//! Sequences of commits, reads and scans on a [`MemoryStore`] match a model, which is a plain map.
#![no_main]

mod model;
mod operation;

use futures::FutureExt;
use knowledge_core::store::{Direction, Key, KeyRange, MemoryStore, Store, StoreExt};
use libfuzzer_sys::fuzz_target;

use self::model::Model;
use self::operation::{Expected, Operation};

fuzz_target!(|operations: Vec<Operation>| {
    let store = MemoryStore::new();
    let mut model = Model::default();
    for operation in &operations {
        apply(&store, &mut model, operation);
    }
    assert_eq!(
        scan(&store, &KeyRange::all(), usize::MAX, Direction::Forward),
        model.scan(&KeyRange::all(), usize::MAX, Direction::Forward)
    );
});

/// Applies an operation to the store and the model, and compares the results.
fn apply(store: &MemoryStore, model: &mut Model, operation: &Operation) {
    match operation {
        Operation::Commit { checks, changes } => {
            let checks = checks.iter().map(|(name, expected)| {
                let key = name.key();
                let version = match expected {
                    Expected::Current => model.version(&key),
                    Expected::Absent => None,
                    Expected::Outdated => model.outdated(&key),
                };
                (key, version)
            });
            let checks: Vec<_> = checks.collect();
            let changes: Vec<_> = changes
                .iter()
                .map(|(name, change)| (name.key(), change))
                .collect();
            let commit = operation::commit(&checks, &changes);
            let outcome = ready(store.commit(commit)).map_err(|error| error.kind());
            model.commit(&checks, &changes, outcome);
        }
        Operation::Get(names) => {
            let keys: Vec<Key> = names.iter().map(operation::Name::key).collect();
            let found = ready(store.get(&keys)).expect("memory can be read");
            let found: Vec<_> = found
                .into_iter()
                .map(|entry| entry.map(|entry| (entry.value, entry.version)))
                .collect();
            assert_eq!(found, model.get(&keys));
        }
        Operation::Scan {
            bounds,
            limit,
            reverse,
        } => {
            let range = bounds.range();
            let limit = usize::from(*limit);
            let direction = if *reverse {
                Direction::Reverse
            } else {
                Direction::Forward
            };
            assert_eq!(
                scan(store, &range, limit, direction),
                model.scan(&range, limit, direction)
            );
        }
    }
}

fn scan(
    store: &MemoryStore,
    range: &KeyRange,
    limit: usize,
    direction: Direction,
) -> Vec<model::FoundEntry> {
    ready(store.scan(range, limit, direction))
        .expect("memory can be read")
        .into_iter()
        .map(|found| (found.key, found.entry.value, found.entry.version))
        .collect()
}

fn ready<T>(future: impl Future<Output = T>) -> T {
    future
        .now_or_never()
        .expect("the memory store returns without waiting")
}
