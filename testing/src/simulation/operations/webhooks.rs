//! Outbound webhooks.

use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

use super::{Weighted, create_in, list_in, of, placed, requests, update_placed};
use crate::model::{AuditFacts, Expected, Model, Moment, RequestErrors, Response, limit_reached};
use crate::simulation::call::{Listing, Request};
use crate::simulation::world::OrgState;
use crate::strategies::{governor, new_webhook, webhook_url};
use knowledge_core::model::{
    EventType, NewWebhook, Quota, Webhook, WebhookId, WebhookUpdate, WorkspaceId,
};
use knowledge_core::service::{AuditAction, IfMatch, PageRequest};
use knowledge_core::store::Direction;

requests! {
    CreateWebhook by webhooks.create { workspace: WorkspaceId, new: NewWebhook }
    ListWebhooks by webhooks.list { workspace: WorkspaceId, page: PageRequest }
    GetWebhook by webhooks.get tagged { workspace: WorkspaceId, id: WebhookId }
    UpdateWebhook by webhooks.update tagged {
        workspace: WorkspaceId,
        id: WebhookId,
        update: WebhookUpdate,
        if_match: Option<IfMatch>,
    }
    DeleteWebhook by webhooks.delete { workspace: WorkspaceId, id: WebhookId }
    RotateWebhookSecret by webhooks.rotate_secret { workspace: WorkspaceId, id: WebhookId }
}

fn update() -> impl Strategy<Value = WebhookUpdate> {
    (
        weighted(0.2, select(EventType::ALL)),
        weighted(0.2, webhook_url()),
        weighted(0.4, any::<bool>()),
    )
        .prop_map(|(event_type, url, is_active)| {
            WebhookUpdate::builder()
                .maybe_event_type(event_type)
                .maybe_url(url)
                .maybe_is_active(is_active)
                .build()
        })
}

pub(super) fn strategies() -> Vec<Weighted> {
    vec![
        of(2, create_in(governor(), new_webhook(), CreateWebhook::new)),
        of(1, list_in(governor(), ListWebhooks::new)),
        of(1, placed(governor(), GetWebhook::new)),
        of(2, update_placed(governor(), update(), UpdateWebhook::new)),
        of(1, placed(governor(), DeleteWebhook::new)),
        of(1, placed(governor(), RotateWebhookSecret::new)),
    ]
}

impl Request for CreateWebhook {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let mut errors = RequestErrors::default();
        errors.url("url", &self.new.url);
        let who = errors.then(model.authorize_in(self.asked(), self.workspace, at.now))?;
        let webhooks = model.org(who.org).webhooks.values();
        let here = webhooks.filter(|other| other.workspace_id == self.workspace);
        if here.count() as u64 >= model.limits.webhooks_per_workspace_max {
            return Err(limit_reached("body"));
        }
        model.check_quota(who.org, Quota::Endpoints, 1)?;
        let webhook = Webhook {
            id: WebhookId(model.made(at.learned.and_then(Response::id))),
            org_id: who.org,
            workspace_id: self.workspace,
            event_type: self.new.event_type,
            url: self.new.url.clone(),
            is_active: true,
            disabled_reason: None,
            is_confirmed: false,
            confirmation: None,
            signing_secret: None,
            created_by: who.member,
            created_at: at.now,
            updated_at: at.now,
            status: None,
        };
        let signing_secret = model.secret(at, "/signing_secret", "whsec_");
        let org = model.org_mut(who.org);
        org.add_endpoint(self.workspace, webhook.id.into(), &who);
        org.webhooks.insert(webhook.id, webhook.clone());
        let entry = AuditFacts::ok(webhook.id, (), &webhook);
        org.audit(&who, AuditAction::WebhookCreate, entry, at.now);
        Ok(Response::of(&Webhook {
            signing_secret,
            confirmation: None,
            ..model.shown_webhook(&webhook, at.now)
        }))
    }

    fn learn(&self, org_state: &mut OrgState, response: &Response) {
        let id = response.id().map(|id| (WebhookId(id), self.workspace));
        org_state.webhooks.extend(id);
    }
}

impl Request for ListWebhooks {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let who = model.authorize_in(self.asked(), self.workspace, at.now)?;
        let webhooks = model.org(who.org).webhooks.values();
        let here = webhooks.filter(|webhook| webhook.workspace_id == self.workspace);
        let shown = here.map(|webhook| model.shown_webhook(webhook, at.now));
        let records = shown.map(|webhook| (webhook.id.0, json!(webhook)));
        let records = records.collect();
        self.page_of(model, Direction::Forward, records, at)
    }
}

impl Request for GetWebhook {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let who = model.authorize_in(self.asked(), self.workspace, at.now)?;
        let found = model.org(who.org).webhook(self.workspace, self.id)?;
        let shown = model.shown_webhook(found, at.now);
        Ok(model.tagged(&shown, at))
    }
}

impl Request for UpdateWebhook {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let mut errors = RequestErrors::default();
        let update = &self.update;
        update.url.iter().for_each(|url| errors.url("url", url));
        let who = errors.then(model.authorize_in(self.asked(), self.workspace, at.now))?;
        let before = model.org(who.org).webhook(self.workspace, self.id)?.clone();
        let shown = model.shown_webhook(&before, at.now);
        model.require_current(self.if_match.as_ref(), &shown)?;
        let mut after = Webhook {
            event_type: update.event_type.unwrap_or(before.event_type),
            url: update.url.clone().unwrap_or_else(|| before.url.clone()),
            is_active: update.is_active.unwrap_or(before.is_active),
            ..before.clone()
        };
        if after != before {
            after.updated_at = at.now;
            let org = model.org_mut(who.org);
            org.webhooks.insert(self.id, after.clone());
            if after.url != before.url {
                org.owners.insert(self.id.into(), who.owner());
            }
            let entry = AuditFacts::ok(self.id, &before, &after);
            org.audit(&who, AuditAction::WebhookUpdate, entry, at.now);
        }
        let shown = model.shown_webhook(&after, at.now);
        Ok(model.tagged(&shown, at))
    }
}

impl Request for DeleteWebhook {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let who = model.authorize_in(self.asked(), self.workspace, at.now)?;
        let before = model.org(who.org).webhook(self.workspace, self.id)?.clone();
        let org = model.org_mut(who.org);
        org.webhooks.remove(&self.id);
        org.delete_endpoint(self.id.into());
        let entry = AuditFacts::ok(self.id, &before, ());
        org.audit(&who, AuditAction::WebhookDelete, entry, at.now);
        Ok(Response::done())
    }

    fn learn(&self, org_state: &mut OrgState, _response: &Response) {
        org_state.forget(self.id.0);
    }
}

impl Request for RotateWebhookSecret {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let who = model.authorize_in(self.asked(), self.workspace, at.now)?;
        model.org(who.org).webhook(self.workspace, self.id)?;
        let secret = model.secret(at, "/signing_secret", "whsec_");
        let org = model.org_mut(who.org);
        org.owners.insert(self.id.into(), who.owner());
        let action = AuditAction::WebhookRotateSecret;
        Ok(model.rotated(&who, action, self.id, secret, at))
    }
}
