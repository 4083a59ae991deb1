//! Benchmarks of the storage trait, on all stores of this project and on redb for comparison.

use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use futures::future;
use knowledge_benches::{Record, Records, RedbOptions, RedbStore};
use knowledge_core::store::{Commit, CommitOutcome, Direction, Key, MemoryStore, Store, StoreExt};
use knowledge_storage_fjall::{FjallOptions, FjallStore};
use knowledge_storage_sled::{SledOptions, SledStore};
use tokio::runtime::Runtime;

/// Number of stored records.
const STORED_RECORDS: usize = 100_000;
/// Number of stored records when every benchmark runs once, as a test.
const STORED_RECORDS_TESTED: usize = 10_000;
/// Number of records of a bulk operation.
const BULK_RECORDS: usize = 1_000;
/// Number of records that a scan returns.
const SCAN_RECORDS: usize = 10_000;
/// Number of tasks that commit concurrently.
const TASKS: usize = 64;
/// Number of consecutive commits per task.
const TASK_COMMITS: usize = 16;

fn memory(criterion: &mut Criterion) {
    bench_store(criterion, "memory", Arc::new(MemoryStore::new()));
}

/// Benchmarks fjall in the directory for temporary files, which `TMPDIR` sets.
fn fjall(criterion: &mut Criterion) {
    let directory = tempfile::tempdir().expect("a directory can be created");
    let store = FjallStore::open(directory.path(), FjallOptions::default()).expect("a store opens");
    bench_store(criterion, "fjall", Arc::new(store));
}

/// Benchmarks sled in the same directory.
fn sled(criterion: &mut Criterion) {
    let directory = tempfile::tempdir().expect("a directory can be created");
    let store = SledStore::open(directory.path(), SledOptions::default()).expect("a store opens");
    bench_store(criterion, "sled", Arc::new(store));
}

/// Benchmarks redb in the same directory.
fn redb(criterion: &mut Criterion) {
    let directory = tempfile::tempdir().expect("a directory can be created");
    let store = RedbStore::open(directory.path(), RedbOptions::default()).expect("a store opens");
    bench_store(criterion, "redb", Arc::new(store));
}

fn bench_store(criterion: &mut Criterion, name: &str, shared: Arc<dyn Store>) {
    let runtime = Runtime::new().expect("a runtime starts");
    // `cargo bench` passes this argument; `cargo test` does not.
    let is_measured = std::env::args().any(|argument| argument == "--bench");
    let stored = if is_measured {
        STORED_RECORDS
    } else {
        STORED_RECORDS_TESTED
    };
    let mut records = runtime.block_on(Records::fill(&*shared, stored));
    let store = &*shared;
    let mut group = criterion.benchmark_group(name);

    for count in [1, BULK_RECORDS] {
        group.throughput(Throughput::Elements(count as u64));
        group.bench_function(format!("get {count}"), |bencher| {
            bencher.to_async(&runtime).iter_batched(
                || records.choose(count),
                |chosen| get(store, chosen),
                BatchSize::SmallInput,
            );
        });
    }
    for count in [1, BULK_RECORDS] {
        group.throughput(Throughput::Elements(count as u64));
        group.bench_function(format!("change {count}"), |bencher| {
            bencher.to_async(&runtime).iter_batched(
                || records.choose(count),
                |chosen| change(store, chosen),
                BatchSize::SmallInput,
            );
        });
    }
    group.throughput(Throughput::Elements((TASKS * TASK_COMMITS) as u64));
    group.bench_function(format!("commit 1 by each of {TASKS}"), |bencher| {
        bencher.to_async(&runtime).iter_batched(
            || records.choose(TASKS),
            |chosen| commit_concurrently(&shared, chosen),
            BatchSize::SmallInput,
        );
    });
    group.throughput(Throughput::Elements(SCAN_RECORDS as u64));
    group.bench_function(format!("scan {SCAN_RECORDS}"), |bencher| {
        bencher.to_async(&runtime).iter(|| scan(store));
    });
    group.finish();
}

fn keys(chosen: &[usize]) -> Vec<Key> {
    let record = |&index: &usize| Record { index, changes: 0 };
    chosen.iter().map(|index| record(index).key()).collect()
}

/// Reads records.
async fn get(store: &dyn Store, chosen: Vec<usize>) {
    let found = store.get(&keys(&chosen)).await.expect("the store works");
    assert_eq!(found.len(), chosen.len());
    for (entry, index) in found.iter().zip(chosen) {
        let entry = entry.as_ref().expect("every record is stored");
        assert_eq!(Record::decode(entry).index, index);
    }
}

/// Reads records, and commits a change of each, with checks of the versions read.
async fn change(store: &dyn Store, chosen: Vec<usize>) {
    let keys = keys(&chosen);
    let found = store.get(&keys).await.expect("the store works");
    let mut commit = Commit::builder();
    for (key, entry) in keys.into_iter().zip(&found) {
        let entry = entry.as_ref().expect("every record is stored");
        commit = commit
            .check(key.clone(), Some(entry.version))
            .put(key, Record::decode(entry).change().value());
    }
    let commit = commit.build().expect("the records fit into a commit");
    let outcome = store.commit(commit).await.expect("the store works");
    assert!(matches!(outcome, CommitOutcome::Committed(_)));
}

/// Commits one record repeatedly in each of many concurrent tasks.
async fn commit_concurrently(store: &Arc<dyn Store>, chosen: Vec<usize>) {
    let tasks = chosen.into_iter().map(|index| {
        let store = Arc::clone(store);
        tokio::spawn(async move {
            for changes in 0..TASK_COMMITS as u64 {
                let record = Record { index, changes };
                let commit = Commit::builder().put(record.key(), record.value());
                let commit = commit.build().expect("a record fits into a commit");
                let outcome = store.commit(commit).await.expect("the store works");
                assert!(matches!(outcome, CommitOutcome::Committed(_)));
            }
        })
    });
    for ended in future::join_all(tasks).await {
        ended.expect("no task panics");
    }
}

/// Scans from the first record.
async fn scan(store: &dyn Store) {
    let found = store
        .scan(&Records::range(), SCAN_RECORDS, Direction::Forward)
        .await
        .expect("the store works");
    assert_eq!(found.len(), SCAN_RECORDS);
    for (index, found) in found.iter().enumerate() {
        assert_eq!(Record::decode(&found.entry).index, index);
    }
}

criterion_group!(benches, memory, fjall, sled, redb);
criterion_main!(benches);
