//! Citation subscriptions.

use serde_json::json;

use super::{Weighted, by_bearer, lists, of, one_of, requests};
use crate::call::ApiCall;
use crate::model::{AuditFacts, Expected, Model, Moment, RequestErrors, Response, limit_reached};
use crate::simulation::call::{Listing, Request};
use crate::simulation::part::Part;
use crate::simulation::world::OrgState;
use crate::strategies::{entity, governor, webhook_url};
use knowledge_core::access::CredentialKind;
use knowledge_core::model::{
    CitationSubscription, NewCitationSubscription, Quota, RecallId, SubscriptionId,
};
use knowledge_core::service::{AuditAction, PageRequest};
use knowledge_core::store::Direction;

requests! {
    CreateCitationSubscription by citation_subscriptions.create { new: NewCitationSubscription }
    ListCitationSubscriptions by citation_subscriptions.list { recall: OfRecall, page: PageRequest }
    GetCitationSubscription by citation_subscriptions.get { id: SubscriptionId }
    DeleteCitationSubscription by citation_subscriptions.delete { id: SubscriptionId }
    RotateCitationSubscriptionSecret by citation_subscriptions.rotate_secret { id: SubscriptionId }
}

/// Recall in the query of a list.
#[derive(Clone, Copy, Debug)]
pub(in crate::simulation) struct OfRecall(RecallId);

impl Part for OfRecall {
    type Arg<'a> = RecallId;

    fn arg(&self) -> RecallId {
        self.0
    }

    fn add_to(&self, call: &mut ApiCall) {
        call.add_query("recall_id", &self.0);
    }
}

pub(super) fn strategies() -> Vec<Weighted> {
    let create = by_bearer(
        governor(),
        (entity(), webhook_url()),
        |view, by, (recall, url)| {
            let new = NewCitationSubscription::builder().recall_id(view.one(recall));
            CreateCitationSubscription::new(by, new.webhook_url(url).build())
        },
    );
    let list = lists(governor(), entity(), |view, by, recall, page| {
        ListCitationSubscriptions::new(by, OfRecall(view.one(recall)), page)
    });
    vec![
        of(3, create),
        of(1, list),
        of(1, one_of(governor(), GetCitationSubscription::new)),
        of(1, one_of(governor(), DeleteCitationSubscription::new)),
        of(1, one_of(governor(), RotateCitationSubscriptionSecret::new)),
    ]
}

impl Request for CreateCitationSubscription {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let new = &self.new;
        let mut errors = RequestErrors::default();
        errors.url("webhook_url", &new.webhook_url);
        let authenticated = model.authenticate(&self.by, CredentialKind::Bearer, at.now);
        let authorized = authenticated.and_then(|who| {
            let recall = model.org(who.org).recall(&who, new.recall_id)?;
            let workspace = recall.workspace_id;
            let who = model.authorize_in(self.asked(), workspace, at.now)?;
            Ok((who, workspace))
        });
        let (who, workspace) = errors.then(authorized)?;
        let subscriptions = model.org(who.org).subscriptions.values();
        let same = subscriptions.filter(|other| other.recall_id == new.recall_id);
        if same.count() as u64 >= model.limits.subscriptions_per_recall_max {
            return Err(limit_reached("recall_id"));
        }
        model.check_quota(who.org, Quota::Endpoints, 1)?;
        let subscription = CitationSubscription {
            id: SubscriptionId(model.made(at.learned.and_then(Response::id))),
            org_id: who.org,
            workspace_id: workspace,
            recall_id: new.recall_id,
            subscriber_user_id: who.member,
            webhook_url: new.webhook_url.clone(),
            is_confirmed: false,
            confirmation: None,
            signing_secret: None,
            created_at: at.now,
            status: None,
        };
        let signing_secret = model.secret(at, "/signing_secret", "whsec_");
        let org = model.org_mut(who.org);
        let id = subscription.id;
        org.add_endpoint(workspace, id.into(), &who);
        org.subscriptions.insert(id, subscription.clone());
        let entry = AuditFacts::ok(id, (), &subscription);
        org.audit(&who, AuditAction::SubscriptionCreate, entry, at.now);
        Ok(Response::of(&CitationSubscription {
            signing_secret,
            confirmation: None,
            ..model.shown_subscription(&who, &subscription, at.now)
        }))
    }

    fn learn(&self, org_state: &mut OrgState, response: &Response) {
        let id = response.id().map(SubscriptionId);
        org_state.subscriptions.extend(id);
    }
}

impl Request for ListCitationSubscriptions {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let who = model.authenticate(&self.by, CredentialKind::Bearer, at.now)?;
        let workspace = model.org(who.org).recall(&who, self.recall.0)?.workspace_id;
        model.authorize_in(self.asked(), workspace, at.now)?;
        let all = model.org(who.org).subscriptions.values();
        let found = all.filter(|subscription| subscription.recall_id == self.recall.0);
        let shown = found.map(|found| model.shown_subscription(&who, found, at.now));
        let records = shown.map(|found| (found.id.0, json!(found))).collect();
        self.page_of(model, Direction::Forward, records, at)
    }
}

impl Request for GetCitationSubscription {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let (who, found) = model.authorize_for_subscription(self.asked(), self.id, at.now)?;
        let shown = model.shown_subscription(&who, &found, at.now);
        Ok(Response::of(&shown))
    }
}

impl Request for DeleteCitationSubscription {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let (who, before) = model.authorize_for_subscription(self.asked(), self.id, at.now)?;
        let org = model.org_mut(who.org);
        org.subscriptions.remove(&self.id);
        org.delete_endpoint(self.id.into());
        let entry = AuditFacts::ok(self.id, &before, ());
        org.audit(&who, AuditAction::SubscriptionDelete, entry, at.now);
        Ok(Response::done())
    }

    fn learn(&self, org_state: &mut OrgState, _response: &Response) {
        org_state.forget(self.id.0);
    }
}

impl Request for RotateCitationSubscriptionSecret {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let (who, found) = model.authorize_for_subscription(self.asked(), self.id, at.now)?;
        let secret = model.secret(at, "/signing_secret", "whsec_");
        if found.subscriber_user_id == who.member {
            let org = model.org_mut(who.org);
            org.owners.insert(self.id.into(), who.owner());
        }
        let action = AuditAction::SubscriptionRotateSecret;
        Ok(model.rotated(&who, action, self.id, secret, at))
    }
}
