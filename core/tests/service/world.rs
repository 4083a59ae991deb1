//! The fixture of these tests: a small organisation over an in-memory store.

use std::ops::Deref;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use knowledge_core::Error;
use knowledge_core::access::{ActionSet, BaseRole, CredentialKind, RoleRef, TokenScope};
use knowledge_core::env::Env;
use knowledge_core::internals::keys;
use knowledge_core::limits::BULK_MEMORIES_CEILING;
use knowledge_core::model::{
    BulkResult, BulkUpdate, ChatId, CitationSubscription, ConnectorId, CustomRole,
    DashboardSummary, EndpointId, EventType, Member, MemberId, MemoryChange, MemoryId,
    MemoryLabels, NewWebhook, RecallId, ResourceState, ResourceStatus, ReviewStatus, RoleActions,
    SensitivityLabel, SourceId, SubscriptionId, Timestamp, Webhook, Workspace, WorkspaceId,
};
use knowledge_core::service::{
    Caller, Event, Issued, IssuedMcpKey, KnowledgeService, MemberAssignment, NewMember, Options,
    SealingKey, WithEtag,
};
use knowledge_core::store::{Commit, MemoryStore, Store};
use knowledge_store::faults::{FaultPlan, FaultStore};
use knowledge_testing::seed::Seed;
use serde_json::Value;

use crate::make::{
    ACME, HOUR, SEALING_KEY, new_chat, new_connector, new_mcp_key, new_member, new_memory,
    new_recall, new_role, new_subscription, new_token, new_workspace, review,
};
use crate::probe::Probe;
use knowledge_testing::requests::{new_organization, with};

/// Status of something that works.
pub(crate) const ACTIVE: ResourceStatus = ResourceStatus {
    state: ResourceState::Active,
    ended_reason: None,
    ended_at: None,
};

/// Start time of each test since the Unix epoch, at the beginning of an hour.
const START: Duration = Duration::from_secs(500_000 * 60 * 60);

/// A clock that stands still until it is moved; its clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Time(Arc<AtomicI64>);

impl Time {
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }

    pub(crate) fn set(&self, to: Timestamp) {
        self.0.store(to.as_millis(), Ordering::SeqCst);
    }

    pub(crate) fn pass(&self, duration: Duration) {
        self.set(self.now().plus(duration));
    }
}

/// Returns a generator of random bytes from a seed (splitmix64).
pub(crate) fn seeded(seed: Arc<AtomicU64>) -> impl Fn(&mut [u8]) + Send + Sync {
    move |buffer: &mut [u8]| {
        for part in buffer.chunks_mut(8) {
            let mut z = seed.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::SeqCst);
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            part.copy_from_slice(&(z ^ (z >> 31)).to_be_bytes()[..part.len()]);
        }
    }
}

/// An organisation `acme` with an owner, a workspace `research` and a source, in its own store.
pub(crate) struct World {
    seed: Seed,
    /// Store in front of [`World::faults`].
    pub(crate) probe: Arc<Probe>,
    pub(crate) faults: Arc<FaultStore>,
    pub(crate) time: Time,
    pub(crate) owner_id: MemberId,
    pub(crate) workspace: Workspace,
    pub(crate) source: SourceId,
    random: Arc<AtomicU64>,
    pub(crate) options: Options,
    /// Counter for unique names.
    names: Mutex<u32>,
}

impl Deref for World {
    type Target = Seed;

    fn deref(&self) -> &Seed {
        &self.seed
    }
}

struct Opened {
    service: KnowledgeService,
    probe: Arc<Probe>,
    faults: Arc<FaultStore>,
}

async fn open(
    inner: Arc<dyn Store>,
    plan: FaultPlan,
    time: &Time,
    seed: &Arc<AtomicU64>,
    options: &Options,
) -> Opened {
    let faults = Arc::new(FaultStore::new(inner, plan).recording());
    let probe = Arc::new(Probe::new(Arc::clone(&faults) as Arc<dyn Store>));
    let store = Arc::clone(&probe) as Arc<dyn Store>;
    let clock = time.clone();
    let env = Env::new(move || clock.now(), seeded(Arc::clone(seed)));
    let service = KnowledgeService::open(store, env, options.clone()).await;
    Opened {
        service: service.expect("the store opens"),
        probe,
        faults,
    }
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    /// Creates a world with a webhook in the workspace, so that changes are announced.
    pub(crate) async fn with_endpoint() -> Self {
        let world = Self::new().await;
        world.webhook(EventType::WebhookPing).await;
        world
    }

    /// Creates a webhook of the workspace for events of this type.
    pub(crate) async fn webhook(&self, event_type: EventType) -> Webhook {
        self.webhook_in(self.workspace.id, event_type).await
    }

    /// Creates a webhook of the workspace with this URL.
    pub(crate) async fn webhook_to(&self, of: EventType, url: &str) -> Webhook {
        self.webhook_at(self.workspace.id, of, url).await
    }

    pub(crate) async fn webhook_in(&self, workspace: WorkspaceId, of: EventType) -> Webhook {
        let url = "https://example.com/hook";
        self.webhook_at(workspace, of, url).await
    }

    /// Creates a confirmed webhook.
    pub(crate) async fn webhook_at(
        &self,
        workspace: WorkspaceId,
        of: EventType,
        url: &str,
    ) -> Webhook {
        let new = NewWebhook::builder()
            .event_type(of)
            .url(url.parse().unwrap())
            .build();
        let created = self.within(workspace).create_webhook(&new).await.unwrap();
        self.confirm(created.id.into()).await;
        Webhook {
            is_confirmed: true,
            status: Some(ACTIVE),
            ..created
        }
    }

    /// Marks a new endpoint as confirmed in the store, without a ping, which is no longer due.
    pub(crate) async fn confirm(&self, endpoint: EndpointId) {
        let mut commit = Commit::builder();
        for family in ["webhook", "subscription", "endpoint", "endpoint_due"] {
            let entries = self.entries(family).await.into_iter();
            for (key, value) in entries.filter(|(key, _)| keys::last_id(key) == Some(endpoint.0)) {
                let mut value: Value = serde_json::from_slice(&value).unwrap();
                match family {
                    "endpoint_due" => {
                        commit = commit.delete(key);
                        continue;
                    }
                    "endpoint" => value["due"] = Value::Null,
                    _ => value["record"]["is_confirmed"] = Value::Bool(true),
                }
                commit = commit.put(key, value.to_string());
            }
        }
        self.faults.commit(commit.build().unwrap()).await.unwrap();
    }

    /// Creates a world with other options.
    pub(crate) async fn with(adapt: impl FnOnce(&mut Options)) -> Self {
        let start = Timestamp::UNIX_EPOCH.plus(START);
        let time = Time(Arc::new(AtomicI64::new(start.as_millis())));
        let random = Arc::new(AtomicU64::new(1));
        let mut options = Options::new(SealingKey::new(SEALING_KEY));
        // Many endpoints of these tests are at one host.
        options.limits.pings_per_host_max = 900;
        adapt(&mut options);
        let inner = Arc::new(MemoryStore::new());
        let opened = open(inner, FaultPlan::none(), &time, &random, &options).await;
        let new = new_organization(ACME, "ada");
        let seed = Seed::new(&opened.service, &new).await.unwrap();
        Self {
            probe: opened.probe,
            faults: opened.faults,
            time,
            owner_id: seed.founder.id,
            workspace: seed.workspace(&new_workspace("research")).await.unwrap(),
            source: seed.source("Wiki", "confluence").await.unwrap(),
            random,
            options,
            names: Mutex::new(0),
            seed,
        }
    }

    /// Creates another organisation in the same store.
    pub(crate) async fn stranger(&self, slug: &str) -> Seed {
        let new = new_organization(slug, "eve");
        Seed::new(&self.service, &new).await.unwrap()
    }

    /// Opens the same world in another process with these faults; its first commit is number 1.
    pub(crate) async fn served_with(&self, plan: FaultPlan) -> Self {
        let inner = Arc::clone(self.faults.inner());
        let opened = open(inner, plan, &self.time, &self.random, &self.options).await;
        Self {
            seed: Seed {
                service: opened.service,
                ..self.seed.clone()
            },
            probe: opened.probe,
            faults: opened.faults,
            time: self.time.clone(),
            owner_id: self.owner_id,
            workspace: self.workspace.clone(),
            source: self.source,
            random: Arc::clone(&self.random),
            options: self.options.clone(),
            names: Mutex::new(*self.names.lock().unwrap() + 1_000_000),
        }
    }

    /// Creates a separate world with the current contents of this one.
    pub(crate) async fn copy(&self, plan: FaultPlan) -> Self {
        let copy = Arc::new(MemoryStore::new());
        for (_, commit) in self.faults.history() {
            // A replay onto an empty store yields the same versions, so that the checks hold.
            copy.commit(commit).await.unwrap();
        }
        let twin = Self {
            faults: Arc::new(FaultStore::new(copy, FaultPlan::none())),
            time: Time(Arc::new(AtomicI64::new(self.time.now().as_millis()))),
            ..self.served_with(FaultPlan::none()).await
        };
        twin.served_with(plan).await
    }

    pub(crate) fn name(&self, prefix: &str) -> String {
        let mut names = self.names.lock().unwrap();
        *names += 1;
        format!("{prefix}-{names}")
    }

    /// Sets the source of randomness, so that what follows depends on nothing that came before.
    pub(crate) fn reseed(&self, seed: u64) {
        self.random.store(seed, Ordering::SeqCst);
        *self.names.lock().unwrap() = u32::try_from(seed).unwrap();
    }

    /// Adds a member with a role in the organisation.
    pub(crate) async fn member(&self, role: RoleRef) -> MemberId {
        self.add(&new_member(&self.name("member"), role)).await
    }

    /// Adds a member.
    pub(crate) async fn add(&self, new: &NewMember) -> MemberId {
        self.seed.member(new).await.unwrap().id
    }

    /// Adds an approved confidential memory.
    pub(crate) async fn confidential(&self) -> MemoryId {
        let memory = self.approved_memories(1).await[0];
        let change = MemoryChange::builder().sensitivity_label(SensitivityLabel::Confidential);
        let memories = [memory];
        self.change(&memories, change.build()).await.unwrap();
        memory
    }

    /// Adds a member with a role, and returns it as a caller.
    pub(crate) async fn caller(&self, role: RoleRef) -> Caller {
        self.trusted(self.member(role).await)
    }

    /// Adds a member who may do exactly this, and returns it as a caller.
    pub(crate) async fn caller_who_may(&self, actions: ActionSet) -> Caller {
        let viewer = BaseRole::Viewer.actions();
        let role = self.role(BaseRole::Viewer, actions - viewer, viewer - actions);
        let role = RoleRef::Custom(role.await.id);
        self.caller(role).await
    }

    pub(crate) async fn read_member(&self, member: MemberId) -> Member {
        self.read(&keys::member(self.org.id, member)).await.unwrap()
    }

    pub(crate) async fn workspace(&self, slug: &str) -> WorkspaceId {
        self.seed.workspace(&new_workspace(slug)).await.unwrap().id
    }

    /// Issues a bearer token of a member, for an hour.
    pub(crate) async fn token(&self, member: MemberId, scope: TokenScope) -> Issued {
        self.issue(member, CredentialKind::Bearer, scope).await
    }

    /// Issues a session of a member, for an hour.
    pub(crate) async fn session(&self, member: MemberId) -> Issued {
        self.issue(member, CredentialKind::Session, TokenScope::default())
            .await
    }

    async fn issue(&self, member: MemberId, kind: CredentialKind, scope: TokenScope) -> Issued {
        let new = with(new_token(member, kind), |new| {
            new.scope = scope;
            new.lifetime = HOUR;
        });
        self.seed.issue(&new).await.unwrap()
    }

    /// Creates a custom role of the whole organisation.
    pub(crate) async fn role(
        &self,
        base_role: BaseRole,
        allow: ActionSet,
        deny: ActionSet,
    ) -> CustomRole {
        let new = with(new_role(&self.name("role")), |new| {
            new.base_role = base_role;
            new.actions = RoleActions { allow, deny };
        });
        self.seed.role(&new).await.unwrap()
    }

    /// Creates a custom role of the whole organisation with the actions of this base role.
    pub(crate) async fn plain_role(&self, base_role: BaseRole) -> CustomRole {
        self.role(base_role, ActionSet::EMPTY, ActionSet::EMPTY)
            .await
    }

    /// Assigns a role in the organisation to a member.
    pub(crate) async fn assign(&self, member: MemberId, role: RoleRef) -> Result<(), Error> {
        let assignment = MemberAssignment::Organization(role);
        self.seed.assign(member, assignment).await
    }

    /// Assigns or unassigns a role in a workspace.
    pub(crate) async fn assign_in(
        &self,
        member: MemberId,
        workspace: WorkspaceId,
        role: Option<RoleRef>,
    ) -> Result<(), Error> {
        let assignment = MemberAssignment::Workspace(workspace, role);
        self.seed.assign(member, assignment).await
    }

    /// Ingests `count` memories into the workspace of the world.
    pub(crate) async fn memories(&self, count: usize) -> Vec<MemoryId> {
        self.memories_in(self.workspace.id, count).await
    }

    pub(crate) async fn memories_in(&self, workspace: WorkspaceId, count: usize) -> Vec<MemoryId> {
        let memory = |number| new_memory(&format!("Memory {number}"));
        let memories: Vec<_> = (0..count).map(memory).collect();
        let ids = self.seed.ingest(workspace, self.source, &memories).await;
        ids.unwrap()
    }

    /// Adds approved memories, which viewers may read and recalls may cite.
    pub(crate) async fn approved_memories(&self, count: usize) -> Vec<MemoryId> {
        let memories = self.memories(count).await;
        self.approve(&memories).await;
        memories
    }

    pub(crate) async fn approve(&self, memories: &[MemoryId]) {
        for batch in memories.chunks(BULK_MEMORIES_CEILING.min(1_000)) {
            let approved = review(ReviewStatus::Approved);
            self.change(batch, approved).await.unwrap();
        }
    }

    pub(crate) async fn labels(&self, memory: MemoryId) -> MemoryLabels {
        self.read(&keys::memory(self.org.id, memory)).await.unwrap()
    }

    /// Makes a bulk update by the owner with a new idempotency key.
    pub(crate) async fn change(
        &self,
        memories: &[MemoryId],
        change: MemoryChange,
    ) -> Result<BulkResult, Error> {
        self.bulk(&self.owner, memories, change).await
    }

    /// Makes a bulk update with a new idempotency key.
    pub(crate) async fn bulk(
        &self,
        caller: &Caller,
        memories: &[MemoryId],
        change: MemoryChange,
    ) -> Result<BulkResult, Error> {
        let key = self.name("key");
        self.bulk_with_key(caller, &key, memories, change).await
    }

    pub(crate) async fn bulk_with_key(
        &self,
        caller: &Caller,
        key: &str,
        memories: &[MemoryId],
        change: MemoryChange,
    ) -> Result<BulkResult, Error> {
        let request = BulkUpdate::builder()
            .memory_ids(memories.to_vec())
            .change(change)
            .build();
        self.by(caller)
            .bulk_update_memories(&key.parse().unwrap(), &request)
            .await
    }

    /// Returns the owner's dashboard of the workspace.
    pub(crate) async fn dashboard(&self) -> DashboardSummary {
        self.dashboard_with_etag().await.value
    }

    pub(crate) async fn dashboard_tag(&self) -> String {
        self.dashboard_with_etag().await.etag
    }

    async fn dashboard_with_etag(&self) -> WithEtag<DashboardSummary> {
        let dashboard = self.get_dashboard().await;
        dashboard.unwrap()
    }

    /// Creates a recall that cites one new memory.
    pub(crate) async fn recall(&self) -> RecallId {
        self.recall_of(&self.memories(1).await).await
    }

    /// Subscribes the owner to the citations of a new recall.
    pub(crate) async fn subscription(&self) -> SubscriptionId {
        let recall = self.recall().await;
        self.subscribe(&self.owner, recall).await.id
    }

    /// Approves memories and creates a recall that cites them.
    pub(crate) async fn recall_of(&self, memories: &[MemoryId]) -> RecallId {
        self.approve(memories).await;
        let new = new_recall(memories);
        self.seed.recall(self.workspace.id, &new).await.unwrap()
    }

    pub(crate) async fn add_chat(&self, title: &str) -> ChatId {
        let new = new_chat(title);
        self.seed.chat(self.workspace.id, &new).await.unwrap()
    }

    /// Creates an MCP key for this audience.
    pub(crate) async fn mcp_key_for(&self, audience: &str) -> IssuedMcpKey {
        let new = new_mcp_key(audience);
        self.seed.mcp_key(self.workspace.id, &new).await.unwrap()
    }

    /// Subscribes a member to the citations of a recall.
    pub(crate) async fn subscribe(&self, by: &Caller, recall: RecallId) -> CitationSubscription {
        let new = new_subscription(recall, "https://example.com/citations");
        let created = self.by(by).create_subscription(&new).await.unwrap();
        self.confirm(created.id.into()).await;
        CitationSubscription {
            is_confirmed: true,
            status: Some(ACTIVE),
            ..created
        }
    }

    /// Creates a connector with this interval.
    pub(crate) async fn connector(&self, interval: Duration) -> ConnectorId {
        let new = new_connector(interval);
        self.seed.connector(self.workspace.id, &new).await.unwrap()
    }
}

/// Returns the data of an event as JSON.
pub(crate) fn data(event: &Event) -> serde_json::Value {
    serde_json::to_value(&event.data).unwrap()["data"].take()
}
