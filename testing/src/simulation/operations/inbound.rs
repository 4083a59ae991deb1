//! Inbound webhooks.

use proptest::option::weighted;
use proptest::prelude::*;
use serde_json::json;

use super::{Weighted, create_in, list_in, of, placed, requests, update_placed};
use crate::authorization::Actions;
use crate::model::{
    Asked, AuditFacts, ErrorResponse, Expected, InboundFacts, Model, Moment, RequestErrors,
    Response, SECRET_OVERLAP, Who, limit_reached,
};
use crate::simulation::call::{Listing, Request};
use crate::simulation::world::OrgState;
use crate::strategies::{governor, name, new_inbound_webhook};
use knowledge_core::access::Action;
use knowledge_core::model::{
    InboundWebhook, InboundWebhookId, InboundWebhookUpdate, NewInboundWebhook, Quota, Source,
    SourceId, Timestamp, WorkspaceId,
};
use knowledge_core::service::{AuditAction, IfMatch, PageRequest};
use knowledge_core::store::Direction;

requests! {
    CreateInboundWebhook by inbound_webhooks.create {
        workspace: WorkspaceId, new: NewInboundWebhook
    }
    ListInboundWebhooks by inbound_webhooks.list { workspace: WorkspaceId, page: PageRequest }
    GetInboundWebhook by inbound_webhooks.get tagged {
        workspace: WorkspaceId, id: InboundWebhookId
    }
    UpdateInboundWebhook by inbound_webhooks.update tagged {
        workspace: WorkspaceId,
        id: InboundWebhookId,
        update: InboundWebhookUpdate,
        if_match: Option<IfMatch>,
    }
    DeleteInboundWebhook by inbound_webhooks.delete { workspace: WorkspaceId, id: InboundWebhookId }
    RotateInboundWebhookSecret by inbound_webhooks.rotate_secret {
        workspace: WorkspaceId, id: InboundWebhookId
    }
}

pub(super) fn strategies() -> Vec<Weighted> {
    let new = new_inbound_webhook();
    let update = weighted(0.8, name())
        .prop_map(|name| InboundWebhookUpdate::builder().maybe_name(name).build());
    vec![
        of(2, create_in(governor(), new, CreateInboundWebhook::new)),
        of(1, list_in(governor(), ListInboundWebhooks::new)),
        of(1, placed(governor(), GetInboundWebhook::new)),
        of(
            1,
            update_placed(governor(), update, UpdateInboundWebhook::new),
        ),
        of(1, placed(governor(), DeleteInboundWebhook::new)),
        of(1, placed(governor(), RotateInboundWebhookSecret::new)),
    ]
}

impl Request for CreateInboundWebhook {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let mut errors = RequestErrors::default();
        errors.name("name", &self.new.name);
        let who = errors.then(model.authorize_in(self.asked(), self.workspace, at.now))?;
        let webhooks = model.org(who.org).inbound_webhooks.values();
        let here = webhooks.filter(|other| other.record.workspace_id == self.workspace);
        if here.count() as u64 >= model.limits.inbound_webhooks_per_workspace_max {
            return Err(limit_reached("body"));
        }
        model.check_quota(who.org, Quota::Endpoints, 1)?;
        model.check_quota(who.org, Quota::Sources, 1)?;
        let id = InboundWebhookId(model.made(at.learned.and_then(Response::id)));
        let source = Source {
            id: SourceId(id.0),
            name: self.new.name.clone(),
            kind: "inbound_webhook".to_owned(),
            created_at: at.now,
        };
        let record = InboundWebhook {
            id,
            org_id: who.org,
            workspace_id: self.workspace,
            name: self.new.name.clone(),
            url: format!("/v1/inbound/{}/{id}", who.org),
            source_id: source.id,
            acts_as: who.member,
            signing_secret: None,
            created_by: who.member,
            created_at: at.now,
            updated_at: at.now,
            status: None,
        };
        let secret = model.secret(at, "/signing_secret", "whsec_");
        let facts = InboundFacts {
            record: record.clone(),
            owner: who.owner(),
            secret: secret.clone(),
            previous: None,
        };
        let org = model.org_mut(who.org);
        org.closed_sources.insert(source.id, self.workspace);
        org.sources.insert(source.id, source);
        org.inbound_webhooks.insert(id, facts.clone());
        let entry = AuditFacts::ok(id, (), &record);
        org.audit(&who, AuditAction::InboundWebhookCreate, entry, at.now);
        Ok(Response::of(&InboundWebhook {
            signing_secret: secret,
            ..model.shown_inbound(&facts, at.now)
        }))
    }

    fn learn(&self, org_state: &mut OrgState, response: &Response) {
        if let Some(id) = response.id() {
            let webhook = (InboundWebhookId(id), self.workspace);
            org_state.inbound_webhooks.push(webhook);
            let secret = response.get("/signing_secret");
            org_state.signing_secrets.push(secret.unwrap_or_default());
        }
    }
}

impl Request for ListInboundWebhooks {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let who = model.authorize_in(self.asked(), self.workspace, at.now)?;
        let webhooks = model.org(who.org).inbound_webhooks.values();
        let records = webhooks
            .filter(|facts| facts.record.workspace_id == self.workspace)
            .map(|facts| model.shown_inbound(facts, at.now))
            .map(|webhook| (webhook.id.0, json!(webhook)))
            .collect();
        self.page_of(model, Direction::Forward, records, at)
    }
}

/// Checks that the caller holds what the webhook may do now.
fn require_covered(
    model: &Model,
    who: &Who,
    facts: &InboundFacts,
    now: Timestamp,
) -> Result<(), ErrorResponse> {
    let allowed = Actions::from([Action::MemoryCreate, Action::MemoryUpdate].map(Action::as_str));
    model.require_covered(who, facts.record.workspace_id, facts.owner, &allowed, now)
}

/// Authorises a caller and returns the inbound webhook.
fn find(
    model: &Model,
    asked: Asked<'_>,
    workspace: WorkspaceId,
    id: InboundWebhookId,
    now: Timestamp,
) -> Result<(Who, InboundFacts), ErrorResponse> {
    let who = model.authorize_in(asked, workspace, now)?;
    let found = model.org(who.org).inbound_webhook(workspace, id)?.clone();
    Ok((who, found))
}

impl Request for GetInboundWebhook {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let (_, found) = find(model, self.asked(), self.workspace, self.id, at.now)?;
        let shown = model.shown_inbound(&found, at.now);
        Ok(model.tagged(&shown, at))
    }
}

impl Request for UpdateInboundWebhook {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let mut errors = RequestErrors::default();
        let new_name = self.update.name.iter();
        new_name.for_each(|name| errors.name("name", name));
        let who = errors.then(model.authorize_in(self.asked(), self.workspace, at.now))?;
        let found = model
            .org(who.org)
            .inbound_webhook(self.workspace, self.id)?;
        let mut facts = found.clone();
        let before = facts.record.clone();
        let shown = model.shown_inbound(&facts, at.now);
        model.require_current(self.if_match.as_ref(), &shown)?;
        let name = self.update.name.clone();
        facts.record.name = name.unwrap_or_else(|| before.name.clone());
        if facts.record != before {
            facts.record.updated_at = at.now;
            let org = model.org_mut(who.org);
            org.inbound_webhooks.insert(self.id, facts.clone());
            let entry = AuditFacts::ok(self.id, &before, &facts.record);
            org.audit(&who, AuditAction::InboundWebhookUpdate, entry, at.now);
        }
        let shown = model.shown_inbound(&facts, at.now);
        Ok(model.tagged(&shown, at))
    }
}

impl Request for DeleteInboundWebhook {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let (who, before) = find(model, self.asked(), self.workspace, self.id, at.now)?;
        require_covered(model, &who, &before, at.now)?;
        let org = model.org_mut(who.org);
        org.inbound_webhooks.remove(&self.id);
        let entry = AuditFacts::ok(self.id, &before.record, ());
        org.audit(&who, AuditAction::InboundWebhookDelete, entry, at.now);
        Ok(Response::done())
    }

    fn learn(&self, org_state: &mut OrgState, _response: &Response) {
        org_state.forget(self.id.0);
    }
}

impl Request for RotateInboundWebhookSecret {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let (who, mut facts) = find(model, self.asked(), self.workspace, self.id, at.now)?;
        require_covered(model, &who, &facts, at.now)?;
        let secret = model.secret(at, "/signing_secret", "whsec_");
        let until = at.now.plus(SECRET_OVERLAP);
        facts.previous = Some((std::mem::replace(&mut facts.secret, secret.clone()), until));
        facts.owner = who.owner();
        if facts.record.acts_as != who.member {
            facts.record.acts_as = who.member;
            facts.record.updated_at = at.now;
        }
        let org = model.org_mut(who.org);
        org.inbound_webhooks.insert(self.id, facts);
        let action = AuditAction::InboundWebhookRotateSecret;
        Ok(model.rotated(&who, action, self.id, secret, at))
    }

    fn learn(&self, org_state: &mut OrgState, response: &Response) {
        let mut webhooks = org_state.inbound_webhooks.iter();
        let number = webhooks.position(|(id, _)| *id == self.id);
        let secret = response.get::<String>("/signing_secret");
        // Some senders continue with the old secret.
        let is_replaced = |(_, secret): &(usize, String)| secret.as_bytes().get(6) < Some(&b'a');
        if let Some((number, secret)) = number.zip(secret).filter(is_replaced) {
            org_state.signing_secrets[number] = secret;
        }
    }
}
