//! Benchmarks of time-critical operations: a bulk update, its replay, and the dashboard.

use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use knowledge_benches::Tenant;
use knowledge_core::store::{MemoryStore, Store};
use knowledge_storage_fjall::{FjallOptions, FjallStore};
use knowledge_storage_sled::{SledOptions, SledStore};
use mimalloc::MiMalloc;
use tokio::runtime::Runtime;

/// Allocator of the benchmarks: that of the server.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Number of memories in the workspace.
const MEMORIES: usize = 20_000;
/// Number of memories of a bulk update.
const BULK_MEMORIES: usize = 1_000;

fn memory(criterion: &mut Criterion) {
    bench_service(criterion, "service on memory", Arc::new(MemoryStore::new()));
}

/// Benchmarks the service on fjall, in the directory for temporary files, which `TMPDIR` sets.
fn fjall(criterion: &mut Criterion) {
    let directory = tempfile::tempdir().expect("a directory can be created");
    let store = FjallStore::open(directory.path(), FjallOptions::default()).expect("a store opens");
    bench_service(criterion, "service on fjall", Arc::new(store));
}

/// Benchmarks the service on sled, in the same directory.
fn sled(criterion: &mut Criterion) {
    let directory = tempfile::tempdir().expect("a directory can be created");
    let store = SledStore::open(directory.path(), SledOptions::default()).expect("a store opens");
    bench_service(criterion, "service on sled", Arc::new(store));
}

fn bench_service(criterion: &mut Criterion, name: &str, store: Arc<dyn Store>) {
    let runtime = Runtime::new().expect("a runtime starts");
    let tenant = runtime.block_on(Tenant::fill(store, MEMORIES));
    let tenant = &tenant;
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Elements(BULK_MEMORIES as u64));
    group.bench_function(format!("bulk update {BULK_MEMORIES}"), |bencher| {
        bencher.to_async(&runtime).iter_batched(
            || tenant.next_update(BULK_MEMORIES),
            |(key, update)| async move {
                let result = tenant
                    .seed
                    .service
                    .memories()
                    .bulk_update(&tenant.seed.owner, &key, &update)
                    .await;
                let result = result.expect("the update is processed");
                assert!(!result.replayed);
                assert_eq!(result.summary.succeeded as usize, BULK_MEMORIES);
            },
            BatchSize::SmallInput,
        );
    });
    let (key, update) = tenant.next_update(BULK_MEMORIES);
    let first = runtime.block_on(tenant.seed.service.memories().bulk_update(
        &tenant.seed.owner,
        &key,
        &update,
    ));
    let first = first.expect("the update is processed");
    let (key, update, first) = (&key, &update, &first);
    group.bench_function(format!("replay {BULK_MEMORIES}"), |bencher| {
        bencher.to_async(&runtime).iter(|| async move {
            let again = tenant
                .seed
                .service
                .memories()
                .bulk_update(&tenant.seed.owner, key, update)
                .await;
            let again = again.expect("the update is replayed");
            assert!(again.replayed);
            assert_eq!(again.results, first.results);
        });
    });
    group.throughput(Throughput::Elements(1));
    group.bench_function("dashboard", |bencher| {
        bencher.to_async(&runtime).iter(|| async move {
            let summary = tenant
                .seed
                .service
                .workspaces()
                .get_dashboard_summary(&tenant.seed.owner, tenant.workspace)
                .await;
            let summary = summary.expect("the workspace is summarised");
            assert_eq!(summary.value.review_backlog_count as usize, MEMORIES);
        });
    });
    group.finish();
}

criterion_group!(benches, memory, fjall, sled);
criterion_main!(benches);
