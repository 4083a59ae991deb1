//! An organisation with memories of all labels, in which the service is compared with the rules.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;

use super::probes::{self, MAIN, OWNER, Records, TESTER};
use super::{Account, Caller, Directory, Labels, Names, Reference, Role, Scope};
use crate::requests::{
    ADMIN, DAY, new_access, new_mcp_key, new_member, new_memory, new_organization, new_role,
    new_token, new_workspace, review, with,
};
use crate::seed::Seed;
use crate::simulation::SimulatedTime;
use knowledge_core::Error;
use knowledge_core::access::{Action, ActionSet, CredentialKind, RoleRef, Secret, TokenScope};
use knowledge_core::api::Api;
use knowledge_core::model::{
    CustomRoleUpdate, MemberId, MemberKind, MemoryId, RoleActionsUpdate, RoleId, SourceId,
    WorkspaceAccess, WorkspaceId,
};
use knowledge_core::service::{
    self, DeleteRole, KnowledgeService, MemberAssignment, NewMemory, Options, SealingKey,
};
use knowledge_core::store::{
    Commit, CommitOutcome, Found, MemoryStore, Read, Store, StoreError, Version,
};

const ORG: &str = "acme";
pub(super) const SIDE: &str = "side";
const TEAM: &str = "legal";
/// Name of the custom role that varies, in the directory.
const VARIED: &str = "varied";
/// Name of the deleted role, in the directory.
const DELETED: &str = "deleted";
/// Action without which a service account acts for nobody.
const ACT_FOR: &str = "member:act_for";
/// Name of the custom role of the service account, in the directory.
const ACTING: &str = "acting";

/// Audience labels that cover the member, and others of the same scopes.
pub const AUDIENCES: [&str; 9] = [
    "org:acme",
    "org:globex",
    "workspace:main",
    "workspace:side",
    "workspace:nowhere",
    "team:legal",
    "team:sales",
    "user:tina",
    "user:olga",
];
const SENSITIVITIES: [&str; 4] = ["public", "internal", "confidential", "restricted"];
const REVIEWS: [&str; 3] = ["pending", "approved", "rejected"];

/// Store that acknowledges every commit and applies none, so that all decisions see one state.
struct DryRun(Arc<dyn Store>);

#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
impl Store for DryRun {
    async fn read(&self, reads: &[Read<'_>]) -> Result<Vec<Found>, StoreError> {
        self.0.read(reads).await
    }

    async fn commit(&self, _: Commit) -> Result<CommitOutcome, StoreError> {
        Ok(CommitOutcome::Committed(Version::FIRST))
    }
}

/// Role that the member holds.
#[derive(Clone, Debug)]
pub enum HeldRole {
    /// Built-in role.
    BuiltIn(&'static str),
    /// Custom role.
    Custom(Role),
}

/// Way in which the member holds the role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the organisation, without another role in a workspace.
    Organization,
    /// In the workspace `main`, in place of this built-in role in the organisation.
    Workspace(&'static str),
}

/// Role, place and credential of the member.
#[derive(Clone, Debug)]
pub struct Case {
    /// Role of the member.
    pub role: HeldRole,
    /// Where it is held.
    pub place: Place,
    /// True if the member held another role that was deleted in favour of this one.
    pub is_redirected: bool,
    /// Scope of the token.
    pub scope: Scope,
    /// True for an MCP key with this scope instead of a token.
    pub is_mcp_key: bool,
    /// Slugs of the private workspaces among `main` and `side`.
    pub private: Names,
    /// Service account that acts for the member, and whose token it is.
    pub via: Option<Acting>,
}

/// A service account that acts for the member.
#[derive(Clone, Debug)]
pub struct Acting {
    /// Custom role in the organisation, which is active and allows `member:act_for` besides.
    pub role: Role,
    /// Built-in role in the workspace `main`.
    pub in_main: Option<&'static str>,
}

impl Acting {
    /// Lets a service account act, with this role and a built-in role in the workspace `main`.
    #[must_use]
    pub fn new(mut role: Role, in_main: Option<&'static str>) -> Self {
        role.deny.remove(ACT_FOR);
        role.allow.insert(ACT_FOR.to_owned());
        role.is_active = true;
        Self { role, in_main }
    }
}

impl Case {
    /// Returns false for what the service rejects: an owner in a workspace, a deleted role that an
    /// administrator or an owner would replace, and a service account that acts for an owner.
    #[must_use]
    pub fn is_possible(&self) -> bool {
        let is_owner = match self.place {
            Place::Organization => matches!(self.role, HeldRole::BuiltIn("owner")),
            Place::Workspace(elsewhere) => elsewhere == "owner",
        };
        if self.via.is_some() && (is_owner || self.is_mcp_key) {
            return false;
        }
        match self.role {
            HeldRole::BuiltIn("owner") => self.place == Place::Organization && !self.is_redirected,
            HeldRole::BuiltIn("admin") => !self.is_redirected,
            _ => true,
        }
    }
}

/// An organisation with a member whose role and credential vary.
pub struct Site {
    seed: Seed,
    /// Service over the same data that changes nothing.
    pub(super) dry: KnowledgeService,
    pub(super) api: Api,
    pub(super) reference: &'static Reference,
    pub(super) random: fastrand::Rng,
    pub(super) memories: Vec<(MemoryId, Labels)>,
    pub(super) workspaces: BTreeMap<&'static str, WorkspaceId>,
    pub(super) other_source: SourceId,
    member: MemberId,
    /// Service account that acts for the member.
    bot: MemberId,
    /// Custom role of the service account.
    acting: RoleId,
    pub(super) session: Secret,
    mcp_keys: Vec<(Scope, Secret)>,
    tokens: BTreeMap<String, Secret>,
    varied: RoleId,
    pub(super) records: Records,
}

/// Result of setting up.
type Done<T> = Result<T, Error>;

impl Site {
    /// Creates the organisation in memory, with memories of all labels or of `memories` of them.
    ///
    /// # Panics
    /// If the service cannot be set up.
    pub async fn new(seed: u64, memories: Option<usize>) -> Self {
        let site = Self::set_up(seed, memories).await;
        site.expect("the organisation is created")
    }

    async fn set_up(number: u64, count: Option<usize>) -> Done<Self> {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let mut random = fastrand::Rng::with_seed(number);
        let time = SimulatedTime::new();
        let options = Options::new(SealingKey::new([7; 32]));
        let open = async |store, seed| {
            let options = options.clone();
            let opened = KnowledgeService::open(store, time.env(seed), options);
            opened.await.expect("an empty store opens")
        };
        let service = open(Arc::clone(&store), number).await;
        let dry = open(Arc::new(DryRun(store)), !number).await;
        let seed = Seed::new(&service, &new_organization(ORG, OWNER)).await?;
        let mut workspaces = BTreeMap::new();
        for slug in [MAIN, SIDE] {
            workspaces.insert(slug, seed.workspace(&new_workspace(slug)).await?.id);
        }
        let source = seed.source("Wiki", "wiki").await?;
        let other_source = seed.source("Files", "drive").await?;
        let member = with(new_member(TESTER, ADMIN), |new| {
            new.teams = vec![TEAM.to_owned()];
        });
        let member = seed.member(&member).await?.id;
        let tester = seed.trusted(member);
        let acting = seed.role(&new_role(ACTING)).await?.id;
        let bot = with(new_member("bot", RoleRef::Custom(acting)), |new| {
            new.kind = MemberKind::ServiceAccount;
        });
        let bot = seed.member(&bot).await?.id;
        let mut all = all_labels();
        if let Some(count) = count {
            random.shuffle(&mut all);
            all.truncate(count);
        }
        let authors = [(TESTER, &tester), (OWNER, &seed.owner)];
        let memories = ingest_all(&seed, authors, &workspaces, source, &all).await?;
        let session = new_token(member, CredentialKind::Session);
        let session = seed.issue(&session).await?;
        let mut mcp_keys = Vec::new();
        for audience in ["org:acme", "team:legal"] {
            let service = &seed.service;
            let new = new_mcp_key(audience);
            let key = service.mcp_keys().create(&tester, workspaces[MAIN], &new);
            let scope = Scope::of_mcp_key(MAIN, &[audience]);
            mcp_keys.push((scope, key.await?.secret.expect("a new key has a secret")));
        }
        let labels = probes::cited();
        let cited = [with(memory(&labels), |new| new.title = "Cited".to_owned())];
        let cited = seed.ingest(workspaces[MAIN], source, &cited).await?[0];
        let approved = review("approved".parse().expect("a status"));
        seed.bulk_update("cited", &[cited], approved).await?;
        let records = Records::new(&seed, &tester, workspaces[MAIN], source, cited).await?;
        Ok(Self {
            varied: seed.role(&new_role(VARIED)).await?.id,
            api: Api::new(dry.clone()),
            reference: Reference::read(),
            session: session.secret,
            tokens: BTreeMap::new(),
            seed,
            dry,
            random,
            memories,
            workspaces,
            other_source,
            member,
            bot,
            acting,
            mcp_keys,
            records,
        })
    }

    /// Returns the scopes of the MCP keys.
    pub fn mcp_key_scopes(&self) -> impl Iterator<Item = &Scope> {
        self.mcp_keys.iter().map(|(scope, _)| scope)
    }

    /// Gives the member the role and the credential of a case.
    pub(super) async fn prepare(&mut self, case: &Case) -> Done<(Directory, Caller, Secret)> {
        let mut directory = Directory::new(ORG, &[MAIN, SIDE]);
        directory.private = case.private.clone();
        self.set_access(&case.private).await?;
        let (service, owner) = (&self.seed.service, &self.seed.owner);
        let (role, mut name) = match &case.role {
            HeldRole::BuiltIn(name) => (name.parse().expect("a role"), (*name).to_owned()),
            HeldRole::Custom(role) => {
                directory.roles.insert(VARIED.to_owned(), role.clone());
                self.vary(self.varied, role, true).await?;
                (RoleRef::Custom(self.varied), VARIED.to_owned())
            }
        };
        let main = self.workspaces[MAIN];
        let in_place = |role| match case.place {
            Place::Organization => MemberAssignment::Organization(role),
            Place::Workspace(_) => MemberAssignment::Workspace(main, Some(role)),
        };
        let elsewhere = match case.place {
            Place::Organization => None,
            Place::Workspace(role) => Some(role),
        };
        let released = MemberAssignment::Workspace(main, None);
        match elsewhere {
            None => self.seed.assign(self.member, released).await?,
            Some(role) => {
                let role = MemberAssignment::Organization(role.parse().expect("a role"));
                self.seed.assign(self.member, role).await?;
            }
        }
        if case.is_redirected {
            // The number of deleted roles whose holders still name them is limited.
            while service.maintain(service.env().now()).await?.has_more {}
            let deleted = self.seed.role(&new_role(DELETED)).await?.id;
            let held = in_place(RoleRef::Custom(deleted));
            self.seed.assign(self.member, held).await?;
            let delete = DeleteRole::builder().reassign_to(role).build();
            service.roles().delete(owner, ORG, deleted, &delete).await?;
            directory.redirect(DELETED, &name);
            name = DELETED.to_owned();
        } else {
            self.seed.assign(self.member, in_place(role)).await?;
        }
        if let HeldRole::Custom(role) = &case.role {
            self.vary(self.varied, role, role.is_active).await?;
        }
        let mut caller = Caller {
            teams: super::names([TEAM]),
            scope: case.scope.clone(),
            ..Caller::new(TESTER, elsewhere.unwrap_or(&name))
        };
        if elsewhere.is_some() {
            caller.workspace_roles.insert(MAIN.to_owned(), name);
        }
        let secret = if case.is_mcp_key {
            let same = |scope: &Scope| scope.audience == case.scope.audience;
            let mut keys = self.mcp_keys.iter();
            let found = keys.find(|(scope, _)| same(scope));
            found.expect("a scope of the MCP keys").1.clone()
        } else {
            let holder = case.via.as_ref().map_or(self.member, |_| self.bot);
            self.token(holder, &case.scope).await?
        };
        if let Some(acting) = &case.via {
            directory
                .roles
                .insert(ACTING.to_owned(), acting.role.clone());
            caller.via = Some(self.prepare_account(acting).await?);
        }
        Ok((directory, caller, secret))
    }

    /// Makes these workspaces private and the others open.
    async fn set_access(&self, private: &Names) -> Done<()> {
        let provisioning = self.seed.service.provisioning();
        for (slug, workspace) in &self.workspaces {
            let access = if private.contains(*slug) {
                WorkspaceAccess::Private
            } else {
                WorkspaceAccess::Open
            };
            let (org, new) = (self.seed.org.id, new_access(access));
            let set = provisioning.set_workspace_access(org, *workspace, &new);
            set.await?;
        }
        Ok(())
    }

    /// Gives the service account the roles with which it acts for the member.
    async fn prepare_account(&self, acting: &Acting) -> Done<Account> {
        self.vary(self.acting, &acting.role, true).await?;
        let there = acting.in_main;
        let there = there.map(|role| role.parse().expect("a role"));
        let in_main = MemberAssignment::Workspace(self.workspaces[MAIN], there);
        self.seed.assign(self.bot, in_main).await?;
        let in_main = acting.in_main.iter();
        Ok(Account {
            role: ACTING.to_owned(),
            workspace_roles: in_main
                .map(|role| (MAIN.to_owned(), (*role).to_owned()))
                .collect(),
        })
    }

    /// Gives a custom role other actions.
    async fn vary(&self, varied: RoleId, role: &Role, is_active: bool) -> Done<()> {
        let actions = RoleActionsUpdate::builder()
            .allow(action_set(&role.allow))
            .deny(action_set(&role.deny))
            .build();
        let update = CustomRoleUpdate::builder()
            .base_role(role.base.parse().expect("a base role"))
            .is_active(is_active)
            .actions(actions)
            .build();
        let (service, owner) = (&self.seed.service, &self.seed.owner);
        let varied = service.roles().update(owner, ORG, varied, &update, None);
        varied.await.map(drop)
    }

    /// Returns a token of this scope; one of the service account can always be used to act.
    async fn token(&mut self, holder: MemberId, scope: &Scope) -> Done<Secret> {
        let known = format!("{holder} {scope:?}");
        if let Some(secret) = self.tokens.get(&known) {
            return Ok(secret.clone());
        }
        let workspaces = scope.workspaces.as_ref();
        let audience = scope.audience.as_ref();
        let to_act = ActionSet::of(&[Action::MemberActFor]);
        let to_act = if holder == self.bot {
            to_act
        } else {
            ActionSet::EMPTY
        };
        let new = with(new_token(holder, CredentialKind::Bearer), |new| {
            new.lifetime = DAY;
            new.scope = TokenScope {
                workspaces: workspaces.map(|slugs| {
                    let slugs = slugs.iter();
                    slugs.map(|slug| self.workspaces[slug.as_str()]).collect()
                }),
                actions: scope
                    .actions
                    .as_ref()
                    .map(action_set)
                    .map(|set| set | to_act),
                audience: audience.map(|labels| {
                    let labels = labels.iter();
                    labels
                        .map(|label| label.parse().expect("a label"))
                        .collect()
                }),
            };
        });
        let secret = self.seed.issue(&new).await?.secret;
        self.tokens.insert(known, secret.clone());
        Ok(secret)
    }
}

/// Ingests memories with these labels, each by its author, and reviews them.
///
/// They get their audiences with the review, because the owner reviews what it may read.
async fn ingest_all(
    seed: &Seed,
    authors: [(&str, &service::Caller); 2],
    workspaces: &BTreeMap<&'static str, WorkspaceId>,
    source: SourceId,
    all: &[Labels],
) -> Done<Vec<(MemoryId, Labels)>> {
    let service = &seed.service;
    let mut memories: Vec<(MemoryId, Labels)> = Vec::new();
    for (slug, workspace) in workspaces {
        for (author, credential) in authors {
            let here = |labels: &&Labels| labels.workspace == *slug && labels.author == author;
            let wanted: Vec<&Labels> = all.iter().filter(here).collect();
            for labels in wanted.chunks(100) {
                let new = labels.iter().map(|labels| {
                    with(memory(labels), |new| {
                        new.audience_tag = Some("org:acme".parse().expect("a label"));
                    })
                });
                let new: Vec<_> = new.collect();
                let ingested = service
                    .memories()
                    .ingest(credential, *workspace, source, &new)
                    .await?;
                let ids = ingested.into_iter().filter_map(|memory| memory.id);
                memories.extend(ids.zip(labels.iter().map(|labels| (*labels).clone())));
            }
        }
    }
    for (status, audience) in REVIEWS
        .into_iter()
        .flat_map(|status| AUDIENCES.map(|audience| (status, audience)))
    {
        let is_alike = |labels: &Labels| labels.review == status && labels.audience == audience;
        let alike = memories.iter().filter(|(_, labels)| is_alike(labels));
        let alike: Vec<_> = alike.map(|(id, _)| *id).collect();
        if !alike.is_empty() {
            let change = with(review(status.parse().expect("a status")), |change| {
                change.audience_tag = Some(audience.parse().expect("a label"));
            });
            let key = format!("{status}-{audience}");
            seed.bulk_update(&key, &alike, change).await?;
        }
    }
    Ok(memories)
}

/// Returns all combinations of labels in the workspace `main`, and some in `side`.
fn all_labels() -> Vec<Labels> {
    let mut all = Vec::new();
    for audience in AUDIENCES {
        for author in [TESTER, OWNER] {
            for review in REVIEWS {
                for sensitivity in SENSITIVITIES {
                    all.push(Labels::new(MAIN, audience, sensitivity, review, author));
                }
                all.push(Labels::new(SIDE, audience, "internal", review, author));
            }
        }
    }
    all
}

fn memory(labels: &Labels) -> NewMemory {
    with(new_memory("Title"), |new| {
        new.audience_tag = Some(labels.audience.parse().expect("a label"));
        new.sensitivity_label = Some(labels.sensitivity.parse().expect("a label"));
    })
}

fn action_set(names: &Names) -> ActionSet {
    let actions = names.iter();
    actions
        .map(|name| name.parse().expect("an action"))
        .collect()
}
