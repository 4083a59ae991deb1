//! Deliveries to webhooks and citation subscriptions.
//!
//! Events are fanned out only at the end of a simulation, and nothing is sent. Until then, the
//! deliveries are test events.

use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

use super::{Op, Weighted, by_bearer, lists, of, requests};
use crate::model::{
    Asked, AuditFacts, Caller, ErrorResponse, Expected, Model, Moment, PendingPing, Response, Who,
    id_of, resource_of,
};
use crate::simulation::call::{Call, Listing, Request};
use crate::simulation::indeterminate::Changes;
use crate::simulation::resolve::View;
use crate::simulation::world::{OrgState, unknown};
use crate::strategies::{EntityRef, entity, governor};
use knowledge_core::model::{DeliveryId, DeliveryStatus, EventId, Timestamp};
use knowledge_core::service::{AuditAction, Endpoint, PageRequest};
use knowledge_core::store::Direction;

requests! {
    ListDeliveries = ListWebhookDeliveries | ListCitationSubscriptionDeliveries by deliveries.list {
        endpoint: Endpoint,
        status: Option<DeliveryStatus>,
        page: PageRequest,
    }
    GetDelivery = GetWebhookDelivery | GetCitationSubscriptionDelivery by deliveries.get {
        endpoint: Endpoint,
        id: DeliveryId,
    }
    Redeliver = RedeliverToWebhook | RedeliverToCitationSubscription by deliveries.redeliver {
        endpoint: Endpoint,
        id: DeliveryId,
    }
    RedeliverDead = RedeliverDeadToWebhook | RedeliverDeadToCitationSubscription
        by deliveries.redeliver_dead { endpoint: Endpoint }
    Ping = PingWebhook | PingCitationSubscription by deliveries.ping { endpoint: Endpoint }
}

pub(super) fn strategies() -> Vec<Weighted> {
    let endpoint = (entity(), any::<bool>());
    let status = weighted(0.3, select(DeliveryStatus::ALL));
    let list = lists(
        governor(),
        (endpoint, status),
        |view, by, (endpoint, status), page| {
            let endpoint = view.endpoint(endpoint.0, endpoint.1);
            ListDeliveries::new(by, endpoint, status, page)
        },
    );
    vec![
        of(2, list),
        of(2, delivery(GetDelivery::new)),
        of(2, delivery(Redeliver::new)),
        of(3, endpoint_of(RedeliverDead::new)),
        of(4, endpoint_of(Ping::new)),
    ]
}

/// Returns a strategy for calls about an endpoint.
fn endpoint_of<C: Into<Call> + 'static>(
    call: fn(Caller, Endpoint) -> C,
) -> impl Strategy<Value = Op> {
    let endpoint = (entity(), any::<bool>());
    by_bearer(governor(), endpoint, move |view, by, (id, is_webhook)| {
        call(by, view.endpoint(id, is_webhook))
    })
}

/// Returns a strategy for calls about a delivery.
fn delivery<C: Into<Call> + 'static>(
    call: fn(Caller, Endpoint, DeliveryId) -> C,
) -> impl Strategy<Value = Op> {
    let what = (entity(), weighted(0.1, entity()), any::<bool>());
    by_bearer(
        governor(),
        what,
        move |view, by, (id, other, is_webhook)| {
            let (id, endpoint) = of_endpoint(view, id, other, is_webhook);
            call(by, endpoint, id)
        },
    )
}

/// Returns a delivery to an endpoint of a kind, with the endpoint or with another one.
fn of_endpoint(
    view: &View<'_>,
    entity: EntityRef,
    other: Option<EntityRef>,
    is_webhook: bool,
) -> (DeliveryId, Endpoint) {
    let (from, number) = match entity {
        EntityRef::Own(number) => (view.own, number),
        EntityRef::Foreign(number) | EntityRef::Unknown(number) => (view.foreign, number),
    };
    let is_wanted = |endpoint: &Endpoint| matches!(endpoint, Endpoint::Webhook(..)) == is_webhook;
    let all = from.deliveries.iter();
    let all: Vec<_> = all.filter(|(_, endpoint)| is_wanted(endpoint)).collect();
    let number_of = usize::from(number).checked_rem(all.len());
    let endpoint = |other| view.endpoint(other, is_webhook);
    match (number_of.map(|number| *all[number]), other) {
        (Some((id, _)), Some(other)) => (id, endpoint(other)),
        (Some(found), None) => found,
        (None, other) => (unknown(number), endpoint(other.unwrap_or(entity))),
    }
}

impl Request for ListDeliveries {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let (who, _) = model.authorize_for_endpoint(self.asked(), self.endpoint, at.now)?;
        let records: Vec<_> = match self.status {
            None | Some(DeliveryStatus::Pending) => {
                let pings = model.org(who.org).pings_of(self.endpoint).into_iter();
                let records = pings.map(|(event, ping)| {
                    let delivery = ping.delivery(event, id_of(self.endpoint));
                    (event.0, json!(delivery))
                });
                records.collect()
            }
            Some(_) => Vec::new(),
        };
        self.page_of(model, Direction::Reverse, records, at)
    }
}

/// Returns a test event of an endpoint.
fn find(
    model: &Model,
    asked: Asked<'_>,
    endpoint: Endpoint,
    id: DeliveryId,
    now: Timestamp,
) -> Result<(Who, EventId, PendingPing), ErrorResponse> {
    let (who, _) = model.authorize_for_endpoint(asked, endpoint, now)?;
    let mut pings = model.org(who.org).pings_of(endpoint).into_iter();
    let is_wanted = |event| DeliveryId::of(event, id_of(endpoint)) == id;
    let found = pings.find(|(event, _)| is_wanted(*event));
    let (event, ping) = found.ok_or(ErrorResponse::NotFound)?;
    Ok((who, event, ping))
}

impl Request for GetDelivery {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let (_, event, ping) = find(model, self.asked(), self.endpoint, self.id, at.now)?;
        Ok(Response::of(&ping.delivery(event, id_of(self.endpoint))))
    }
}

impl Request for Redeliver {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let found = find(model, self.asked(), self.endpoint, self.id, at.now)?;
        let (who, event, mut ping) = found;
        if !model.is_receiving(who.org, self.endpoint, at.now) {
            return Err(ErrorResponse::EndpointInactive.into());
        }
        let org = model.org_mut(who.org);
        ping.next_attempt_at = at.now;
        let endpoint = id_of(self.endpoint);
        let pings = org.pings.entry(endpoint).or_default();
        pings.insert(event, ping.clone());
        let action = match self.endpoint {
            Endpoint::Webhook(..) => AuditAction::WebhookRedeliver,
            Endpoint::Subscription(_) => AuditAction::SubscriptionRedeliver,
        };
        let after = json!({ "delivery_id": self.id });
        let entry = AuditFacts::ok(resource_of(self.endpoint), (), after);
        org.audit(&who, action, entry, at.now);
        Ok(Response::of(&ping.delivery(event, endpoint)))
    }
}

impl Request for RedeliverDead {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let (who, _) = model.authorize_for_endpoint(self.asked(), self.endpoint, at.now)?;
        if !model.is_receiving(who.org, self.endpoint, at.now) {
            return Err(ErrorResponse::EndpointInactive.into());
        }
        Ok(Response::of(
            &json!({ "redelivered": 0, "has_more": false }),
        ))
    }
}

impl Request for Ping {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let (who, _) = model.authorize_for_endpoint(self.asked(), self.endpoint, at.now)?;
        if !model.org(who.org).is_active(self.endpoint) {
            return Err(ErrorResponse::EndpointInactive.into());
        }
        let event = at.learned.and_then(|learned| learned.get("/event_id"));
        let event = EventId(model.made(event));
        // It is sent before all other deliveries.
        let pings = model.org(who.org).pings_of(self.endpoint);
        let first = pings.values().map(|ping| ping.next_attempt_at).min();
        let millisecond = std::time::Duration::from_millis(1);
        let ping = PendingPing {
            created_at: at.now,
            next_attempt_at: first.map_or(at.now, |first| at.now.min(first.minus(millisecond))),
        };
        let endpoint = id_of(self.endpoint);
        let delivery = ping.delivery(event, endpoint);
        let org = model.org_mut(who.org);
        org.pings.entry(endpoint).or_default().insert(event, ping);
        let action = match self.endpoint {
            Endpoint::Webhook(..) => AuditAction::WebhookPing,
            Endpoint::Subscription(_) => AuditAction::SubscriptionPing,
        };
        let after = json!({ "delivery_id": delivery.id });
        let entry = AuditFacts::ok(resource_of(self.endpoint), (), after);
        org.audit(&who, action, entry, at.now);
        Ok(Response::of(&delivery))
    }

    fn reconstruct(&self, _model: &Model, changes: &Changes<'_>) -> Result<Response, String> {
        let event = changes.only("event")?;
        Ok(Response::of(&json!({ "event_id": event })))
    }

    fn learn(&self, org_state: &mut OrgState, response: &Response) {
        let id = response.id().map(|id| (DeliveryId(id), self.endpoint));
        org_state.deliveries.extend(id);
    }
}
