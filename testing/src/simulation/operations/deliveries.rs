//! Deliveries to webhooks and citation subscriptions.
//!
//! Events are fanned out only at the end of a simulation, and nothing is sent. Until then, the
//! deliveries are test events.

use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::{Op, Weighted, of, requests};
use crate::model::{Asked, ErrorResponse, Moment};
use crate::model::{Expected, Model, PendingPing, Response, id_of, resource_of};
use crate::simulation::call::Request;
use crate::simulation::indeterminate::Changes;
use crate::simulation::resolve::View;
use crate::simulation::world::{OrgState, unknown};
use crate::strategies::{EntityRef, entity, governor, page};
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
        by deliveries.redeliver_dead {
        endpoint: Endpoint,
    }
    Ping = PingWebhook | PingCitationSubscription by deliveries.ping { endpoint: Endpoint }
}

pub(super) fn strategies() -> Vec<Weighted> {
    let one = || (governor(), entity(), any::<bool>());
    let delivery = || (governor(), entity(), weighted(0.1, entity()), any::<bool>());
    vec![
        of(
            2,
            (one(), weighted(0.3, select(DeliveryStatus::ALL)), page()).prop_map(
                |((by, endpoint, is_webhook), status, page)| {
                    Op::by(by, move |view| {
                        view.paged(page, |page| ListDeliveries {
                            by: view.bearer(by),
                            endpoint: view.endpoint(endpoint, is_webhook),
                            status,
                            page,
                        })
                    })
                },
            ),
        ),
        of(
            2,
            delivery().prop_map(|(by, id, endpoint, is_webhook)| {
                Op::by(by, move |view| {
                    let (by, (id, endpoint)) =
                        (view.bearer(by), of_endpoint(view, id, endpoint, is_webhook));
                    GetDelivery { by, endpoint, id }
                })
            }),
        ),
        of(
            2,
            delivery().prop_map(|(by, id, endpoint, is_webhook)| {
                Op::by(by, move |view| {
                    let (by, (id, endpoint)) =
                        (view.bearer(by), of_endpoint(view, id, endpoint, is_webhook));
                    Redeliver { by, endpoint, id }
                })
            }),
        ),
        of(
            3,
            one().prop_map(|(by, endpoint, is_webhook)| {
                Op::by(by, move |view| RedeliverDead {
                    by: view.bearer(by),
                    endpoint: view.endpoint(endpoint, is_webhook),
                })
            }),
        ),
        of(
            4,
            one().prop_map(|(by, endpoint, is_webhook)| {
                Op::by(by, move |view| Ping {
                    by: view.bearer(by),
                    endpoint: view.endpoint(endpoint, is_webhook),
                })
            }),
        ),
    ]
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
        (None, other) => (
            unknown(DeliveryId, number),
            endpoint(other.unwrap_or(entity)),
        ),
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
        let list = (self.list().unwrap_or_default(), Direction::Reverse);
        model.page(list, records, &self.page, at)
    }

    fn list(&self) -> Option<String> {
        super::list_of(self, (id_of(self.endpoint), self.status))
    }
}

/// Returns a test event of an endpoint.
fn find(
    model: &Model,
    asked: Asked<'_>,
    endpoint: Endpoint,
    id: DeliveryId,
    now: Timestamp,
) -> Result<(crate::model::Who, EventId, PendingPing), ErrorResponse> {
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

/// Returns the action for an endpoint of this kind.
fn action(endpoint: Endpoint, webhook: AuditAction, subscription: AuditAction) -> AuditAction {
    match endpoint {
        Endpoint::Webhook(..) => webhook,
        Endpoint::Subscription(_) => subscription,
    }
}

impl Request for Redeliver {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let found = find(model, self.asked(), self.endpoint, self.id, at.now)?;
        let (who, event, mut ping) = found;
        let org = model.org_mut(who.org);
        if !org.is_active(self.endpoint) {
            return Err(ErrorResponse::EndpointInactive.into());
        }
        ping.next_attempt_at = at.now;
        let endpoint = id_of(self.endpoint);
        let pings = org.pings.entry(endpoint).or_default();
        pings.insert(event, ping.clone());
        let (webhook, subscription) = (
            AuditAction::WebhookRedeliver,
            AuditAction::SubscriptionRedeliver,
        );
        let states = (Value::Null, json!({ "delivery_id": self.id }));
        let action = action(self.endpoint, webhook, subscription);
        org.audit(&who, action, resource_of(self.endpoint), states, at.now);
        Ok(Response::of(&ping.delivery(event, endpoint)))
    }
}

impl Request for RedeliverDead {
    fn expected(&self, model: &mut Model, at: &Moment<'_>) -> Expected {
        let (who, _) = model.authorize_for_endpoint(self.asked(), self.endpoint, at.now)?;
        if !model.org(who.org).is_active(self.endpoint) {
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
        let states = (Value::Null, json!({ "delivery_id": delivery.id }));
        let action = action(
            self.endpoint,
            AuditAction::WebhookPing,
            AuditAction::SubscriptionPing,
        );
        org.audit(&who, action, resource_of(self.endpoint), states, at.now);
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
