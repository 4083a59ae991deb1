//! Assignment of roles to members.

use serde_json::{Value, json};

use crate::access::{ActionSet, RoleRef};
use crate::error::{EntityKind, Error, ProblemCode};
use crate::keys;
use crate::model::{
    AuditAction, CustomRole, Member, MemberId, OrgId, ResourceKind, Timestamp, Workspace,
    WorkspaceId,
};
use crate::operation::Operation;
use crate::service::access::coverage::{Coverage, HeldRoles, Reach};
use crate::service::access::principal::workspace_roles_read;
use crate::service::access::roles::{OWNER, follow_role};
use crate::service::audit::write::{Actor, AuditedOperation};
use crate::service::members::invitation::withdraw_link;
use crate::service::members::with_roles;
use crate::service::operation::Prefetch;
use crate::service::{Caller, KnowledgeService, Members};
use crate::store::Transaction;

/// An assignment of a role to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberAssignment {
    /// Role in the organisation as a whole.
    Organization(RoleRef),
    /// Role in one workspace, which replaces the role in the organisation there.
    ///
    /// `None` removes it.
    Workspace(WorkspaceId, Option<RoleRef>),
}

/// # Role assignments
impl Members<'_> {
    /// Assigns a role to a member.
    ///
    /// The login link of a person who has no session or token yet is revoked, unless the member
    /// holds the role already.
    ///
    /// # Errors
    /// Those of [`Operation::AssignWorkspaceRole`]; [`Error::InvalidRequest`] for an unknown or
    /// inactive role, a role of another workspace, `owner` in a workspace, or if the organisation
    /// would lose its last owner; [`Error::NotFound`] for an organisation that is not the caller's,
    /// an unknown member or an unknown workspace; [`Error::Forbidden`] if the caller lacks actions
    /// that the member has before or after where the role counts (without a role in a workspace,
    /// those of the role in the organisation), or if anyone but an owner changes an owner or their
    /// own role.
    pub async fn assign_role(
        self,
        caller: &Caller,
        org_slug: &str,
        member: MemberId,
        assignment: MemberAssignment,
    ) -> Result<(), Error> {
        self.service
            .perform(
                Operation::AssignWorkspaceRole,
                caller,
                |caller| async move {
                    let prefetch = assignment_prefetch(caller.org(), member, assignment);
                    let caller = caller.authenticate(prefetch).await?;
                    let mut op = caller.in_organization(Some(org_slug)).await?;
                    let coverage = Coverage::of(&mut op.transaction, &op.principal).await?;
                    let authority = Authority::Caller(&coverage);
                    let (transaction, now) = (&mut op.transaction, op.now);
                    let assigned = assign(transaction, authority, member, assignment, now).await?;
                    if let Some((before, after)) = assigned {
                        let resource = (ResourceKind::Member, member.0);
                        op.changed(AuditAction::RoleAssign, resource, &before, &after);
                    }
                    op.done(())
                },
            )
            .await
    }
}

impl KnowledgeService {
    /// Assigns a role to a member on behalf of the operator.
    pub(crate) async fn assign_role_as_operator(
        &self,
        org: OrgId,
        member: MemberId,
        assignment: MemberAssignment,
    ) -> Result<(), Error> {
        self.transact(|mut transaction| async move {
            self.assign_in(&mut transaction, org, member, assignment)
                .await?;
            Ok(transaction.done(()))
        })
        .await
    }

    /// Assigns a role to a member in a transaction of the operator, and audits it.
    pub(crate) async fn assign_in(
        &self,
        transaction: &mut Transaction,
        org: OrgId,
        member: MemberId,
        assignment: MemberAssignment,
    ) -> Result<(), Error> {
        let (authority, now) = (Authority::Operator(org), self.env().now());
        let assigned = assign(transaction, authority, member, assignment, now).await?;
        if let Some((before, after)) = assigned {
            let (actor, action) = (Actor::operator(org), AuditAction::RoleAssign);
            let (resource, env) = ((ResourceKind::Member, member.0), self.env());
            let operation = AuditedOperation::begin(transaction, env, now);
            operation.changed(transaction, actor, action, resource, &before, &after);
        }
        Ok(())
    }
}

/// Returns the reads of an assignment.
pub(crate) fn assignment_prefetch(
    org: OrgId,
    member: MemberId,
    assignment: MemberAssignment,
) -> Prefetch {
    let keys = [
        keys::member(org, member),
        keys::holder_count(org, OWNER),
        keys::invitation(org, member),
    ];
    let prefetch =
        with_roles(Prefetch::keys(keys), org).and_range(workspace_roles_read(org, member));
    match assignment {
        MemberAssignment::Organization(_) => prefetch,
        MemberAssignment::Workspace(workspace, _) => prefetch.and_keys([
            keys::workspace(org, workspace),
            keys::workspace_role(org, member, workspace),
        ]),
    }
}

/// Assigns a role to a member, within the permissions of the authority, and revokes the login link
/// of a person who has no session or token yet.
///
/// Returns the states before and after for the audit log, or `None` if nothing changes.
pub(crate) async fn assign(
    transaction: &mut Transaction,
    authority: Authority<'_>,
    member: MemberId,
    assignment: MemberAssignment,
    now: Timestamp,
) -> Result<Option<(Value, Value)>, Error> {
    let org = authority.org();
    let key = keys::member(org, member);
    let found = transaction.get::<Member>(&key).await?;
    let mut found = found.ok_or(Error::not_found(EntityKind::Member))?;
    let (old, new, workspace) = match assignment {
        MemberAssignment::Organization(role) => (Some(found.role), Some(role), None),
        MemberAssignment::Workspace(workspace, role) => {
            let place = keys::workspace(org, workspace);
            let is_there = transaction.get::<Workspace>(&place).await?.is_some();
            if !is_there || !authority.knows(workspace) {
                return Err(Error::not_found(EntityKind::Workspace));
            }
            let old = keys::workspace_role(org, member, workspace);
            (transaction.get(&old).await?, role, Some(workspace))
        }
    };
    let roles = HeldRoles::of(transaction, org, &found).await?;
    let target = (&found, &roles);
    let changed = change_role(transaction, authority, target, (old, new), workspace).await?;
    let Some(held) = changed else {
        return Ok(None);
    };
    match (workspace, new) {
        (None, Some(role)) => found.role = role,
        (Some(workspace), Some(role)) => {
            transaction.put(keys::workspace_role(org, member, workspace), &role);
        }
        (Some(workspace), None) => {
            transaction.delete(keys::workspace_role(org, member, workspace));
        }
        (None, None) => unreachable!("a member always holds a role in the organisation"),
    }
    // The record guards the roles in workspaces too, which responses show with the member.
    transaction.put(key, &found);
    withdraw_link(transaction, org, member, now).await?;
    let shown = |role: Option<RoleRef>| json!({ "role": role, "workspace_id": workspace });
    Ok(Some((shown(held.0), shown(new))))
}

/// The authority for changing members: a member within its permissions, or the operator.
#[derive(Clone, Copy)]
pub(crate) enum Authority<'a> {
    Caller(&'a Coverage<'a>),
    Operator(OrgId),
}

impl Authority<'_> {
    pub(crate) fn org(self) -> OrgId {
        match self {
            Self::Caller(caller) => caller.org(),
            Self::Operator(org) => org,
        }
    }

    /// Checks that the authority covers actions in all of these places.
    ///
    /// # Errors
    /// [`Error::Forbidden`] otherwise.
    pub(crate) fn require(self, actions: ActionSet, reach: Reach<'_>) -> Result<(), Error> {
        match self {
            Self::Caller(caller) => caller.require(actions, reach),
            Self::Operator(_) => Ok(()),
        }
    }

    /// Returns true if a workspace exists for the authority.
    fn knows(self, workspace: WorkspaceId) -> bool {
        match self {
            Self::Caller(caller) => caller.knows(workspace),
            Self::Operator(_) => true,
        }
    }

    /// Returns true if a custom role exists for the authority.
    fn knows_role(self, role: &CustomRole) -> bool {
        match self {
            Self::Caller(caller) => caller.knows_role(role),
            Self::Operator(_) => true,
        }
    }

    /// Checks that the authority covers all roles of a member that exist for it, and is an owner if
    /// the member is one.
    ///
    /// Those in private workspaces that do not exist for it decide nothing: the answer would tell.
    ///
    /// # Errors
    /// [`Error::Forbidden`] otherwise.
    pub(crate) fn require_member(self, roles: &HeldRoles) -> Result<(), Error> {
        if roles.organization.reference() == OWNER {
            self.require_owner()?;
        }
        let everywhere = Reach::Organization(&roles.workspaces);
        self.require(roles.organization.actions_if_active(), everywhere)?;
        let mut known = roles.workspaces.iter().filter(|(id, _)| self.knows(**id));
        known.try_for_each(|(workspace, role)| {
            self.require(role.actions_if_active(), Reach::Workspace(*workspace))
        })
    }

    /// Checks that a member is not the caller itself, unless it is an owner.
    fn require_other(self, member: MemberId) -> Result<(), Error> {
        match self {
            Self::Caller(caller) => caller.require_other(member),
            Self::Operator(_) => Ok(()),
        }
    }

    pub(crate) fn require_owner(self) -> Result<(), Error> {
        match self {
            Self::Caller(caller) if !caller.is_owner() => Err(Error::forbidden(
                "only owners can add, change or remove owners",
            )),
            _ => Ok(()),
        }
    }
}

/// The role that a member held before a change; `None` if it had none in the workspace.
pub(crate) struct Held(pub(crate) Option<RoleRef>);

/// Replaces a role of a member, except in the record that names it.
///
/// Returns `None` if the member already holds the new role.
pub(crate) async fn change_role(
    transaction: &mut Transaction,
    authority: Authority<'_>,
    (member, roles): (&Member, &HeldRoles),
    (old, new): (Option<RoleRef>, Option<RoleRef>),
    workspace: Option<WorkspaceId>,
) -> Result<Option<Held>, Error> {
    let org = authority.org();
    let held = match old {
        Some(old) => Some(current_role(transaction, org, old).await?),
        None => None,
    };
    if held == new {
        return Ok(None);
    }
    if member.role == OWNER || (new == Some(OWNER) && workspace.is_none()) {
        // Of an owner in a workspace too: a role there would restrict the owner.
        authority.require_owner()?;
    }
    authority.require_other(member.id)?;
    // Without a role in the workspace, the one in the organisation applies there.
    let own = workspace.and_then(|workspace| roles.workspaces.get(&workspace));
    let before = own.unwrap_or(&roles.organization).actions_if_active();
    let after = match new {
        Some(new) => check_role(transaction, authority, new, workspace).await?,
        None => roles.organization.actions_if_active(),
    };
    match workspace {
        Some(workspace) => authority.require(before | after, Reach::Workspace(workspace))?,
        None => {
            authority.require_member(roles)?;
            authority.require(after, Reach::Organization(&roles.workspaces))?;
        }
    }
    check_owners(transaction, authority, held, new).await?;
    if let (Some(old), Some(counted)) = (old, held) {
        leave_role(transaction, org, (old, counted), member.id, workspace);
    }
    if let Some(new) = new {
        hold_role(transaction, org, new, member.id, workspace);
    }
    Ok(Some(Held(held)))
}

/// Checks that a role exists for the authority and can be held there, and returns its actions.
///
/// # Errors
/// [`Error::InvalidRequest`] otherwise.
pub(crate) async fn check_role(
    transaction: &mut Transaction,
    authority: Authority<'_>,
    role: RoleRef,
    workspace: Option<WorkspaceId>,
) -> Result<ActionSet, Error> {
    let org = authority.org();
    let wrong = |message: &str| Error::invalid("role", ProblemCode::InvalidValue, message);
    let granted = match role {
        RoleRef::BuiltIn(role) => role.actions(),
        RoleRef::Custom(id) => {
            // The commit checks the version of the role, so that it cannot race with its deletion.
            let found = transaction.get::<CustomRole>(&keys::role(org, id)).await?;
            let Some(found) = found.filter(|found| authority.knows_role(found)) else {
                let message = "must be a role of the organisation";
                return Err(Error::invalid("role", ProblemCode::NotFound, message));
            };
            if !found.is_active {
                return Err(wrong("must be an active role"));
            }
            if found.workspace_id.is_some() && found.workspace_id != workspace {
                return Err(wrong("must be held in the workspace of the role"));
            }
            found.actions_if_active()
        }
    };
    if role == OWNER && workspace.is_some() {
        return Err(wrong(
            "must not be owner; owners belong to the whole organisation",
        ));
    }
    Ok(granted)
}

/// Checks that only owners add or remove owners and that one owner remains.
///
/// # Errors
/// [`Error::Forbidden`] or [`Error::InvalidRequest`] otherwise.
pub(crate) async fn check_owners(
    transaction: &mut Transaction,
    authority: Authority<'_>,
    old: Option<RoleRef>,
    new: Option<RoleRef>,
) -> Result<(), Error> {
    if old != Some(OWNER) && new != Some(OWNER) {
        return Ok(());
    }
    authority.require_owner()?;
    if old == Some(OWNER) && is_last_owner(transaction, authority.org()).await? {
        return Err(Error::invalid(
            "role",
            ProblemCode::InvalidValue,
            "must remain owner: there is no other owner",
        ));
    }
    Ok(())
}

/// Returns true if the organisation has only one owner.
///
/// The counter is a guard: of two callers that remove the last two owners, one is rejected.
pub(crate) async fn is_last_owner(
    transaction: &mut Transaction,
    org: OrgId,
) -> Result<bool, Error> {
    let owners = transaction
        .get::<i64>(&keys::holder_count(org, OWNER))
        .await?
        .unwrap_or(0);
    Ok(owners <= 1)
}

/// Counts and marks a new holder of a role.
pub(crate) fn hold_role(
    transaction: &mut Transaction,
    org: OrgId,
    role: RoleRef,
    member: MemberId,
    workspace: Option<WorkspaceId>,
) {
    transaction.add(keys::holder_count(org, role), 1);
    if let RoleRef::Custom(role) = role {
        transaction.put(keys::holder(org, role, member, workspace), &());
    }
}

/// Resolves a reference to a role, following redirects of deleted roles.
///
/// A reference to a missing role is returned unchanged. Its holder was rewritten after it had been
/// read, so that the commit will conflict.
pub(crate) async fn current_role(
    transaction: &mut Transaction,
    org: OrgId,
    role: RoleRef,
) -> Result<RoleRef, Error> {
    let followed = follow_role(transaction, org, role).await?;
    Ok(followed.map_or(role, |followed| followed.reference()))
}

/// Removes a holder from the count and the marks of a role.
///
/// The count of a deleted role belongs to the role that replaced it; the mark still has the old
/// name.
pub(crate) fn leave_role(
    transaction: &mut Transaction,
    org: OrgId,
    (marked, counted): (RoleRef, RoleRef),
    member: MemberId,
    workspace: Option<WorkspaceId>,
) {
    transaction.add(keys::holder_count(org, counted), -1);
    if let RoleRef::Custom(role) = marked {
        transaction.delete(keys::holder(org, role, member, workspace));
    }
}
