//! Two organisations with equal names, and the entities that calls have created in them.

use std::time::Duration;

use uuid::Uuid;

use crate::model::{Answer, Call, Caller, Model};
use crate::strategies::{CastMember, CredentialUse};
use knowledge_core::Error;
use knowledge_core::access::{
    Action, ActionSet, BaseRole, BuiltInRole, Credential, CredentialKind, RoleRef, Secret,
    TokenScope,
};
use knowledge_core::model::{
    AuditLogId, ChatId, ConnectorId, ConnectorScope, CredentialId, McpClient, MemberId, MemberKind,
    MemoryId, NewCustomRole, OrgId, RecallId, RoleActions, RoleId, SourceId, WorkspaceId,
};
use knowledge_core::service::{
    Issued, KnowledgeService, NewConnector, NewMcpKey, NewMember, NewMemory, NewRecall, NewSource,
    NewToken, NewWorkspace,
};

/// Entities of one organisation.
#[derive(Clone, Debug)]
pub(super) struct OrgState {
    pub(super) id: OrgId,
    pub(super) slug: String,
    pub(super) members: Vec<MemberId>,
    pub(super) workspaces: Vec<WorkspaceId>,
    pub(super) memories: Vec<(MemoryId, WorkspaceId)>,
    pub(super) sources: Vec<SourceId>,
    pub(super) roles: Vec<RoleId>,
    pub(super) deleted_roles: Vec<RoleId>,
    /// Entity tags of roles, newest last.
    pub(super) role_tags: Vec<(RoleId, String)>,
    pub(super) connectors: Vec<(ConnectorId, WorkspaceId)>,
    pub(super) chats: Vec<(ChatId, WorkspaceId)>,
    pub(super) recalls: Vec<RecallId>,
    pub(super) mcp_keys: Vec<(Secret, WorkspaceId)>,
    pub(super) credentials: Vec<CredentialId>,
    pub(super) audit: Vec<AuditLogId>,
    pub(super) tokens: Vec<(CastMember, CredentialUse, Secret)>,
}

/// Two organisations with all entities that calls have created so far.
#[derive(Clone, Debug)]
pub struct World {
    pub(super) orgs: [OrgState; 2],
    /// Bulk updates so far.
    pub(super) sent: Vec<Call>,
}

/// Tokens besides the usual ones.
const NARROW_TOKENS: [(CastMember, CredentialUse); 6] = [
    (CastMember::Adam, CredentialUse::OneWorkspace),
    (CastMember::Mia, CredentialUse::OneWorkspace),
    (CastMember::Adam, CredentialUse::FewActions),
    (CastMember::Clara, CredentialUse::FewActions),
    (CastMember::Olga, CredentialUse::ShortLived),
    (CastMember::Mia, CredentialUse::ShortLived),
];

const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

fn handle(member: CastMember) -> &'static str {
    match member {
        CastMember::Olga => "olga",
        CastMember::Adam => "adam",
        CastMember::Mia => "mia",
        CastMember::Vic => "vic",
        CastMember::Clara => "clara",
    }
}

fn new_member(member: CastMember) -> NewMember {
    let (role, kind) = match member {
        CastMember::Olga => (BuiltInRole::Owner, MemberKind::User),
        CastMember::Adam => (BuiltInRole::Admin, MemberKind::User),
        CastMember::Mia | CastMember::Clara => (BuiltInRole::Member, MemberKind::User),
        CastMember::Vic => (BuiltInRole::Viewer, MemberKind::ServiceAccount),
    };
    let teams = match member {
        CastMember::Mia => vec!["platform".to_owned()],
        _ => Vec::new(),
    };
    NewMember {
        kind,
        handle: handle(member).to_owned(),
        name: handle(member).to_owned(),
        role: RoleRef::BuiltIn(role),
        teams,
    }
}

impl World {
    /// Creates both organisations through the provisioning of the service.
    ///
    /// # Errors
    /// Those of the service.
    pub async fn set_up(service: &KnowledgeService, model: &mut Model) -> Result<Self, Error> {
        let first = OrgState::set_up(service, model, "acme").await?;
        let second = OrgState::set_up(service, model, "globex").await?;
        Ok(Self {
            orgs: [first, second],
            sent: Vec::new(),
        })
    }

    /// Returns the calls of a stage of the initial data; empty after the last stage.
    ///
    /// Run and learn the calls of one stage before requesting the next, which builds on it.
    #[must_use]
    pub fn first_calls(&self, stage: usize) -> Vec<Call> {
        let calls = self.orgs.iter().map(|org_state| match stage {
            0 => org_state.first_source(),
            1 => org_state.first_memories(),
            2 => org_state.first_things(),
            _ => Vec::new(),
        });
        calls.flatten().collect()
    }

    /// Records the entities that a call has created.
    pub fn learn(&mut self, call: &Call, answer: &Answer) {
        if let (Call::BulkUpdate(..), Answer::Bulk(result)) = (call, answer)
            && !result.replayed
        {
            let audit = result.results.iter().map(|item| item.audit_log_id);
            if let Some(org_state) = self.org_of(call) {
                org_state.audit.extend(audit);
            }
        }
        if let Some(org_state) = self.org_of(call) {
            org_state.learn(call, answer);
        }
    }

    /// Returns the organisation of the caller.
    fn org_of(&mut self, call: &Call) -> Option<&mut OrgState> {
        let org = org_of(call)?;
        self.orgs.iter_mut().find(|org_state| org_state.id == org)
    }
}

/// Returns the organisation of the caller, according to the credential.
pub(super) fn org_of(call: &Call) -> Option<OrgId> {
    match &caller_of(call)?.credential {
        Credential::Secret(secret) => secret.org_hint(),
        Credential::Trusted { org, .. } => Some(*org),
    }
}

fn caller_of(call: &Call) -> Option<&Caller> {
    match call {
        Call::BulkUpdate(by, ..)
        | Call::Ingest(by, ..)
        | Call::CreateSource(by, ..)
        | Call::ListRoles(by, ..)
        | Call::ReadRole(by, ..)
        | Call::CreateRole(by, ..)
        | Call::UpdateRole(by, ..)
        | Call::DeleteRole(by, ..)
        | Call::AssignRole(by, ..)
        | Call::CreateWebhook(by, ..)
        | Call::CreateInboundWebhook(by, ..)
        | Call::CreateRecall(by, ..)
        | Call::Subscribe(by, ..)
        | Call::CreateConnector(by, ..)
        | Call::ReportSync(by, ..)
        | Call::PauseConnector(by, ..)
        | Call::CreateChat(by, ..)
        | Call::PostMessage(by, ..)
        | Call::CreateMcpKey(by, ..)
        | Call::NoteMcpKeyUse(by, ..)
        | Call::Dashboard(by, ..)
        | Call::ReadAudit(by, ..) => Some(by),
        Call::Revoke(..) | Call::Maintain => None,
    }
}

impl OrgState {
    async fn set_up(
        service: &KnowledgeService,
        model: &mut Model,
        slug: &str,
    ) -> Result<Self, Error> {
        let operator = service.provisioning();
        let owner = new_member(CastMember::Olga);
        let (org, owner) = operator.create_organization(slug, slug, &owner).await?;
        model.add_organization(&org, &owner);
        let mut org_state = Self {
            id: org.id,
            slug: org.slug,
            members: vec![owner.id],
            workspaces: Vec::new(),
            memories: Vec::new(),
            sources: Vec::new(),
            roles: Vec::new(),
            deleted_roles: Vec::new(),
            role_tags: Vec::new(),
            connectors: Vec::new(),
            chats: Vec::new(),
            recalls: Vec::new(),
            mcp_keys: Vec::new(),
            credentials: Vec::new(),
            audit: Vec::new(),
            tokens: Vec::new(),
        };
        for slug in ["alpha", "beta"] {
            let new = NewWorkspace {
                name: slug.to_owned(),
                slug: slug.to_owned(),
                audience: None,
            };
            let workspace = operator.create_workspace(org.id, &new).await?;
            model.add_workspace(org.id, &workspace);
            org_state.workspaces.push(workspace.id);
        }
        for member in &CastMember::ALL[1..] {
            let member = operator.create_member(org.id, &new_member(*member)).await?;
            model.add_member(org.id, &member);
            org_state.members.push(member.id);
        }
        org_state.issue_tokens(service, model).await?;
        Ok(org_state)
    }

    async fn issue_tokens(
        &mut self,
        service: &KnowledgeService,
        model: &mut Model,
    ) -> Result<(), Error> {
        let usual = CastMember::ALL.iter().flat_map(|member| {
            let kinds = [CredentialKind::Bearer, CredentialKind::Session];
            kinds.map(|kind| (*member, CredentialUse::Usual, kind))
        });
        let narrow =
            NARROW_TOKENS.map(|(member, credential)| (member, credential, CredentialKind::Bearer));
        for (member, credential, kind) in usual.chain(narrow) {
            let few = [
                Action::MemoryUpdate,
                Action::MemoryReview,
                Action::DashboardRead,
            ];
            let new = NewToken {
                member: self.members[member as usize],
                kind,
                name: format!("{member:?} {credential:?}"),
                scope: TokenScope {
                    workspaces: (credential == CredentialUse::OneWorkspace)
                        .then(|| vec![self.workspaces[0]]),
                    actions: (credential == CredentialUse::FewActions).then(|| ActionSet::of(&few)),
                    audience: None,
                },
                lifetime: match credential {
                    CredentialUse::ShortLived => Duration::from_secs(90 * 60),
                    _ => YEAR,
                },
            };
            let issued: Issued = service.provisioning().issue(self.id, &new).await?;
            model.add_credential(&issued);
            self.credentials.push(issued.record.id);
            self.tokens.push((member, credential, issued.secret));
        }
        Ok(())
    }

    /// Returns a member with the usual credential of a kind.
    pub(super) fn caller(&self, member: CastMember, kind: CredentialKind) -> Caller {
        self.caller_with(member, CredentialUse::Usual, kind)
    }

    /// Returns a member with the requested credential, or the usual one if there is none.
    pub(super) fn caller_with(
        &self,
        member: CastMember,
        credential: CredentialUse,
        kind: CredentialKind,
    ) -> Caller {
        let named = |what: String, credential| Caller {
            name: format!("{}/{}/{what}", self.slug, handle(member)),
            credential,
        };
        let other = match kind {
            CredentialKind::Bearer => CredentialKind::Session,
            CredentialKind::Session => CredentialKind::Bearer,
        };
        let secret = |credential, kind| {
            let mut tokens = self.tokens.iter();
            let found = tokens.find(|(holder, what, secret)| {
                *holder == member && *what == credential && secret.kind() == kind
            });
            found.map(|(_, _, secret)| Credential::from(secret.clone()))
        };
        let usual = |kind| secret(CredentialUse::Usual, kind).expect("every member has both kinds");
        match credential {
            CredentialUse::Trusted => {
                let (org, member) = (self.id, self.members[member as usize]);
                named("trusted".to_owned(), Credential::Trusted { org, member })
            }
            CredentialUse::WrongKind => named(format!("{other} instead"), usual(other)),
            CredentialUse::McpKey(number) if !self.mcp_keys.is_empty() => {
                let number = usize::from(number) % self.mcp_keys.len();
                let key = self.mcp_keys[number].0.clone();
                named(format!("MCP key {number}"), key.into())
            }
            credential => match secret(credential, kind) {
                Some(found) => named(format!("{credential:?} {kind}"), found),
                None => named(kind.to_string(), usual(kind)),
            },
        }
    }

    fn first_source(&self) -> Vec<Call> {
        let new = NewSource {
            name: "Handbook".to_owned(),
            kind: "wiki".to_owned(),
        };
        let by = self.caller(CastMember::Olga, CredentialKind::Bearer);
        vec![Call::CreateSource(by, new)]
    }

    fn first_memories(&self) -> Vec<Call> {
        let memory = |number: usize| NewMemory {
            title: format!("Page {number}"),
            content: "What everybody should know.".to_owned(),
            source_key: Some(format!("page-{number}")),
            audience_tag: None,
            sensitivity_label: None,
        };
        let by = || self.caller(CastMember::Olga, CredentialKind::Bearer);
        let counts = self.workspaces.iter().zip([5, 3]);
        counts
            .map(|(workspace, count)| {
                let memories = (1..=count).map(memory).collect();
                Call::Ingest(by(), *workspace, self.sources[0], memories)
            })
            .collect()
    }

    fn first_things(&self) -> Vec<Call> {
        let by = || self.caller(CastMember::Olga, CredentialKind::Bearer);
        let workspace = self.workspaces[0];
        let connector = NewConnector {
            kind: "wiki".to_owned(),
            account_label: "handbook".to_owned(),
            scope: ConnectorScope::Workspace,
            sync_interval: Duration::from_secs(60 * 60),
        };
        let recall = NewRecall {
            query: "Where is the handbook?".to_owned(),
            memory_ids: vec![self.memories[0].0],
        };
        let mcp_key = NewMcpKey {
            name: "Laptop".to_owned(),
            client: McpClient::Other,
            audience: vec!["workspace:alpha".parse().expect("a label")],
            rotation: YEAR,
        };
        let role = NewCustomRole {
            name: "Editors".to_owned(),
            slug: "editors".to_owned(),
            base_role: BaseRole::Viewer,
            description: String::new(),
            workspace_id: None,
            actions: RoleActions {
                allow: ActionSet::of(&[Action::MemoryUpdate]),
                deny: ActionSet::of(&[Action::RoleRead]),
            },
        };
        let session = self.caller(CastMember::Olga, CredentialKind::Session);
        vec![
            Call::CreateConnector(by(), workspace, connector),
            Call::CreateRecall(by(), workspace, recall),
            Call::CreateChat(by(), workspace, "First questions".to_owned()),
            Call::CreateMcpKey(by(), workspace, mcp_key),
            Call::CreateRole(session, self.slug.clone(), role),
        ]
    }

    fn learn(&mut self, call: &Call, answer: &Answer) {
        match answer {
            Answer::Ingested(memories) => {
                let Call::Ingest(_, workspace, ..) = call else {
                    return;
                };
                for memory in memories {
                    let place = (memory.id, *workspace);
                    if !self.memories.contains(&place) {
                        self.memories.push(place);
                    }
                }
            }
            Answer::Source(source) => self.sources.push(source.id),
            Answer::Role(role) => self.roles.push(role.id),
            Answer::TaggedRole(role, tag) => self.role_tags.push((role.id, tag.clone())),
            Answer::Recall(recall) => self.recalls.push(recall.id),
            Answer::Connector(connector) => {
                let place = (connector.id, connector.workspace_id);
                if !self.connectors.contains(&place) {
                    self.connectors.push(place);
                }
            }
            Answer::Chat(chat) => self.chats.push((chat.id, chat.workspace_id)),
            Answer::McpKey(key, secret) => {
                self.credentials.push(key.id);
                let place = secret.clone().map(|secret| (secret, key.workspace_id));
                self.mcp_keys.extend(place);
            }
            _ => {}
        }
        if let Call::DeleteRole(_, _, role, _) = call {
            self.roles.retain(|other| other != role);
            self.deleted_roles.push(*role);
        }
    }
}

/// Returns an identifier that does not exist.
pub(super) fn unknown<T>(make: fn(Uuid) -> T, number: u8) -> T {
    make(Uuid::from_u128(0xFFFF_0000 + u128::from(number)))
}
