//! Custom roles.

use proptest::option::{of as maybe, weighted};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Op, Weighted, by_session, of, requests};
use crate::model::{
    Asked, AuditFacts, ErrorResponse, Expected, Model, Moment, RequestErrors, Response, Who,
    none_of, possible_actions, updated_role,
};
use crate::requests::with;
use crate::simulation::call::Request;
use crate::simulation::world::OrgState;
use crate::strategies::{
    Actor, EntityRef, RoleEntityRef, actor, custom_role_update, entity, etag, governor,
    new_custom_role, role_pick,
};
use knowledge_core::ProblemCode;
use knowledge_core::access::{BuiltInRole, RoleRef};
use knowledge_core::model::{
    CustomRole, CustomRoleUpdate, NewCustomRole, RoleActions, RoleActionsUpdate, RoleId, Timestamp,
};
use knowledge_core::service::{AuditAction, DeleteRole, IfMatch};

requests! {
    ListCustomRoles by roles.list { org: String }
    GetCustomRole by roles.get tagged { org: String, role: RoleId }
    CreateCustomRole by roles.create { org: String, new: NewCustomRole }
    UpdateCustomRole by roles.update tagged {
        org: String,
        role: RoleId,
        update: CustomRoleUpdate,
        if_match: Option<IfMatch>,
    }
    DeleteCustomRole by roles.delete { org: String, role: RoleId, request: DeleteRole }
}

/// Returns the creation of a role, in a workspace if one is given.
#[must_use]
pub fn create_custom_role(by: Actor, new: NewCustomRole, workspace: Option<EntityRef>) -> Op {
    Op::by(by, move |view| CreateCustomRole {
        by: view.session(by),
        org: view.own.slug.clone(),
        new: with(new.clone(), |new| {
            new.workspace_id = workspace.map(|entity| view.workspace(entity));
        }),
    })
}

/// Returns the deletion of a role, whose holders get the role `reassign_to`.
#[must_use]
pub fn delete_custom_role(by: Actor, role: EntityRef, reassign_to: Option<RoleEntityRef>) -> Op {
    Op::by(by, move |view| DeleteCustomRole {
        by: view.session(by),
        org: view.own.slug.clone(),
        role: view.role(role),
        request: DeleteRole::builder()
            .maybe_reassign_to(reassign_to.map(|target| view.role_ref(target)))
            .build(),
    })
}

pub(super) fn strategies() -> Vec<Weighted> {
    let update = (entity(), custom_role_update(), etag());
    let update = by_session(governor(), update, |view, by, org, (role, update, tag)| {
        let role = view.role(role);
        UpdateCustomRole::new(by, org, role, update, view.if_match(role.0, tag))
    });
    vec![
        of(
            1,
            by_session(actor(), entity(), |view, by, _, org| {
                ListCustomRoles::new(by, view.slug(org))
            }),
        ),
        of(
            1,
            by_session(actor(), entity(), |view, by, org, role| {
                GetCustomRole::new(by, org, view.role(role))
            }),
        ),
        of(
            4,
            (governor(), new_custom_role(), weighted(0.25, entity()))
                .prop_map(|(by, new, workspace)| create_custom_role(by, new, workspace)),
        ),
        of(5, update),
        of(
            4,
            (governor(), entity(), maybe(role_pick()))
                .prop_map(|(by, role, target)| delete_custom_role(by, role, target)),
        ),
    ]
}

/// Authorises a caller and returns the role.
fn find(
    model: &Model,
    asked: Asked<'_>,
    (org, role): (&str, RoleId),
    now: Timestamp,
) -> Result<(Who, CustomRole), ErrorResponse> {
    let who = model.authorize_in_org(asked, org, now)?;
    let org = model.org(who.org);
    let found = org.roles.get(&role);
    let found = found.filter(|role| org.knows(&who, role.workspace_id));
    let found = found.ok_or(ErrorResponse::NotFound)?.clone();
    Ok((who, found))
}

impl Request for ListCustomRoles {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let who = model.authorize_in_org(self.asked(), &self.org, at.now)?;
        let org = model.org(who.org);
        let known = org.roles.values();
        let known = known.filter(|role| org.knows(&who, role.workspace_id));
        let mut roles: Vec<_> = known.collect();
        roles.sort_by_key(|role| (&role.name, role.id));
        Ok(Response::of(&roles))
    }
}

impl Request for GetCustomRole {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let place = (&*self.org, self.role);
        let (_, role) = find(model, self.asked(), place, at.now)?;
        Ok(model.tagged(&role, at))
    }
}

impl Request for CreateCustomRole {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let new = &self.new;
        let mut errors = RequestErrors::default();
        errors.name("name", &new.name);
        errors.slug("slug", &new.slug);
        errors.description("description", &new.description);
        errors.actions(&new.actions);
        let who = errors.then(model.authorize_in_org(self.asked(), &self.org, at.now))?;
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
            created_at: at.now,
            updated_at: at.now,
            actions: new.actions,
            act_for_teams: new.act_for_teams.clone(),
        };
        let org = model.org(who.org);
        let mut errors = Vec::new();
        let workspace = new.workspace_id;
        let is_there = |workspace| org.workspaces.contains_key(&workspace);
        if !workspace.is_none_or(is_there) || !org.knows(&who, workspace) {
            errors.push(ErrorResponse::invalid(
                "workspace_id",
                ProblemCode::NotFound,
            ));
        }
        if org.exceeds_role(&who, workspace, &possible_actions(&role)) {
            errors.push(ErrorResponse::Forbidden);
        }
        if org.roles.len() as u64 >= model.limits.custom_roles_per_org_max {
            errors.push(ErrorResponse::invalid("body", ProblemCode::LimitReached));
        }
        if org.has_slug(&new.slug) {
            errors.push(ErrorResponse::SlugTaken);
        }
        none_of(errors)?;
        let id = RoleId(model.made(at.learned.and_then(Response::id)));
        let role = CustomRole { id, ..role };
        let org = model.org_mut(who.org);
        org.roles.insert(id, role.clone());
        let entry = AuditFacts::ok(id, (), &role);
        org.audit(&who, AuditAction::RoleCreate, entry, at.now);
        Ok(model.tagged(&role, at))
    }

    fn learn(&self, org_state: &mut OrgState, response: &Response) {
        org_state.roles.extend(response.id().map(RoleId));
    }
}

impl Request for UpdateCustomRole {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let update = &self.update;
        let mut errors = RequestErrors::default();
        let (names, slugs) = (update.name.iter(), update.slug.iter());
        names.for_each(|name| errors.name("name", name));
        slugs.for_each(|slug| errors.slug("slug", slug));
        let descriptions = update.description.iter();
        descriptions.for_each(|text| errors.description("description", text));
        if let Some(RoleActionsUpdate {
            allow: Some(allow),
            deny: Some(deny),
            ..
        }) = update.actions
        {
            errors.actions(&RoleActions { allow, deny });
        }
        let who = errors.then(model.authorize_in_org(self.asked(), &self.org, at.now))?;
        let org = model.org(who.org);
        let before = org.roles.get(&self.role);
        let before = before.filter(|role| org.knows(&who, role.workspace_id));
        let before = before.ok_or(ErrorResponse::NotFound)?;
        let mut errors = Vec::new();
        errors.extend(model.require_current(self.if_match.as_ref(), before).err());
        let (before, mut after) = (before.clone(), updated_role(before, update));
        if after != before {
            let mut lists = RequestErrors::default();
            lists.actions(&after.actions);
            if !lists.0.is_empty() {
                errors.push(ErrorResponse::Invalid(lists.0));
            }
            let exceeds = [&before, &after]
                .into_iter()
                .any(|role| org.exceeds_role(&who, role.workspace_id, &possible_actions(role)));
            let is_closed = org.reaches_closed(&who, before.workspace_id);
            if exceeds || is_closed || org.is_own_role(&who, self.role) {
                errors.push(ErrorResponse::Forbidden);
            }
            if after.slug != before.slug && org.has_slug(&after.slug) {
                errors.push(ErrorResponse::SlugTaken);
            }
        }
        none_of(errors)?;
        if after != before {
            after.updated_at = at.now;
            let org = model.org_mut(who.org);
            org.roles.insert(self.role, after.clone());
            let entry = AuditFacts::ok(self.role, &before, &after);
            org.audit(&who, AuditAction::RoleUpdate, entry, at.now);
        }
        Ok(model.tagged(&after, at))
    }
}

impl Request for DeleteCustomRole {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let place = (&*self.org, self.role);
        let (who, before) = find(model, self.asked(), place, at.now)?;
        let org = model.org(who.org);
        let deleted = RoleRef::Custom(self.role);
        let holders = org.holders(deleted);
        let place = before.workspace_id;
        let exceeds = org.exceeds_role(&who, place, &possible_actions(&before))
            || org.reaches_closed(&who, place)
            || org.is_own_role(&who, self.role);
        if let Some(target) = self.request.reassign_to {
            let code = match target {
                RoleRef::BuiltIn(BuiltInRole::Viewer | BuiltInRole::Member) => None,
                RoleRef::BuiltIn(_) => Some(ProblemCode::InvalidValue),
                RoleRef::Custom(id) if id == self.role => Some(ProblemCode::InvalidValue),
                target => org.problem_of_role(&who, target, None),
            };
            if let Some(code) = code {
                return Err(ErrorResponse::invalid("reassign_to", code).into());
            }
            if exceeds || org.exceeds_role(&who, place, &org.role_actions(target)) {
                return Err(ErrorResponse::Forbidden.into());
            }
        } else if exceeds {
            return Err(ErrorResponse::Forbidden.into());
        } else if holders > 0 {
            return Err(ErrorResponse::RoleInUse(holders).into());
        }
        let org = model.org_mut(who.org);
        if let Some(target) = self.request.reassign_to {
            let members = org.members.values_mut().map(|member| &mut member.role);
            let held = members.chain(org.overrides.values_mut());
            for held in held.chain(&mut org.removing.held) {
                if *held == deleted {
                    *held = target;
                }
            }
        }
        org.roles.remove(&self.role);
        let after = self.request.reassign_to;
        let after = after.map_or(Value::Null, |target| json!({ "reassign_to": target }));
        let entry = AuditFacts::ok(self.role, &before, after);
        org.audit(&who, AuditAction::RoleDelete, entry, at.now);
        Ok(Response::done())
    }

    fn learn(&self, org_state: &mut OrgState, _response: &Response) {
        org_state.roles.retain(|other| *other != self.role);
        org_state.deleted_roles.push(self.role);
    }
}
