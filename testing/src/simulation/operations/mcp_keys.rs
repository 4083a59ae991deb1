//! MCP keys.

use std::time::Duration;

use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

use super::{Weighted, alone, by_bearer, list_in, of, placed, placed_with, requests};
use crate::model::{
    Asked, AuditFacts, ErrorResponse, Expected, McpKey, Model, Moment, RequestErrors, Response,
    Who, limit_reached, none_of,
};
use crate::simulation::call::{Listing, Request};
use crate::simulation::world::OrgState;
use crate::strategies::{entity, governor, new_mcp_key};
use knowledge_core::ProblemCode;
use knowledge_core::access::{
    Action, ActionSet, CredentialKind, CredentialRecord, Secret, TokenScope,
};
use knowledge_core::model::{CredentialId, McpKeySummary, Timestamp, WorkspaceId};
use knowledge_core::service::{AuditAction, NewMcpKey, PageRequest};
use knowledge_core::store::Direction;

/// Actions that every MCP key allows.
const ACTIONS: [&str; 5] = [
    "memory:read",
    "memory:read_confidential",
    "memory:read_restricted",
    "chat:write",
    "recall:create",
];
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Period for which an MCP key remains valid after its rotation is due.
const GRACE: Duration = DAY.saturating_mul(7);

requests! {
    CreateMcpKey by mcp_keys.create { workspace: WorkspaceId, new: NewMcpKey }
    ListMcpKeys by mcp_keys.list { workspace: WorkspaceId, page: PageRequest }
    GetMcpKey by mcp_keys.get { workspace: WorkspaceId, key: CredentialId }
    RotateMcpKey by mcp_keys.rotate {
        workspace: WorkspaceId,
        key: CredentialId,
        rotation: Option<Duration>,
    }
    RevokeMcpKey by mcp_keys.revoke { workspace: WorkspaceId, key: CredentialId }
}

pub(super) fn strategies() -> Vec<Weighted> {
    let new = (
        entity(),
        new_mcp_key(),
        prop::bool::weighted(0.6),
        weighted(0.4, entity()),
    );
    let create = by_bearer(
        governor(),
        new,
        |view, by, (place, mut new, is_for_workspace, source)| {
            new.proposal_source_id = source.map(|entity| view.source(entity));
            let workspace = view.workspace(place);
            if is_for_workspace && let Some(label) = view.label_of(workspace) {
                new.audience = vec![label];
            }
            CreateMcpKey::new(by, workspace, new)
        },
    );
    let rotation = weighted(0.4, select(vec![DAY, 90 * DAY, Duration::ZERO]));
    vec![
        of(2, create),
        alone(1, list_in(governor(), ListMcpKeys::new)),
        of(1, placed(governor(), GetMcpKey::new)),
        of(2, placed_with(governor(), rotation, RotateMcpKey::new)),
        of(1, placed(governor(), RevokeMcpKey::new)),
    ]
}

fn check_rotation(errors: &mut RequestErrors, rotation: Duration) {
    let is_rotation = !rotation.is_zero() && rotation <= 366 * DAY;
    errors.when(!is_rotation, "rotationSeconds", ProblemCode::InvalidValue);
}

/// Returns the record of the token of a key, whose scope is never wider than that of its creator.
fn record(who: &Who, key: &McpKey, now: Timestamp) -> CredentialRecord {
    let proposes = key.proposal_source_id.map(|_| "memory:propose");
    let actions = ACTIONS.into_iter().chain(proposes);
    let actions = actions.map(|name| name.parse().expect("the action exists"));
    let scoped_to = who.scope.actions.unwrap_or(ActionSet::ALL);
    CredentialRecord {
        id: key.id,
        kind: CredentialKind::Bearer,
        name: key.name.clone(),
        org_id: who.org,
        member_id: who.member,
        scope: TokenScope {
            workspaces: Some(vec![key.workspace_id]),
            actions: Some(ActionSet::from_iter(actions) & scoped_to),
            audience: Some(key.audience.clone()),
        },
        created_with: who.credential,
        created_through: key.created_through,
        created_by: None,
        is_dependent: who.owner().is_bound,
        idle_timeout_seconds: None,
        created_at: now,
        expires_at: key.expires_at,
        revoked_at: None,
        is_revoked_with_created: false,
    }
}

/// Returns the expiry of the caller's credential if it is scoped.
fn bound_until(model: &Model, who: &Who) -> Option<Timestamp> {
    let bound = who.credential.filter(|_| who.owner().is_bound);
    bound.and_then(|id| model.expiry(id))
}

/// Returns a time, or the expiry of the caller's scoped credential if that is earlier.
fn until(model: &Model, who: &Who, time: Timestamp) -> Timestamp {
    let expiry = bound_until(model, who);
    expiry.map_or(time, |expiry| time.min(expiry))
}

/// Returns the response that shows a key with its secret.
fn shown(key: &McpKeySummary, secret: Option<&String>) -> Response {
    let mut response = Response::of(key);
    response.body["secret"] = json!(secret);
    response
}

/// Adds the secret of a new or rotated key to the world.
fn learn_secret(org_state: &mut OrgState, workspace: WorkspaceId, response: &Response) {
    let id = response.id().map(CredentialId);
    let secret = response.get::<String>("/secret");
    let secret = secret.and_then(|secret| secret.parse::<Secret>().ok());
    if let Some((id, secret)) = id.zip(secret) {
        let known = org_state
            .mcp_keys
            .iter_mut()
            .find(|(other, ..)| *other == id);
        match known {
            // Some clients continue with the old secret.
            Some(_) if secret.expose().ends_with(['a', 'b', 'c']) => {}
            Some(known) => known.2 = secret,
            None => org_state.mcp_keys.push((id, workspace, secret)),
        }
    }
}

impl Request for CreateMcpKey {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let (new, place) = (&self.new, self.workspace);
        let mut errors = RequestErrors::default();
        errors.name("name", &new.name);
        errors.count("audience", new.audience.len(), 32);
        check_rotation(&mut errors, new.rotation);
        let who = errors.then(model.authorize_in(self.asked(), place, at.now))?;
        let org = model.org(who.org);
        let mut errors = Vec::new();
        let (rules, mut audience) = (org.rules(&who), new.audience.iter());
        if !audience.all(|label| rules.is_covered_in(place, label)) {
            errors.push(ErrorResponse::Forbidden);
        }
        if let Some(source) = new.proposal_source_id {
            if !org.rules(&who).holds(Action::MemoryPropose, place) {
                errors.push(ErrorResponse::Forbidden);
            }
            errors.extend(org.require_source(&who, source, "proposalSourceId").err());
        }
        let keys = org.mcp_keys.values();
        let live = keys.filter(|key| key.workspace_id == place && key.is_live(at.now));
        if live.count() as u64 >= model.limits.mcp_keys_per_workspace_max {
            errors.extend(limit_reached("body"));
        }
        none_of(errors)?;
        let key = McpKey {
            id: CredentialId(model.made(at.learned.and_then(Response::id))),
            name: new.name.clone(),
            client: new.client,
            audience: new.audience.clone(),
            created_by: who.member,
            created_at: at.now,
            acts_as: who.member,
            created_with: who.credential,
            created_through: model.created_through(&who),
            bound_until: bound_until(model, &who),
            proposal_source_id: new.proposal_source_id,
            rotation_seconds: new.rotation.as_secs(),
            rotates_at: until(model, &who, at.now.plus(new.rotation)),
            expires_at: until(model, &who, at.now.plus(new.rotation + GRACE)),
            workspace_id: place,
        };
        let secret = model.secret(at, "/secret", "wkt_");
        model.add_token(record(&who, &key, at.now), secret.clone());
        let org = model.org_mut(who.org);
        org.mcp_keys.insert(key.id, key.clone());
        let entry = AuditFacts::ok(key.id, (), &key);
        org.audit(&who, AuditAction::McpKeyCreate, entry, at.now);
        let key = model.shown_mcp_key(who.org, &key, at.now);
        Ok(shown(&key, secret.as_ref()))
    }

    fn learn(&self, org_state: &mut OrgState, response: &Response) {
        let id = response.id().map(CredentialId);
        org_state.credentials.extend(id);
        org_state.keys.extend(id.map(|id| (id, self.workspace)));
        learn_secret(org_state, self.workspace, response);
    }
}

impl Request for ListMcpKeys {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let who = model.authorize_in(self.asked(), self.workspace, at.now)?;
        let keys = model.shown_mcp_keys(who.org, self.workspace, at.now);
        let records = keys.into_iter().map(|key| (key.id.0, json!(key))).collect();
        self.page_of(model, Direction::Forward, records, at)
    }
}

/// Authorises a caller and returns the key, if it has not expired.
fn find(
    model: &Model,
    asked: Asked<'_>,
    (workspace, key): (WorkspaceId, CredentialId),
    now: Timestamp,
) -> Result<(Who, McpKey), ErrorResponse> {
    let who = model.authorize_in(asked, workspace, now)?;
    let found = model.org(who.org).mcp_keys.get(&key);
    let found = found.filter(|key| key.workspace_id == workspace && key.is_live(now));
    Ok((who, found.ok_or(ErrorResponse::NotFound)?.clone()))
}

/// Checks that the caller holds what the key may do now.
fn require_covered(
    model: &Model,
    who: &Who,
    key: &McpKey,
    now: Timestamp,
) -> Result<(), ErrorResponse> {
    let Some(record) = model.record(key.id) else {
        return Ok(());
    };
    let owner = key.owner();
    let allowed = record
        .scope
        .actions
        .unwrap_or(ActionSet::ALL)
        .iter()
        .map(Action::as_str)
        .collect();
    model.require_covered(who, key.workspace_id, owner, &allowed, now)
}

impl Request for GetMcpKey {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let place = (self.workspace, self.key);
        let (who, found) = find(model, self.asked(), place, at.now)?;
        Ok(Response::of(&model.shown_mcp_key(who.org, &found, at.now)))
    }
}

impl Request for RotateMcpKey {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let mut errors = RequestErrors::default();
        let rotations = self.rotation.into_iter();
        rotations.for_each(|rotation| check_rotation(&mut errors, rotation));
        errors.then(model.authorize_in(self.asked(), self.workspace, at.now))?;
        let place = (self.workspace, self.key);
        let (who, before) = find(model, self.asked(), place, at.now)?;
        require_covered(model, &who, &before, at.now)?;
        let org = model.org(who.org);
        let (rules, mut audience) = (org.rules(&who), before.audience.iter());
        if !audience.all(|label| rules.is_covered_in(self.workspace, label)) {
            return Err(ErrorResponse::Forbidden.into());
        }
        let rotation = self.rotation;
        let rotation = rotation.unwrap_or(Duration::from_secs(before.rotation_seconds));
        let after = McpKey {
            acts_as: who.member,
            created_with: who.credential,
            created_through: model.created_through(&who),
            bound_until: bound_until(model, &who),
            rotation_seconds: rotation.as_secs(),
            rotates_at: until(model, &who, at.now.plus(rotation)),
            expires_at: until(model, &who, at.now.plus(rotation + GRACE)),
            ..before.clone()
        };
        let secret = model.secret(at, "/secret", "wkt_");
        model.add_token(record(&who, &after, at.now), secret.clone());
        let org = model.org_mut(who.org);
        org.mcp_keys.insert(self.key, after.clone());
        let entry = AuditFacts::ok(self.key, &before, &after);
        org.audit(&who, AuditAction::McpKeyRotate, entry, at.now);
        let after = model.shown_mcp_key(who.org, &after, at.now);
        Ok(shown(&after, secret.as_ref()))
    }

    fn learn(&self, org_state: &mut OrgState, response: &Response) {
        learn_secret(org_state, self.workspace, response);
    }
}

impl Request for RevokeMcpKey {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let place = (self.workspace, self.key);
        let (who, before) = find(model, self.asked(), place, at.now)?;
        require_covered(model, &who, &before, at.now)?;
        if let Some(token) = model.tokens_mut().get_mut(&self.key) {
            token.record.revoked_at = Some(at.now);
        }
        let org = model.org_mut(who.org);
        let entry = AuditFacts::ok(self.key, &before, ());
        org.audit(&who, AuditAction::McpKeyRevoke, entry, at.now);
        org.mcp_keys.remove(&self.key);
        Ok(Response::done())
    }
}
