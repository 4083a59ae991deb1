//! The fixture of these tests: a small organisation over an in-memory store.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use knowledge_core::Error;
use knowledge_core::access::{
    ActionSet, BaseRole, Credential, CredentialKind, RoleRef, TokenScope,
};
use knowledge_core::env::Env;
use knowledge_core::internals::keys;
use knowledge_core::model::{
    AuditLogId, BulkResult, BulkUpdate, CustomRole, DashboardSummary, EventType, Member, MemberId,
    MemoryChange, MemoryId, MemoryLabels, NewCitationSubscription, NewCustomRole, NewWebhook,
    Organization, RecallId, RoleActions, SourceId, SubscriptionId, Timestamp, Webhook, Workspace,
    WorkspaceId,
};
use knowledge_core::service::{
    AuditFilter, Event, IngestOutcome, Issued, KnowledgeService, MemberAssignment, NewSource,
    NewToken, Options, PageRequest, SealingKey, WithEtag,
};
use knowledge_core::store::{Direction, Key, KeyRange, MemoryStore, Store, StoreExt};
use knowledge_store::faults::{FaultPlan, FaultStore};
use serde::de::DeserializeOwned;

use crate::make::{
    ACME, HOUR, OWNER, SEALING_KEY, new_member, new_memory, new_recall, new_role, new_workspace,
};
use crate::probe::Probe;

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
fn seeded(seed: Arc<AtomicU64>) -> impl Fn(&mut [u8]) + Send + Sync {
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
    pub(crate) service: KnowledgeService,
    /// Store in front of [`World::faults`].
    pub(crate) probe: Arc<Probe>,
    pub(crate) faults: Arc<FaultStore>,
    pub(crate) time: Time,
    pub(crate) org: Organization,
    pub(crate) owner: Credential,
    pub(crate) owner_id: MemberId,
    pub(crate) workspace: Workspace,
    pub(crate) source: SourceId,
    seed: Arc<AtomicU64>,
    options: Options,
    /// Counter for unique names.
    names: Mutex<u32>,
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
    pub(crate) async fn heard() -> Self {
        let world = Self::new().await;
        world.webhook(EventType::WebhookPing).await;
        world
    }

    /// Creates a webhook of the workspace for events of this type.
    pub(crate) async fn webhook(&self, event_type: EventType) -> Webhook {
        self.webhook_in(self.workspace.id, event_type).await
    }

    pub(crate) async fn webhook_in(&self, workspace: WorkspaceId, of: EventType) -> Webhook {
        let new = NewWebhook {
            event_type: of,
            url: "https://example.com/hook".parse().unwrap(),
        };
        let made = self.service.create_webhook(&self.owner, workspace, &new);
        made.await.unwrap()
    }

    /// Creates a world with other options.
    pub(crate) async fn with(adapt: impl FnOnce(&mut Options)) -> Self {
        let start = Timestamp::UNIX_EPOCH.plus(START);
        let time = Time(Arc::new(AtomicI64::new(start.as_millis())));
        let seed = Arc::new(AtomicU64::new(1));
        let mut options = Options::new(SealingKey::new(SEALING_KEY));
        adapt(&mut options);
        let inner = Arc::new(MemoryStore::new());
        let opened = open(inner, FaultPlan::none(), &time, &seed, &options).await;
        let service = opened.service;
        let provisioning = service.provisioning();
        let (org, owner) = provisioning
            .create_organization("Acme", ACME, &new_member("ada", OWNER))
            .await
            .unwrap();
        let workspace = provisioning
            .create_workspace(org.id, &new_workspace("research"))
            .await
            .unwrap();
        let credential = Credential::Trusted {
            org: org.id,
            member: owner.id,
        };
        let wiki = NewSource {
            name: "Wiki".to_owned(),
            kind: "confluence".to_owned(),
        };
        let source = service.create_source(&credential, &wiki).await.unwrap();
        Self {
            probe: opened.probe,
            faults: opened.faults,
            time,
            org,
            owner: credential,
            owner_id: owner.id,
            workspace,
            source: source.id,
            seed,
            options,
            names: Mutex::new(0),
            service,
        }
    }

    /// Opens the same world in another process with these faults; its first commit is number 1.
    pub(crate) async fn served_with(&self, plan: FaultPlan) -> Self {
        let inner = Arc::clone(self.faults.inner());
        let opened = open(inner, plan, &self.time, &self.seed, &self.options).await;
        Self {
            service: opened.service,
            probe: opened.probe,
            faults: opened.faults,
            time: self.time.clone(),
            org: self.org.clone(),
            owner: self.owner.clone(),
            owner_id: self.owner_id,
            workspace: self.workspace.clone(),
            source: self.source,
            seed: Arc::clone(&self.seed),
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

    /// Returns a caller that the host vouches for.
    pub(crate) fn trusted(&self, member: MemberId) -> Credential {
        Credential::Trusted {
            org: self.org.id,
            member,
        }
    }

    /// Adds a member with a role in the organisation.
    pub(crate) async fn member(&self, role: RoleRef) -> MemberId {
        let new = new_member(&self.name("member"), role);
        let provisioning = self.service.provisioning();
        provisioning
            .create_member(self.org.id, &new)
            .await
            .unwrap()
            .id
    }

    /// Adds a member with a role, and returns it as a caller.
    pub(crate) async fn caller(&self, role: RoleRef) -> Credential {
        self.trusted(self.member(role).await)
    }

    /// Adds a member who may do exactly this, and returns it as a caller.
    pub(crate) async fn caller_who_may(&self, actions: ActionSet) -> Credential {
        let viewer = BaseRole::Viewer.actions();
        let role = self.role(BaseRole::Viewer, actions - viewer, viewer - actions);
        let role = RoleRef::Custom(role.await.id);
        self.caller(role).await
    }

    pub(crate) async fn read_member(&self, member: MemberId) -> Member {
        self.read(&keys::member(self.org.id, member)).await.unwrap()
    }

    pub(crate) async fn workspace(&self, slug: &str) -> WorkspaceId {
        let provisioning = self.service.provisioning();
        provisioning
            .create_workspace(self.org.id, &new_workspace(slug))
            .await
            .unwrap()
            .id
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
        let new = NewToken {
            member,
            kind,
            name: "for a test".to_owned(),
            scope,
            lifetime: HOUR,
        };
        let provisioning = self.service.provisioning();
        provisioning.issue(self.org.id, &new).await.unwrap()
    }

    /// Creates a custom role of the whole organisation.
    pub(crate) async fn role(
        &self,
        base_role: BaseRole,
        allow: ActionSet,
        deny: ActionSet,
    ) -> CustomRole {
        let new = NewCustomRole {
            base_role,
            actions: RoleActions { allow, deny },
            ..new_role(&self.name("role"))
        };
        self.service
            .create_custom_role(&self.owner, ACME, &new)
            .await
            .unwrap()
    }

    /// Assigns a role in the organisation to a member.
    pub(crate) async fn assign(&self, member: MemberId, role: RoleRef) -> Result<(), Error> {
        let assignment = MemberAssignment::Organization(role);
        self.service
            .assign_role(&self.owner, ACME, member, assignment)
            .await
    }

    /// Assigns or unassigns a role in a workspace.
    pub(crate) async fn assign_in(
        &self,
        member: MemberId,
        workspace: WorkspaceId,
        role: Option<RoleRef>,
    ) -> Result<(), Error> {
        let assignment = MemberAssignment::Workspace(workspace, role);
        self.service
            .assign_role(&self.owner, ACME, member, assignment)
            .await
    }

    /// Ingests `count` memories into the workspace of the world.
    pub(crate) async fn memories(&self, count: usize) -> Vec<MemoryId> {
        self.memories_in(self.workspace.id, count).await
    }

    pub(crate) async fn memories_in(&self, workspace: WorkspaceId, count: usize) -> Vec<MemoryId> {
        let mut ids = Vec::with_capacity(count);
        for first in (0..count).step_by(100) {
            let batch: Vec<_> = (first..count.min(first + 100))
                .map(|number| new_memory(&format!("Memory {number}")))
                .collect();
            let ingested = self
                .service
                .ingest(&self.owner, workspace, self.source, &batch)
                .await
                .unwrap();
            assert!(
                ingested
                    .iter()
                    .all(|memory| memory.outcome == IngestOutcome::Created)
            );
            ids.extend(ingested.iter().map(|memory| memory.id));
        }
        ids
    }

    pub(crate) async fn labels(&self, memory: MemoryId) -> MemoryLabels {
        self.read(&keys::memory(self.org.id, memory)).await.unwrap()
    }

    /// Makes a bulk update with a new idempotency key.
    pub(crate) async fn bulk(
        &self,
        caller: &Credential,
        memories: &[MemoryId],
        change: MemoryChange,
    ) -> Result<BulkResult, Error> {
        let key = self.name("key");
        self.bulk_with_key(caller, &key, memories, change).await
    }

    pub(crate) async fn bulk_with_key(
        &self,
        caller: &Credential,
        key: &str,
        memories: &[MemoryId],
        change: MemoryChange,
    ) -> Result<BulkResult, Error> {
        let request = BulkUpdate {
            memory_ids: memories.to_vec(),
            change,
        };
        self.service
            .bulk_update(caller, &key.parse().unwrap(), &request)
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
        let workspace = self.workspace.id;
        let dashboard = self.service.dashboard_summary(&self.owner, workspace).await;
        dashboard.unwrap()
    }

    /// Reads a record, bypassing faults and probe.
    pub(crate) async fn read<T: DeserializeOwned + Send>(&self, key: &Key) -> Option<T> {
        let found = self.faults.inner().get_as(key).await.unwrap();
        found.map(|found| found.value)
    }

    pub(crate) async fn counter(&self, key: Key) -> i64 {
        self.read(&key).await.unwrap_or(0)
    }

    /// Returns all stored entries.
    pub(crate) async fn contents(&self) -> BTreeMap<Key, Bytes> {
        let store = self.faults.inner();
        let everything = KeyRange::all();
        let found = store
            .scan(&everything, usize::MAX, Direction::Forward)
            .await
            .unwrap();
        found
            .into_iter()
            .map(|found| (found.key, found.entry.value))
            .collect()
    }

    /// Returns the events in the outbox.
    pub(crate) async fn events(&self) -> Vec<Event> {
        let found = self
            .faults
            .inner()
            .scan_all(&keys::outbox_events())
            .await
            .unwrap();
        found
            .iter()
            .map(|found| serde_json::from_slice(&found.entry.value).unwrap())
            .collect()
    }

    /// Returns the events of a type in the outbox.
    pub(crate) async fn events_of(&self, event_type: EventType) -> Vec<Event> {
        let mut events = self.events().await;
        events.retain(|event| event.event_type == event_type);
        events
    }

    /// Runs maintenance until nothing is due.
    pub(crate) async fn maintain(&self) -> u64 {
        let mut purged = 0;
        loop {
            let done = self.service.maintain(self.time.now()).await.unwrap();
            purged += done.purged;
            if !done.has_more {
                return purged;
            }
        }
    }

    /// Resolves a role reference through its redirects.
    pub(crate) async fn resolve(&self, mut role: RoleRef) -> RoleRef {
        while let RoleRef::Custom(id) = role {
            match self.read(&keys::role_redirect(self.org.id, id)).await {
                Some(target) => role = target,
                None => break,
            }
        }
        role
    }

    /// Creates a recall that cites one new memory.
    pub(crate) async fn recall(&self) -> RecallId {
        let new = new_recall(&self.memories(1).await);
        let recall = self
            .service
            .create_recall(&self.owner, self.workspace.id, &new)
            .await;
        recall.unwrap().id
    }

    /// Subscribes the owner to the citations of a new recall.
    pub(crate) async fn subscription(&self) -> SubscriptionId {
        let request = NewCitationSubscription {
            recall_id: self.recall().await,
            webhook_url: "https://example.com/".parse().unwrap(),
        };
        let made = self
            .service
            .create_citation_subscription(&self.owner, &request)
            .await;
        made.unwrap().id
    }

    /// Returns the number of scheduled tasks, except for the daily one of the audit log.
    pub(crate) async fn planned(&self) -> usize {
        let contents = self.contents().await;
        let due = contents
            .iter()
            .filter(|(key, _)| key.to_string().starts_with("due/"));
        due.filter(|(_, value)| !value.starts_with(b"{\"audit\""))
            .count()
    }

    /// Returns the identifier of an audit entry.
    pub(crate) async fn audit(&self) -> AuditLogId {
        let (filter, page) = (AuditFilter::default(), PageRequest::default());
        let found = self
            .service
            .list_audit_entries(&self.owner, &filter, &page)
            .await;
        found.unwrap().data[0].id
    }

    /// Asserts that counters equal a recount, and that indexes refer to existing records.
    pub(crate) async fn assert_whole(&self) {
        let found = self.service.verify().await.unwrap();
        assert_eq!(found.differences, []);
    }

    /// Asserts that the indexes and counters of role holders match the members.
    ///
    /// No member holds a role that does not exist.
    pub(crate) async fn assert_holders_are_right(&self) {
        let contents = self.contents().await;
        let family = |name: &str| {
            let prefix = format!("{name}/{}/", self.org.id.0.simple());
            let range = KeyRange::prefix(&Key::new(prefix).unwrap());
            contents.iter().filter(move |(key, _)| range.contains(key))
        };
        let mut held: Vec<(MemberId, Option<WorkspaceId>, RoleRef)> = Vec::new();
        for (_, value) in family("member") {
            let member: Member = serde_json::from_slice(value).unwrap();
            held.push((member.id, None, member.role));
        }
        for (key, value) in family("workspace_role") {
            let member = MemberId(keys::second_last_id(key).unwrap());
            let workspace = WorkspaceId(keys::last_id(key).unwrap());
            let role = serde_json::from_slice(value).unwrap();
            held.push((member, Some(workspace), role));
        }
        let mut counts: BTreeMap<Key, i64> = BTreeMap::new();
        let mut marks: Vec<Key> = Vec::new();
        for (member, workspace, role) in held {
            let resolved = self.resolve(role).await;
            if let RoleRef::Custom(id) = resolved {
                assert!(
                    contents.contains_key(&keys::role(self.org.id, id)),
                    "{member} holds the role {id}, which does not exist"
                );
            }
            *counts
                .entry(keys::holder_count(self.org.id, resolved))
                .or_default() += 1;
            if let RoleRef::Custom(id) = role {
                marks.push(keys::holder(self.org.id, id, member, workspace));
            }
        }
        let stored: BTreeMap<Key, i64> = family("holder_count")
            .map(|(key, value)| (key.clone(), serde_json::from_slice(value).unwrap()))
            .filter(|(_, count)| *count != 0)
            .collect();
        assert_eq!(stored, counts);
        marks.sort();
        let stored: Vec<Key> = family("holder").map(|(key, _)| key.clone()).collect();
        assert_eq!(stored, marks);
    }
}
