//! Members.

use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

use super::{Op, Weighted, alone, by_session, of, requests};
use crate::model::{
    Asked, AuditFacts, ErrorResponse, Expected, Model, Moment, OWNER, Org, RequestErrors, Response,
    Who, none_of,
};
use crate::requests::HOUR;
use crate::simulation::call::{Listing, Request};
use crate::simulation::indeterminate::Changes;
use crate::simulation::resolve::View;
use crate::simulation::world::OrgState;
use crate::strategies::{EntityRef, RoleEntityRef, entity, etag, governor, name, page, role_pick};
use knowledge_core::ProblemCode;
use knowledge_core::access::{BuiltInRole, CredentialKind, CredentialRecord, TokenScope};
use knowledge_core::model::{CredentialId, Member, MemberId, MemberKind, Quota, Timestamp};
use knowledge_core::service::{
    AuditAction, IfMatch, MemberDetails, MemberUpdate, NewMember, PageRequest, WorkspaceRole,
};
use knowledge_core::store::Direction;

requests! {
    ListMembers by members.list { org: String, page: PageRequest }
    GetMember by members.get tagged { org: String, member: MemberId }
    AddMember by members.add tagged { org: String, new: NewMember }
    CreateLoginLink by members.create_login_link { org: String, member: MemberId }
    UpdateMember by members.update tagged {
        org: String,
        member: MemberId,
        update: MemberUpdate,
        if_match: Option<IfMatch>,
    }
    RemoveMember by members.remove { org: String, member: MemberId }
}

fn teams() -> impl Strategy<Value = Vec<String>> {
    let team = prop_oneof![
        10 => select(&["platform", "sales"][..]).prop_map(str::to_owned),
        1 => Just("Not A Slug".to_owned()),
    ];
    vec(team, 0..2)
}

fn handle() -> impl Strategy<Value = String> {
    let handles = ["nina", "otto", "pia", "quinn", "rosa", "sven", "mia", ""];
    select(handles.to_vec()).prop_map(str::to_owned)
}

/// Choices of roles for a new member, most of which its creator may grant.
fn first_role() -> impl Strategy<Value = RoleEntityRef> {
    let built_in = select(&[BuiltInRole::Viewer, BuiltInRole::Member][..]);
    prop_oneof![2 => built_in.prop_map(RoleEntityRef::BuiltIn), 1 => role_pick()]
}

pub(super) fn strategies() -> Vec<Weighted> {
    let list = (governor(), entity(), page()).prop_map(|(by, org, page)| {
        Op::by(by, move |view| {
            view.paged(page, |page| {
                ListMembers::new(view.session(by), view.slug(org), page)
            })
        })
    });
    let person = (handle(), prop::bool::weighted(0.2));
    let new = (person, name(), first_role(), teams());
    let add = by_session(
        governor(),
        new,
        |view, by, org, ((handle, login_link), name, role, teams)| {
            let new = NewMember::builder()
                .kind(MemberKind::User)
                .handle(handle)
                .name(name)
                .role(view.role_ref(role))
                .teams(teams)
                .login_link(login_link);
            AddMember::new(by, org, new.build())
        },
    );
    vec![
        alone(1, list),
        of(
            1,
            by_session(governor(), entity(), |view, by, org, member| {
                GetMember::new(by, org, view.member(member))
            }),
        ),
        of(4, add),
        of(2, update()),
        of(
            5,
            by_session(
                governor(),
                (entity(), prop::bool::weighted(0.8)),
                |view, by, org, (member, is_added)| {
                    CreateLoginLink::new(by, org, chosen(view, member, is_added))
                },
            ),
        ),
        // Mostly members that were added later, so that the others remain.
        alone(
            2,
            by_session(
                governor(),
                (entity(), prop::bool::weighted(0.05)),
                |view, by, org, (member, is_any)| {
                    RemoveMember::new(by, org, chosen(view, member, !is_any))
                },
            ),
        ),
    ]
}

fn update() -> impl Strategy<Value = Op> {
    let update = (
        weighted(0.4, name()),
        weighted(0.4, teams()),
        weighted(0.4, role_pick()),
    );
    let what = ((entity(), any::<bool>()), update, etag());
    by_session(governor(), what, |view, by, org, (member, update, tag)| {
        let member = chosen(view, member.0, member.1);
        let (name, teams, role) = update;
        let update = MemberUpdate::builder()
            .maybe_name(name)
            .maybe_role(role.map(|role| view.role_ref(role)))
            .maybe_teams(teams);
        UpdateMember::new(
            by,
            org,
            member,
            update.build(),
            view.if_match(member.0, tag),
        )
    })
}

/// Returns any member, or one that was added later.
fn chosen(view: &View<'_>, member: EntityRef, is_added: bool) -> MemberId {
    if is_added {
        view.added_member(member)
    } else {
        view.member(member)
    }
}

/// Returns a member with its roles in the workspaces that exist for the caller.
fn details(org: &Org, who: &Who, member: &Member) -> MemberDetails {
    let closed = org.closed_to(who);
    let roles = org
        .overrides
        .iter()
        .filter(|((holder, place), _)| *holder == member.id && !closed.contains(place));
    let roles = roles.map(|((_, workspace_id), role)| WorkspaceRole {
        workspace_id: *workspace_id,
        role: *role,
    });
    MemberDetails {
        member: member.clone(),
        workspace_roles: roles.collect(),
    }
}

/// Authorises a caller and returns the member.
pub(super) fn find(
    model: &Model,
    asked: Asked<'_>,
    (org, member): (&str, MemberId),
    now: Timestamp,
) -> Result<(Who, Member), ErrorResponse> {
    let who = model.authorize_in_org(asked, org, now)?;
    let found = model.org(who.org).members.get(&member);
    Ok((who, found.ok_or(ErrorResponse::NotFound)?.clone()))
}

fn check_teams(errors: &mut RequestErrors, teams: &[String]) {
    for (index, team) in teams.iter().enumerate() {
        errors.slug(&format!("teams[{index}]"), team);
    }
}

impl Request for ListMembers {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let who = model.authorize_in_org(self.asked(), &self.org, at.now)?;
        let members = model.org(who.org).members.values();
        let records = members.map(|member| (member.id.0, json!(member))).collect();
        self.page_of(model, Direction::Forward, records, at)
    }
}

impl Request for GetMember {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let place = (&*self.org, self.member);
        let (who, member) = find(model, self.asked(), place, at.now)?;
        let details = details(model.org(who.org), &who, &member);
        Ok(model.tagged(&details, at))
    }
}

impl Request for AddMember {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let new = &self.new;
        let mut errors = RequestErrors::default();
        errors.slug("handle", &new.handle);
        errors.name("name", &new.name);
        check_teams(&mut errors, &new.teams);
        let who = errors.then(model.authorize_in_org(self.asked(), &self.org, at.now))?;
        let org = model.org(who.org);
        let mut errors = Vec::new();
        if org.exceeds_teams(&who, &[], &new.teams) {
            errors.push(ErrorResponse::Forbidden);
        }
        if let Some(code) = org.problem_of_role(&who, new.role, None) {
            errors.push(ErrorResponse::invalid("role", code));
        } else if org.exceeds_role(&who, None, &org.role_actions(new.role)) {
            errors.push(ErrorResponse::Forbidden);
        }
        if new.role == OWNER && !org.is_owner(&who) {
            errors.push(ErrorResponse::Forbidden);
        }
        let mut members = org.members.values();
        if members.any(|member| member.handle == new.handle)
            || org.former_handles.contains(&new.handle)
        {
            errors.push(ErrorResponse::SlugTaken);
        }
        none_of(errors)?;
        model.check_quota(who.org, Quota::Members, 1)?;
        let member = Member {
            id: MemberId(model.made(at.learned.and_then(Response::id))),
            kind: new.kind,
            handle: new.handle.clone(),
            name: new.name.clone(),
            role: new.role,
            teams: new.teams.clone(),
            created_at: at.now,
        };
        let login_link = new.login_link.then(|| {
            let id = at
                .learned
                .and_then(|response| response.get("/login_link/id"));
            let (id, until) = (model.made(id), at.now.plus(24 * HOUR));
            let secret = model.secret(at, "/login_link/secret", "wkl_");
            json!({ "id": id, "secret": secret, "url": null, "expires_at": until })
        });
        let org = model.org_mut(who.org);
        org.members.insert(member.id, member.clone());
        if member.kind == MemberKind::User {
            org.invited.insert(member.id);
        }
        let mut after = json!(member);
        if let Some(link) = &login_link {
            after["login_link_id"] = link["id"].clone();
        }
        let entry = AuditFacts::ok(member.id, (), &after);
        org.audit(&who, AuditAction::MemberCreate, entry, at.now);
        let details = details(org, &who, &member);
        let mut response = model.tagged(&details, at);
        response.body["login_link"] = json!(login_link);
        Ok(response)
    }

    fn learn(&self, org_state: &mut OrgState, response: &Response) {
        org_state.members.extend(response.id().map(MemberId));
    }

    fn reconstruct(&self, _model: &Model, changes: &Changes<'_>) -> Result<Response, String> {
        let mut response = changes.created()?;
        let (_, page) = changes.audit_page()?;
        let link = &page["body"]["single"]["after"]["login_link_id"];
        response.body["login_link"] = json!({ "id": link });
        Ok(response)
    }
}

impl Request for CreateLoginLink {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let place = (&*self.org, self.member);
        let (who, member) = find(model, self.asked(), place, at.now)?;
        let org = model.org(who.org);
        if org.exceeds_credential(&who, &member) || !org.invited.contains(&self.member) {
            return Err(ErrorResponse::Forbidden.into());
        }
        let record = CredentialRecord {
            id: CredentialId(model.made(at.learned.and_then(Response::id))),
            kind: CredentialKind::Link,
            name: "login link of a new member".to_owned(),
            org_id: who.org,
            member_id: self.member,
            scope: TokenScope::default(),
            created_with: who.credential,
            created_through: None,
            created_by: Some(who.member),
            is_dependent: false,
            idle_timeout_seconds: None,
            created_at: at.now,
            expires_at: at.now.plus(24 * HOUR),
            revoked_at: None,
            is_revoked_with_created: false,
        };
        let secret = model.secret(at, "/secret", "wkl_");
        let entry = AuditFacts::ok(record.id, (), &record);
        let org = model.org_mut(who.org);
        org.audit(&who, AuditAction::CredentialCreate, entry, at.now);
        let (id, until) = (record.id, record.expires_at);
        let body = json!({ "id": id, "secret": secret, "url": null, "expires_at": until });
        Ok(Response::of(&body))
    }
}

impl Request for UpdateMember {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let update = &self.update;
        let mut errors = RequestErrors::default();
        update
            .name
            .iter()
            .for_each(|name| errors.name("name", name));
        update
            .teams
            .iter()
            .for_each(|teams| check_teams(&mut errors, teams));
        errors.then(model.authorize_in_org(self.asked(), &self.org, at.now))?;
        let place = (&*self.org, self.member);
        let (who, before) = find(model, self.asked(), place, at.now)?;
        let org = model.org(who.org);
        model.require_current(self.if_match.as_ref(), &details(org, &who, &before))?;
        let new = update.clone();
        let after = Member {
            name: new.name.unwrap_or_else(|| before.name.clone()),
            role: new.role.unwrap_or(before.role),
            teams: new.teams.unwrap_or_else(|| before.teams.clone()),
            ..before.clone()
        };
        if after != before {
            let roles = (Some(before.role), Some(after.role));
            let mut errors = org.errors_of_assignment(&who, &before, roles, None);
            let is_protected = before.role == OWNER && !org.is_owner(&who);
            let exceeds = org.exceeds_member(&who, self.member, before.role)
                || org.exceeds_teams(&who, &before.teams, &after.teams);
            if is_protected || exceeds {
                errors.push(ErrorResponse::Forbidden);
            }
            none_of(errors)?;
            let is_role_alone = before.name == after.name && before.teams == after.teams;
            let action = if is_role_alone {
                AuditAction::RoleAssign
            } else {
                AuditAction::MemberUpdate
            };
            let org = model.org_mut(who.org);
            org.members.insert(self.member, after.clone());
            let entry = AuditFacts::ok(self.member, &before, &after);
            org.audit(&who, action, entry, at.now);
        }
        let details = details(model.org(who.org), &who, &after);
        Ok(model.tagged(&details, at))
    }
}

impl Request for RemoveMember {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let place = (&*self.org, self.member);
        let (who, before) = find(model, self.asked(), place, at.now)?;
        let org = model.org(who.org);
        let mut errors = Vec::new();
        let is_protected = before.role == OWNER && !org.is_owner(&who);
        if is_protected || org.exceeds_member(&who, self.member, before.role) {
            errors.push(ErrorResponse::Forbidden);
        }
        if before.role == OWNER && org.holders(OWNER) == 1 {
            errors.push(ErrorResponse::invalid("member", ProblemCode::InvalidValue));
        }
        none_of(errors)?;
        let is_theirs = |token: &crate::model::Token| {
            token.record.org_id == who.org && token.record.member_id == self.member
        };
        model.tokens_mut().retain(|_, token| !is_theirs(token));
        let org = model.org_mut(who.org);
        org.members.remove(&self.member);
        org.invited.remove(&self.member);
        org.former_handles.insert(before.handle.clone());
        org.former_members.insert(self.member, at.now);
        org.overrides
            .retain(|(holder, _), _| *holder != self.member);
        org.mcp_keys.retain(|_, key| key.acts_as != self.member);
        org.api_tokens
            .retain(|_, token| token.member_id != self.member);
        let entry = AuditFacts::ok(self.member, &before, ());
        org.audit(&who, AuditAction::MemberRemove, entry, at.now);
        Ok(Response::done())
    }

    fn learn(&self, org_state: &mut OrgState, _response: &Response) {
        org_state.forget(self.member.0);
    }

    fn leaves_work(&self) -> bool {
        true
    }
}
