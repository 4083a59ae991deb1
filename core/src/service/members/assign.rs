//! Assignment of roles to members.

use crate::access::{ActionSet, BuiltInRole, Credential, RoleRef, permissions};
use crate::error::{Error, ProblemCode};
use crate::keys;
use crate::model::{CustomRole, Member, MemberId, OrgId, Workspace, WorkspaceId};
use crate::service::KnowledgeService;
use crate::service::kit::audit::{Actor, AuditedOperation, state};
use crate::service::kit::audit_entry::{AuditAction, ResourceKind};
use crate::service::kit::principal::{Principal, follow_role};
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

pub(crate) const OWNER: RoleRef = RoleRef::BuiltIn(BuiltInRole::Owner);

impl KnowledgeService {
    /// Assigns a role to a member.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an unknown or inactive role, a role of another workspace,
    /// `owner` in a workspace, or if the organisation would lose its last owner;
    /// [`Error::Unauthenticated`]; [`Error::NotFound`] for an organisation that is not the
    /// caller's, an unknown member or an unknown workspace; [`Error::Forbidden`] without
    /// `member:manage`, for a role that has actions the caller lacks (also for the role in the
    /// organisation, if the one in a workspace is removed), or if anyone but an owner adds,
    /// restricts or removes an owner.
    pub async fn assign_role(
        &self,
        credential: &Credential,
        org_slug: &str,
        member: MemberId,
        assignment: MemberAssignment,
    ) -> Result<(), Error> {
        self.transact(|mut transaction| async move {
            let caller = self
                .authorize_in_org(
                    &mut transaction,
                    credential,
                    org_slug,
                    permissions::ASSIGN_ROLE,
                )
                .await?;
            let authority = Authority::Caller(Box::new(caller));
            self.assign(&mut transaction, &authority, member, assignment)
                .await?;
            transaction.done(())
        })
        .await
    }

    /// Assigns a role to a member, within the permissions of the authority.
    pub(crate) async fn assign(
        &self,
        transaction: &mut Transaction,
        authority: &Authority,
        member: MemberId,
        assignment: MemberAssignment,
    ) -> Result<(), Error> {
        let org = authority.org();
        let key = keys::member(org, member);
        let mut found = transaction
            .read::<Member>(&key)
            .await?
            .ok_or(Error::NotFound { what: "member" })?;
        let (old, new, workspace) = match assignment {
            MemberAssignment::Organization(role) => (Some(found.role), Some(role), None),
            MemberAssignment::Workspace(workspace, role) => {
                if transaction
                    .read::<Workspace>(&keys::workspace(org, workspace))
                    .await?
                    .is_none()
                {
                    return Err(Error::NotFound { what: "workspace" });
                }
                let old = transaction
                    .read(&keys::workspace_role(org, member, workspace))
                    .await?;
                (old, role, Some(workspace))
            }
        };
        let Some(held) = change_role(transaction, authority, &found, (old, new), workspace).await?
        else {
            return Ok(());
        };
        match (workspace, new) {
            (None, Some(role)) => {
                found.role = role;
                transaction.put(key, &found);
            }
            (Some(workspace), Some(role)) => {
                transaction.put(keys::workspace_role(org, member, workspace), &role);
            }
            (Some(workspace), None) => {
                transaction.delete(keys::workspace_role(org, member, workspace));
            }
            (None, None) => unreachable!("a member always holds a role in the organisation"),
        }
        let shown =
            |role: Option<RoleRef>| serde_json::json!({ "role": role, "workspace_id": workspace });
        AuditedOperation::begin(transaction, self.env(), self.env().now()).record(
            transaction,
            authority.actor(),
            AuditAction::RoleAssign,
            (ResourceKind::Member, member.0),
            Some(state(&shown(held.0))),
            Some(state(&shown(new))),
        );
        Ok(())
    }
}

/// The authority for changing members: a member within its permissions, or the operator.
pub(crate) enum Authority {
    Caller(Box<Principal>),
    Operator(OrgId),
}

impl Authority {
    pub(crate) fn org(&self) -> OrgId {
        match self {
            Self::Caller(caller) => caller.org_id(),
            Self::Operator(org) => *org,
        }
    }

    pub(crate) fn actor(&self) -> Actor {
        match self {
            Self::Caller(caller) => Actor::from(&**caller),
            Self::Operator(org) => Actor::operator(*org),
        }
    }

    fn require_covers(&self, granted: ActionSet) -> Result<(), Error> {
        match self {
            Self::Caller(caller) => caller.require_covers(granted),
            Self::Operator(_) => Ok(()),
        }
    }

    pub(crate) fn require_owner(&self) -> Result<(), Error> {
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
    authority: &Authority,
    member: &Member,
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
    if member.role == OWNER {
        // In a workspace too: a role there would restrict the owner.
        authority.require_owner()?;
    }
    match new {
        Some(new) => check_grant(transaction, authority, new, workspace).await?,
        // The role in the organisation applies there again, which grants its actions.
        None => check_return(transaction, authority, member.role).await?,
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

/// Checks that a role can be held there and has no action that the caller lacks.
///
/// # Errors
/// [`Error::InvalidRequest`] or [`Error::Forbidden`] otherwise.
pub(crate) async fn check_grant(
    transaction: &mut Transaction,
    authority: &Authority,
    role: RoleRef,
    workspace: Option<WorkspaceId>,
) -> Result<(), Error> {
    let wrong = |message: &str| Error::invalid("role", ProblemCode::InvalidValue, message);
    let granted = match role {
        RoleRef::BuiltIn(role) => role.actions(),
        RoleRef::Custom(id) => {
            // The commit checks the version of the role, so that it cannot race with its deletion.
            let found = transaction
                .read::<CustomRole>(&keys::role(authority.org(), id))
                .await?;
            let Some(found) = found else {
                let message = "must be a role of the organisation";
                return Err(Error::invalid("role", ProblemCode::NotFound, message));
            };
            if !found.is_active {
                return Err(wrong("must be an active role"));
            }
            if found.workspace_id.is_some() && found.workspace_id != workspace {
                return Err(wrong("must be held in the workspace of the role"));
            }
            found.effective_actions()
        }
    };
    if role == OWNER && workspace.is_some() {
        return Err(wrong(
            "must not be owner; owners belong to the whole organisation",
        ));
    }
    authority.require_covers(granted)
}

/// Checks that only owners add or remove owners and that one owner remains.
///
/// # Errors
/// [`Error::Forbidden`] or [`Error::InvalidRequest`] otherwise.
pub(crate) async fn check_owners(
    transaction: &mut Transaction,
    authority: &Authority,
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
    let owners = transaction.guard(&keys::holder_count(org, OWNER)).await?;
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

/// Checks that the role in the organisation, which applies again, has no action the caller lacks.
///
/// # Errors
/// [`Error::Forbidden`] otherwise.
async fn check_return(
    transaction: &mut Transaction,
    authority: &Authority,
    role: RoleRef,
) -> Result<(), Error> {
    match follow_role(transaction, authority.org(), role).await? {
        Some(role) => authority.require_covers(role.actions()),
        None => Ok(()),
    }
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
