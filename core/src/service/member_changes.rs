//! Members as their colleagues see and manage them: listed, read, added and changed. Their removal has a file of its own.

use std::collections::HashMap;

use serde::Serialize;

use super::audit::{Actor, AuditAction, Operation, ResourceKind};
use super::members::{Authority, change_role, check_grant, check_owners, current_role};
use super::page::{Listing, Page, PageRequest};
use super::provision::{check_member, check_teams};
use super::validate::Problems;
use super::{IfMatch, KnowledgeService, MemberAssignment, NewMember, Tagged};
use crate::access::{ActionSet, Credential, Principal, RoleRef, needs};
use crate::error::Error;
use crate::limits::Limits;
use crate::model::{Member, MemberId, OrgId, WorkspaceId};
use crate::keys;
use crate::store::{Direction, KeyEntry, Transaction, decode_value};

/// A role that a member holds in one workspace, in place of the one in the organisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct WorkspaceRole {
    /// The workspace.
    pub workspace_id: WorkspaceId,
    /// The role.
    pub role: RoleRef,
}

/// A member with the roles that it holds in workspaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct MemberDetails {
    /// The member itself.
    #[serde(flatten)]
    pub member: Member,
    /// Where another role replaces the one in the organisation, in the order of the workspaces' identifiers.
    pub workspace_roles: Vec<WorkspaceRole>,
}

/// The request to change a member; what is absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct MemberUpdate {
    /// 1 to 128 characters.
    #[cfg_attr(feature = "openapi", schemars(with = "Option<crate::schema::Name>"))]
    pub name: Option<String>,
    /// The role in the organisation.
    pub role: Option<RoleRef>,
    /// All teams, each named as a slug is.
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
    /// The members of an organisation, in the order they were added.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a wrong page; [`Error::Unauthenticated`]; [`Error::NotFound`] for an organisation
    /// that is not the caller's; [`Error::Forbidden`] without `role:read`.
    pub async fn list_members(
        &self,
        credential: &Credential,
        org_slug: &str,
        page: &PageRequest,
    ) -> Result<Page<Member>, Error> {
        self.transact(|mut reading| async move {
            let caller = self
                .enter_org(&mut reading, credential, org_slug, needs::LIST_MEMBERS)
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

    /// Members with their roles as they are now, redirects of deleted roles followed.
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

    /// One member with the roles that it holds, and its entity tag.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::NotFound`] for an organisation that is not the caller's or an unknown
    /// member; [`Error::Forbidden`] without `role:read`.
    pub async fn member(
        &self,
        credential: &Credential,
        org_slug: &str,
        member: MemberId,
    ) -> Result<Tagged<MemberDetails>, Error> {
        self.transact(|mut reading| async move {
            let caller = self
                .enter_org(&mut reading, credential, org_slug, needs::READ_MEMBER)
                .await?;
            let (_, details) = read_details(&mut reading, caller.org_id(), member).await?;
            reading.done(Tagged::strong(details))
        })
        .await
    }

    /// Adds a member. It gets no token and no session by that.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for bad values, an unknown or inactive role or one of a workspace;
    /// [`Error::Unauthenticated`]; [`Error::NotFound`] for an organisation that is not the caller's;
    /// [`Error::Forbidden`] without `member:manage`, for a role that may do what the caller may not, for a team that
    /// the caller may not give, or where anyone but an owner makes an owner; [`Error::SlugTaken`] for a handle that
    /// another member has.
    pub async fn add_member(
        &self,
        credential: &Credential,
        org_slug: &str,
        new: &NewMember,
    ) -> Result<Tagged<MemberDetails>, Error> {
        let mut problems = Problems::default();
        check_member(&mut problems, new, self.limits());
        problems.into_result()?;
        self.transact(|mut transaction| async move {
            let caller = self
                .enter_org(&mut transaction, credential, org_slug, needs::ADD_MEMBER)
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
            Operation::begin(&transaction, self.env(), now).created(
                &mut transaction,
                actor,
                AuditAction::MemberCreate,
                (ResourceKind::Member, member.id.0),
                &member,
            );
            let workspace_roles = Vec::new();
            transaction.done(Tagged::strong(MemberDetails {
                member,
                workspace_roles,
            }))
        })
        .await
    }

    /// Changes a member: its name, its role in the organisation, its teams. An update that sets nothing returns it as
    /// it is.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for bad values, an unknown or inactive role or one of a workspace, or where the last
    /// owner would be gone; [`Error::Unauthenticated`]; [`Error::NotFound`] for an organisation that is not the
    /// caller's or an unknown member; [`Error::Forbidden`] without `member:manage`, for a role that may do what the
    /// caller may not, for a team that the caller may not give, or where anyone but an owner makes or changes an owner;
    /// [`Error::PreconditionFailed`] where the member is at none of the versions of `if_match`.
    pub async fn update_member(
        &self,
        credential: &Credential,
        org_slug: &str,
        member: MemberId,
        update: &MemberUpdate,
        if_match: Option<&IfMatch>,
    ) -> Result<Tagged<MemberDetails>, Error> {
        let mut problems = Problems::default();
        update.check(&mut problems, self.limits());
        problems.into_result()?;
        self.transact(|mut transaction| async move {
            let caller = self
                .enter_org(&mut transaction, credential, org_slug, needs::UPDATE_MEMBER)
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
                return transaction.done(Tagged::strong(details));
            }
            require_teams(&caller, &before.teams, &after.teams)?;
            let (key, actor) = (keys::member(caller.org_id(), member), Actor::from(&caller));
            let authority = Authority::Caller(Box::new(caller));
            if before.role == super::members::OWNER {
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
            // A reference to a deleted role stays until it is settled: its holder is marked under that name.
            let role = changed.map_or(stored.role, |_| after.role);
            transaction.put(
                key,
                &Member {
                    role,
                    ..after.clone()
                },
            );
            Operation::begin(&transaction, self.env(), self.env().now()).changed(
                &mut transaction,
                actor,
                action,
                (ResourceKind::Member, member.0),
                &before,
                &after,
            );
            details.member = after;
            transaction.done(Tagged::strong(details))
        })
        .await
    }

    /// Ends the role that a member holds in a workspace: the one in the organisation counts there again.
    ///
    /// # Errors
    /// As [`KnowledgeService::assign_role`], and [`Error::NotFound`] where the member holds none there.
    pub async fn end_workspace_role(
        &self,
        credential: &Credential,
        org_slug: &str,
        member: MemberId,
        workspace: WorkspaceId,
    ) -> Result<(), Error> {
        self.transact(|mut transaction| async move {
            let caller = self
                .enter_org(
                    &mut transaction,
                    credential,
                    org_slug,
                    needs::END_WORKSPACE_ROLE,
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

/// A member as it is stored, and with its roles as they are now.
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

/// Refuses teams that the caller may not give: who is in a team knows of what is for it. Those who may do everything in
/// the organisation give any, others the ones that they are in themselves.
fn require_teams(caller: &Principal, before: &[String], after: &[String]) -> Result<(), Error> {
    if caller.org_actions() == ActionSet::ALL {
        return Ok(());
    }
    let is_given = |team: &&String| !before.contains(team) && !caller.member.teams.contains(team);
    match after.iter().find(is_given) {
        None => Ok(()),
        Some(team) => Err(Error::forbidden(format!(
            "nobody can grant what they do not hold: the team {team}"
        ))),
    }
}
