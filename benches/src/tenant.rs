//! An organisation with many memories, created by the operations of the service.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use knowledge_core::env::Env;
use knowledge_core::model::{
    BulkUpdate, MemoryChange, MemoryId, SensitivityLabel, Timestamp, WorkspaceId,
};
use knowledge_core::service::{IdempotencyKey, KnowledgeService, NewMemory, Options, SealingKey};
use knowledge_core::store::Store;
use knowledge_testing::requests::{new_memory, new_organization, new_workspace, with};
use knowledge_testing::seed::Seed;

/// A service with one organisation, used by its owner.
pub struct Tenant {
    /// The organisation.
    pub seed: Seed,
    /// The only workspace.
    pub workspace: WorkspaceId,
    memories: Vec<MemoryId>,
    updates: AtomicU64,
}

impl Tenant {
    /// Creates the organisation with a number of memories.
    ///
    /// # Panics
    /// If the store fails.
    pub async fn fill(store: Arc<dyn Store>, memories: usize) -> Self {
        let random = Mutex::new(fastrand::Rng::with_seed(7));
        let fill = move |buffer: &mut [u8]| {
            let mut random = random.lock().expect("the lock is not poisoned");
            random.fill(buffer);
        };
        let ticks = AtomicU64::new(1_700_000_000_000);
        let clock = move || {
            let tick = ticks.fetch_add(1, Ordering::Relaxed);
            Timestamp::from_millis(i64::try_from(tick).unwrap_or(i64::MAX))
        };
        let options = Options::new(SealingKey::new([7; 32]));
        let service = KnowledgeService::open(store, Env::new(clock, fill), options)
            .await
            .expect("the service opens");
        let seed = Seed::new(&service, &new_organization("acme", "owner")).await;
        let seed = seed.expect("the organisation is created");
        let workspace = seed.workspace(&new_workspace("w")).await;
        let mut tenant = Self {
            workspace: workspace.expect("the workspace is created").id,
            seed,
            memories: Vec::new(),
            updates: AtomicU64::new(0),
        };
        let memory = |number| {
            with(new_memory(&format!("Memory {number}")), |new| {
                new.content = "What was decided, by whom, and why. ".repeat(8);
            })
        };
        tenant.memories = tenant.ingest((0..memories).map(memory).collect()).await;
        tenant
    }

    /// Ingests memories from a new source.
    pub async fn ingest(&self, memories: Vec<NewMemory>) -> Vec<MemoryId> {
        let source = self.seed.source("Wiki", "wiki").await;
        let source = source.expect("the source is created");
        let ingested = self.seed.ingest(self.workspace, source, &memories).await;
        ingested.expect("the memories are ingested")
    }

    /// Returns an unused key, and an update that changes `count` random memories.
    pub fn next_update(&self, count: usize) -> (IdempotencyKey, BulkUpdate) {
        let number = self.updates.fetch_add(1, Ordering::Relaxed);
        let mut random = fastrand::Rng::with_seed(number);
        let chosen = random.choose_multiple(self.memories.iter().copied(), count);
        let change = MemoryChange::builder()
            .audience_tag(format!("team:t{number}").parse().expect("a label"))
            .sensitivity_label(SensitivityLabel::Restricted)
            .build();
        let key = format!("update-{number}").parse().expect("a key");
        (
            key,
            BulkUpdate::builder()
                .memory_ids(chosen)
                .change(change)
                .build(),
        )
    }
}
