//! API tokens of members.

use std::time::Duration;

use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::{Op, Weighted, alone, of, requests};
use crate::model::{
    Asked, AuditFacts, ErrorResponse, Expected, Model, Moment, RequestErrors, Response, Who,
    limit_reached, none_of,
};
use crate::simulation::call::{Listing, Request};
use crate::simulation::resolve::View;
use crate::simulation::world::OrgState;
use crate::strategies::{Actor, CastMember, EntityRef, actor, entity, governor, name, page};
use knowledge_core::ProblemCode;
use knowledge_core::access::{Action, ActionSet, CredentialKind, CredentialRecord};
use knowledge_core::model::{
    CredentialId, EndedReason, MemberId, MemberKind, ResourceState, ResourceStatus, Timestamp,
};
use knowledge_core::service::{ApiToken, AuditAction, NewApiToken, NewTokenScope, PageRequest};
use knowledge_core::store::Direction;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

requests! {
    CreateToken by tokens.create { org: String, member: MemberId, new: NewApiToken }
    ListTokens by tokens.list { org: String, member: MemberId, page: PageRequest }
    GetToken by tokens.get { org: String, member: MemberId, token: CredentialId }
    EndToken by tokens.end {
        org: String,
        member: MemberId,
        token: CredentialId,
        with_created: bool,
    }
}

/// Member whose tokens a request is about.
#[derive(Clone, Copy, Debug)]
enum Whose {
    Own,
    /// Of the service account.
    Account,
    Of(EntityRef),
}

fn whose() -> impl Strategy<Value = Whose> {
    prop_oneof![
        4 => Just(Whose::Own),
        4 => Just(Whose::Account),
        1 => entity().prop_map(Whose::Of),
    ]
}

/// Callers, most of whom govern.
fn caller() -> impl Strategy<Value = Actor> {
    prop_oneof![2 => governor(), 1 => actor()]
}

fn member(view: &View<'_>, by: Actor, whose: Whose) -> MemberId {
    match whose {
        Whose::Own => view.own.members[by.member as usize],
        Whose::Account => view.own.members[CastMember::Vic as usize],
        Whose::Of(entity) => view.member(entity),
    }
}

/// Returns a token that was created in the run with its member, or any two that are known.
fn token(view: &View<'_>, by: Actor, chosen: (EntityRef, Whose)) -> (MemberId, CredentialId) {
    let (entity, whose) = chosen;
    let created = &view.own.api_tokens;
    match (entity, whose) {
        (EntityRef::Own(number), Whose::Own | Whose::Account) if !created.is_empty() => {
            created[usize::from(number) % created.len()]
        }
        _ => (member(view, by, whose), view.one(entity)),
    }
}

pub(super) fn strategies() -> Vec<Weighted> {
    let few = ActionSet::of(&[Action::MemoryRead, Action::TokenManage]);
    let scope = (weighted(0.4, vec(entity(), 0..3)), weighted(0.3, Just(few)));
    let lifetime = weighted(0.5, select(vec![DAY, 30 * DAY, Duration::ZERO, 500 * DAY]));
    let new = (name(), weighted(0.5, scope), lifetime);
    let create = (caller(), whose(), new).prop_map(|(by, whose, new)| {
        Op::by(by, move |view| {
            let (name, scope, lifetime) = new.clone();
            let scope = scope.map(|(places, actions)| {
                let places = places.map(|places| {
                    let places = places.into_iter();
                    places.map(|place| view.workspace(place)).collect()
                });
                NewTokenScope::builder()
                    .maybe_workspaces(places)
                    .maybe_actions(actions)
                    .build()
            });
            let new = NewApiToken::builder()
                .name(name)
                .maybe_scope(scope)
                .maybe_lifetime(lifetime);
            let (org, member) = (view.own.slug.clone(), member(view, by, whose));
            CreateToken::new(view.session(by), org, member, new.build())
        })
    });
    let list = (caller(), whose(), page()).prop_map(|(by, whose, page)| {
        Op::by(by, move |view| {
            let member = member(view, by, whose);
            view.paged(page, |page| {
                ListTokens::new(view.session(by), view.own.slug.clone(), member, page)
            })
        })
    });
    let get = (caller(), (entity(), whose()), entity()).prop_map(|(by, chosen, org)| {
        Op::by(by, move |view| {
            let (member, token) = token(view, by, chosen);
            GetToken::new(view.session(by), view.slug(org), member, token)
        })
    });
    let end = (caller(), (entity(), whose()), any::<bool>());
    let end = end.prop_map(|(by, chosen, with_created)| {
        Op::by(by, move |view| {
            let (member, token) = token(view, by, chosen);
            let org = view.own.slug.clone();
            EndToken::new(view.session(by), org, member, token, with_created)
        })
    });
    vec![of(3, create), alone(1, list), of(2, get), of(2, end)]
}

/// Authorises a caller to manage the tokens of a member.
fn authorize(
    model: &Model,
    asked: Asked<'_>,
    (slug, member): (&str, MemberId),
    now: Timestamp,
) -> Result<Who, ErrorResponse> {
    let who = model.authenticate(asked.by, CredentialKind::Session, now)?;
    let org = model.org(who.org);
    if org.slug != slug {
        return Err(ErrorResponse::NotFound);
    }
    if member == who.member {
        return Ok(who);
    }
    org.rules(&who).operation(asked.operation, None)?;
    let found = org.members.get(&member).ok_or(ErrorResponse::NotFound)?;
    if found.kind != MemberKind::ServiceAccount || org.exceeds_credential(&who, found) {
        return Err(ErrorResponse::Forbidden);
    }
    Ok(who)
}

/// Returns a token of a member, if it is valid.
fn find(
    model: &Model,
    who: &Who,
    (member, token): (MemberId, CredentialId),
    now: Timestamp,
) -> Result<ApiToken, ErrorResponse> {
    let found = model.org(who.org).api_tokens.get(&token);
    let found = found.filter(|token| token.member_id == member && now < token.expires_at);
    found.cloned().ok_or(ErrorResponse::NotFound)
}

/// Returns a token without the workspaces and labels that do not exist for a caller.
fn known(model: &Model, who: &Who, token: &ApiToken) -> ApiToken {
    ApiToken {
        scope: model.org(who.org).known_scope(who, &token.scope),
        ..token.clone()
    }
}

/// Returns a token as responses show it.
///
/// They tell the time of the last use: uses are recorded apart from the operations.
fn shown(model: &Model, token: &ApiToken, at: &Moment<'_>) -> ApiToken {
    let used = at.learned.and_then(|learned| {
        let body = &learned.body;
        let items = body.get("data").and_then(Value::as_array);
        let mut shown = items.into_iter().flatten().chain([body]);
        let shown = shown.find(|shown| shown["id"] == json!(token.id))?;
        serde_json::from_value::<Timestamp>(shown["last_used_at"].clone()).ok()
    });
    let ended = token.created_with.and_then(|id| model.ended_at(id));
    let state = match ended {
        Some(_) => ResourceState::Ended,
        None => ResourceState::Active,
    };
    let status = ResourceStatus {
        state,
        ended_reason: ended.map(|_| EndedReason::EndedWithCredential),
        ended_at: ended,
    };
    ApiToken {
        last_used_at: used.filter(|used| token.created_at <= *used && *used <= at.now),
        status: Some(status),
        ..token.clone()
    }
}

impl Request for CreateToken {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let (new, member) = (&self.new, self.member);
        let mut errors = RequestErrors::default();
        errors.name("name", &new.name);
        let lifetime_max = model.limits.token_lifetime_max;
        let lifetime = new.lifetime.unwrap_or((90 * DAY).min(lifetime_max));
        let is_lifetime = !lifetime.is_zero() && lifetime <= lifetime_max;
        errors.when(
            !is_lifetime,
            "expires_in_seconds",
            ProblemCode::InvalidValue,
        );
        let place = (&*self.org, member);
        let who = errors.then(authorize(model, self.asked(), place, at.now))?;
        let org = model.org(who.org);
        let scope = new.scope.clone().unwrap_or_default();
        let named = scope.workspaces.clone().unwrap_or_default();
        let mut errors = RequestErrors::default();
        errors.known("narrowing.workspaces", &named, |place| {
            org.workspaces.contains_key(place) && org.knows(&who, Some(*place))
        });
        errors.then(Ok(()))?;
        let live = org.api_tokens.values();
        let live = live.filter(|token| token.member_id == member && at.now < token.expires_at);
        let mut errors = Vec::new();
        if live.count() as u64 >= model.limits.tokens_per_member_max {
            errors.extend(limit_reached("body"));
        }
        none_of(errors)?;
        let record = CredentialRecord {
            id: CredentialId(model.made(at.learned.and_then(Response::id))),
            kind: CredentialKind::Bearer,
            name: new.name.clone(),
            org_id: who.org,
            member_id: member,
            scope: scope.into(),
            created_with: who.credential,
            created_through: None,
            created_by: None,
            is_dependent: false,
            idle_timeout_seconds: None,
            created_at: at.now,
            expires_at: at.now.plus(lifetime),
            revoked_at: None,
            is_revoked_with_created: false,
        };
        let secret = model.secret(at, "/secret", "wkt_");
        model.add_token(record.clone(), secret.clone());
        let org = model.org_mut(who.org);
        let token = org.add_api_token(&record, Some(who.member));
        let entry = AuditFacts::ok(record.id, (), &record);
        org.audit(&who, AuditAction::CredentialCreate, entry, at.now);
        let unused = Moment {
            learned: None,
            ..*at
        };
        let mut response = Response::of(&shown(model, &token, &unused));
        response.body["secret"] = json!(secret);
        Ok(response)
    }

    fn learn(&self, org_state: &mut OrgState, response: &Response) {
        let id = response.id().map(CredentialId);
        org_state.credentials.extend(id);
        org_state.api_tokens.extend(id.map(|id| (self.member, id)));
    }
}

impl Request for ListTokens {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let place = (&*self.org, self.member);
        let who = authorize(model, self.asked(), place, at.now)?;
        let tokens = model.org(who.org).api_tokens.values();
        let tokens = tokens
            .filter(|token| token.member_id == self.member && at.now < token.expires_at)
            .map(|token| {
                let token = known(model, &who, token);
                (token.id.0, json!(shown(model, &token, at)))
            })
            .collect();
        self.page_of(model, Direction::Forward, tokens, at)
    }
}

impl Request for GetToken {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let place = (&*self.org, self.member);
        let who = authorize(model, self.asked(), place, at.now)?;
        let found = find(model, &who, (self.member, self.token), at.now)?;
        let found = known(model, &who, &found);
        Ok(Response::of(&shown(model, &found, at)))
    }
}

impl Request for EndToken {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let place = (&*self.org, self.member);
        let who = authorize(model, self.asked(), place, at.now)?;
        find(model, &who, (self.member, self.token), at.now)?;
        let token = model.tokens_mut().get_mut(&self.token);
        let token = token.ok_or(ErrorResponse::NotFound)?;
        let before = token.record.clone();
        token.record.revoked_at = Some(at.now);
        token.record.is_revoked_with_created = self.with_created;
        token.ended_at = self.with_created.then_some(at.now);
        let after = token.record.clone();
        let org = model.org_mut(who.org);
        org.api_tokens.remove(&self.token);
        let entry = AuditFacts::ok(self.token, &before, &after);
        org.audit(&who, AuditAction::CredentialRevoke, entry, at.now);
        Ok(Response::done())
    }
}
