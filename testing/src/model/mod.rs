//! Reference model: the domain in plain maps, computed in the simplest way.
//!
//! The [`Model`] runs on one thread, keeps everything in memory and shares no decision with the
//! service: connector health, holders of deleted roles, idempotent replays. Who may do what it asks
//! [`authorization`](crate::authorization), which reads that from the documentation. From the
//! service it uses only the types of records and requests. It learns identifiers, secrets, entity
//! tags and cursors created by the service from the responses, and requires that they are new.
//!
//! The expected result of each operation is beside its call, in
//! `simulation::operations`. The model states what the service does; where the
//! rules demand something else, a comment says so.

mod access;
mod activity;
mod audit;
mod compare;
mod dashboard;
mod deliveries;
mod endpoints;
mod labels;
mod memories;
mod pages;
mod quotas;
mod refusals;
mod removal;
mod request_errors;
mod response;
mod retention;
mod retention_facts;
mod roles;
mod search;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

pub(crate) use self::access::{Asked, Owner, Token, Who, change_of, done, possible_actions};
pub(crate) use self::audit::{AuditFacts, AuditOperation};
pub(crate) use self::dashboard::ConnectorFacts;
pub(crate) use self::deliveries::{PendingPing, id_of, resource_of};
pub(crate) use self::endpoints::{InboundFacts, SECRET_OVERLAP, limit_reached};
pub(crate) use self::memories::{Batch, labels_state, wire_memory};
use self::refusals::Refusals;
pub(crate) use self::removal::Removing;
pub(crate) use self::request_errors::{RequestErrors, none_of};
pub(crate) use self::response::Moment;
pub use self::response::{Caller, ErrorResponse, Expected, Outcome, Response, agrees};
use self::retention_facts::RetentionFacts;
pub(crate) use self::roles::{OWNER, updated_role};
use knowledge_core::access::{CredentialKind, CredentialRecord, RoleRef, TokenScope};
use knowledge_core::limits::Limits;
use knowledge_core::model::{
    ActivityDay, AudienceLabel, BulkResult, BulkUpdate, ChatId, ChatMessageId,
    CitationSubscription, ConnectorId, ConnectorStatus, CredentialId, CustomRole, EndpointId,
    Erasure, ErasureId, EventId, EventType, InboundWebhookId, McpClient, McpKeySummary, Member,
    MemberId, MemoryContent, MemoryId, MemoryLabels, NewErasure, OrgId, Organization, Recall,
    RecallId, ResourceStatus, RoleId, Source, SourceId, SubscriptionId, Timestamp, Webhook,
    WebhookId, Workspace, WorkspaceId,
};
use knowledge_core::service::{ApiToken, AuditAction, Chat, ChatMessage, IfMatch, Issued};

/// Expected contents of one store. Clones are cheap: they share what does not change.
#[derive(Clone, Debug)]
pub struct Model {
    pub(crate) limits: Limits,
    orgs: BTreeMap<OrgId, Arc<Org>>,
    /// Tokens, sessions and MCP keys.
    tokens: Arc<BTreeMap<CredentialId, Token>>,
    /// Identifiers created by the service.
    made: Arc<BTreeSet<Uuid>>,
    /// Secrets shown by the service.
    shown: Arc<BTreeSet<String>>,
    /// Response that each entity tag identifies.
    tags: Arc<BTreeMap<String, Value>>,
    /// Entity tag of each response that has a strong one, by its text.
    tagged: Arc<BTreeMap<String, String>>,
    /// List and last position of each cursor.
    cursors: Arc<BTreeMap<String, (String, Uuid)>>,
    /// Last uses of MCP keys in the response to the current call.
    shown_uses: BTreeMap<CredentialId, Timestamp>,
    /// True while applying a call whose response was lost and has been reconstructed.
    pub(crate) is_recovering: bool,
    /// True after a failed maintenance, which leaves the announced statuses unknown.
    lost_announcements: bool,
}

/// One organisation, which refers to no other.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Org {
    pub(crate) id: OrgId,
    pub(crate) slug: String,
    pub(crate) members: BTreeMap<MemberId, Member>,
    /// People whom members added, and who have no session or token.
    pub(crate) invited: BTreeSet<MemberId>,
    /// Handles of former members, which stay taken.
    pub(crate) former_handles: BTreeSet<String>,
    /// Roles that replace the member's own in a workspace.
    pub(crate) overrides: BTreeMap<(MemberId, WorkspaceId), RoleRef>,
    pub(crate) workspaces: BTreeMap<WorkspaceId, Workspace>,
    /// Private workspaces, also removed ones until maintenance.
    pub(crate) private: BTreeSet<WorkspaceId>,
    /// Remains of removed workspaces, which maintenance deletes; none of them is shown.
    pub(crate) removing: Removing,
    pub(crate) roles: BTreeMap<RoleId, CustomRole>,
    pub(crate) sources: BTreeMap<SourceId, Source>,
    /// Sources of inbound webhooks, also of deleted ones, with the workspaces of these.
    pub(crate) closed_sources: BTreeMap<SourceId, WorkspaceId>,
    pub(crate) memories: BTreeMap<MemoryId, Memory>,
    /// Memories by their names at their sources.
    pub(crate) names: BTreeMap<(WorkspaceId, SourceId, String), MemoryId>,
    /// Names that were erased, which an ingest leaves out.
    pub(crate) erased_names: BTreeSet<(WorkspaceId, SourceId, String)>,
    pub(crate) last_ingest: BTreeMap<WorkspaceId, Timestamp>,
    /// Activity by workspace and number of the day, without deletions.
    pub(crate) activity: BTreeMap<(WorkspaceId, i64), ActivityDay>,
    /// Replays by member, the service account that acts for it, and idempotency key.
    pub(crate) replays: BTreeMap<(MemberId, Option<MemberId>, String), Replay>,
    /// Replays of erasures, with the end of their retention.
    pub(crate) erasure_replays: BTreeMap<(MemberId, String), (NewErasure, ErasureId, Timestamp)>,
    pub(crate) erasures: BTreeMap<ErasureId, Erasure>,
    /// Time of the removal of each former member.
    pub(crate) former_members: BTreeMap<MemberId, Timestamp>,
    /// Refused changes of each member that have entries in the audit log.
    pub(crate) refusals: BTreeMap<MemberId, Refusals>,
    /// Audited operations, in order of their commits.
    pub(crate) audit: Vec<Arc<AuditOperation>>,
    pub(crate) connectors: BTreeMap<ConnectorId, ConnectorFacts>,
    pub(crate) mcp_keys: BTreeMap<CredentialId, McpKey>,
    /// API tokens that were not ended, also expired ones.
    pub(crate) api_tokens: BTreeMap<CredentialId, ApiToken>,
    pub(crate) chats: BTreeMap<ChatId, ChatFacts>,
    /// Retentions by workspace, also removed ones until the next sweep.
    retentions: BTreeMap<WorkspaceId, RetentionFacts>,
    pub(crate) recalls: BTreeMap<RecallId, Recall>,
    pub(crate) subscriptions: BTreeMap<SubscriptionId, CitationSubscription>,
    pub(crate) webhooks: BTreeMap<WebhookId, Webhook>,
    pub(crate) inbound_webhooks: BTreeMap<InboundWebhookId, InboundFacts>,
    /// Processed messages: true if the message was rejected, and the end of its retention.
    pub(crate) messages: BTreeMap<(InboundWebhookId, String), (bool, Timestamp)>,
    /// Number of endpoints ever created in a workspace.
    endpoints_made: BTreeMap<WorkspaceId, i64>,
    /// Creation order of each endpoint within its workspace.
    endpoints: BTreeMap<EndpointId, i64>,
    /// Owner of each endpoint.
    pub(crate) owners: BTreeMap<EndpointId, Owner>,
    /// Test events, which are pending: nothing is sent during a simulation.
    pub(crate) pings: BTreeMap<EndpointId, BTreeMap<EventId, PendingPing>>,
    /// Announced events, each with the number of endpoints created before and the changes of its
    /// memories.
    events: Vec<(Announcement, i64, LabelChanges)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Memory {
    pub(crate) labels: MemoryLabels,
    pub(crate) content: MemoryContent,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Replay {
    pub(crate) request: BulkUpdate,
    pub(crate) result: BulkResult,
    /// Labels of each memory before and after.
    pub(crate) labels: Vec<(Option<MemoryLabels>, Option<MemoryLabels>)>,
    pub(crate) expires_at: Timestamp,
}

/// MCP key; the fields before `workspace_id` are also its form in the audit log.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct McpKey {
    pub(crate) id: CredentialId,
    pub(crate) name: String,
    pub(crate) client: McpClient,
    pub(crate) audience: Vec<AudienceLabel>,
    pub(crate) created_by: MemberId,
    pub(crate) created_at: Timestamp,
    pub(crate) acts_as: MemberId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) created_with: Option<CredentialId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) created_through: Option<CredentialId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bound_until: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) proposal_source_id: Option<SourceId>,
    pub(crate) rotation_seconds: u64,
    pub(crate) rotates_at: Timestamp,
    pub(crate) expires_at: Timestamp,
    #[serde(skip)]
    pub(crate) workspace_id: WorkspaceId,
}

impl McpKey {
    pub(crate) fn is_live(&self, now: Timestamp) -> bool {
        now < self.expires_at
    }

    pub(crate) fn owner(&self) -> Owner {
        Owner {
            member: self.acts_as,
            credential: self.created_with,
            is_bound: self.bound_until.is_some(),
        }
    }

    fn summary(&self, last_used_at: Option<Timestamp>, status: ResourceStatus) -> McpKeySummary {
        McpKeySummary {
            id: self.id,
            workspace_id: self.workspace_id,
            name: self.name.clone(),
            client: self.client,
            audience: self.audience.clone(),
            proposal_source_id: self.proposal_source_id,
            last_used_at,
            rotates_at: Some(self.rotates_at),
            state: status.state,
            ended_reason: status.ended_reason,
            ended_at: status.ended_at,
        }
    }
}

/// Chat with its messages.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ChatFacts {
    pub(crate) chat: Chat,
    pub(crate) messages: BTreeMap<ChatMessageId, ChatMessage>,
    /// Text of the newest message.
    pub(crate) newest: String,
}

/// Labels of memories before and after an operation.
pub(crate) type LabelChanges = BTreeMap<MemoryId, (Option<MemoryLabels>, Option<MemoryLabels>)>;

/// Event that must be in the outbox.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Announcement {
    Memories(EventType, WorkspaceId, BTreeSet<MemoryId>),
    Ingest(WorkspaceId, usize, usize),
    /// Message that was rejected, with the code of the error.
    Rejected(WorkspaceId, InboundWebhookId, String, String),
    Status(
        WorkspaceId,
        ConnectorId,
        Option<ConnectorStatus>,
        ConnectorStatus,
    ),
    /// An event that no modelled operation writes to the outbox.
    Unexpected(EventType, WorkspaceId),
}

impl Announcement {
    fn workspace(&self) -> WorkspaceId {
        let (Self::Memories(_, workspace, _)
        | Self::Ingest(workspace, ..)
        | Self::Rejected(workspace, ..)
        | Self::Status(workspace, ..)
        | Self::Unexpected(_, workspace)) = self;
        *workspace
    }
}

impl Org {
    fn new(org: &Organization) -> Self {
        Self {
            id: org.id,
            slug: org.slug.clone(),
            members: BTreeMap::new(),
            invited: BTreeSet::new(),
            former_handles: BTreeSet::new(),
            overrides: BTreeMap::new(),
            workspaces: BTreeMap::new(),
            private: BTreeSet::new(),
            removing: Removing::default(),
            roles: BTreeMap::new(),
            sources: BTreeMap::new(),
            closed_sources: BTreeMap::new(),
            memories: BTreeMap::new(),
            names: BTreeMap::new(),
            erased_names: BTreeSet::new(),
            last_ingest: BTreeMap::new(),
            activity: BTreeMap::new(),
            replays: BTreeMap::new(),
            erasure_replays: BTreeMap::new(),
            erasures: BTreeMap::new(),
            former_members: BTreeMap::new(),
            refusals: BTreeMap::new(),
            audit: Vec::new(),
            connectors: BTreeMap::new(),
            mcp_keys: BTreeMap::new(),
            api_tokens: BTreeMap::new(),
            chats: BTreeMap::new(),
            retentions: BTreeMap::new(),
            recalls: BTreeMap::new(),
            subscriptions: BTreeMap::new(),
            webhooks: BTreeMap::new(),
            inbound_webhooks: BTreeMap::new(),
            messages: BTreeMap::new(),
            endpoints_made: BTreeMap::new(),
            endpoints: BTreeMap::new(),
            owners: BTreeMap::new(),
            pings: BTreeMap::new(),
            events: Vec::new(),
        }
    }

    /// Adds an API token with this credential, and returns it.
    pub(crate) fn add_api_token(
        &mut self,
        record: &CredentialRecord,
        created_by: Option<MemberId>,
    ) -> ApiToken {
        let token = ApiToken {
            id: record.id,
            member_id: record.member_id,
            name: record.name.clone(),
            scope: record.scope.clone(),
            created_by,
            created_at: record.created_at,
            expires_at: record.expires_at,
            created_with: record.created_with,
            last_used_at: None,
            status: None,
        };
        self.api_tokens.insert(token.id, token.clone());
        token
    }

    /// Adds an endpoint, which receives the events from now on.
    pub(crate) fn add_endpoint(&mut self, workspace: WorkspaceId, endpoint: EndpointId, by: &Who) {
        self.owners.insert(endpoint, by.owner());
        let made = self.endpoints_made.entry(workspace).or_default();
        *made += 1;
        self.endpoints.insert(endpoint, *made);
    }

    /// Returns true if the workspace ever had an endpoint.
    pub(crate) fn has_endpoints(&self, workspace: WorkspaceId) -> bool {
        self.endpoints_made.contains_key(&workspace)
    }

    /// Announces an event, unless the workspace never had an endpoint.
    pub(crate) fn announce(&mut self, event: Announcement) {
        self.announce_changes(event, LabelChanges::new());
    }

    /// Announces an event with the changes of its memories.
    fn announce_changes(&mut self, event: Announcement, changes: LabelChanges) {
        if let Some(endpoints) = self.endpoints_made.get(&event.workspace()) {
            self.events.push((event, *endpoints, changes));
        }
    }

    /// Announces changes of memories of a workspace, if there are any.
    pub(crate) fn announce_memories(
        &mut self,
        event_type: EventType,
        workspace: WorkspaceId,
        changes: LabelChanges,
    ) {
        if !changes.is_empty() {
            let memories = changes.keys().copied().collect();
            let event = Announcement::Memories(event_type, workspace, memories);
            self.announce_changes(event, changes);
        }
    }
}

impl Model {
    /// Creates the model of an empty store with these limits.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            orgs: BTreeMap::new(),
            tokens: Arc::default(),
            made: Arc::default(),
            shown: Arc::default(),
            tags: Arc::default(),
            tagged: Arc::default(),
            cursors: Arc::default(),
            shown_uses: BTreeMap::new(),
            is_recovering: false,
            lost_announcements: false,
        }
    }

    /// Adds an organisation created by the operator.
    pub fn add_organization(&mut self, org: &Organization, owner: &Member) {
        let mut added = Org::new(org);
        added.members.insert(owner.id, owner.clone());
        let action = AuditAction::OrganizationCreate;
        let entry = AuditFacts::ok(org.id, (), org);
        added.audit_by_operator(action, entry, org.created_at);
        self.orgs.insert(org.id, Arc::new(added));
    }

    /// Adds a workspace created by the operator.
    ///
    /// # Panics
    /// If the model does not have the organisation.
    pub fn add_workspace(&mut self, org: OrgId, workspace: &Workspace) {
        let org = self.org_mut(org);
        org.put_workspace(workspace.clone());
        let (action, at) = (AuditAction::WorkspaceCreate, workspace.created_at);
        let entry = AuditFacts::ok(workspace.id, (), workspace);
        org.audit_by_operator(action, entry, at);
    }

    /// Adds a member created by the operator.
    ///
    /// # Panics
    /// If the model does not have the organisation.
    pub fn add_member(&mut self, org: OrgId, member: &Member) {
        let org = self.org_mut(org);
        org.members.insert(member.id, member.clone());
        let action = AuditAction::MemberCreate;
        let entry = AuditFacts::ok(member.id, (), member);
        org.audit_by_operator(action, entry, member.created_at);
    }

    /// Adds a custom role that an owner created, of whose request nothing is known.
    ///
    /// # Panics
    /// If the model does not have the organisation.
    pub fn add_role(&mut self, owner: &Member, role: &CustomRole) {
        let who = Who {
            org: role.org_id,
            member: owner.id,
            credential: None,
            scope: TokenScope::default(),
            via: None,
            webhook: None,
            request_id: None,
        };
        let org = self.org_mut(role.org_id);
        org.roles.insert(role.id, role.clone());
        let entry = AuditFacts::ok(role.id, (), role);
        org.audit(&who, AuditAction::RoleCreate, entry, role.created_at);
    }

    /// Adds a token or session created by the operator.
    ///
    /// # Panics
    /// If the model does not have the organisation.
    pub fn add_credential(&mut self, issued: &Issued) {
        let record = &issued.record;
        self.add_token(record.clone(), Some(issued.secret.expose().to_owned()));
        let (org, action) = (self.org_mut(record.org_id), AuditAction::CredentialCreate);
        if record.kind == CredentialKind::Bearer {
            org.add_api_token(record, None);
        }
        let entry = AuditFacts::ok(record.id, (), record);
        org.audit_by_operator(action, entry, record.created_at);
    }

    /// Adds or replaces a token. Without a secret, the response that had it was lost.
    pub(crate) fn add_token(&mut self, record: CredentialRecord, secret: Option<String>) {
        let token = Token {
            record,
            secret,
            ended_at: None,
        };
        self.tokens_mut().insert(token.record.id, token);
    }

    pub(crate) fn tokens_mut(&mut self) -> &mut BTreeMap<CredentialId, Token> {
        Arc::make_mut(&mut self.tokens)
    }

    /// Returns true if both models expect the same stored data.
    #[must_use]
    pub fn is_as(&self, other: &Self) -> bool {
        let same = |(own, others): (&Arc<Org>, &Arc<Org>)| {
            Arc::ptr_eq(own, others) || own.as_ref() == others.as_ref()
        };
        self.orgs.len() == other.orgs.len()
            && self.orgs.values().zip(other.orgs.values()).all(same)
            && self.tokens == other.tokens
    }

    /// Records that maintenance failed, so that some statuses may have been announced.
    pub fn lose_announcements(&mut self) {
        self.lost_announcements = true;
    }

    /// Returns true if a workspace has a retention, so that maintenance erases.
    pub(crate) fn has_retention(&self) -> bool {
        let mut orgs = self.orgs.values();
        orgs.any(|org| !org.retentions.is_empty())
    }

    pub(crate) fn org(&self, org: OrgId) -> &Org {
        &self.orgs[&org]
    }

    pub(crate) fn org_mut(&mut self, org: OrgId) -> &mut Org {
        let org = self.orgs.get_mut(&org);
        Arc::make_mut(org.expect("the organisation was added"))
    }

    pub(crate) fn find_org(&self, org: OrgId) -> Option<&Org> {
        self.orgs.get(&org).map(AsRef::as_ref)
    }

    pub(crate) fn orgs_mut(&mut self) -> impl Iterator<Item = &mut Org> {
        self.orgs.values_mut().map(Arc::make_mut)
    }

    /// Returns the identifier that the service created, or nil if it is missing or not new.
    pub(crate) fn made(&mut self, learned: Option<Uuid>) -> Uuid {
        let learned = learned.filter(|id| Arc::make_mut(&mut self.made).insert(*id));
        learned.unwrap_or_default()
    }

    /// Returns the secret with this prefix that the service created, if it is valid and new.
    ///
    /// `None` is correct only for a response that was lost.
    pub(crate) fn secret(&mut self, at: &Moment<'_>, field: &str, prefix: &str) -> Option<String> {
        if self.is_recovering {
            return None;
        }
        let secret = at.learned.and_then(|learned| learned.get::<String>(field));
        let secret = secret.filter(|secret| secret.starts_with(prefix));
        let secret = secret.filter(|secret| Arc::make_mut(&mut self.shown).insert(secret.clone()));
        Some(secret.unwrap_or_else(|| "a new secret".to_owned()))
    }

    /// Returns a response with an entity tag that identifies this body and no other.
    pub(crate) fn tagged(&mut self, body: &impl Serialize, at: &Moment<'_>) -> Response {
        let mut response = self.loosely_tagged(body, at, '"');
        if let Some(tag) = &response.etag {
            let tagged = Arc::make_mut(&mut self.tagged);
            let known = tagged.entry(response.body.to_string());
            if known.or_insert_with(|| tag.clone()) != tag {
                response.etag = Some("a tag of another version".to_owned());
            }
        }
        response
    }

    /// Returns a response with an entity tag that never identified another body.
    pub(crate) fn loosely_tagged(
        &mut self,
        body: &impl Serialize,
        at: &Moment<'_>,
        begin: char,
    ) -> Response {
        let response = Response::of(body);
        let Some(tag) = at.learned.and_then(|learned| learned.etag.clone()) else {
            return response;
        };
        let known = Arc::make_mut(&mut self.tags).entry(tag.clone());
        let is_its_own = *known.or_insert_with(|| response.body.clone()) == response.body;
        let is_tag = tag.starts_with(begin) && tag.ends_with('"') && tag.len() > 2;
        let etag = if is_its_own && is_tag {
            tag
        } else {
            format!("not {tag}")
        };
        Response {
            etag: Some(etag),
            ..response
        }
    }

    /// Checks that a condition names the current version of a resource.
    pub(crate) fn require_current(
        &self,
        if_match: Option<&IfMatch>,
        body: &impl Serialize,
    ) -> Result<(), ErrorResponse> {
        let body = Response::of(body).body;
        match if_match {
            Some(IfMatch::Tags(tags))
                if !tags.iter().any(|tag| self.tags.get(tag) == Some(&body)) =>
            {
                Err(ErrorResponse::PreconditionFailed)
            }
            _ => Ok(()),
        }
    }
}
