//! Members: listing, reading, adding and changing. Removal is in `remove`.

use std::collections::{BTreeMap, HashMap};

use serde::{Serialize, Serializer};

use crate::access::{BuiltInRole, CredentialKind, RoleRef, Secret, TokenScope};
use crate::error::{EntityKind, Error, ProblemCode};
use crate::keys;
use crate::limits::{INVITATION_LIFETIME, TEAMS_PER_MEMBER_MAX};
use crate::model::{
    AuditAction, CredentialId, Member, MemberId, MemberKind, OrgId, Quota, ResourceKind, Timestamp,
    WorkspaceId,
};
use crate::operation::Operation;
use crate::request::request;
use crate::request::rules::{Items, List, Name, Parsed, Slug};
use crate::service::access::coverage::{Coverage, HeldRoles, Reach};
use crate::service::access::principal::{Principal, workspace_roles_read};
use crate::service::access::roles::OWNER;
use crate::service::members::assign::{
    Authority, assign, assignment_prefetch, change_role, check_owners, check_role, current_role,
};
use crate::service::members::invitation::{login_url, revoke_link, withdraw_link};
use crate::service::members::with_roles;
use crate::service::memories::label_counts::count_teams;
use crate::service::operation::{Authorized, Prefetch};
use crate::service::page::{Listing, Page, PageRecord, PageRequest};
use crate::service::provision::place;
use crate::service::{
    Caller, IfMatch, Issued, KnowledgeService, MemberAssignment, Members, NewMember, NewToken,
    WithEtag,
};
use crate::store::{Direction, Key, Transaction};

/// A role in one workspace, which replaces the role in the organisation there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct WorkspaceRole {
    /// Workspace.
    pub workspace_id: WorkspaceId,
    /// Role in the workspace.
    pub role: RoleRef,
}

/// A member with its roles in workspaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct MemberDetails {
    /// Member.
    #[serde(flatten)]
    pub member: Member,
    /// Roles that replace the one in the organisation, ordered by identifier of the workspace.
    pub workspace_roles: Vec<WorkspaceRole>,
}

/// A member that was just added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct AddedMember {
    /// Fields that later responses show too.
    #[serde(flatten)]
    pub details: MemberDetails,
    /// Way in for the member, returned only in this response; `null` if the request asks for none,
    /// or if the response is repeated for an `Idempotency-Key`.
    pub login_link: Option<LoginLink>,
}

/// A link with which a member signs in, once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct LoginLink {
    /// Identifier of the link, as the audit log has it.
    pub id: CredentialId,
    /// Secret of the link, which [`Sessions::sign_in`](crate::service::Sessions::sign_in)
    /// exchanges for a session.
    #[serde(serialize_with = "expose_link")]
    #[cfg_attr(feature = "openapi", schemars(with = "String"))]
    pub secret: Secret,
    /// URL of the link; `null` if the service does not know its base URL.
    pub url: Option<String>,
    /// Time from which the link is invalid.
    pub expires_at: Timestamp,
}

fn expose_link<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.expose())
}

/// State of a new member in the audit log.
#[derive(Serialize)]
struct NewMemberState<'m> {
    #[serde(flatten)]
    member: &'m Member,
    /// Credential of the login link, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    login_link_id: Option<CredentialId>,
}

request! {
    /// A change of a member. Omitted fields are unchanged.
    #[derive(Default)]
    pub struct MemberUpdate {
        /// New name, 1 to 128 characters.
        name: Option<String> as Option<Name>,
        /// New role in the organisation.
        role: Option<RoleRef> as Option<Parsed<RoleRef>>,
        /// New list of all teams; each has the form of a slug.
        teams: Option<Vec<String>> as Option<List<Slug, Items<0, TEAMS_PER_MEMBER_MAX>>>,
    }
}

impl Members<'_> {
    /// Lists the members of an organisation, in order of addition.
    ///
    /// # Errors
    /// Those of [`Operation::ListMembers`].
    pub async fn list(
        self,
        caller: &Caller,
        org_slug: &str,
        page: &PageRequest,
    ) -> Result<Page<Member>, Error> {
        self.service
            .perform(Operation::ListMembers, caller, |caller| async move {
                let org = caller.org();
                let listing = Listing::new("members", &(), keys::members(org), Direction::Forward);
                let prefetch = with_roles(Prefetch::page(&listing, page), org);
                let mut op = caller.in_organization(Some(org_slug), prefetch).await?;
                let show = |_: &Key, member: Member| Ok(PageRecord::Shown(member));
                let mut found = listing.page(&mut op.transaction, page, show).await?;
                let mut known: HashMap<RoleRef, RoleRef> = HashMap::new();
                for member in &mut found.data {
                    let role = match known.get(&member.role) {
                        Some(role) => *role,
                        None => current_role(&mut op.transaction, org, member.role).await?,
                    };
                    known.insert(member.role, role);
                    member.role = role;
                }
                op.done(found)
            })
            .await
    }

    /// Returns a member with its roles and its entity tag.
    ///
    /// # Errors
    /// Those of [`Operation::GetMember`].
    pub async fn get(
        self,
        caller: &Caller,
        org_slug: &str,
        member: MemberId,
    ) -> Result<WithEtag<MemberDetails>, Error> {
        self.service
            .perform(Operation::GetMember, caller, |caller| async move {
                let org = caller.org();
                let prefetch = details_prefetch(org, member);
                let mut op = caller.in_organization(Some(org_slug), prefetch).await?;
                let (stored, roles) = read_member(&mut op.transaction, org, member).await?;
                let found = WithEtag::strong(details(&op.principal, &stored, &roles));
                op.done(found)
            })
            .await
    }

    /// Adds a member, without issuing a token or session.
    ///
    /// A person gets a login link, if the request asks for it. Only this response contains it; that
    /// of a repetition with the idempotency key does not.
    ///
    /// # Errors
    /// Those of [`Operation::AddMember`]; [`Error::InvalidRequest`] for an unknown or inactive
    /// role, a role of a workspace, or the login link of a service account; [`Error::Forbidden`]
    /// for a role with actions that the caller lacks in the organisation or in a workspace, for a
    /// team that the caller cannot grant, or if anyone but an owner adds an owner;
    /// [`Error::SlugTaken`] for the handle of another or a former member.
    pub async fn add(
        self,
        caller: &Caller,
        org_slug: &str,
        new: &NewMember,
    ) -> Result<WithEtag<AddedMember>, Error> {
        self.service.checks().check(new)?;
        if new.login_link && new.kind == MemberKind::ServiceAccount {
            let (path, code) = ("login_link", ProblemCode::InvalidValue);
            let message = "must be false: a service account has tokens and does not sign in";
            return Err(Error::invalid(path, code, message));
        }
        self.service
            .once(
                Operation::AddMember,
                caller,
                &(org_slug, new),
                |caller| async move {
                    let org = caller.org();
                    let role = match new.role {
                        RoleRef::BuiltIn(_) => None,
                        RoleRef::Custom(role) => Some(keys::role(org, role)),
                    };
                    let handle = keys::member_handle(org, &new.handle);
                    let quota = keys::usage(org, Quota::Members);
                    let prefetch =
                        with_roles(Prefetch::keys([handle.clone(), quota]).and_keys(role), org);
                    let caller = caller.authenticate(prefetch).await?;
                    let mut op = caller.in_organization(Some(org_slug)).await?;
                    let now = op.now;
                    require_teams(&op.principal, &[], &new.teams)?;
                    let coverage = Coverage::of(&mut op.transaction, &op.principal).await?;
                    let authority = Authority::Caller(&coverage);
                    let actions =
                        check_role(&mut op.transaction, authority, new.role, None).await?;
                    check_owners(&mut op.transaction, authority, None, Some(new.role)).await?;
                    authority.require(actions, Reach::Organization(&BTreeMap::new()))?;
                    if op.transaction.get::<MemberId>(&handle).await?.is_some() {
                        return Err(Error::SlugTaken {
                            kind: EntityKind::Member,
                        });
                    }
                    let provisioning = self.service.provisioning();
                    let member = provisioning
                        .add_member(&mut op.transaction, org, new, now)
                        .await?;
                    let login_link = invite(&mut op, &member, new.login_link);
                    let workspace_roles = Vec::new();
                    let details = WithEtag::strong(MemberDetails {
                        member,
                        workspace_roles,
                    });
                    op.done(added(details, login_link))
                },
                |caller, replay| async move {
                    let member = MemberId(replay.created);
                    let details = self.get(&caller, org_slug, member).await?;
                    Ok(added(details, None))
                },
            )
            .await
    }

    /// Creates a login link for a person that a member added and that has no session or token yet.
    ///
    /// Only this response contains it. The link that the person had before is revoked.
    ///
    /// # Errors
    /// Those of [`Operation::CreateLoginLink`]; [`Error::Forbidden`] for any other member, or one
    /// that the caller does not cover.
    pub async fn create_login_link(
        self,
        caller: &Caller,
        org_slug: &str,
        member: MemberId,
    ) -> Result<LoginLink, Error> {
        self.service
            .perform(Operation::CreateLoginLink, caller, |caller| async move {
                let org = caller.org();
                let mark = keys::invitation(org, member);
                let prefetch = details_prefetch(org, member).and_keys([mark.clone()]);
                let mut caller = caller.authenticate(prefetch).await?;
                let earlier = caller.prefetched::<Option<String>>(&mark)?.flatten();
                let earlier = earlier.and_then(|hash| place(&hash));
                caller.prefetch(Prefetch::keys(earlier)).await?;
                let mut op = caller.in_organization(Some(org_slug)).await?;
                let now = op.now;
                let (stored, roles) = read_member(&mut op.transaction, org, member).await?;
                let invited = op.transaction.get::<Option<String>>(&mark).await?;
                let earlier = invited.ok_or_else(|| {
                    Error::forbidden(
                        "a login link is for a person that a member added and that has no session \
                         or token yet",
                    )
                })?;
                require_covered(&mut op.transaction, &op.principal, &stored, &roles).await?;
                if let Some(hash) = earlier {
                    revoke_link(&mut op.transaction, &hash, now).await?;
                }
                let (transaction, creator) = (&mut op.transaction, &op.principal);
                let link = self.service.new_login_link(transaction, creator, member);
                let hash = Some(link.secret.hash().to_string());
                op.transaction.put(mark, &hash);
                let resource = (ResourceKind::Credential, link.record.id.0);
                op.created(AuditAction::CredentialCreate, resource, &link.record);
                op.done(self.service.shown_login_link(link))
            })
            .await
    }

    /// Changes the name, the role in the organisation and the teams of a member.
    ///
    /// An update that changes nothing returns the member as it is. One of the role or the teams
    /// revokes the login link of a person who has no session or token yet.
    ///
    /// # Errors
    /// Those of [`Operation::UpdateMember`]; [`Error::InvalidRequest`] for an unknown or inactive
    /// role or a role of a workspace, or if the organisation would lose its last owner;
    /// [`Error::Forbidden`] if the caller lacks actions that the member has before or after in the
    /// organisation or in a workspace, for a team that the caller can neither grant nor take away,
    /// or if anyone but an owner adds or changes an owner, or changes their own role.
    pub async fn update(
        self,
        caller: &Caller,
        org_slug: &str,
        member: MemberId,
        update: &MemberUpdate,
        if_match: Option<&IfMatch>,
    ) -> Result<WithEtag<MemberDetails>, Error> {
        self.service.checks().check(update)?;
        self.service
            .perform(Operation::UpdateMember, caller, |caller| async move {
                let org = caller.org();
                let facts = [
                    keys::holder_count(org, OWNER),
                    keys::invitation(org, member),
                ];
                let prefetch = details_prefetch(org, member).and_keys(facts);
                let caller = caller.authenticate(prefetch).await?;
                let mut op = caller.in_organization(Some(org_slug)).await?;
                let (stored, roles) = read_member(&mut op.transaction, org, member).await?;
                let mut details = details(&op.principal, &stored, &roles);
                IfMatch::require(if_match, &details)?;
                let before = details.member.clone();
                let mut after = before.clone();
                let this = update.clone();
                after.name = this.name.unwrap_or(after.name);
                after.role = this.role.unwrap_or(after.role);
                after.teams = this.teams.unwrap_or(after.teams);
                if after == before {
                    return op.done(WithEtag::strong(details));
                }
                require_teams(&op.principal, &before.teams, &after.teams)?;
                let coverage = Coverage::of(&mut op.transaction, &op.principal).await?;
                let authority = Authority::Caller(&coverage);
                authority.require_member(&roles)?;
                let target = (&before, &roles);
                let change = (Some(stored.role), Some(after.role));
                // A reference to a deleted role remains until maintenance settles it, because the
                // holder is marked under that role.
                let changed =
                    change_role(&mut op.transaction, authority, target, change, None).await?;
                if changed.is_some() || before.teams != after.teams {
                    withdraw_link(&mut op.transaction, org, member, op.now).await?;
                }
                let role = changed.map_or(stored.role, |_| after.role);
                let is_role_alone = before.name == after.name && before.teams == after.teams;
                let action = if is_role_alone {
                    AuditAction::RoleAssign
                } else {
                    AuditAction::MemberUpdate
                };
                let held = Member {
                    role,
                    ..after.clone()
                };
                op.transaction.put(keys::member(org, member), &held);
                count_teams(&mut op.transaction, org, &before.teams, &after.teams);
                op.changed(action, (ResourceKind::Member, member.0), &before, &after);
                details.member = after;
                op.done(WithEtag::strong(details))
            })
            .await
    }

    /// Removes the role of a member in a workspace.
    ///
    /// The role in the organisation applies there again. The login link of a person who has no
    /// session or token yet is revoked.
    ///
    /// # Errors
    /// Those of [`Operation::EndWorkspaceRole`]; [`Error::NotFound`] if the member has no role
    /// there.
    pub async fn end_workspace_role(
        self,
        caller: &Caller,
        org_slug: &str,
        member: MemberId,
        workspace: WorkspaceId,
    ) -> Result<(), Error> {
        self.service
            .perform(Operation::EndWorkspaceRole, caller, |caller| async move {
                let none = MemberAssignment::Workspace(workspace, None);
                let prefetch = assignment_prefetch(caller.org(), member, none);
                let caller = caller.authenticate(prefetch).await?;
                let mut op = caller.in_organization(Some(org_slug)).await?;
                let coverage = Coverage::of(&mut op.transaction, &op.principal).await?;
                let authority = Authority::Caller(&coverage);
                let ended = assign(&mut op.transaction, authority, member, none, op.now).await?;
                let (before, after) = ended.ok_or(Error::not_found(EntityKind::WorkspaceRole))?;
                let resource = (ResourceKind::Member, member.0);
                op.changed(AuditAction::RoleAssign, resource, &before, &after);
                op.done(())
            })
            .await
    }
}

/// Marks a person as one who has no credential yet, creates a login link on request, and audits the
/// addition of the member.
fn invite(op: &mut Authorized<'_>, member: &Member, has_link: bool) -> Option<LoginLink> {
    let (service, org) = (op.service, op.org());
    let (transaction, creator) = (&mut op.transaction, &op.principal);
    let link = has_link.then(|| service.new_login_link(transaction, creator, member.id));
    if member.kind == MemberKind::User {
        let hash = link.as_ref().map(|link| link.secret.hash().to_string());
        let mark = keys::invitation(org, member.id);
        op.transaction.put(mark, &hash);
    }
    let state = NewMemberState {
        member,
        login_link_id: link.as_ref().map(|link| link.record.id),
    };
    let resource = (ResourceKind::Member, member.id.0);
    op.created(AuditAction::MemberCreate, resource, &state);
    link.map(|link| service.shown_login_link(link))
}

impl KnowledgeService {
    /// Creates the login link of a new member, with whose addition it is audited.
    fn new_login_link(
        &self,
        transaction: &mut Transaction,
        creator: &Principal,
        member: MemberId,
    ) -> Issued {
        let new = NewToken {
            member,
            kind: CredentialKind::Link,
            name: "login link of a new member".to_owned(),
            scope: TokenScope::default(),
            lifetime: INVITATION_LIFETIME,
            is_long_lived: false,
        };
        let mut issued = self.generate_credential(creator.org_id(), &new, None);
        issued.record.created_with = creator.credential;
        issued.record.created_by = Some(creator.member_id());
        self.put_credential(transaction, &issued.record, &issued.secret);
        issued
    }

    fn shown_login_link(&self, link: Issued) -> LoginLink {
        let base_url = self.base_url();
        LoginLink {
            id: link.record.id,
            url: base_url.map(|base_url| login_url(base_url, link.secret.expose())),
            expires_at: link.record.expires_at,
            secret: link.secret,
        }
    }
}

/// Returns a new member with its login link. The entity tag is that of later responses.
fn added(details: WithEtag<MemberDetails>, login_link: Option<LoginLink>) -> WithEtag<AddedMember> {
    let (details, etag) = (details.value, details.etag);
    let value = AddedMember {
        details,
        login_link,
    };
    WithEtag { value, etag }
}

/// Returns the reads of a member with its current roles.
fn details_prefetch(org: OrgId, member: MemberId) -> Prefetch {
    let prefetch = Prefetch::keys([keys::member(org, member)]);
    with_roles(prefetch.and_range(workspace_roles_read(org, member)), org)
}

/// Reads a member as it is stored, and its current roles.
///
/// # Errors
/// [`Error::NotFound`]; those of [`HeldRoles::of`].
pub(super) async fn read_member(
    transaction: &mut Transaction,
    org: OrgId,
    member: MemberId,
) -> Result<(Member, HeldRoles), Error> {
    let key = keys::member(org, member);
    let stored = transaction.get::<Member>(&key).await?;
    let stored = stored.ok_or(Error::not_found(EntityKind::Member))?;
    let roles = HeldRoles::of(transaction, org, &stored).await?;
    Ok((stored, roles))
}

/// Returns a member with its current roles, in workspaces those that the caller knows of.
fn details(caller: &Principal, stored: &Member, roles: &HeldRoles) -> MemberDetails {
    let workspace_roles = roles.workspaces.iter();
    let workspace_roles = workspace_roles.filter(|(place, _)| caller.knows(**place));
    MemberDetails {
        member: Member {
            role: roles.organization.reference(),
            ..stored.clone()
        },
        workspace_roles: workspace_roles
            .map(|(workspace_id, role)| WorkspaceRole {
                workspace_id: *workspace_id,
                role: role.reference(),
            })
            .collect(),
    }
}

/// Checks that the caller covers a member, so that it may have a credential of it: the roles and
/// the teams, and as an owner those of an owner.
///
/// # Errors
/// [`Error::Forbidden`] otherwise.
pub(crate) async fn require_covered(
    transaction: &mut Transaction,
    caller: &Principal,
    member: &Member,
    roles: &HeldRoles,
) -> Result<(), Error> {
    let coverage = Coverage::of(transaction, caller).await?;
    let authority = Authority::Caller(&coverage);
    authority.require_member(roles)?;
    // A private workspace that does not exist for the caller would through the credential.
    let mut places = roles.workspaces.keys();
    if !places.all(|place| caller.knows(*place)) {
        let message = "cannot manage credentials of a member that may do more than the caller";
        return Err(Error::forbidden(message));
    }
    require_teams(caller, &[], &member.teams)
}

/// Checks that the caller may grant the added teams and take away the removed ones.
///
/// Members of a team know of everything that is labelled for it. Callers with all actions of
/// administrators in the organisation grant and take away any team, others only their own.
///
/// # Errors
/// [`Error::Forbidden`] naming the first team that the caller can neither grant nor take away.
fn require_teams(caller: &Principal, before: &[String], after: &[String]) -> Result<(), Error> {
    if caller.org_actions().covers(BuiltInRole::Admin.actions()) {
        return Ok(());
    }
    let is_foreign = |team: &&String| {
        let is_changed = before.contains(team) != after.contains(team);
        is_changed && !caller.member.teams.contains(team)
    };
    match after.iter().chain(before).find(is_foreign) {
        None => Ok(()),
        Some(team) => Err(Error::forbidden(format!(
            "cannot grant or take away a team that the caller is not in: {team}"
        ))),
    }
}
