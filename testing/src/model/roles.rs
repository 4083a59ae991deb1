//! Custom roles and their assignment.

use std::collections::BTreeSet;

use super::access::{Who, custom_actions};
use super::{Answer, Caller, Expected, Model, Org, Refusal, RequestErrors, none_of};
use knowledge_core::ProblemCode;
use knowledge_core::access::{Action, BuiltInRole, RoleRef};
use knowledge_core::model::{
    CustomRole, CustomRoleUpdate, MemberId, NewCustomRole, RoleActions, RoleActionsUpdate, RoleId,
    Timestamp,
};
use knowledge_core::service::{IfMatch, MemberAssignment};

const OWNER: RoleRef = RoleRef::BuiltIn(BuiltInRole::Owner);

impl RequestErrors {
    fn description(&mut self, text: &str) {
        self.when(
            text.chars().count() > 1_024,
            "description",
            ProblemCode::TooLarge,
        );
    }

    fn actions(&mut self, actions: &RoleActions) {
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
    fn holders(&self, role: RoleRef) -> u64 {
        let members = self.members.values().map(|member| member.role);
        let assigned = members.chain(self.overrides.values().copied());
        assigned.filter(|held| *held == role).count() as u64
    }

    fn has_slug(&self, slug: &str) -> bool {
        self.roles.values().any(|role| role.slug == slug)
    }

    /// Returns true if a caller would grant actions that it does not have itself.
    fn exceeds(&self, who: &Who, granted: &BTreeSet<Action>) -> bool {
        !granted.is_subset(&self.actions(who))
    }
}

fn updated(role: &CustomRole, update: &CustomRoleUpdate) -> CustomRole {
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
    if let Some(actions) = update.actions {
        role.actions.allow = actions.allow.unwrap_or(role.actions.allow);
        role.actions.deny = actions.deny.unwrap_or(role.actions.deny);
    }
    role
}

impl Model {
    /// Returns the entity tag of the response, if it identifies this role and no other.
    fn role_tag(&mut self, role: &CustomRole, learned: Option<&Answer>) -> String {
        let Some(Answer::TaggedRole(_, tag)) = learned else {
            return String::new();
        };
        let is_strong = tag.starts_with('"') && tag.ends_with('"') && tag.len() > 2;
        let known = self.role_tags.entry(tag.clone());
        let is_its_own = known.or_insert_with(|| role.clone()) == role;
        let others = self.role_tags.iter().filter(|(_, other)| *other == role);
        if is_strong && is_its_own && others.count() == 1 {
            tag.clone()
        } else {
            format!("not {tag}")
        }
    }

    pub(super) fn list_roles(&mut self, by: &Caller, slug: &str, now: Timestamp) -> Expected {
        let who = self.authorize_in_org(by, slug, Action::RoleRead, now);
        let who = who.map_err(|refusal| vec![refusal])?;
        let mut roles: Vec<_> = self.org(who.org).roles.values().cloned().collect();
        roles.sort_by_key(|role| (role.name.clone(), role.id));
        Ok(Answer::Roles(roles))
    }

    pub(super) fn read_role(
        &mut self,
        by: &Caller,
        slug: &str,
        role: RoleId,
        now: Timestamp,
        learned: Option<&Answer>,
    ) -> Expected {
        let who = self.authorize_in_org(by, slug, Action::RoleRead, now);
        let who = who.map_err(|refusal| vec![refusal])?;
        let role = self.org(who.org).roles.get(&role).cloned();
        let role = role.ok_or(vec![Refusal::NotFound])?;
        let tag = self.role_tag(&role, learned);
        Ok(Answer::TaggedRole(role, tag))
    }

    pub(super) fn create_role(
        &mut self,
        by: &Caller,
        slug: &str,
        new: &NewCustomRole,
        now: Timestamp,
        learned: Option<&Answer>,
    ) -> Expected {
        let mut errors = RequestErrors::default();
        errors.name("name", &new.name);
        errors.slug("slug", &new.slug);
        errors.description(&new.description);
        errors.actions(&new.actions);
        let who = errors.then(self.authorize_in_org(by, slug, Action::RoleManage, now))?;
        let role = CustomRole {
            id: RoleId(uuid::Uuid::nil()),
            org_id: who.org,
            workspace_id: new.workspace_id,
            name: new.name.clone(),
            slug: new.slug.clone(),
            base_role: new.base_role,
            description: new.description.clone(),
            is_active: true,
            created_by: who.member,
            created_at: now,
            updated_at: now,
            actions: new.actions,
        };
        let org = self.org(who.org);
        let mut refusals = Vec::new();
        if new
            .workspace_id
            .is_some_and(|workspace| !org.workspaces.contains_key(&workspace))
        {
            refusals.push(Refusal::invalid("workspace_id", ProblemCode::NotFound));
        }
        if org.exceeds(&who, &custom_actions(&role)) {
            refusals.push(Refusal::Forbidden);
        }
        if org.roles.len() as u64 >= self.limits.custom_roles_per_org_max {
            refusals.push(Refusal::invalid("body", ProblemCode::LimitReached));
        }
        if org.has_slug(&new.slug) {
            refusals.push(Refusal::SlugTaken);
        }
        none_of(refusals)?;
        let id = RoleId(self.made(learned));
        let role = CustomRole { id, ..role };
        self.org_mut(who.org).roles.insert(id, role.clone());
        Ok(Answer::Role(role))
    }

    pub(super) fn update_role(
        &mut self,
        by: &Caller,
        slug: &str,
        id: RoleId,
        (update, if_match): (&CustomRoleUpdate, Option<&IfMatch>),
        now: Timestamp,
        learned: Option<&Answer>,
    ) -> Expected {
        let mut errors = RequestErrors::default();
        update
            .name
            .iter()
            .for_each(|name| errors.name("name", name));
        update
            .slug
            .iter()
            .for_each(|slug| errors.slug("slug", slug));
        update
            .description
            .iter()
            .for_each(|text| errors.description(text));
        if let Some(RoleActionsUpdate {
            allow: Some(allow),
            deny: Some(deny),
        }) = update.actions
        {
            errors.actions(&RoleActions { allow, deny });
        }
        let who = errors.then(self.authorize_in_org(by, slug, Action::RoleManage, now))?;
        let org = self.org(who.org);
        let before = org.roles.get(&id).ok_or(vec![Refusal::NotFound])?;
        let mut refusals = Vec::new();
        if let Some(IfMatch::Tags(tags)) = if_match
            && !tags
                .iter()
                .any(|tag| self.role_tags.get(tag) == Some(before))
        {
            refusals.push(Refusal::PreconditionFailed);
        }
        let mut after = updated(before, update);
        if after != *before {
            let mut lists = RequestErrors::default();
            lists.actions(&after.actions);
            if !lists.0.is_empty() {
                refusals.push(Refusal::Invalid(lists.0));
            }
            if org.exceeds(&who, &custom_actions(&after)) {
                refusals.push(Refusal::Forbidden);
            }
            if after.slug != before.slug && org.has_slug(&after.slug) {
                refusals.push(Refusal::SlugTaken);
            }
            after.updated_at = now;
        }
        none_of(refusals)?;
        self.org_mut(who.org).roles.insert(id, after.clone());
        let tag = self.role_tag(&after, learned);
        Ok(Answer::TaggedRole(after, tag))
    }

    pub(super) fn delete_role(
        &mut self,
        by: &Caller,
        slug: &str,
        role: RoleId,
        reassign_to: Option<RoleRef>,
        now: Timestamp,
    ) -> Expected {
        let who = self.authorize_in_org(by, slug, Action::RoleManage, now);
        let who = who.map_err(|refusal| vec![refusal])?;
        let org = self.org(who.org);
        if !org.roles.contains_key(&role) {
            return Err(vec![Refusal::NotFound]);
        }
        let deleted = RoleRef::Custom(role);
        let holders = org.holders(deleted);
        if let Some(target) = reassign_to {
            let code = match target {
                RoleRef::BuiltIn(BuiltInRole::Viewer | BuiltInRole::Member) => None,
                RoleRef::BuiltIn(_) => Some(ProblemCode::InvalidValue),
                RoleRef::Custom(id) if id == role => Some(ProblemCode::InvalidValue),
                RoleRef::Custom(id) => match org.roles.get(&id) {
                    None => Some(ProblemCode::NotFound),
                    Some(target) if !target.is_active || target.workspace_id.is_some() => {
                        Some(ProblemCode::InvalidValue)
                    }
                    Some(_) => None,
                },
            };
            if let Some(code) = code {
                return Err(vec![Refusal::invalid("reassign_to", code)]);
            }
            if org.exceeds(&who, &org.role_actions(target)) {
                return Err(vec![Refusal::Forbidden]);
            }
        } else if holders > 0 {
            return Err(vec![Refusal::RoleInUse(holders)]);
        }
        let org = self.org_mut(who.org);
        if let Some(target) = reassign_to {
            let members = org.members.values_mut().map(|member| &mut member.role);
            for held in members.chain(org.overrides.values_mut()) {
                if *held == deleted {
                    *held = target;
                }
            }
        }
        org.roles.remove(&role);
        Ok(Answer::Done)
    }

    pub(super) fn assign_role(
        &mut self,
        by: &Caller,
        slug: &str,
        member: MemberId,
        assignment: MemberAssignment,
        now: Timestamp,
    ) -> Expected {
        let who = self.authorize_in_org(by, slug, Action::MemberManage, now);
        let who = who.map_err(|refusal| vec![refusal])?;
        let org = self.org(who.org);
        let found = org.members.get(&member).ok_or(vec![Refusal::NotFound])?;
        let (old, new, workspace) = match assignment {
            MemberAssignment::Organization(role) => (Some(found.role), Some(role), None),
            MemberAssignment::Workspace(workspace, role) => {
                if !org.workspaces.contains_key(&workspace) {
                    return Err(vec![Refusal::NotFound]);
                }
                let old = org.overrides.get(&(member, workspace)).copied();
                (old, role, Some(workspace))
            }
        };
        if old == new {
            return Ok(Answer::Done);
        }
        if found.role == OWNER && org.members[&who.member].role != OWNER {
            return Err(vec![Refusal::Forbidden]);
        }
        let mut refusals = Vec::new();
        if let Some(RoleRef::Custom(id)) = new {
            let invalid = |code| Err(vec![Refusal::invalid("role", code)]);
            match org.roles.get(&id) {
                None => return invalid(ProblemCode::NotFound),
                Some(role) if !role.is_active => return invalid(ProblemCode::InvalidValue),
                Some(role) if role.workspace_id.is_some() && role.workspace_id != workspace => {
                    return invalid(ProblemCode::InvalidValue);
                }
                Some(_) => {}
            }
        }
        if new == Some(OWNER) && workspace.is_some() {
            refusals.push(Refusal::invalid("role", ProblemCode::InvalidValue));
        }
        // Without a role in the workspace, the one in the organisation applies.
        if org.exceeds(&who, &org.role_actions(new.unwrap_or(found.role))) {
            refusals.push(Refusal::Forbidden);
        }
        if old == Some(OWNER) || new == Some(OWNER) {
            if org.members[&who.member].role != OWNER {
                refusals.push(Refusal::Forbidden);
            }
            if old == Some(OWNER) && org.holders(OWNER) == 1 {
                refusals.push(Refusal::invalid("role", ProblemCode::InvalidValue));
            }
        }
        none_of(refusals)?;
        self.org_mut(who.org).put_role(member, assignment);
        Ok(Answer::Done)
    }
}

impl Org {
    fn put_role(&mut self, member: MemberId, assignment: MemberAssignment) {
        match assignment {
            MemberAssignment::Organization(role) => {
                let found = self.members.get_mut(&member).expect("the member was found");
                found.role = role;
            }
            MemberAssignment::Workspace(workspace, Some(role)) => {
                self.overrides.insert((member, workspace), role);
            }
            MemberAssignment::Workspace(workspace, None) => {
                self.overrides.remove(&(member, workspace));
            }
        }
    }
}
