//! Rules of roles that several operations share.

use std::collections::BTreeSet;

use super::access::possible_actions;
use super::{ErrorResponse, Org, RequestErrors, Who};
use crate::authorization::{Actions, Reference};
use knowledge_core::ProblemCode;
use knowledge_core::access::{BuiltInRole, RoleRef};
use knowledge_core::model::{
    CustomRole, CustomRoleUpdate, Member, MemberId, RoleActions, RoleId, WorkspaceId,
};

pub(crate) const OWNER: RoleRef = RoleRef::BuiltIn(BuiltInRole::Owner);

impl RequestErrors {
    pub(crate) fn description(&mut self, path: &str, text: &str) {
        self.when(text.chars().count() > 1_024, path, ProblemCode::TooLarge);
    }

    pub(crate) fn actions(&mut self, actions: &RoleActions) {
        let allowed: BTreeSet<_> = actions.allow.iter().collect();
        for _ in actions
            .deny
            .iter()
            .filter(|action| allowed.contains(action))
        {
            self.push("actions", ProblemCode::Duplicate);
        }
    }
}

impl Org {
    /// Returns the number of assignments of a role.
    pub(crate) fn holders(&self, role: RoleRef) -> u64 {
        let members = self.members.values().map(|member| member.role);
        let assigned = members.chain(self.overrides.values().copied());
        let assigned = assigned.chain(self.removing.held.iter().copied());
        assigned.filter(|held| *held == role).count() as u64
    }

    pub(crate) fn has_slug(&self, slug: &str) -> bool {
        self.roles.values().any(|role| role.slug == slug)
    }

    /// Returns true if a caller lacks some of the actions in a workspace.
    ///
    /// An owner is not bound by its own roles there, because it may change them. A workspace that
    /// does not exist for the caller decides nothing.
    fn exceeds_in(&self, who: &Who, workspace: WorkspaceId, actions: &Actions) -> bool {
        let is_there = self.workspaces.contains_key(&workspace);
        if self.is_owner(who) || !is_there || !self.knows(who, Some(workspace)) {
            return !actions.is_subset(&self.rules(who).actions());
        }
        !actions.is_subset(&self.rules(who).actions_in(workspace))
    }

    /// Returns true if a caller lacks some of these actions somewhere a role may be held.
    ///
    /// `None` is a role of the whole organisation.
    pub(crate) fn exceeds_role(
        &self,
        who: &Who,
        workspace: Option<WorkspaceId>,
        actions: &Actions,
    ) -> bool {
        match workspace {
            Some(workspace) => self.exceeds_in(who, workspace, actions),
            None => {
                !actions.is_subset(&self.rules(who).actions())
                    || self
                        .workspaces
                        .keys()
                        .any(|workspace| self.exceeds_in(who, *workspace, actions))
            }
        }
    }

    /// Returns true if a caller may not change or delete a role because it may be held in a private
    /// workspace that does not exist for the caller. `None` is a role of the whole organisation.
    pub(crate) fn reaches_closed(&self, who: &Who, workspace: Option<WorkspaceId>) -> bool {
        workspace.is_none() && !self.closed_to(who).is_empty()
    }

    /// Returns true if a caller lacks some of what a member has, with `role` in the organisation.
    pub(crate) fn exceeds_member(&self, who: &Who, member: MemberId, role: RoleRef) -> bool {
        let own = self.possible_actions(role);
        !own.is_subset(&self.rules(who).actions())
            || self.workspaces.keys().any(|workspace| {
                if !self.knows(who, Some(*workspace)) {
                    return false;
                }
                let there = self.overrides.get(&(member, *workspace));
                let actions = there.map(|role| self.possible_actions(*role));
                self.exceeds_in(who, *workspace, actions.as_ref().unwrap_or(&own))
            })
    }

    /// Returns true if a caller may not have a credential of a member: it does not cover it, or a
    /// private workspace in which the member has a role does not exist for the caller.
    pub(crate) fn exceeds_credential(&self, who: &Who, member: &Member) -> bool {
        let mut places = self.overrides.keys();
        let is_unknown = places.any(|(holder, place)| {
            let is_there = *holder == member.id && self.workspaces.contains_key(place);
            is_there && !self.knows(who, Some(*place))
        });
        is_unknown
            || (member.role == OWNER && !self.is_owner(who))
            || self.exceeds_member(who, member.id, member.role)
            || self.exceeds_teams(who, &[], &member.teams)
    }

    fn possible_actions(&self, role: RoleRef) -> Actions {
        match role {
            RoleRef::BuiltIn(_) => self.role_actions(role),
            RoleRef::Custom(id) => possible_actions(&self.roles[&id]),
        }
    }

    /// Returns true if a caller who is not an owner would change a role that it holds.
    pub(crate) fn is_own_role(&self, who: &Who, role: RoleId) -> bool {
        let role = RoleRef::Custom(role);
        let mut there = self.overrides.iter();
        !self.is_owner(who)
            && (self.members[&who.member].role == role
                || there.any(|((member, _), held)| *member == who.member && *held == role))
    }
}

pub(crate) fn updated_role(role: &CustomRole, update: &CustomRoleUpdate) -> CustomRole {
    let mut role = role.clone();
    if let Some(name) = &update.name {
        role.name = name.clone();
    }
    if let Some(slug) = &update.slug {
        role.slug = slug.clone();
    }
    if let Some(description) = &update.description {
        role.description = description.clone();
    }
    if let Some(base_role) = update.base_role {
        role.base_role = base_role;
    }
    if let Some(is_active) = update.is_active {
        role.is_active = is_active;
    }
    if let Some(teams) = &update.act_for_teams {
        role.act_for_teams.clone_from(teams);
    }
    if let Some(actions) = update.actions {
        role.actions.allow = actions.allow.unwrap_or(role.actions.allow);
        role.actions.deny = actions.deny.unwrap_or(role.actions.deny);
    }
    role
}

impl Org {
    pub(crate) fn is_owner(&self, who: &Who) -> bool {
        self.members[&who.member].role == OWNER
    }

    /// Returns the problem of a role that a caller wants a member to hold, if it has one.
    pub(crate) fn problem_of_role(
        &self,
        who: &Who,
        role: RoleRef,
        workspace: Option<WorkspaceId>,
    ) -> Option<ProblemCode> {
        let RoleRef::Custom(id) = role else {
            return (role == OWNER && workspace.is_some()).then_some(ProblemCode::InvalidValue);
        };
        match self.roles.get(&id) {
            None => Some(ProblemCode::NotFound),
            Some(role) if !self.knows(who, role.workspace_id) => Some(ProblemCode::NotFound),
            Some(role) if !role.is_active => Some(ProblemCode::InvalidValue),
            Some(role) if role.workspace_id.is_some() && role.workspace_id != workspace => {
                Some(ProblemCode::InvalidValue)
            }
            Some(_) => None,
        }
    }

    /// Returns the errors of replacing a role of a member.
    ///
    /// `None` is no role in a workspace: there the one in the organisation applies again.
    pub(crate) fn errors_of_assignment(
        &self,
        who: &Who,
        member: &Member,
        (old, new): (Option<RoleRef>, Option<RoleRef>),
        workspace: Option<WorkspaceId>,
    ) -> Vec<ErrorResponse> {
        let invalid = |code| ErrorResponse::invalid("role", code);
        if old == new {
            return Vec::new();
        }
        let is_protected = member.role == OWNER || member.id == who.member;
        if is_protected && !self.is_owner(who) {
            return vec![ErrorResponse::Forbidden];
        }
        if let Some(code) = new.and_then(|new| self.problem_of_role(who, new, workspace))
            && new != Some(OWNER)
        {
            return vec![invalid(code)];
        }
        let mut errors = Vec::new();
        if new == Some(OWNER) && workspace.is_some() {
            errors.push(invalid(ProblemCode::InvalidValue));
        }
        let concerns_owner = [old, new].contains(&Some(OWNER));
        let exceeds = match workspace {
            None => [old, new]
                .into_iter()
                .flatten()
                .any(|role| self.exceeds_member(who, member.id, role)),
            Some(workspace) => [old, new].into_iter().any(|role| {
                let actions = self.possible_actions(role.unwrap_or(member.role));
                self.exceeds_in(who, workspace, &actions)
            }),
        };
        if exceeds || (concerns_owner && !self.is_owner(who)) {
            errors.push(ErrorResponse::Forbidden);
        }
        if old == Some(OWNER) && self.holders(OWNER) == 1 {
            errors.push(invalid(ProblemCode::InvalidValue));
        }
        errors
    }

    /// Returns true if a caller may not grant or take away one of these teams.
    pub(crate) fn exceeds_teams(&self, who: &Who, before: &[String], after: &[String]) -> bool {
        let own = &self.members[&who.member].teams;
        let added = after.iter().filter(|team| !before.contains(team));
        let removed = before.iter().filter(|team| !after.contains(team));
        let mut changed = added.chain(removed);
        let all = Reference::read().built_in_actions("admin");
        !all.is_subset(&self.rules(who).actions()) && changed.any(|team| !own.contains(team))
    }

    /// Assigns a role to a member, or removes that in a workspace.
    pub(crate) fn put_role(
        &mut self,
        member: MemberId,
        workspace: Option<WorkspaceId>,
        role: Option<RoleRef>,
    ) {
        match (workspace, role) {
            (Some(workspace), Some(role)) => drop(self.overrides.insert((member, workspace), role)),
            (Some(workspace), None) => drop(self.overrides.remove(&(member, workspace))),
            (None, role) => {
                let found = self.members.get_mut(&member).expect("the member was found");
                found.role = role.unwrap_or(found.role);
            }
        }
    }
}
