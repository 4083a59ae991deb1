//! Members and the roles that they hold.

use super::KnowledgeService;
use super::audit::{Actor, AuditAction, Operation, ResourceKind, state};
use crate::access::{ActionSet, BuiltInRole, Credential, Principal, RoleRef, follow_role, needs};
use crate::error::{Error, ProblemCode};
use crate::model::{CustomRole, Member, MemberId, OrgId, Workspace, WorkspaceId};
use crate::keys;
use crate::store::Transaction;

/// Which role a member gets, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberAssignment {
    /// In the organisation as a whole.
    Organization(RoleRef),
    /// In one workspace, where it replaces the role in the organisation; `None` ends that.
    Workspace(WorkspaceId, Option<RoleRef>),
}

pub(super) const OWNER: RoleRef = RoleRef::BuiltIn(BuiltInRole::Owner);

impl KnowledgeService {
    /// Gives a member a role.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an unknown or inactive role, one of another workspace, the role of an owner in a
    /// workspace, or where the last owner would be gone; [`Error::Unauthenticated`]; [`Error::NotFound`] for an
    /// organisation that is not the caller's, an unknown member or workspace; [`Error::Forbidden`] without
    /// `member:manage`, for a role that may do what the caller may not (also the one in the organisation, where one in
    /// a workspace ends), or where anyone but an owner makes, restricts or unmakes an owner.
    pub async fn assign_role(
        &self,
        credential: &Credential,
        org_slug: &str,
        member: MemberId,
        assignment: MemberAssignment,
    ) -> Result<(), Error> {
        self.transact(|mut transaction| async move {
            let caller = self
                .enter_org(&mut transaction, credential, org_slug, needs::ASSIGN_ROLE)
                .await?;
            let authority = Authority::Caller(Box::new(caller));
            self.assign(&mut transaction, &authority, member, assignment)
                .await?;
            transaction.done(())
        })
        .await
    }

    /// Gives a member a role within what the authority may.
    pub(super) async fn assign(
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
        Operation::begin(transaction, self.env(), self.env().now()).record(
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

/// Who changes members: one of them, within its own rights, or the operator of the service.
pub(super) enum Authority {
    Caller(Box<Principal>),
    Operator(OrgId),
}

impl Authority {
    pub(super) fn org(&self) -> OrgId {
        match self {
            Self::Caller(caller) => caller.org_id(),
            Self::Operator(org) => *org,
        }
    }

    pub(super) fn actor(&self) -> Actor {
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

    pub(super) fn require_owner(&self) -> Result<(), Error> {
        match self {
            Self::Caller(caller) if !caller.is_owner() => Err(Error::forbidden(
                "owners are made, changed and unmade by owners alone",
            )),
            _ => Ok(()),
        }
    }
}

/// What a member held before a change of its role; nothing where there was no role in the workspace.
pub(super) struct Held(pub(super) Option<RoleRef>);

/// Gives a member another role there, in all but its own record. `None` where it holds that role already.
pub(super) async fn change_role(
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
        // In a workspace too: a role there would take from what an owner may do.
        authority.require_owner()?;
    }
    match new {
        Some(new) => check_grant(transaction, authority, new, workspace).await?,
        // The role in the organisation counts there again: that grants what it allows.
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

/// Refuses a role that cannot be held there, or that may do what the caller may not.
pub(super) async fn check_grant(
    transaction: &mut Transaction,
    authority: &Authority,
    role: RoleRef,
    workspace: Option<WorkspaceId>,
) -> Result<(), Error> {
    let wrong = |message: &str| Error::invalid("role", ProblemCode::InvalidValue, message);
    let granted = match role {
        RoleRef::BuiltIn(role) => role.actions(),
        RoleRef::Custom(id) => {
            // Assigning checks the version of the role itself: it cannot cross its deletion.
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
                return Err(wrong("must be held in the workspace that the role is for"));
            }
            found.effective_actions()
        }
    };
    if role == OWNER && workspace.is_some() {
        return Err(wrong(
            "must not be owner: owners are those of the organisation",
        ));
    }
    authority.require_covers(granted)
}

/// Refuses that anyone but an owner makes or unmakes an owner, and that the last one goes.
pub(super) async fn check_owners(
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
            "must stay owner: this is the last one",
        ));
    }
    Ok(())
}

/// Whether the organisation has no owner to spare. Of two who unmake the last two, one is refused.
pub(super) async fn is_last_owner(
    transaction: &mut Transaction,
    org: OrgId,
) -> Result<bool, Error> {
    let owners = transaction.guard(&keys::holder_count(org, OWNER)).await?;
    Ok(owners <= 1)
}

/// Counts a new holder of a role and marks who it is.
pub(super) fn hold_role(
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

/// The role that a reference means now. One that leads nowhere was settled since its holder was read: the commit will
/// be a conflict.
pub(super) async fn current_role(
    transaction: &mut Transaction,
    org: OrgId,
    role: RoleRef,
) -> Result<RoleRef, Error> {
    let followed = follow_role(transaction, org, role).await?;
    Ok(followed.map_or(role, |followed| followed.reference()))
}

/// Refuses to end a role in a workspace where the one in the organisation may do what the caller may not.
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

/// Counts a holder less. The count of a deleted role went to the one that replaced it; the mark still has its name.
pub(super) fn leave_role(
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
