//! An organisation with many memories, created by the operations of the service.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use knowledge_core::access::{BuiltInRole, Credential, RoleRef};
use knowledge_core::env::Env;
use knowledge_core::limits::INGEST_MEMORIES_MAX;
use knowledge_core::model::{
    BulkUpdate, MemberKind, MemoryChange, MemoryId, SensitivityLabel, Timestamp, WorkspaceId,
};
use knowledge_core::service::{
    IdempotencyKey, KnowledgeService, NewMember, NewMemory, NewSource, NewWorkspace, Options,
    SealingKey,
};
use knowledge_core::store::Store;

/// A service with one organisation, used by its owner.
pub struct Tenant {
    /// The service.
    pub service: KnowledgeService,
    /// Trusted credential of the owner.
    pub owner: Credential,
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
        let random = std::sync::Mutex::new(fastrand::Rng::with_seed(7));
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
        let owner = NewMember {
            kind: MemberKind::User,
            handle: "owner".to_owned(),
            name: "Owner".to_owned(),
            role: RoleRef::BuiltIn(BuiltInRole::Owner),
            teams: Vec::new(),
        };
        let provisioning = service.provisioning();
        let created = provisioning
            .create_organization("Acme", "acme", &owner)
            .await;
        let (org, owner) = created.expect("the organisation is created");
        let new = NewWorkspace {
            name: "W".to_owned(),
            slug: "w".to_owned(),
            audience: None,
        };
        let workspace = provisioning
            .create_workspace(org.id, &new)
            .await
            .expect("the workspace is created")
            .id;
        let owner = Credential::Trusted {
            org: org.id,
            member: owner.id,
        };
        let mut tenant = Self {
            service,
            owner,
            workspace,
            memories: Vec::new(),
            updates: AtomicU64::new(0),
        };
        tenant.ingest(memories).await;
        tenant
    }

    async fn ingest(&mut self, count: usize) {
        let source = NewSource {
            name: "Wiki".to_owned(),
            kind: "wiki".to_owned(),
        };
        let source = self
            .service
            .create_source(&self.owner, &source)
            .await
            .expect("the source is created");
        for first in (0..count).step_by(INGEST_MEMORIES_MAX) {
            let memory = |number: usize| NewMemory {
                title: format!("Memory {number}"),
                content: "What was decided, by whom, and why. ".repeat(8),
                source_key: None,
                audience_tag: None,
                sensitivity_label: None,
            };
            let batch: Vec<_> = (first..count.min(first + INGEST_MEMORIES_MAX))
                .map(memory)
                .collect();
            let ingested = self
                .service
                .ingest(&self.owner, self.workspace, source.id, &batch)
                .await;
            self.memories.extend(
                ingested
                    .expect("the batch is ingested")
                    .iter()
                    .map(|memory| memory.id),
            );
        }
    }

    /// Returns an unused key, and an update that changes `count` random memories.
    pub fn next_update(&self, count: usize) -> (IdempotencyKey, BulkUpdate) {
        let number = self.updates.fetch_add(1, Ordering::Relaxed);
        let mut random = fastrand::Rng::with_seed(number);
        let chosen = random.choose_multiple(self.memories.iter().copied(), count);
        let change = MemoryChange {
            audience_tag: Some(format!("team:t{number}").parse().expect("a label")),
            sensitivity_label: Some(SensitivityLabel::Restricted),
            ..MemoryChange::default()
        };
        let key = format!("update-{number}").parse().expect("a key");
        (
            key,
            BulkUpdate {
                memory_ids: chosen,
                change,
            },
        )
    }
}
