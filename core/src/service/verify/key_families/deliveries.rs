//! Outbox, endpoints with their queues, and deliveries.

use serde_json::json;

use super::{Expectations, Parts, Problem, value};
use crate::keys;
use crate::model::{
    CitationSubscription, DeliveryId, DeliveryStatus, DisabledReason, EndpointId, EventId, OrgId,
    Webhook, WorkspaceId,
};
use crate::service::Event;
use crate::service::deliveries::{
    DeliveryRef, EndpointParent, EndpointRecord, EndpointState, FanOutCursor, RetainedEvent,
    StoredDelivery,
};
use crate::service::kit::sealing::SealedRecord;
use crate::service::maintain::ScheduledTask;
use crate::service::verify::expectation::Expectation;
use crate::service::verify::{DifferenceCode, Verifier};
use crate::store::KeyEntry;

pub(super) fn outbox(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Expectations {
    let event: Event = value(entry)?;
    parts.agree(&[(1, event.id.0)])?;
    Ok(concerns(&event))
}

/// Expects the workspace of an event, and at least as many endpoints as it counted.
fn concerns(event: &Event) -> Vec<Expectation> {
    let (org, workspace) = (event.org_id, event.workspace_id);
    vec![
        Expectation::Exists(keys::workspace(org, workspace)),
        Expectation::AtLeast(keys::endpoint_sequence(org, workspace), event.endpoints),
    ]
}

pub(super) fn expansion(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Expectations {
    value::<FanOutCursor>(entry)?;
    Ok(vec![Expectation::Exists(keys::outbox(EventId(
        parts.id(1)?,
    )))])
}

pub(super) fn event(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Expectations {
    let retained: RetainedEvent = value(entry)?;
    let (org, event) = (retained.event.org_id, retained.event.id);
    parts.agree(&[(1, org.0), (2, event.0)])?;
    let mut expectations = concerns(&retained.event);
    let task = ScheduledTask::Event { org, event };
    expectations.push(Expectation::Scheduled(retained.kept_until, task));
    Ok(expectations)
}

pub(super) fn endpoint(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Expectations {
    let (org, endpoint) = (parts.org()?, EndpointId(parts.id(2)?));
    let state: EndpointState = value(entry)?;
    let mut expectations = vec![Expectation::Exists(EndpointRecord::key(
        org,
        endpoint,
        state.parent,
    ))];
    if let Some(due) = state.due {
        expectations.push(Expectation::Exists(keys::endpoint_due(due, org, endpoint)));
    }
    Ok(expectations)
}

pub(super) fn endpoint_due(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Expectations {
    value::<()>(entry)?;
    let (at, org, endpoint) = keys::parse_endpoint_due(&entry.key)
        .ok_or_else(|| Problem::unreadable("a key that is not a time and two identifiers"))?;
    parts.agree(&[(2, org.0)])?;
    let state = keys::endpoint(org, endpoint);
    Ok(vec![Expectation::Contains(state, json!({ "due": at }))])
}

/// Reads a number that only increases: it is at least the highest sequence number.
pub(super) fn endpoint_sequence(
    _: &mut Verifier,
    entry: &KeyEntry,
    parts: &Parts<'_>,
) -> Expectations {
    value::<i64>(entry)?;
    let workspace = keys::workspace(parts.org()?, parts.workspace()?);
    Ok(vec![Expectation::Exists(workspace)])
}

pub(super) fn delivery(
    verifier: &mut Verifier,
    entry: &KeyEntry,
    parts: &Parts<'_>,
) -> Expectations {
    let (org, endpoint) = (parts.org()?, EndpointId(parts.id(2)?));
    let stored: StoredDelivery = value(entry)?;
    let event = stored.delivery.event_id;
    parts.agree(&[(3, event.0)])?;
    is_of(&stored.delivery.id, event, endpoint)?;
    let (waits_at, next) = (stored.due, stored.delivery.next_attempt_at);
    // While the delivery is leased, `due` is the expiry; `next_attempt_at` is when it was due
    // before.
    let is_shown = waits_at == next || (stored.is_leased && next.is_some());
    if waits_at.is_some() != stored.is_pending() || !is_shown {
        let expected = "a next attempt if, and only if, it is pending";
        let found = format!("{}, due {waits_at:?}", stored.delivery.status);
        return Err(Problem::new(DifferenceCode::Mismatch, expected, found));
    }
    let reference = json!({ "endpoint": endpoint, "event": event });
    let mut expectations = vec![
        Expectation::Contains(keys::delivery_id(org, stored.delivery.id), reference),
        Expectation::Lists(keys::event(org, event), endpoint),
        Expectation::Endpoint(org, endpoint),
    ];
    if let Some(at) = waits_at {
        verifier.count(verifier.undelivered_counter(org), 1);
        let queued = keys::delivery_due(org, endpoint, at, event);
        expectations.push(Expectation::Exists(keys::undelivered(event, endpoint)));
        expectations.push(Expectation::Exists(queued));
    }
    if stored.delivery.status == DeliveryStatus::Dead {
        expectations.push(Expectation::Exists(keys::dead_letter(org, endpoint, event)));
    }
    Ok(expectations)
}

/// Checks the identifier of a delivery, which follows from event and endpoint.
fn is_of(id: &DeliveryId, event: EventId, endpoint: EndpointId) -> Result<(), Problem> {
    let wanted = DeliveryId::of(event, endpoint);
    if *id == wanted {
        return Ok(());
    }
    let code = DifferenceCode::Mismatch;
    Err(Problem::new(code, wanted.to_string(), id.to_string()))
}

pub(super) fn delivery_id(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Expectations {
    let org = parts.org()?;
    let reference: DeliveryRef = value(entry)?;
    is_of(
        &DeliveryId(parts.id(2)?),
        reference.event,
        reference.endpoint,
    )?;
    let delivery = keys::delivery(org, reference.endpoint, reference.event);
    Ok(vec![Expectation::Exists(delivery)])
}

pub(super) fn delivery_due(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Expectations {
    value::<()>(entry)?;
    let (org, endpoint) = (parts.org()?, EndpointId(parts.id(2)?));
    let (at, event) = keys::parse_delivery_due(&entry.key)
        .ok_or_else(|| Problem::unreadable("a key that does not end with a time and an event"))?;
    let delivery = keys::delivery(org, endpoint, event);
    Ok(vec![
        Expectation::Contains(delivery, json!({ "due": at })),
        Expectation::ReadyBy(org, endpoint, at),
    ])
}

pub(super) fn undelivered(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Expectations {
    let (event, endpoint) = (EventId(parts.id(1)?), EndpointId(parts.id(2)?));
    let org: OrgId = value(entry)?;
    let delivery = keys::delivery(org, endpoint, event);
    Ok(vec![is_at(delivery, DeliveryStatus::Pending)])
}

pub(super) fn dead_letter(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Expectations {
    value::<()>(entry)?;
    let (org, endpoint) = (parts.org()?, EndpointId(parts.id(2)?));
    let delivery = keys::delivery(org, endpoint, EventId(parts.id(3)?));
    Ok(vec![is_at(delivery, DeliveryStatus::Dead)])
}

fn is_at(delivery: crate::store::Key, status: DeliveryStatus) -> Expectation {
    Expectation::Contains(delivery, json!({ "delivery": { "status": status } }))
}

/// Returns the expectations of a webhook as an endpoint.
pub(super) fn webhook(
    verifier: &mut Verifier,
    stored: &SealedRecord<Webhook>,
) -> Result<Vec<Expectation>, Problem> {
    let webhook = &stored.record;
    let parent = EndpointParent::Webhook(webhook.workspace_id);
    let is_off = stored.disabled.is_some() && webhook.is_active;
    if stored.disabled != webhook.disabled_reason || is_off {
        let expected = format!("disabled because of {:?}", stored.disabled);
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
        parent,
        stored.disabled,
    ))
}

/// Returns the expectations of a subscription as an endpoint.
pub(super) fn subscription(
    verifier: &mut Verifier,
    stored: &SealedRecord<CitationSubscription>,
) -> Vec<Expectation> {
    let subscription = &stored.record;
    let parent = EndpointParent::Subscription(subscription.recall_id);
    let (org, workspace) = (subscription.org_id, subscription.workspace_id);
    let endpoint = subscription.id.into();
    known(verifier, org, workspace, endpoint, parent, stored.disabled)
}

fn known(
    verifier: &mut Verifier,
    org: OrgId,
    workspace: WorkspaceId,
    endpoint: EndpointId,
    parent: EndpointParent,
    disabled: Option<DisabledReason>,
) -> Vec<Expectation> {
    if disabled.is_some() {
        verifier.count(verifier.disabled_endpoint_counter(org), 1);
    }
    let state = keys::endpoint(org, endpoint);
    vec![
        Expectation::Contains(state.clone(), json!({ "place": parent })),
        Expectation::Numbered(state, keys::endpoint_sequence(org, workspace)),
    ]
}
