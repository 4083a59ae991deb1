//! Members: listing, reading, adding and changing. Removal is in `remove`.

use std::collections::HashMap;

use serde::Serialize;

use crate::access::{ActionSet, Credential, RoleRef, permissions};
use crate::error::Error;
use crate::keys;
use crate::limits::Limits;
use crate::model::{Member, MemberId, OrgId, WorkspaceId};
use crate::service::kit::audit::{Actor, AuditedOperation};
use crate::service::kit::audit_entry::{AuditAction, ResourceKind};
use crate::service::kit::page::{Listing, Page, PageRequest};
use crate::service::kit::principal::Principal;
use crate::service::kit::validate::Problems;
use crate::service::members::assign::{
    Authority, change_role, check_grant, check_owners, current_role,
};
use crate::service::provision::{check_member, check_teams};
use crate::service::{IfMatch, KnowledgeService, MemberAssignment, NewMember, WithEtag};
use crate::store::{Direction, KeyEntry, Transaction, decode_value};

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

/// A change of a member. Omitted fields are unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct MemberUpdate {
    /// New name, 1 to 128 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "Option<crate::schema::Name>"))]
    pub name: Option<String>,
    /// New role in the organisation.
    pub role: Option<RoleRef>,
    /// New list of all teams; each has the form of a slug.
    #[cfg_attr(
        feature = "openapi",
        schemars(with = "Option<Vec<crate::schema::Slug>>")
    )]
    pub teams: Option<Vec<String>>,
}

impl MemberUpdate {
    pub(crate) fn check(&self, problems: &mut Problems, limits: &Limits) {
        if let Some(name) = &self.name {
            problems.name("name", name, limits);
        }
        if let Some(teams) = &self.teams {
            check_teams(problems, teams);
        }
    }
}

impl KnowledgeService {
    /// Lists the members of an organisation, in order of addition.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an invalid page request; [`Error::Unauthenticated`];
    /// [`Error::NotFound`] for an organisation that is not the caller's; [`Error::Forbidden`]
    /// without `role:read`.
    pub async fn list_members(
        &self,
        credential: &Credential,
        org_slug: &str,
        page: &PageRequest,
    ) -> Result<Page<Member>, Error> {
        self.transact(|mut reading| async move {
            let caller = self
                .authorize_in_org(
                    &mut reading,
                    credential,
                    org_slug,
                    permissions::LIST_MEMBERS,
                )
                .await?;
            let org = caller.org_id();
            let range = keys::members(org);
            let listing = Listing::new("members", &(), range, Direction::Forward);
            let found = listing.page_of(self.store(), page, |found| async move {
                self.members_with_roles(org, &found).await
            });
            reading.done(found.await?)
        })
        .await
    }

    /// Returns members with their current roles, following redirects of deleted roles.
    async fn members_with_roles(
        &self,
        org: OrgId,
        found: &[KeyEntry],
    ) -> Result<Vec<Option<Member>>, Error> {
        let mut reading = self.reading();
        let mut known: HashMap<RoleRef, RoleRef> = HashMap::new();
        let mut shown = Vec::with_capacity(found.len());
        for found in found {
            let mut member: Member = decode_value(found)?;
            let role = match known.get(&member.role) {
                Some(role) => *role,
                None => current_role(&mut reading, org, member.role).await?,
            };
            known.insert(member.role, role);
            member.role = role;
            shown.push(Some(member));
        }
        Ok(shown)
    }

    /// Returns a member with its roles and its entity tag.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::NotFound`] for an organisation that is not the caller's
    /// or an unknown member; [`Error::Forbidden`] without `role:read`.
    pub async fn member(
        &self,
        credential: &Credential,
        org_slug: &str,
        member: MemberId,
    ) -> Result<WithEtag<MemberDetails>, Error> {
        self.transact(|mut reading| async move {
            let caller = self
                .authorize_in_org(&mut reading, credential, org_slug, permissions::READ_MEMBER)
                .await?;
            let (_, details) = read_details(&mut reading, caller.org_id(), member).await?;
            reading.done(WithEtag::strong(details))
        })
        .await
    }

    /// Adds a member, without issuing a token or session.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for invalid values, an unknown or inactive role or a role of a
    /// workspace; [`Error::Unauthenticated`]; [`Error::NotFound`] for an organisation that is not
    /// the caller's; [`Error::Forbidden`] without `member:manage`, for a role that has actions the
    /// caller lacks, for a team that the caller cannot grant, or if anyone but an owner adds an
    /// owner; [`Error::SlugTaken`] for the handle of another member.
    pub async fn add_member(
        &self,
        credential: &Credential,
        org_slug: &str,
        new: &NewMember,
    ) -> Result<WithEtag<MemberDetails>, Error> {
        let mut problems = Problems::default();
        check_member(&mut problems, new, self.limits());
        problems.into_result()?;
        self.transact(|mut transaction| async move {
            let caller = self
                .authorize_in_org(
                    &mut transaction,
                    credential,
                    org_slug,
                    permissions::ADD_MEMBER,
                )
                .await?;
            let (org, now) = (caller.org_id(), self.env().now());
            let actor = Actor::from(&caller);
            require_teams(&caller, &[], &new.teams)?;
            let authority = Authority::Caller(Box::new(caller));
            check_grant(&mut transaction, &authority, new.role, None).await?;
            check_owners(&mut transaction, &authority, None, Some(new.role)).await?;
            let handle = keys::member_handle(org, &new.handle);
            if transaction.read::<MemberId>(&handle).await?.is_some() {
                return Err(Error::SlugTaken { what: "member" });
            }
            let provisioning = self.provisioning();
            let member = provisioning.add_member(&mut transaction, org, new, now);
            AuditedOperation::begin(&transaction, self.env(), now).created(
                &mut transaction,
                actor,
                AuditAction::MemberCreate,
                (ResourceKind::Member, member.id.0),
                &member,
            );
            let workspace_roles = Vec::new();
            transaction.done(WithEtag::strong(MemberDetails {
                member,
                workspace_roles,
            }))
        })
        .await
    }

    /// Changes the name, the role in the organisation and the teams of a member.
    ///
    /// An update that changes nothing returns the member as it is.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for invalid values, an unknown or inactive role or a role of a
    /// workspace, or if the organisation would lose its last owner; [`Error::Unauthenticated`];
    /// [`Error::NotFound`] for an organisation that is not the caller's or an unknown member;
    /// [`Error::Forbidden`] without `member:manage`, for a role that has actions the caller lacks,
    /// for a team that the caller cannot grant, or if anyone but an owner adds or changes an owner;
    /// [`Error::PreconditionFailed`] if the member is at none of the versions of `if_match`.
    pub async fn update_member(
        &self,
        credential: &Credential,
        org_slug: &str,
        member: MemberId,
        update: &MemberUpdate,
        if_match: Option<&IfMatch>,
    ) -> Result<WithEtag<MemberDetails>, Error> {
        let mut problems = Problems::default();
        update.check(&mut problems, self.limits());
        problems.into_result()?;
        self.transact(|mut transaction| async move {
            let caller = self
                .authorize_in_org(
                    &mut transaction,
                    credential,
                    org_slug,
                    permissions::UPDATE_MEMBER,
                )
                .await?;
            let (stored, mut details) =
                read_details(&mut transaction, caller.org_id(), member).await?;
            IfMatch::require(if_match, &details)?;
            let before = details.member.clone();
            let mut after = before.clone();
            let this = update.clone();
            after.name = this.name.unwrap_or(after.name);
            after.role = this.role.unwrap_or(after.role);
            after.teams = this.teams.unwrap_or(after.teams);
            if after == before {
                return transaction.done(WithEtag::strong(details));
            }
            require_teams(&caller, &before.teams, &after.teams)?;
            let (key, actor) = (keys::member(caller.org_id(), member), Actor::from(&caller));
            let authority = Authority::Caller(Box::new(caller));
            if before.role == crate::service::members::assign::OWNER {
                authority.require_owner()?;
            }
            let roles = (Some(stored.role), Some(after.role));
            let changed = change_role(&mut transaction, &authority, &before, roles, None).await?;
            let is_role_alone = before.name == after.name && before.teams == after.teams;
            let action = if is_role_alone {
                AuditAction::RoleAssign
            } else {
                AuditAction::MemberUpdate
            };
            // A reference to a deleted role remains until maintenance settles it, because the
            // holder is marked under that role.
            let role = changed.map_or(stored.role, |_| after.role);
            transaction.put(
                key,
                &Member {
                    role,
                    ..after.clone()
                },
            );
            AuditedOperation::begin(&transaction, self.env(), self.env().now()).changed(
                &mut transaction,
                actor,
                action,
                (ResourceKind::Member, member.0),
                &before,
                &after,
            );
            details.member = after;
            transaction.done(WithEtag::strong(details))
        })
        .await
    }

    /// Removes the role of a member in a workspace.
    ///
    /// The role in the organisation applies there again.
    ///
    /// # Errors
    /// As [`KnowledgeService::assign_role`], and [`Error::NotFound`] if the member has no role
    /// there.
    pub async fn end_workspace_role(
        &self,
        credential: &Credential,
        org_slug: &str,
        member: MemberId,
        workspace: WorkspaceId,
    ) -> Result<(), Error> {
        self.transact(|mut transaction| async move {
            let caller = self
                .authorize_in_org(
                    &mut transaction,
                    credential,
                    org_slug,
                    permissions::END_WORKSPACE_ROLE,
                )
                .await?;
            let key = keys::workspace_role(caller.org_id(), member, workspace);
            let held = transaction.read::<RoleRef>(&key).await?;
            let authority = Authority::Caller(Box::new(caller));
            let none = MemberAssignment::Workspace(workspace, None);
            self.assign(&mut transaction, &authority, member, none)
                .await?;
            held.ok_or(Error::NotFound {
                what: "role in the workspace",
            })?;
            transaction.done(())
        })
        .await
    }
}

/// Reads a member as it is stored, and with its current roles.
async fn read_details(
    transaction: &mut Transaction,
    org: OrgId,
    member: MemberId,
) -> Result<(Member, MemberDetails), Error> {
    let stored = transaction
        .read::<Member>(&keys::member(org, member))
        .await?;
    let stored = stored.ok_or(Error::NotFound { what: "member" })?;
    let role = current_role(transaction, org, stored.role).await?;
    let held = keys::workspace_roles(org, member);
    let held = transaction.scan_unchecked(&held).await?;
    let mut workspace_roles = Vec::with_capacity(held.len());
    for found in held {
        let workspace_id = keys::last_id(&found.key).map(WorkspaceId);
        let workspace_id = workspace_id
            .ok_or_else(|| Error::internal(format!("{} names no workspace", found.key)))?;
        let role = current_role(transaction, org, decode_value(&found)?).await?;
        workspace_roles.push(WorkspaceRole { workspace_id, role });
    }
    let details = MemberDetails {
        member: Member {
            role,
            ..stored.clone()
        },
        workspace_roles,
    };
    Ok((stored, details))
}

/// Checks that the caller may grant the added teams.
///
/// Members of a team know of everything that is labelled for it. Callers with all actions in the
/// organisation grant any team, others only their own.
///
/// # Errors
/// [`Error::Forbidden`] naming the first team that the caller cannot grant.
fn require_teams(caller: &Principal, before: &[String], after: &[String]) -> Result<(), Error> {
    if caller.org_actions() == ActionSet::ALL {
        return Ok(());
    }
    let is_given = |team: &&String| !before.contains(team) && !caller.member.teams.contains(team);
    match after.iter().find(is_given) {
        None => Ok(()),
        Some(team) => Err(Error::forbidden(format!(
            "cannot grant a team that the caller is not in: {team}"
        ))),
    }
}
