//! A store with an organisation, and what its operations read and write.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use knowledge_core::access::CredentialKind;
use knowledge_core::env::Env;
use knowledge_core::limits::Limits;
use knowledge_core::model::{BulkUpdate, MemoryId, SensitivityLabel, SourceId, WorkspaceId};
use knowledge_core::service::{Caller, KnowledgeService, NewMemory, Options, SealingKey};
use knowledge_core::store::{MemoryStore, Store};
use knowledge_server::data::{Backend, Data, DataConfig};
use knowledge_testing::requests::{
    DAY, new_chat, new_connector, new_mcp_key, new_memory, new_organization, new_token,
    new_workspace, sensitivity, with,
};
use knowledge_testing::seed::Seed;
use tempfile::TempDir;

use crate::recorder::Recorder;
use crate::scale::{Scale, UPDATES};
use crate::spec::{Binary, Engine, Write};

/// Memories per ingested batch.
pub(crate) const BATCH: usize = 100;
/// Connectors, MCP keys and chats of the dashboard, which make it 7 KB long.
const CONNECTORS: usize = 3;
const MCP_KEYS: usize = 12;
const CHATS: usize = 10;

/// A closed store with its copy for the reference.
pub(crate) struct Site {
    directory: TempDir,
    pub(crate) token: String,
    pub(crate) workspace: WorkspaceId,
    pub(crate) source: SourceId,
    pub(crate) memories: Arc<Vec<MemoryId>>,
    pub(crate) dashboard_keys: Vec<Binary>,
    pub(crate) bulk: Vec<Write>,
    pub(crate) updates: Vec<Vec<Write>>,
    pub(crate) batches: Vec<Vec<Write>>,
}

impl Site {
    pub(crate) async fn create(engine: Engine, scale: &Scale) -> Self {
        let directory = tempfile::tempdir().expect("a directory can be created");
        let path = directory.path().join("data");
        let site = with_store(engine, &path, async |data| {
            let recorder = Recorder::new(Arc::clone(&data.store));
            let options = data.options(Limits::default());
            let store: Arc<dyn Store> = Arc::<Recorder>::clone(&recorder);
            let service = KnowledgeService::open(store, Env::system(), options).await;
            let tenant = Tenant::create(&service.expect("the service opens")).await;
            let memories = tenant.ingest(0..scale.memories).await;
            tenant.furnish().await;
            let mut site = Self {
                directory,
                token: tenant.token.clone(),
                workspace: tenant.workspace,
                source: tenant.source,
                memories: Arc::new(memories),
                dashboard_keys: tenant.record_dashboard(&recorder).await,
                bulk: Vec::new(),
                updates: Vec::new(),
                batches: record_batches(scale.rounds * scale.batches).await,
            };
            site.record_updates(&tenant, &recorder, scale).await;
            site
        });
        let site = site.await;
        copy(&path, &site.raw_dir());
        site
    }

    /// Returns the directory of the store.
    pub(crate) fn data_dir(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Returns the directory of the copy.
    pub(crate) fn raw_dir(&self) -> PathBuf {
        self.directory.path().join("raw")
    }

    /// Returns the path of the file for the reference.
    pub(crate) fn spec(&self) -> PathBuf {
        self.directory.path().join("spec.json")
    }

    async fn record_updates(&mut self, tenant: &Tenant, recorder: &Recorder, scale: &Scale) {
        let bulk = &self.memories[..scale.bulk];
        // The first one warms up; the second one is what every later one does.
        for label in [SensitivityLabel::Internal, SensitivityLabel::Restricted] {
            recorder.clear();
            tenant.update(&format!("bulk-{label:?}"), bulk, label).await;
        }
        self.bulk = recorder.commits().await.concat();
        recorder.clear();
        let singles = &self.memories[scale.updated()][..UPDATES.min(scale.memories / 4)];
        for (number, memory) in singles.iter().enumerate() {
            let key = format!("record-{number}");
            let label = SensitivityLabel::Restricted;
            tenant.update(&key, &[*memory], label).await;
        }
        self.updates = recorder.commits().await;
        assert_eq!(self.updates.len(), singles.len(), "one commit per update");
    }
}

/// Does something with a new store, and closes it.
pub(crate) async fn with_store<T>(
    engine: Engine,
    path: &Path,
    work: impl AsyncFnOnce(&Data) -> T,
) -> T {
    let address = format!("{}:{}", engine.name(), path.display());
    let config = DataConfig::of(address.parse().expect("the address of a store"));
    let data = config.open().await.expect("the store opens");
    let done = work(&data).await;
    let Backend::Embedded(store) = data.backend().clone() else {
        unreachable!("the store is in a directory");
    };
    drop(data);
    drop(store.close().expect("the store closes"));
    done
}

/// An organisation whose owner uses a token.
pub(crate) struct Tenant {
    pub(crate) seed: Seed,
    pub(crate) workspace: WorkspaceId,
    source: SourceId,
    pub(crate) token: String,
    credential: Caller,
}

impl Tenant {
    pub(crate) async fn create(service: &KnowledgeService) -> Self {
        let seed = Seed::new(service, &new_organization("acme", "owner")).await;
        let seed = seed.expect("the organisation is created");
        let workspace = seed.workspace(&new_workspace("w")).await;
        let source = seed.source("Wiki", "wiki").await.expect("a source");
        let token = new_token(seed.founder.id, CredentialKind::Bearer);
        let token = seed.issue(&token).await.expect("a token").secret;
        Self {
            workspace: workspace.expect("the workspace is created").id,
            source,
            token: token.expose().to_owned(),
            credential: token.into(),
            seed,
        }
    }

    pub(crate) async fn ingest(&self, numbers: std::ops::Range<usize>) -> Vec<MemoryId> {
        let memories: Vec<_> = numbers.map(memory).collect();
        let seed = &self.seed;
        let ingested = seed.ingest(self.workspace, self.source, &memories).await;
        ingested.expect("the memories are ingested")
    }

    /// Creates what the dashboard shows besides counts.
    pub(crate) async fn furnish(&self) {
        let (seed, workspace) = (&self.seed, self.workspace);
        for _ in 0..CONNECTORS {
            let created = seed.connector(workspace, &new_connector(DAY)).await;
            created.expect("a connector");
        }
        for _ in 0..MCP_KEYS {
            let created = seed.mcp_key(workspace, &new_mcp_key("workspace:w")).await;
            created.expect("an MCP key");
        }
        for number in 0..CHATS {
            let title = format!("Refund number {number}, and who decides it");
            let chat = seed.chat(workspace, &new_chat(&title)).await;
            let chat = chat.expect("a chat");
            let content = "May I refund this order? ".repeat(6);
            let service = &seed.service;
            let posted = service
                .chats()
                .post_message(&seed.owner, workspace, chat, &content);
            posted.await.expect("a message");
        }
    }

    /// Returns the keys that a dashboard summary reads if an earlier one was the same.
    async fn record_dashboard(&self, recorder: &Recorder) -> Vec<Binary> {
        for _ in 0..2 {
            recorder.clear();
            let service = &self.seed.service;
            let summary = service
                .workspaces()
                .get_dashboard_summary(&self.credential, self.workspace);
            summary.await.expect("the summary");
        }
        recorder.keys()
    }

    async fn update(&self, key: &str, memories: &[MemoryId], label: SensitivityLabel) {
        let update = BulkUpdate::builder().memory_ids(memories.to_vec());
        let update = update.change(sensitivity(label)).build();
        let key = key.parse().expect("an idempotency key");
        let service = &self.seed.service;
        let result = service
            .memories()
            .bulk_update(&self.credential, &key, &update);
        let result = result.await.expect("the update succeeds");
        assert_eq!(result.summary.succeeded as usize, memories.len());
    }
}

/// Returns a memory of the size of a note.
pub(crate) fn memory(number: usize) -> NewMemory {
    with(new_memory(&format!("Handbook page {number:08}")), |new| {
        new.content = "What was decided, by whom, and why. ".repeat(8);
        new.source_key = Some(format!("handbook/page-{number:08}.md"));
    })
}

/// Returns the commits of ingested batches, recorded in another store.
pub(crate) async fn record_batches(batches: usize) -> Vec<Vec<Write>> {
    let recorder = Recorder::new(Arc::new(MemoryStore::new()));
    let store: Arc<dyn Store> = Arc::<Recorder>::clone(&recorder);
    let env = Env::system();
    let options = Options::new(SealingKey::generate(&env));
    let service = KnowledgeService::open(store, env, options).await;
    let tenant = Tenant::create(&service.expect("the service opens")).await;
    recorder.clear();
    tenant.ingest(0..batches * BATCH).await;
    let commits = recorder.commits().await;
    assert_eq!(commits.len(), batches, "one commit per batch");
    commits
}

pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a directory can be created");
    for entry in std::fs::read_dir(from).expect("the directory can be read") {
        let entry = entry.expect("the directory can be read");
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).expect("the file is copied");
        }
    }
}
