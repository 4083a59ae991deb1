//! Coverage: nobody grants, changes or takes away actions that they do not hold there.
//!
//! The caller that changes a role or a member holds all actions that it has before and after,
//! wherever it counts: a role in a workspace there, a role in the organisation also in every
//! workspace in which no other role replaces it. An inactive role is covered as if it were active:
//! otherwise it would hide actions until somebody activates it.

use std::collections::BTreeMap;

use crate::access::{Action, ActionSet, RoleRef};
use crate::error::Error;
use crate::keys;
use crate::model::{CustomRole, Member, MemberId, OrgId, Organization, RoleId, WorkspaceId};
use crate::service::access::principal::Principal;
use crate::service::access::roles::{ResolvedRole, follow_role};
use crate::store::{Key, RangeRead, Transaction};

/// Roles of a member, after following the redirects of deleted roles.
pub(crate) struct HeldRoles {
    /// Role in the organisation.
    pub(crate) organization: ResolvedRole,
    /// Roles that replace it in workspaces.
    pub(crate) workspaces: BTreeMap<WorkspaceId, ResolvedRole>,
}

impl HeldRoles {
    /// Reads the roles of a member, without those in removed workspaces.
    ///
    /// The record of the member guards the range of its roles in workspaces.
    ///
    /// # Errors
    /// [`Error::Conflict`] for a role that does not exist: it was read before a change of its
    /// holder, which the check of the holder detects.
    pub(crate) async fn of(
        transaction: &mut Transaction,
        org: OrgId,
        member: &Member,
    ) -> Result<Self, Error> {
        let followed = follow_role(transaction, org, member.role).await?;
        let organization = followed.ok_or(Error::Conflict)?;
        let found = transaction
            .scan(&RangeRead::all(keys::workspace_roles(org, member.id)))
            .await?;
        let owner = keys::org(org);
        let owner = transaction.get::<Organization>(&owner).await?;
        let removing = owner.map(|owner| owner.removing).unwrap_or_default();
        let places = found.into_iter().map(|found| found.key);
        let is_there = |place: &Key| {
            let workspace = keys::last_id(place).map(WorkspaceId);
            workspace.is_none_or(|id| !removing.contains(&id))
        };
        let places: Vec<Key> = places.filter(is_there).collect();
        let roles = transaction.get_many::<RoleRef>(&places).await?;
        let mut workspaces = BTreeMap::new();
        for (key, role) in places.iter().zip(roles) {
            let workspace = keys::last_id(key).map(WorkspaceId);
            let workspace =
                workspace.ok_or_else(|| Error::internal(format!("{key} names no workspace")))?;
            let role = role.ok_or(Error::Conflict)?;
            let followed = follow_role(transaction, org, role).await?;
            workspaces.insert(workspace, followed.ok_or(Error::Conflict)?);
        }
        Ok(Self {
            organization,
            workspaces,
        })
    }

    fn includes(&self, role: RoleId) -> bool {
        let held = self.workspaces.values().chain([&self.organization]);
        held.into_iter()
            .any(|held| held.reference() == RoleRef::Custom(role))
    }
}

/// Places in which a role counts.
#[derive(Clone, Copy)]
pub(crate) enum Reach<'r> {
    /// One workspace.
    Workspace(WorkspaceId),
    /// The organisation, and every workspace in which none of these roles replaces it.
    Organization(&'r BTreeMap<WorkspaceId, ResolvedRole>),
}

/// Actions that a caller may grant and take away, by place.
pub(crate) struct Coverage<'c> {
    caller: &'c Principal,
    held: HeldRoles,
    /// Actions in the workspaces where the caller has another role than in the organisation.
    ///
    /// There are none for an owner, who may change its own roles.
    restricted: BTreeMap<WorkspaceId, ActionSet>,
}

impl<'c> Coverage<'c> {
    /// Reads what a caller covers.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn of(
        transaction: &mut Transaction,
        caller: &'c Principal,
    ) -> Result<Self, Error> {
        let held = HeldRoles::of(transaction, caller.org_id(), &caller.member).await?;
        let there = held.workspaces.iter().filter(|_| !caller.is_owner());
        let restricted = there.map(|(workspace, role)| {
            let is_in_scope = caller.works_in(*workspace);
            let actions = is_in_scope.then(|| caller.scoped(role.actions()));
            (*workspace, actions.unwrap_or_default())
        });
        let restricted = restricted.collect();
        Ok(Self {
            caller,
            held,
            restricted,
        })
    }

    pub(crate) fn org(&self) -> OrgId {
        self.caller.org_id()
    }

    pub(crate) fn is_owner(&self) -> bool {
        self.caller.is_owner()
    }

    /// Returns true if the workspace exists for the caller, as far as it is private.
    pub(crate) fn knows(&self, workspace: WorkspaceId) -> bool {
        self.caller.knows(workspace)
    }

    /// Returns true if the role exists for the caller: it is not one of a workspace that does not.
    pub(crate) fn knows_role(&self, role: &CustomRole) -> bool {
        self.caller.knows_role(role)
    }

    /// Returns the actions that the caller may grant and take away in all of these places: those
    /// that it holds there. Only owners let a service account act for members, or no longer.
    fn granted_in(&self, reach: Reach<'_>) -> ActionSet {
        let of_owners = ActionSet::of(&[Action::MemberActFor]);
        let held = self.held_in(reach);
        if self.is_owner() {
            held
        } else {
            held - of_owners
        }
    }

    /// Returns the actions that the caller holds in all of these places.
    fn held_in(&self, reach: Reach<'_>) -> ActionSet {
        let everywhere = self.caller.org_actions();
        match reach {
            Reach::Workspace(workspace) => {
                let restricted = self.restricted.get(&workspace);
                restricted.copied().unwrap_or(everywhere)
            }
            Reach::Organization(replaced) => self
                .restricted
                .iter()
                .filter(|(workspace, _)| !replaced.contains_key(workspace))
                .fold(everywhere, |held, (_, restricted)| held & *restricted),
        }
    }

    /// Checks that the caller holds the actions in all of these places.
    ///
    /// # Errors
    /// [`Error::Forbidden`] naming the first action that it lacks.
    pub(crate) fn require(&self, actions: ActionSet, reach: Reach<'_>) -> Result<(), Error> {
        match (actions - self.granted_in(reach)).iter().next() {
            None => Ok(()),
            Some(missing) => Err(Error::forbidden(format!(
                "cannot grant, change or take away an action that the caller does not hold \
                 wherever it would count: {missing}"
            ))),
        }
    }

    /// Checks that the caller may grant and take away these actions with a custom role.
    ///
    /// # Errors
    /// [`Error::Forbidden`] if it does not cover them wherever the role can be held, or holds the
    /// role itself.
    pub(crate) fn require_role(&self, role: &CustomRole, actions: ActionSet) -> Result<(), Error> {
        if self.held.includes(role.id) {
            self.require_other(self.caller.member_id())?;
        }
        let none = BTreeMap::new();
        let reach = role.workspace_id.map(Reach::Workspace);
        self.require(actions, reach.unwrap_or(Reach::Organization(&none)))
    }

    /// Checks that the caller may change or delete a custom role that has or gets these actions.
    ///
    /// A role of the organisation may be held in any private workspace. It is decided by whether all
    /// of them exist for the caller, not by who holds the role there, which would tell of holders.
    ///
    /// # Errors
    /// [`Error::Forbidden`] for a role of the organisation if a private workspace does not exist
    /// for the caller; those of [`Self::require_role`].
    pub(crate) fn require_change(
        &self,
        role: &CustomRole,
        actions: ActionSet,
    ) -> Result<(), Error> {
        self.require_role(role, actions)?;
        if role.workspace_id.is_none() {
            self.caller.require_every_workspace()?;
        }
        Ok(())
    }

    /// Checks that the roles of a member are not the caller's own, unless it is an owner.
    ///
    /// # Errors
    /// [`Error::Forbidden`] otherwise.
    pub(crate) fn require_other(&self, member: MemberId) -> Result<(), Error> {
        if member == self.caller.member_id() && !self.caller.is_owner() {
            return Err(Error::forbidden("only owners can change their own role"));
        }
        Ok(())
    }
}
