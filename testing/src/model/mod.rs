//! Reference model: the domain in plain maps, computed in the simplest way.
//!
//! The [`Model`] runs on one thread, keeps everything in memory and shares no decision with the
//! service: permissions, connector health, holders of deleted roles, idempotent replays. From the
//! service it uses only the types of records and requests. It learns identifiers and secrets
//! created by the service from the responses, and requires that they are new.
//!
//! ```
//! use knowledge_core::limits::Limits;
//! use knowledge_core::model::{Timestamp, WorkspaceId};
//! use knowledge_testing::model::{Call, Caller, Model, Refusal};
//! # use knowledge_core::access::Credential;
//! # use knowledge_core::model::{MemberId, OrgId};
//! # let nobody = Credential::Trusted { org: OrgId(uuid::Uuid::nil()), member: MemberId(uuid::Uuid::nil()) };
//!
//! let mut model = Model::new(Limits::default());
//! let call = Call::Dashboard(
//!     Caller { name: "nobody".to_owned(), credential: nobody },
//!     WorkspaceId(uuid::Uuid::nil()),
//! );
//! let expected = model.apply(&call, Timestamp::UNIX_EPOCH, None);
//! assert_eq!(expected, Err(vec![Refusal::Unauthenticated]));
//! ```

mod access;
mod call;
mod compare;
mod dashboard;
mod deliveries;
mod endpoints;
mod memories;
mod roles;
mod workspace;

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use self::access::Token;
pub use self::access::builtin_actions;
pub use self::call::{Answer, Call, Caller, Expected, Outcome, Refusal, agrees};
use self::dashboard::ConnectorFacts;
use knowledge_core::ProblemCode;
use knowledge_core::access::{RoleRef, Secret, TokenScope};
use knowledge_core::limits::Limits;
use knowledge_core::model::{
    AuditLogId, BulkResult, BulkUpdate, ChatId, CitationSubscription, ConnectorId, ConnectorStatus,
    CredentialId, CustomRole, DashboardSummary, EndpointId, EventType, InboundWebhook,
    InboundWebhookId, McpKeySummary, Member, MemberId, MemoryId, MemoryLabels, OrgId, Organization,
    Recall, RecallId, RoleId, Source, SourceId, SubscriptionId, Timestamp, Webhook, WebhookId,
    Workspace, WorkspaceId,
};
use knowledge_core::service::Chat;

/// Expected contents of one store.
#[derive(Clone, Debug)]
pub struct Model {
    limits: Limits,
    orgs: BTreeMap<OrgId, Org>,
    /// Tokens by secret.
    tokens: BTreeMap<String, Token>,
    /// Identifiers created by the service.
    made: BTreeSet<Uuid>,
    /// Secrets shown by the service.
    shown: BTreeSet<String>,
    /// Role version that each entity tag identifies.
    role_tags: BTreeMap<String, CustomRole>,
    /// Dashboard that each entity tag identifies.
    dashboard_tags: BTreeMap<String, DashboardSummary>,
    /// True while applying a call whose response was lost and has been reconstructed.
    is_recovering: bool,
    /// True after a failed maintenance, which leaves the announced statuses unknown.
    lost_announcements: bool,
}

/// One organisation, which refers to no other.
#[derive(Clone, Debug, PartialEq)]
struct Org {
    slug: String,
    members: BTreeMap<MemberId, Member>,
    /// Roles that replace the member's own in a workspace.
    overrides: BTreeMap<(MemberId, WorkspaceId), RoleRef>,
    workspaces: BTreeMap<WorkspaceId, Workspace>,
    roles: BTreeMap<RoleId, CustomRole>,
    sources: BTreeMap<SourceId, Source>,
    memories: BTreeMap<MemoryId, Memory>,
    /// Memories by their names at their sources.
    names: BTreeMap<(WorkspaceId, SourceId, String), MemoryId>,
    last_ingest: BTreeMap<WorkspaceId, Timestamp>,
    /// Replays by member and idempotency key.
    replays: BTreeMap<(MemberId, String), Replay>,
    audit: BTreeMap<AuditLogId, (MemberId, MemoryId, bool)>,
    connectors: BTreeMap<ConnectorId, ConnectorFacts>,
    mcp_keys: BTreeMap<CredentialId, McpKeySummary>,
    chats: BTreeMap<ChatId, (Chat, String)>,
    recalls: BTreeMap<RecallId, Recall>,
    subscriptions: BTreeMap<SubscriptionId, CitationSubscription>,
    webhooks: BTreeMap<WebhookId, Webhook>,
    inbound_webhooks: BTreeMap<InboundWebhookId, InboundWebhook>,
    /// Number of endpoints ever created in a workspace.
    endpoints_made: BTreeMap<WorkspaceId, i64>,
    /// Creation order of each endpoint within its workspace.
    endpoints: BTreeMap<EndpointId, i64>,
    /// Announced events, each with the number of endpoints created before.
    events: Vec<(Announcement, i64)>,
}

#[derive(Clone, Debug, PartialEq)]
struct Memory {
    labels: MemoryLabels,
    title: String,
    content: String,
}

#[derive(Clone, Debug, PartialEq)]
struct Replay {
    request: BulkUpdate,
    result: BulkResult,
    expires_at: Timestamp,
}

/// Event that must be in the outbox.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Announcement {
    Memories(EventType, WorkspaceId, BTreeSet<MemoryId>),
    Ingest(WorkspaceId, usize, usize),
    Status(
        WorkspaceId,
        ConnectorId,
        Option<ConnectorStatus>,
        ConnectorStatus,
    ),
}

impl Announcement {
    fn workspace(&self) -> WorkspaceId {
        let (Self::Memories(_, workspace, _)
        | Self::Ingest(workspace, ..)
        | Self::Status(workspace, ..)) = self;
        *workspace
    }
}

impl Org {
    /// Adds an endpoint, which receives the events from now on.
    fn add_endpoint(&mut self, workspace: WorkspaceId, endpoint: EndpointId) {
        let made = self.endpoints_made.entry(workspace).or_default();
        *made += 1;
        self.endpoints.insert(endpoint, *made);
    }

    /// Announces an event, unless the workspace never had an endpoint.
    fn announce(&mut self, event: Announcement) {
        if let Some(endpoints) = self.endpoints_made.get(&event.workspace()) {
            self.events.push((event, *endpoints));
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
            tokens: BTreeMap::new(),
            made: BTreeSet::new(),
            shown: BTreeSet::new(),
            role_tags: BTreeMap::new(),
            dashboard_tags: BTreeMap::new(),
            is_recovering: false,
            lost_announcements: false,
        }
    }

    /// Adds an organisation created by the operator.
    pub fn add_organization(&mut self, org: &Organization, owner: &Member) {
        let empty = Org {
            slug: org.slug.clone(),
            members: BTreeMap::new(),
            overrides: BTreeMap::new(),
            workspaces: BTreeMap::new(),
            roles: BTreeMap::new(),
            sources: BTreeMap::new(),
            memories: BTreeMap::new(),
            names: BTreeMap::new(),
            last_ingest: BTreeMap::new(),
            replays: BTreeMap::new(),
            audit: BTreeMap::new(),
            connectors: BTreeMap::new(),
            mcp_keys: BTreeMap::new(),
            chats: BTreeMap::new(),
            recalls: BTreeMap::new(),
            subscriptions: BTreeMap::new(),
            webhooks: BTreeMap::new(),
            inbound_webhooks: BTreeMap::new(),
            endpoints_made: BTreeMap::new(),
            endpoints: BTreeMap::new(),
            events: Vec::new(),
        };
        self.orgs.insert(org.id, empty);
        self.add_member(org.id, owner);
    }

    /// Adds a workspace created by the operator.
    ///
    /// # Panics
    /// If the model does not have the organisation.
    pub fn add_workspace(&mut self, org: OrgId, workspace: &Workspace) {
        let workspaces = &mut self.org_mut(org).workspaces;
        workspaces.insert(workspace.id, workspace.clone());
    }

    /// Adds a member created by the operator.
    ///
    /// # Panics
    /// If the model does not have the organisation.
    pub fn add_member(&mut self, org: OrgId, member: &Member) {
        self.org_mut(org).members.insert(member.id, member.clone());
    }

    /// Adds a token or session created by the operator.
    pub fn add_credential(&mut self, issued: &knowledge_core::service::Issued) {
        let record = &issued.record;
        self.add_token(
            &issued.secret,
            Token {
                id: record.id,
                kind: record.kind,
                org: record.org_id,
                member: record.member_id,
                scope: record.scope.clone(),
                expires_at: record.expires_at,
                is_revoked: false,
            },
        );
    }

    fn add_token(&mut self, secret: &Secret, token: Token) {
        self.tokens.insert(secret.expose().to_owned(), token);
    }

    /// Applies a call and returns the expected result.
    ///
    /// `learned` is the actual response, from which the model takes only the identifiers and
    /// secrets that the service created. A rejected call changes nothing.
    pub fn apply(&mut self, call: &Call, now: Timestamp, learned: Option<&Answer>) -> Expected {
        match call {
            Call::BulkUpdate(by, key, request) => self.bulk_update(by, key, request, now, learned),
            Call::Ingest(by, workspace, source, memories) => {
                self.ingest(by, (*workspace, *source), memories, now, learned)
            }
            Call::CreateSource(by, new) => self.create_source(by, new, now, learned),
            Call::ListRoles(by, org) => self.list_roles(by, org, now),
            Call::ReadRole(by, org, role) => self.read_role(by, org, *role, now, learned),
            Call::CreateRole(by, org, new) => self.create_role(by, org, new, now, learned),
            Call::UpdateRole(by, org, role, update, if_match) => {
                let conditions = (update, if_match.as_ref());
                self.update_role(by, org, *role, conditions, now, learned)
            }
            Call::DeleteRole(by, org, role, target) => {
                self.delete_role(by, org, *role, *target, now)
            }
            Call::AssignRole(by, org, member, assignment) => {
                self.assign_role(by, org, *member, *assignment, now)
            }
            Call::Revoke(org, credential) => self.revoke(*org, *credential, now, learned),
            Call::CreateWebhook(by, workspace, new) => {
                self.create_webhook(by, *workspace, new, now, learned)
            }
            Call::CreateInboundWebhook(by, workspace, new) => {
                self.create_inbound_webhook(by, *workspace, new, now, learned)
            }
            Call::CreateRecall(by, workspace, new) => {
                self.create_recall(by, *workspace, new, now, learned)
            }
            Call::Subscribe(by, new) => self.subscribe(by, new, now, learned),
            Call::CreateConnector(by, workspace, new) => {
                self.create_connector(by, *workspace, new, now, learned)
            }
            Call::ReportSync(by, workspace, connector, report) => {
                self.report_sync(by, (*workspace, *connector), report, now)
            }
            Call::PauseConnector(by, workspace, connector, is_paused) => {
                self.pause_connector(by, (*workspace, *connector), *is_paused, now)
            }
            Call::CreateChat(by, workspace, title) => {
                self.create_chat(by, *workspace, title, now, learned)
            }
            Call::PostMessage(by, workspace, chat, content) => {
                self.post_message(by, (*workspace, *chat), content, now, learned)
            }
            Call::CreateMcpKey(by, workspace, new) => {
                self.create_mcp_key(by, *workspace, new, now, learned)
            }
            Call::NoteMcpKeyUse(by, workspace) => self.note_mcp_key_use(by, *workspace, now),
            Call::Dashboard(by, workspace) => self.dashboard(by, *workspace, now, learned),
            Call::ReadAudit(by, id) => self.read_audit(by, *id, now),
            Call::Maintain => self.maintain(now),
        }
    }

    /// Applies a call whose response was lost and that is known to be committed.
    ///
    /// `learned` is reconstructed from the stored data, without secrets.
    pub fn recover(&mut self, call: &Call, now: Timestamp, learned: &Answer) -> Expected {
        self.is_recovering = true;
        let expected = self.apply(call, now, Some(learned));
        self.is_recovering = false;
        expected
    }

    /// Returns true if both models expect the same stored data.
    #[must_use]
    pub fn is_as(&self, other: &Self) -> bool {
        self.orgs == other.orgs && self.tokens == other.tokens
    }

    /// Records that maintenance failed, so that some statuses may have been announced.
    pub fn lose_announcements(&mut self) {
        self.lost_announcements = true;
    }

    /// Returns the memory with this name at its source.
    #[must_use]
    pub fn named_memory(
        &self,
        org: OrgId,
        workspace: WorkspaceId,
        source: SourceId,
        name: &str,
    ) -> Option<MemoryId> {
        let names = &self.orgs.get(&org)?.names;
        names.get(&(workspace, source, name.to_owned())).copied()
    }

    fn org(&self, org: OrgId) -> &Org {
        &self.orgs[&org]
    }

    fn org_mut(&mut self, org: OrgId) -> &mut Org {
        self.orgs.get_mut(&org).expect("the organisation was added")
    }

    /// Returns the identifier that the service created, or nil if it is missing or not new.
    fn made(&mut self, learned: Option<&Answer>) -> Uuid {
        match learned.and_then(Answer::made) {
            Some(id) if self.made.insert(id) => id,
            _ => Uuid::nil(),
        }
    }

    /// Returns the signing secret that the service created, if it is valid and new.
    fn signing_secret(&mut self, learned: Option<&String>) -> Option<String> {
        if self.is_recovering {
            return None;
        }
        let secret = learned.filter(|secret| secret.starts_with("whsec_"));
        let secret = secret.filter(|secret| self.shown.insert(secret.to_string()));
        Some(secret.map_or_else(|| "a new signing secret".to_owned(), String::clone))
    }
}

impl Org {
    fn scope_of(token: Option<&Token>) -> TokenScope {
        token.map(|token| token.scope.clone()).unwrap_or_default()
    }
}

/// Problems of a request, in the order in which errors are compared.
#[derive(Debug, Default)]
struct RequestErrors(Vec<(String, ProblemCode)>);

impl RequestErrors {
    fn push(&mut self, path: impl Into<String>, code: ProblemCode) {
        self.0.push((path.into(), code));
    }

    fn when(&mut self, is_wrong: bool, path: &str, code: ProblemCode) {
        if is_wrong {
            self.push(path, code);
        }
    }

    /// Checks a name or a title.
    fn name(&mut self, path: &str, name: &str) {
        if name.chars().count() > 128 {
            self.push(path, ProblemCode::TooLarge);
        } else if name.chars().all(char::is_whitespace) {
            self.push(path, ProblemCode::TooSmall);
        } else if name.chars().any(char::is_control) {
            self.push(path, ProblemCode::InvalidValue);
        }
    }

    fn slug(&mut self, path: &str, slug: &str) {
        let is_slug = (1..=64).contains(&slug.len())
            && slug
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.".contains(c));
        self.when(!is_slug, path, ProblemCode::InvalidValue);
    }

    fn count(&mut self, path: &str, count: usize, max: usize) {
        self.when(count == 0, path, ProblemCode::TooSmall);
        self.when(count > max, path, ProblemCode::TooLarge);
    }

    /// Checks the text of a memory or a message.
    fn text(&mut self, path: &str, text: &str, bytes_max: usize) {
        let escaped = text.chars().map(|c| match c {
            '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
            '\0'..='\u{1f}' => 6,
            other => other.len_utf8(),
        });
        let is_too_large = text.len() > bytes_max || escaped.sum::<usize>() + 2 > 60 * 1024;
        self.when(text.is_empty(), path, ProblemCode::TooSmall);
        self.when(is_too_large, path, ProblemCode::TooLarge);
    }

    /// Continues with the permissions if the request is valid.
    ///
    /// If both are wrong, either error is allowed.
    fn then<T>(mut self, authorised: Result<T, Refusal>) -> Result<T, Vec<Refusal>> {
        self.0.sort();
        match authorised {
            Ok(authorised) if self.0.is_empty() => Ok(authorised),
            Ok(_) => Err(vec![Refusal::Invalid(self.0)]),
            Err(refusal) if self.0.is_empty() => Err(vec![refusal]),
            Err(refusal) => Err(vec![refusal, Refusal::Invalid(self.0)]),
        }
    }
}

/// Returns an error with all refusals that apply, if there are any.
fn none_of(refusals: Vec<Refusal>) -> Result<(), Vec<Refusal>> {
    if refusals.is_empty() {
        Ok(())
    } else {
        Err(refusals)
    }
}
