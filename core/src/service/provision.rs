//! Provisioning: organisations, workspaces, members, tokens and sessions, made by the operator of the service.
//!
//! Nothing here asks who calls. It is for the command line, for the application that links this crate, for an empty
//! deployment that needs its first token; never for what comes in over a network.

use std::time::Duration;

use super::KnowledgeService;
use super::audit::{Actor, AuditAction, Operation, ResourceKind};
use super::mcp_keys::forget_key;
use super::members::hold_role;
use super::validate::{Problems, SLUG_RULE};
use crate::access::{
    BuiltInRole, CredentialKind, CredentialRecord, Narrowing, RoleRef, Secret, SecretHash,
};
use crate::error::{Error, ProblemCode};
use crate::limits::{NARROWING_MAX, TEAMS_PER_MEMBER_MAX};
use crate::model::{
    AudienceLabel, AudienceScope, CredentialId, Member, MemberId, MemberKind, OrgId, Organization,
    Source, Timestamp, Workspace, WorkspaceId, is_label_name,
};
use crate::store::{KeyRange, StoreExt, Transaction, decode_value, keys};

/// The longest life of a token or a session.
const LIFETIME_MAX: Duration = Duration::from_secs(10 * 366 * 24 * 60 * 60);

/// What the operator may do, by [`KnowledgeService::provisioning`].
#[derive(Clone, Copy, Debug)]
pub struct Provisioning<'s> {
    service: &'s KnowledgeService,
}

/// A new workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewWorkspace {
    /// 1 to 128 characters.
    pub name: String,
    /// 1 to 64 characters of `a-z 0-9 - _ .`; unique in the organisation.
    pub slug: String,
    /// Whom it is for; without one, the members of the workspace: `workspace:<slug>`.
    pub audience: Option<AudienceLabel>,
}

/// A new member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMember {
    /// A person or a program.
    pub kind: MemberKind,
    /// 1 to 64 characters of `a-z 0-9 - _ .`; unique in the organisation.
    pub handle: String,
    /// 1 to 128 characters.
    pub name: String,
    /// The role in the organisation.
    pub role: RoleRef,
    /// The teams, each named as a slug is.
    pub teams: Vec<String>,
}

/// A new token or session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewToken {
    /// Whoever presents it acts as this member.
    pub member: MemberId,
    /// A bearer token or a session.
    pub kind: CredentialKind,
    /// What it is for: 1 to 128 characters.
    pub name: String,
    /// What it is narrowed to. A session cannot be narrowed.
    pub narrowing: Narrowing,
    /// How long it is taken; at most ten years.
    pub lifetime: Duration,
}

/// A token or a session that was just made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    /// The secret, shown this once.
    pub secret: Secret,
    /// What is stored.
    pub record: CredentialRecord,
}

impl KnowledgeService {
    /// The operator's side of the service. Whoever can call this can do everything.
    #[must_use]
    pub fn provisioning(&self) -> Provisioning<'_> {
        Provisioning { service: self }
    }
}

impl Provisioning<'_> {
    /// Makes an organisation, with its first member, who owns it.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`]; [`Error::SlugTaken`].
    pub async fn create_organization(
        &self,
        name: &str,
        slug: &str,
        owner: &NewMember,
    ) -> Result<(Organization, Member), Error> {
        let mut problems = Problems::default();
        problems.name("name", name);
        problems.slug("slug", slug);
        if owner.role != RoleRef::BuiltIn(BuiltInRole::Owner) {
            problems.push("owner.role", ProblemCode::InvalidValue, "must be owner");
        }
        check_member(&mut problems, owner);
        problems.into_result()?;
        let env = self.service.env();
        self.service
            .transact(|mut transaction| async move {
                let now = env.now();
                let org = Organization {
                    id: OrgId(env.uuid()),
                    name: name.to_owned(),
                    slug: slug.to_owned(),
                    created_at: now,
                };
                if transaction
                    .read::<OrgId>(&keys::org_slug(slug))
                    .await?
                    .is_some()
                {
                    return Err(Error::SlugTaken {
                        what: "organisation",
                    });
                }
                transaction.put(keys::org_slug(slug), &org.id);
                transaction.create(keys::org(org.id), &org);
                let member = self.add_member(&mut transaction, org.id, owner, now);
                let (actor, action) = (Actor::operator(org.id), AuditAction::OrganizationCreate);
                let resource = (ResourceKind::Organization, org.id.0);
                Operation::begin(&transaction, env, now).created(
                    &mut transaction,
                    actor,
                    action,
                    resource,
                    &org,
                );
                transaction.done((org, member))
            })
            .await
    }

    /// The organisation with this slug.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn organization(&self, slug: &str) -> Result<Option<Organization>, Error> {
        if !is_label_name(slug) {
            return Ok(None);
        }
        let store = self.service.store();
        let Some(id) = store.read::<OrgId>(&keys::org_slug(slug)).await? else {
            return Ok(None);
        };
        Ok(store
            .read(&keys::org(id.value))
            .await?
            .map(|found| found.value))
    }

    /// Every organisation.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn organizations(&self) -> Result<Vec<Organization>, Error> {
        self.list(&keys::orgs()).await
    }

    /// Makes a workspace.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`]; [`Error::NotFound`] for an unknown organisation; [`Error::SlugTaken`].
    pub async fn create_workspace(
        &self,
        org: OrgId,
        new: &NewWorkspace,
    ) -> Result<Workspace, Error> {
        let mut problems = Problems::default();
        problems.name("name", &new.name);
        problems.slug("slug", &new.slug);
        problems.into_result()?;
        let env = self.service.env();
        self.service
            .transact(|mut transaction| async move {
                self.require_org(&mut transaction, org).await?;
                let slug_key = keys::workspace_slug(org, &new.slug);
                if transaction.read::<WorkspaceId>(&slug_key).await?.is_some() {
                    return Err(Error::SlugTaken { what: "workspace" });
                }
                let own = AudienceLabel::new(AudienceScope::Workspace, &new.slug)
                    .expect("a slug was checked to be a name");
                let workspace = Workspace {
                    id: WorkspaceId(env.uuid()),
                    name: new.name.clone(),
                    slug: new.slug.clone(),
                    audience: new.audience.clone().unwrap_or(own),
                    created_at: env.now(),
                };
                transaction.put(slug_key, &workspace.id);
                transaction.create(keys::workspace(org, workspace.id), &workspace);
                let (actor, action) = (Actor::operator(org), AuditAction::WorkspaceCreate);
                let resource = (ResourceKind::Workspace, workspace.id.0);
                Operation::begin(&transaction, env, workspace.created_at).created(
                    &mut transaction,
                    actor,
                    action,
                    resource,
                    &workspace,
                );
                transaction.done(workspace)
            })
            .await
    }

    /// The workspaces of an organisation, in the order they were made.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn workspaces(&self, org: OrgId) -> Result<Vec<Workspace>, Error> {
        self.list(&keys::workspaces(org)).await
    }

    /// Adds a member.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`], also for an unknown role or one of a workspace; [`Error::NotFound`] for an unknown
    /// organisation; [`Error::SlugTaken`] for a handle that another member has.
    pub async fn create_member(&self, org: OrgId, new: &NewMember) -> Result<Member, Error> {
        let mut problems = Problems::default();
        check_member(&mut problems, new);
        problems.into_result()?;
        let env = self.service.env();
        self.service
            .transact(|mut transaction| async move {
                self.require_org(&mut transaction, org).await?;
                if transaction.read::<MemberId>(&keys::member_handle(org, &new.handle)).await?.is_some() {
                    return Err(Error::SlugTaken { what: "member" });
                }
                if let RoleRef::Custom(id) = new.role {
                    let role = transaction.read::<crate::model::CustomRole>(&keys::role(org, id)).await?;
                    if !role.is_some_and(|role| role.is_active && role.workspace_id.is_none()) {
                        let message = "must be viewer, member, admin, owner or an active role of the whole organisation";
                        return Err(Error::invalid("role", ProblemCode::NotFound, message));
                    }
                }
                let now = env.now();
                let member = self.add_member(&mut transaction, org, new, now);
                let (actor, action) = (Actor::operator(org), AuditAction::MemberCreate);
                let resource = (ResourceKind::Member, member.id.0);
                Operation::begin(&transaction, env, now).created(&mut transaction, actor, action, resource, &member);
                transaction.done(member)
            })
            .await
    }

    /// The members of an organisation, in the order they were added.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn members(&self, org: OrgId) -> Result<Vec<Member>, Error> {
        self.list(&keys::members(org)).await
    }

    /// The sources of an organisation, in the order they were made.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn sources(&self, org: OrgId) -> Result<Vec<Source>, Error> {
        self.list(&keys::sources(org)).await
    }

    /// Makes a bearer token or a session.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`]; [`Error::NotFound`] for an unknown member.
    pub async fn issue(&self, org: OrgId, new: &NewToken) -> Result<Issued, Error> {
        let mut problems = Problems::default();
        problems.name("name", &new.name);
        if new.lifetime.is_zero() || new.lifetime > LIFETIME_MAX {
            problems.push(
                "lifetime",
                ProblemCode::InvalidValue,
                "must be longer than nothing and at most ten years",
            );
        }
        if new.kind == CredentialKind::Session && new.narrowing != Narrowing::default() {
            problems.push(
                "narrowing",
                ProblemCode::InvalidValue,
                "must be empty for a session",
            );
        }
        let (workspaces, labels) = (&new.narrowing.workspaces, &new.narrowing.audience);
        let workspaces = workspaces.as_ref().map_or(0, Vec::len);
        let labels = labels.as_ref().map_or(0, Vec::len);
        problems.at_most("narrowing.workspaces", workspaces, NARROWING_MAX);
        problems.at_most("narrowing.audience", labels, NARROWING_MAX);
        problems.into_result()?;
        let service = self.service;
        service
            .transact(|mut transaction| async move {
                if transaction
                    .read::<Member>(&keys::member(org, new.member))
                    .await?
                    .is_none()
                {
                    return Err(Error::NotFound { what: "member" });
                }
                let issued = service.new_credential(&mut transaction, org, new);
                let (actor, action) = (Actor::operator(org), AuditAction::CredentialCreate);
                let resource = (ResourceKind::Credential, issued.record.id.0);
                let at = issued.record.created_at;
                Operation::begin(&transaction, service.env(), at).created(
                    &mut transaction,
                    actor,
                    action,
                    resource,
                    &issued.record,
                );
                transaction.done(issued)
            })
            .await
    }

    /// The tokens and sessions of an organisation, in the order they were made; those that expired may be among them
    /// until they are swept.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn credentials(&self, org: OrgId) -> Result<Vec<CredentialRecord>, Error> {
        let store = self.service.store();
        let hashes: Vec<String> = self.list(&keys::credential_ids(org)).await?;
        let hashes: Vec<_> = hashes
            .iter()
            .filter_map(|hash| hash.parse::<SecretHash>().ok())
            .map(keys::credential)
            .collect();
        let found = store.read_many::<CredentialRecord>(&hashes).await?;
        Ok(found
            .into_iter()
            .flatten()
            .map(|found| found.value)
            .collect())
    }

    /// Revokes a token or a session. Revoking it again changes nothing.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub async fn revoke(&self, org: OrgId, id: CredentialId) -> Result<CredentialRecord, Error> {
        let env = self.service.env();
        self.service
            .transact(|mut transaction| async move {
                let missing = || Error::NotFound {
                    what: "token or session",
                };
                let hash = transaction
                    .read::<String>(&keys::credential_id(org, id))
                    .await?
                    .ok_or_else(missing)?;
                let key = keys::credential(hash.parse().map_err(|_| missing())?);
                let before = transaction
                    .read::<CredentialRecord>(&key)
                    .await?
                    .ok_or_else(missing)?;
                if before.revoked_at.is_some() {
                    return transaction.done(before);
                }
                let now = env.now();
                let after = CredentialRecord {
                    revoked_at: Some(now),
                    ..before.clone()
                };
                transaction.put(key, &after);
                // An MCP key is narrowed to its one workspace: its place there is free again.
                for workspace in after.narrowing.workspaces.iter().flatten() {
                    forget_key(&mut transaction, org, *workspace, id).await?;
                }
                let (actor, action) = (Actor::operator(org), AuditAction::CredentialRevoke);
                let resource = (ResourceKind::Credential, id.0);
                Operation::begin(&transaction, env, now).changed(
                    &mut transaction,
                    actor,
                    action,
                    resource,
                    &before,
                    &after,
                );
                transaction.done(after)
            })
            .await
    }

    async fn require_org(&self, transaction: &mut Transaction, org: OrgId) -> Result<(), Error> {
        match transaction.peek::<Organization>(&keys::org(org)).await? {
            Some(_) => Ok(()),
            None => Err(Error::NotFound {
                what: "organisation",
            }),
        }
    }

    fn add_member(
        &self,
        transaction: &mut Transaction,
        org: OrgId,
        new: &NewMember,
        now: Timestamp,
    ) -> Member {
        let member = Member {
            id: MemberId(self.service.env().uuid_at(now)),
            kind: new.kind,
            handle: new.handle.clone(),
            name: new.name.clone(),
            role: new.role,
            teams: new.teams.clone(),
            created_at: now,
        };
        transaction.create(keys::member_handle(org, &member.handle), &member.id);
        transaction.create(keys::member(org, member.id), &member);
        hold_role(transaction, org, member.role, member.id, None);
        if member.kind == MemberKind::User {
            transaction.add(keys::member_count(org), 1);
        }
        member
    }

    async fn list<T: serde::de::DeserializeOwned>(
        &self,
        range: &KeyRange,
    ) -> Result<Vec<T>, Error> {
        let found = self.service.store().scan_all(range).await?;
        found
            .iter()
            .map(|found| decode_value(found).map_err(Error::from))
            .collect()
    }
}

impl KnowledgeService {
    /// Writes a new credential. It is swept some time after it expired.
    pub(super) fn new_credential(
        &self,
        transaction: &mut Transaction,
        org: OrgId,
        new: &NewToken,
    ) -> Issued {
        let env = self.env();
        let now = env.now();
        let secret = Secret::generate(new.kind, org, env);
        let record = CredentialRecord {
            id: CredentialId(env.uuid_at(now)),
            kind: new.kind,
            name: new.name.clone(),
            org_id: org,
            member_id: new.member,
            narrowing: new.narrowing.clone(),
            created_at: now,
            expires_at: now.plus(new.lifetime),
            revoked_at: None,
        };
        let (key, id_key) = (
            keys::credential(secret.hash()),
            keys::credential_id(org, record.id),
        );
        transaction.create(key.clone(), &record);
        transaction.create(id_key.clone(), &secret.hash().to_string());
        super::maintain::Due::record(key)
            .and(id_key)
            .schedule(transaction, record.expires_at, env);
        Issued { secret, record }
    }
}

fn check_member(problems: &mut Problems, member: &NewMember) {
    problems.slug("handle", &member.handle);
    problems.name("name", &member.name);
    problems.at_most("teams", member.teams.len(), TEAMS_PER_MEMBER_MAX);
    for (index, team) in member.teams.iter().enumerate() {
        if !is_label_name(team) {
            problems.push(
                format!("teams[{index}]"),
                ProblemCode::InvalidValue,
                SLUG_RULE,
            );
        }
    }
}
