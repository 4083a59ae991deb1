//! Outbox, endpoints with their queues, and deliveries.

use serde_json::json;

use crate::keys;
use crate::model::{
    CitationSubscription, DeliveryId, DeliveryStatus, DisabledReason, EndpointId, EventId, OrgId,
    Timestamp, Webhook, WorkspaceId,
};
use crate::service::Event;
use crate::service::deliveries::{
    DeliveryRef, EndpointParent, EndpointState, HostPings, RetainedEvent, StoredDelivery,
    UrlConfirmation,
};
use crate::service::endpoints::EndpointRecord;
use crate::service::secrets::sealing::SealedRecord;
use crate::service::tasks::ScheduledTask;
use crate::service::verify::difference::DifferenceCode;
use crate::service::verify::expectation::Expectation;
use crate::service::verify::problem::{Expectations, Problem};
use crate::service::verify::verifier::Verifier;
use crate::store::KeyEntry;

pub(super) fn outbox(verifier: &mut Verifier, _: &KeyEntry, event: Event) -> Expectations {
    let mut expectations = concerns(verifier, &event);
    let mark = keys::outbox_queue(event.org_id, event.id);
    expectations.push(Expectation::Exists(mark));
    Ok(expectations)
}

/// Expects the event to be one of the organisation.
pub(super) fn outbox_queue(
    _: &mut Verifier,
    _: &KeyEntry,
    (): (),
    org: OrgId,
    event: EventId,
) -> Expectations {
    let of_org = json!({ "org_id": org });
    Ok(vec![Expectation::Contains(keys::outbox(event), of_org)])
}

/// Expects the workspace of an event, and at least as many endpoints as it counted.
///
/// An event may outlive its workspace.
fn concerns(verifier: &Verifier, event: &Event) -> Vec<Expectation> {
    let (org, workspace) = (event.org_id, event.workspace_id);
    if verifier.is_former(org, workspace) {
        return Vec::new();
    }
    vec![
        Expectation::Exists(keys::workspace(org, workspace)),
        Expectation::AtLeast(keys::endpoint_sequence(org, workspace), event.endpoints),
    ]
}

pub(super) fn event(
    verifier: &mut Verifier,
    _: &KeyEntry,
    retained: RetainedEvent,
) -> Expectations {
    let (org, event) = (retained.event.org_id, retained.event.id);
    let mut expectations = concerns(verifier, &retained.event);
    let task = ScheduledTask::Event { org, event };
    expectations.push(Expectation::Scheduled(retained.kept_until, task));
    Ok(expectations)
}

pub(super) fn endpoint(
    _: &mut Verifier,
    _: &KeyEntry,
    state: EndpointState,
    org: OrgId,
    endpoint: EndpointId,
) -> Expectations {
    let record = EndpointRecord::key(org, endpoint, state.parent);
    let queued = state.due.map(|due| keys::endpoint_due(due, org, endpoint));
    let expected = [Some(record), queued].into_iter().flatten();
    Ok(expected.map(Expectation::Exists).collect())
}

pub(super) fn endpoint_due(
    _: &mut Verifier,
    _: &KeyEntry,
    (): (),
    at: Timestamp,
    org: OrgId,
    endpoint: EndpointId,
) -> Expectations {
    let state = keys::endpoint(org, endpoint);
    Ok(vec![Expectation::Contains(state, json!({ "due": at }))])
}

pub(super) fn delivery(
    verifier: &mut Verifier,
    _: &KeyEntry,
    stored: StoredDelivery,
    org: OrgId,
    endpoint: EndpointId,
) -> Expectations {
    let event = stored.delivery.event_id;
    is_of(&stored.delivery.id, event, endpoint)?;
    let (waits_at, next) = (stored.due, stored.delivery.next_attempt_at);
    if waits_at.is_some() != stored.is_pending() || waits_at != next {
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
        verifier.count(keys::undelivered_count(org), 1);
        let queued = keys::delivery_due(org, endpoint, at, event);
        expectations.push(Expectation::Exists(queued));
        if !stored.is_fresh {
            expectations.push(Expectation::Exists(keys::undelivered(event, endpoint)));
        }
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

pub(super) fn delivery_id(
    _: &mut Verifier,
    _: &KeyEntry,
    reference: DeliveryRef,
    org: OrgId,
    delivery: DeliveryId,
) -> Expectations {
    is_of(&delivery, reference.event, reference.endpoint)?;
    let delivery = keys::delivery(org, reference.endpoint, reference.event);
    Ok(vec![Expectation::Exists(delivery)])
}

pub(super) fn delivery_due(
    _: &mut Verifier,
    _: &KeyEntry,
    (): (),
    org: OrgId,
    endpoint: EndpointId,
    at: Timestamp,
    event: EventId,
) -> Expectations {
    let delivery = keys::delivery(org, endpoint, event);
    Ok(vec![
        Expectation::Contains(delivery, json!({ "due": at })),
        Expectation::ReadyBy(org, endpoint, at, event),
    ])
}

pub(super) fn undelivered(
    _: &mut Verifier,
    _: &KeyEntry,
    org: OrgId,
    event: EventId,
    endpoint: EndpointId,
) -> Expectations {
    let delivery = keys::delivery(org, endpoint, event);
    Ok(vec![is_at(delivery, DeliveryStatus::Pending)])
}

pub(super) fn dead_letter(
    _: &mut Verifier,
    _: &KeyEntry,
    (): (),
    org: OrgId,
    endpoint: EndpointId,
    event: EventId,
) -> Expectations {
    let delivery = keys::delivery(org, endpoint, event);
    Ok(vec![is_at(delivery, DeliveryStatus::Dead)])
}

pub(super) fn url_confirmation(
    _: &mut Verifier,
    entry: &KeyEntry,
    confirmation: UrlConfirmation,
) -> Expectations {
    let task = ScheduledTask::record(entry.key.clone());
    Ok(vec![Expectation::Scheduled(confirmation.expires_at, task)])
}

pub(super) fn host_pings(_: &mut Verifier, entry: &KeyEntry, pings: HostPings) -> Expectations {
    let task = ScheduledTask::record(entry.key.clone());
    Ok(vec![Expectation::Scheduled(pings.expires_at, task)])
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
        verifier.count(keys::disabled_endpoint_count(org), 1);
    }
    let state = keys::endpoint(org, endpoint);
    vec![
        Expectation::Contains(state.clone(), json!({ "parent": parent })),
        Expectation::Numbered(state, keys::endpoint_sequence(org, workspace)),
    ]
}
