//! Citation subscriptions.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Op, Weighted, list_of, of, one_of, requests};
use crate::call::ApiCall;
use crate::model::Moment;
use crate::model::{Expected, Model, RequestErrors, Response, SECRET_OVERLAP, limit_reached};
use crate::simulation::call::Request;
use crate::simulation::part::Part;
use crate::simulation::world::OrgState;
use crate::strategies::{entity, governor, page, webhook_url};
use knowledge_core::access::CredentialKind;
use knowledge_core::model::{
    CitationSubscription, NewCitationSubscription, Quota, RecallId, SubscriptionId,
};
use knowledge_core::service::{AuditAction, PageRequest, ResourceKind};
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
    vec![
        of(
            3,
            (governor(), entity(), webhook_url()).prop_map(|(by, recall, url)| {
                Op::by(by, move |view| CreateCitationSubscription {
                    by: view.bearer(by),
                    new: NewCitationSubscription::builder()
                        .recall_id(view.one(|of| &of.recalls, RecallId, recall))
                        .webhook_url(url.clone())
                        .build(),
                })
            }),
        ),
        of(
            1,
            (governor(), entity(), page()).prop_map(|(by, recall, page)| {
                Op::by(by, move |view| {
                    view.paged(page, |page| ListCitationSubscriptions {
                        by: view.bearer(by),
                        recall: OfRecall(view.one(|of| &of.recalls, RecallId, recall)),
                        page,
                    })
                })
            }),
        ),
        of(
            1,
            one_of(
                governor(),
                |of| &of.subscriptions,
                SubscriptionId,
                GetCitationSubscription::new,
            ),
        ),
        of(
            1,
            one_of(
                governor(),
                |of| &of.subscriptions,
                SubscriptionId,
                DeleteCitationSubscription::new,
            ),
        ),
        of(
            1,
            one_of(
                governor(),
                |of| &of.subscriptions,
                SubscriptionId,
                RotateCitationSubscriptionSecret::new,
            ),
        ),
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
            signing_secret: None,
            created_at: at.now,
        };
        let signing_secret = model.secret(at, "/signing_secret", "whsec_");
        let org = model.org_mut(who.org);
        let id = subscription.id;
        org.add_endpoint(workspace, id.into(), &who);
        org.subscriptions.insert(id, subscription.clone());
        let created = (AuditAction::SubscriptionCreate, ResourceKind::Subscription);
        org.audit_created(Some(&who), created, id.0, &subscription, at.now);
        Ok(Response::of(&CitationSubscription {
            signing_secret,
            ..subscription
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
        let org = model.org(who.org);
        let shown = found.map(|found| org.shown_subscription(&who, found));
        let records = shown.map(|found| (found.id.0, json!(found)));
        let records = records.collect();
        let list = (self.list().unwrap_or_default(), Direction::Forward);
        model.page(list, records, &self.page, at)
    }

    fn list(&self) -> Option<String> {
        list_of(self, self.recall)
    }
}

impl Request for GetCitationSubscription {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let (who, found) = model.authorize_for_subscription(self.asked(), self.id, at.now)?;
        let shown = model.org(who.org).shown_subscription(&who, &found);
        Ok(Response::of(&shown))
    }
}

impl Request for DeleteCitationSubscription {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let (who, before) = model.authorize_for_subscription(self.asked(), self.id, at.now)?;
        let org = model.org_mut(who.org);
        org.subscriptions.remove(&self.id);
        org.delete_endpoint(self.id.into());
        let resource = (ResourceKind::Subscription, self.id.0);
        let states = (json!(before), Value::Null);
        org.audit(
            &who,
            AuditAction::SubscriptionDelete,
            resource,
            states,
            at.now,
        );
        Ok(Response::done())
    }

    fn learn(&self, org_state: &mut OrgState, _response: &Response) {
        org_state.forget(self.id.0);
    }
}

impl Request for RotateCitationSubscriptionSecret {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let (who, found) = model.authorize_for_subscription(self.asked(), self.id, at.now)?;
        let until = at.now.plus(SECRET_OVERLAP);
        let org = model.org_mut(who.org);
        if found.subscriber_user_id == who.member {
            org.owners.insert(self.id.into(), who.owner());
        }
        let action = AuditAction::SubscriptionRotateSecret;
        let resource = (ResourceKind::Subscription, self.id.0);
        let states = (Value::Null, json!({ "previous_secret_expires_at": until }));
        org.audit(&who, action, resource, states, at.now);
        Ok(Response::of(&json!({
            "signing_secret": model.secret(at, "/signing_secret", "whsec_"),
            "previous_secret_expires_at": until,
        })))
    }
}
