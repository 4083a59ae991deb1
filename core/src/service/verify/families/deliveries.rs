//! Events on their way: the outbox, the endpoints with their queues, the deliveries.

use serde_json::json;

use super::{Claims, Parts, Problem, value};
use crate::model::{
    CitationSubscription, DeliveryId, DeliveryStatus, DisabledReason, EndpointId, EventId, OrgId,
    Webhook, WorkspaceId,
};
use crate::service::Event;
use crate::service::deliveries::{
    AnnouncedEvent, DeliveryPlace, EndpointPlace, EndpointState, Expansion, Recipient,
    StoredDelivery,
};
use crate::service::maintain::Due;
use crate::service::sealing::SealedRecord;
use crate::service::verify::claim::Claim;
use crate::service::verify::{DifferenceCode, Verifier};
use crate::keys;
use crate::store::KeyEntry;

pub(super) fn outbox(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
    let event: Event = value(entry)?;
    parts.agree(&[(1, event.id.0)])?;
    Ok(concerns(&event))
}

/// An event is of a workspace, and for endpoints that were there.
fn concerns(event: &Event) -> Vec<Claim> {
    let (org, workspace) = (event.org_id, event.workspace_id);
    vec![
        Claim::Exists(keys::workspace(org, workspace)),
        Claim::AtLeast(keys::endpoint_sequence(org, workspace), event.endpoints),
    ]
}

pub(super) fn expansion(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
    value::<Expansion>(entry)?;
    Ok(vec![Claim::Exists(keys::outbox(EventId(parts.id(1)?)))])
}

pub(super) fn event(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
    let announced: AnnouncedEvent = value(entry)?;
    let (org, event) = (announced.event.org_id, announced.event.id);
    parts.agree(&[(1, org.0), (2, event.0)])?;
    let mut claims = concerns(&announced.event);
    let due = Due::Event { org, event };
    claims.push(Claim::Due(announced.kept_until, due));
    Ok(claims)
}

pub(super) fn endpoint(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
    let (org, endpoint) = (parts.org()?, EndpointId(parts.id(2)?));
    let state: EndpointState = value(entry)?;
    let mut claims = vec![Claim::Exists(Recipient::key(org, endpoint, state.place))];
    if let Some(due) = state.due {
        claims.push(Claim::Exists(keys::endpoint_due(due, org, endpoint)));
    }
    Ok(claims)
}

pub(super) fn endpoint_due(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
    value::<()>(entry)?;
    let (at, org, endpoint) = keys::parse_endpoint_due(&entry.key)
        .ok_or_else(|| Problem::unreadable("a key that is not a time and two identifiers"))?;
    parts.agree(&[(2, org.0)])?;
    let state = keys::endpoint(org, endpoint);
    Ok(vec![Claim::Says(state, json!({ "due": at }))])
}

/// A number that only rises: it is at least the highest that was given.
pub(super) fn endpoint_sequence(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
    value::<i64>(entry)?;
    let workspace = keys::workspace(parts.org()?, parts.workspace()?);
    Ok(vec![Claim::Exists(workspace)])
}

pub(super) fn delivery(verifier: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
    let (org, endpoint) = (parts.org()?, EndpointId(parts.id(2)?));
    let stored: StoredDelivery = value(entry)?;
    let event = stored.delivery.event_id;
    parts.agree(&[(3, event.0)])?;
    is_of(&stored.delivery.id, event, endpoint)?;
    let (waits_at, next) = (stored.due, stored.delivery.next_attempt_at);
    // Under way it waits for its lease to lapse; what is shown is when it was due.
    let is_shown = waits_at == next || (stored.is_leased && next.is_some());
    if waits_at.is_some() != stored.is_pending() || !is_shown {
        let expected = "a next attempt where it is pending, and nowhere else";
        let found = format!("{}, due {waits_at:?}", stored.delivery.status);
        return Err(Problem::new(DifferenceCode::Mismatch, expected, found));
    }
    let place = json!({ "endpoint": endpoint, "event": event });
    let mut claims = vec![
        Claim::Says(keys::delivery_id(org, stored.delivery.id), place),
        Claim::Lists(keys::event(org, event), endpoint),
        Claim::Endpoint(org, endpoint),
    ];
    if let Some(at) = waits_at {
        verifier.count(verifier.undelivered_counter(org), 1);
        let queued = keys::delivery_due(org, endpoint, at, event);
        claims.push(Claim::Exists(keys::undelivered(event, endpoint)));
        claims.push(Claim::Exists(queued));
    }
    if stored.delivery.status == DeliveryStatus::Dead {
        claims.push(Claim::Exists(keys::dead_letter(org, endpoint, event)));
    }
    Ok(claims)
}

/// The identifier of a delivery follows from what it delivers where.
fn is_of(id: &DeliveryId, event: EventId, endpoint: EndpointId) -> Result<(), Problem> {
    let wanted = DeliveryId::of(event, endpoint);
    if *id == wanted {
        return Ok(());
    }
    let code = DifferenceCode::Mismatch;
    Err(Problem::new(code, wanted.to_string(), id.to_string()))
}

pub(super) fn delivery_id(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
    let org = parts.org()?;
    let place: DeliveryPlace = value(entry)?;
    is_of(&DeliveryId(parts.id(2)?), place.event, place.endpoint)?;
    let delivery = keys::delivery(org, place.endpoint, place.event);
    Ok(vec![Claim::Exists(delivery)])
}

pub(super) fn delivery_due(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
    value::<()>(entry)?;
    let (org, endpoint) = (parts.org()?, EndpointId(parts.id(2)?));
    let (at, event) = keys::parse_delivery_due(&entry.key)
        .ok_or_else(|| Problem::unreadable("a key that does not end with a time and an event"))?;
    let delivery = keys::delivery(org, endpoint, event);
    Ok(vec![
        Claim::Says(delivery, json!({ "due": at })),
        Claim::Turn(org, endpoint, at),
    ])
}

pub(super) fn undelivered(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
    let (event, endpoint) = (EventId(parts.id(1)?), EndpointId(parts.id(2)?));
    let org: OrgId = value(entry)?;
    let delivery = keys::delivery(org, endpoint, event);
    Ok(vec![is_at(delivery, DeliveryStatus::Pending)])
}

pub(super) fn dead_letter(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
    value::<()>(entry)?;
    let (org, endpoint) = (parts.org()?, EndpointId(parts.id(2)?));
    let delivery = keys::delivery(org, endpoint, EventId(parts.id(3)?));
    Ok(vec![is_at(delivery, DeliveryStatus::Dead)])
}

fn is_at(delivery: crate::store::Key, status: DeliveryStatus) -> Claim {
    Claim::Says(delivery, json!({ "delivery": { "status": status } }))
}

/// What the record of a webhook claims as that of an endpoint.
pub(super) fn webhook(
    verifier: &mut Verifier,
    stored: &SealedRecord<Webhook>,
) -> Result<Vec<Claim>, Problem> {
    let webhook = &stored.record;
    let place = EndpointPlace::Webhook(webhook.workspace_id);
    let is_off = stored.disabled.is_some() && webhook.is_active;
    if stored.disabled != webhook.disabled_reason || is_off {
        let expected = format!("switched off because of {:?}", stored.disabled);
        let found = format!("because of {:?}", webhook.disabled_reason);
        return Err(Problem::new(DifferenceCode::Mismatch, expected, found));
    }
    let (org, workspace) = (webhook.org_id, webhook.workspace_id);
    let endpoint = webhook.id.into();
    Ok(known(
        verifier,
        org,
        workspace,
        endpoint,
        place,
        stored.disabled,
    ))
}

/// What the record of a subscription claims as that of an endpoint.
pub(super) fn subscription(
    verifier: &mut Verifier,
    stored: &SealedRecord<CitationSubscription>,
) -> Vec<Claim> {
    let subscription = &stored.record;
    let place = EndpointPlace::Subscription(subscription.recall_id);
    let (org, workspace) = (subscription.org_id, subscription.workspace_id);
    let endpoint = subscription.id.into();
    known(verifier, org, workspace, endpoint, place, stored.disabled)
}

fn known(
    verifier: &mut Verifier,
    org: OrgId,
    workspace: WorkspaceId,
    endpoint: EndpointId,
    place: EndpointPlace,
    disabled: Option<DisabledReason>,
) -> Vec<Claim> {
    if disabled.is_some() {
        verifier.count(verifier.disabled_endpoint_counter(org), 1);
    }
    let state = keys::endpoint(org, endpoint);
    vec![
        Claim::Says(state.clone(), json!({ "place": place })),
        Claim::Numbered(state, keys::endpoint_sequence(org, workspace)),
    ]
}
