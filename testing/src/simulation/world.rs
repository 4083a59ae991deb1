//! Two organisations with equal names, and the entities that calls have created in them.

use std::collections::BTreeMap;
use std::time::Duration;

use uuid::Uuid;

use crate::model::Caller;
use crate::model::Model;
use crate::requests::{new_member, new_role, new_token, new_workspace, with};
use crate::seed::Seed;
use crate::strategies::{CastMember, CredentialUse};
use knowledge_core::Error;
use knowledge_core::access::{
    Action, ActionSet, BuiltInRole, Credential, CredentialKind, MemberRef, RoleRef, Secret,
    TokenScope,
};
use knowledge_core::model::{
    AuditLogId, BulkUpdate, ChatId, ConnectorId, CredentialId, DeliveryId, ErasureId,
    InboundWebhookId, MemberId, MemberKind, MemoryId, OrgId, RecallId, RoleId, SourceId,
    SubscriptionId, WebhookId, WorkspaceId,
};
use knowledge_core::service::{
    Cursor, Endpoint, IdempotencyKey, KnowledgeService, NewMember, NewOrganization, NewOwner,
};

/// Entities of one organisation.
#[derive(Clone, Debug)]
pub(crate) struct OrgState {
    pub(super) id: OrgId,
    pub(super) slug: String,
    pub(super) members: Vec<MemberId>,
    pub(super) workspaces: Vec<WorkspaceId>,
    pub(super) memories: Vec<(MemoryId, WorkspaceId)>,
    pub(super) sources: Vec<SourceId>,
    pub(super) roles: Vec<RoleId>,
    pub(super) deleted_roles: Vec<RoleId>,
    pub(super) connectors: Vec<(ConnectorId, WorkspaceId)>,
    pub(super) chats: Vec<(ChatId, WorkspaceId)>,
    pub(super) recalls: Vec<RecallId>,
    /// Memories that recalls cited when they were registered.
    pub(super) citations: BTreeMap<RecallId, Vec<MemoryId>>,
    pub(super) erasures: Vec<ErasureId>,
    pub(super) webhooks: Vec<(WebhookId, WorkspaceId)>,
    pub(super) inbound_webhooks: Vec<(InboundWebhookId, WorkspaceId)>,
    /// Signing secrets of inbound webhooks, by their number.
    pub(super) signing_secrets: Vec<String>,
    pub(super) subscriptions: Vec<SubscriptionId>,
    pub(super) deliveries: Vec<(DeliveryId, Endpoint)>,
    /// MCP keys whose secrets are known.
    pub(super) mcp_keys: Vec<(CredentialId, WorkspaceId, Secret)>,
    pub(super) keys: Vec<(CredentialId, WorkspaceId)>,
    pub(super) credentials: Vec<CredentialId>,
    /// API tokens that calls have created, with their members.
    pub(super) api_tokens: Vec<(MemberId, CredentialId)>,
    pub(super) audit: Vec<AuditLogId>,
    pub(super) tokens: Vec<(CastMember, CredentialUse, Secret)>,
    /// Token of the service account that acts for members.
    pub(super) acting: Secret,
    /// Roles that were assigned in workspaces.
    pub(super) assigned: Vec<(MemberId, WorkspaceId)>,
    /// Identifiers of deleted entities of other kinds.
    pub(super) deleted: Vec<Uuid>,
    /// Entity tags of resources, newest last.
    pub(super) tags: Vec<(Uuid, String)>,
    /// Cursors of lists, newest last.
    pub(super) cursors: Vec<(String, Cursor)>,
}

/// Identifier of an entity of an organisation that operations refer to.
pub(super) trait Entity: Copy + From<Uuid> + 'static {
    /// Returns the entities of this kind that calls have created.
    fn all(org_state: &OrgState) -> &[Self];
}

/// Identifier of an entity of a workspace that operations refer to.
pub(super) trait PlacedEntity: Copy + From<Uuid> + 'static {
    /// Returns the identifier without its type.
    fn uuid(self) -> Uuid;

    /// Returns the entities of this kind that calls have created, with their workspaces.
    fn all_placed(org_state: &OrgState) -> &[(Self, WorkspaceId)];
}

/// Implements [`Entity`] or [`PlacedEntity`] for the identifiers in these fields.
macro_rules! entities {
    ($($field:ident: $id:ident),+ $(,)?) => {$(
        impl Entity for $id {
            fn all(org_state: &OrgState) -> &[Self] {
                &org_state.$field
            }
        }
    )+};
    (placed $($field:ident: $id:ident),+ $(,)?) => {$(
        impl PlacedEntity for $id {
            fn uuid(self) -> Uuid {
                self.0
            }

            fn all_placed(org_state: &OrgState) -> &[(Self, WorkspaceId)] {
                &org_state.$field
            }
        }
    )+};
}

entities! {
    members: MemberId, workspaces: WorkspaceId, sources: SourceId, roles: RoleId,
    recalls: RecallId, erasures: ErasureId, subscriptions: SubscriptionId,
    credentials: CredentialId, audit: AuditLogId,
}

entities! {
    placed memories: MemoryId, connectors: ConnectorId, chats: ChatId, webhooks: WebhookId,
    inbound_webhooks: InboundWebhookId, keys: CredentialId,
}

/// Two organisations with all entities that calls have created so far.
#[derive(Clone, Debug)]
pub struct World {
    pub(super) orgs: [OrgState; 2],
    /// Bulk updates so far.
    pub(super) sent: Vec<(Caller, IdempotencyKey, BulkUpdate)>,
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

/// Slugs of the workspaces of each organisation.
pub(super) const WORKSPACES: [&str; 2] = ["alpha", "beta"];
/// Slug of the first organisation.
pub(super) const FIRST_SLUG: &str = "acme";
pub(super) const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

fn handle(member: CastMember) -> &'static str {
    match member {
        CastMember::Olga => "olga",
        CastMember::Adam => "adam",
        CastMember::Mia => "mia",
        CastMember::Vic => "vic",
        CastMember::Clara => "clara",
    }
}

fn cast_member(member: CastMember) -> NewMember {
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
    with(new_member(handle(member), RoleRef::BuiltIn(role)), |new| {
        new.kind = kind;
        new.name = handle(member).to_owned();
        new.teams = teams;
    })
}

impl World {
    /// Creates both organisations through the provisioning of the service.
    ///
    /// # Errors
    /// Errors of the service.
    pub async fn set_up(service: &KnowledgeService, model: &mut Model) -> Result<Self, Error> {
        let first = OrgState::set_up(service, model, FIRST_SLUG).await?;
        let second = OrgState::set_up(service, model, "globex").await?;
        Ok(Self {
            orgs: [first, second],
            sent: Vec::new(),
        })
    }
}

impl OrgState {
    /// Adds a service account that may act for members, and returns its token.
    async fn acting(seed: &Seed, model: &mut Model) -> Result<(MemberId, RoleId, Secret), Error> {
        let role = with(new_role("acting"), |new| {
            let for_itself = ActionSet::of(&[Action::MemberActFor]);
            new.actions.allow = (ActionSet::FOR_MEMBERS | for_itself) - new.base_role.actions();
        });
        let role = seed.role(&role).await?;
        model.add_role(&seed.founder, &role);
        let bot = with(new_member("bot", RoleRef::Custom(role.id)), |new| {
            new.kind = MemberKind::ServiceAccount;
        });
        let bot = seed.member(&bot).await?;
        model.add_member(seed.org.id, &bot);
        let token = with(new_token(bot.id, CredentialKind::Bearer), |new| {
            new.lifetime = YEAR;
        });
        let issued = seed.issue(&token).await?;
        model.add_credential(&issued);
        Ok((bot.id, role.id, issued.secret))
    }

    async fn set_up(
        service: &KnowledgeService,
        model: &mut Model,
        slug: &str,
    ) -> Result<Self, Error> {
        let olga = handle(CastMember::Olga);
        let owner = NewOwner::builder().handle(olga).name(olga).build();
        let new = NewOrganization::builder()
            .slug(slug)
            .name(slug)
            .owner(owner);
        let seed = Seed::new(service, &new.build()).await?;
        model.add_organization(&seed.org, &seed.founder);
        let (bot, role, acting) = Self::acting(&seed, model).await?;
        let mut org_state = Self {
            id: seed.org.id,
            slug: seed.org.slug.clone(),
            members: vec![seed.founder.id],
            workspaces: Vec::new(),
            memories: Vec::new(),
            sources: Vec::new(),
            roles: vec![role],
            deleted_roles: Vec::new(),
            connectors: Vec::new(),
            chats: Vec::new(),
            recalls: Vec::new(),
            citations: BTreeMap::new(),
            erasures: Vec::new(),
            webhooks: Vec::new(),
            inbound_webhooks: Vec::new(),
            signing_secrets: Vec::new(),
            subscriptions: Vec::new(),
            deliveries: Vec::new(),
            mcp_keys: Vec::new(),
            keys: Vec::new(),
            credentials: Vec::new(),
            api_tokens: Vec::new(),
            audit: Vec::new(),
            tokens: Vec::new(),
            acting,
            assigned: Vec::new(),
            deleted: Vec::new(),
            tags: Vec::new(),
            cursors: Vec::new(),
        };
        for slug in WORKSPACES {
            let new = with(new_workspace(slug), |new| new.name = slug.to_owned());
            let workspace = seed.workspace(&new).await?;
            model.add_workspace(seed.org.id, &workspace);
            org_state.workspaces.push(workspace.id);
        }
        for member in &CastMember::ALL[1..] {
            let member = seed.member(&cast_member(*member)).await?;
            model.add_member(seed.org.id, &member);
            org_state.members.push(member.id);
        }
        org_state.members.push(bot);
        org_state.issue_tokens(&seed, model).await?;
        Ok(org_state)
    }

    async fn issue_tokens(&mut self, seed: &Seed, model: &mut Model) -> Result<(), Error> {
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
            let new = with(new_token(self.members[member as usize], kind), |new| {
                new.name = format!("{member:?} {credential:?}");
                new.scope = TokenScope {
                    workspaces: (credential == CredentialUse::OneWorkspace)
                        .then(|| vec![self.workspaces[0]]),
                    actions: (credential == CredentialUse::FewActions).then(|| ActionSet::of(&few)),
                    audience: None,
                };
                new.lifetime = match credential {
                    CredentialUse::ShortLived => Duration::from_secs(90 * 60),
                    _ => YEAR,
                };
            });
            let issued = seed.issue(&new).await?;
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
            acting_for: None,
        };
        let other = match kind {
            CredentialKind::Bearer => CredentialKind::Session,
            CredentialKind::Session | CredentialKind::Link => CredentialKind::Bearer,
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
            CredentialUse::ServiceAccount if kind == CredentialKind::Bearer => {
                let acting_for = match member {
                    CastMember::Mia => MemberRef::Id(self.members[member as usize]),
                    other => MemberRef::Handle(handle(other).to_owned()),
                };
                Caller {
                    acting_for: Some(acting_for),
                    ..named("service account".to_owned(), self.acting.clone().into())
                }
            }
            CredentialUse::WrongKind => named(format!("{other} instead"), usual(other)),
            CredentialUse::McpKey(number) if !self.mcp_keys.is_empty() => {
                let number = usize::from(number) % self.mcp_keys.len();
                let key = self.mcp_keys[number].2.clone();
                named(format!("MCP key {number}"), key.into())
            }
            credential => match secret(credential, kind) {
                Some(found) => named(format!("{credential:?} {kind}"), found),
                None => named(kind.to_string(), usual(kind)),
            },
        }
    }

    /// Removes a deleted entity from a list of its kind.
    pub(super) fn forget(&mut self, id: Uuid) {
        self.deleted.push(id);
        self.memories.retain(|(other, _)| other.0 != id);
        // The first ones keep their places, which the cast has.
        let gone = self.members.iter().position(|other| other.0 == id);
        if let Some(number) = gone.filter(|number| *number >= CastMember::ALL.len()) {
            self.members.remove(number);
        }
        self.connectors.retain(|(other, _)| other.0 != id);
        self.webhooks.retain(|(other, _)| other.0 != id);
        let mut inbound = self.inbound_webhooks.iter();
        if let Some(number) = inbound.position(|(other, _)| other.0 == id) {
            self.inbound_webhooks.remove(number);
            self.signing_secrets.remove(number);
        }
        self.subscriptions.retain(|other| other.0 != id);
        self.recalls.retain(|other| other.0 != id);
        self.chats.retain(|(other, _)| other.0 != id);
    }
}

/// Returns an identifier that does not exist.
pub(super) fn unknown<T: From<Uuid>>(number: u8) -> T {
    T::from(Uuid::from_u128(0xFFFF_0000 + u128::from(number)))
}
