//! Which endpoints hear of an event.

use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::super::queue::EndpointState;
use crate::access::{Credential, CredentialKind, Principal, needs};
use crate::error::Error;
use crate::model::{
    CitationSubscription, EndpointId, EventType, OrgId, RecallId, SubscriptionId, Timestamp,
    Webhook, WebhookId, WorkspaceId,
};
use crate::service::sealing::SealedRecord;
use crate::store::{Key, KeyEntry, KeyRange, Transaction, Version, decode_value, keys};

/// Whether an endpoint is told anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    On,
    /// Its owner switched it off.
    Off,
    /// The service switched it off: what it misses is kept for it.
    Disabled,
}

/// An endpoint as it was read, without a check: who acts on it adds the checks.
#[derive(Clone, Debug)]
pub(super) struct Hearer {
    pub(super) endpoint: EndpointId,
    pub(super) standing: Standing,
    /// What it wants to hear of.
    pub(super) event_type: EventType,
    pub(super) state: EndpointState,
    /// Whose actions decide, where it is a subscription.
    pub(super) subscription: Option<Arc<CitationSubscription>>,
    read: [(Key, Version); 2],
}

impl Hearer {
    /// Has the commit check the endpoint as it was read.
    pub(super) fn check(&self, transaction: &mut Transaction) {
        for (key, version) in &self.read {
            transaction.check(key.clone(), Some(*version));
        }
    }
}

/// The webhooks of a workspace.
pub(super) async fn webhooks(
    transaction: &Transaction,
    org: OrgId,
    workspace: WorkspaceId,
) -> Result<Vec<Hearer>, Error> {
    let range = keys::webhooks(org, workspace);
    let make = |stored: SealedRecord<Webhook>| {
        let standing = match (stored.disabled, stored.record.is_active) {
            (Some(_), _) => Standing::Disabled,
            (None, true) => Standing::On,
            (None, false) => Standing::Off,
        };
        (standing, stored.record.event_type, None)
    };
    read(transaction, org, &range, |id| WebhookId(id).into(), make).await
}

/// The subscriptions to a recall.
pub(super) async fn subscriptions(
    transaction: &Transaction,
    org: OrgId,
    recall: RecallId,
) -> Result<Vec<Hearer>, Error> {
    let range = keys::subscriptions(org, recall);
    let make = |stored: SealedRecord<CitationSubscription>| {
        let standing = match stored.disabled {
            Some(_) => Standing::Disabled,
            None => Standing::On,
        };
        let subscription = Some(Arc::new(stored.record));
        (standing, EventType::CitationChanged, subscription)
    };
    let endpoint = |id| SubscriptionId(id).into();
    read(transaction, org, &range, endpoint, make).await
}

type Made = (Standing, EventType, Option<Arc<CitationSubscription>>);

/// Reads endpoints with their states, in the order of their identifiers. One that cannot be read hears nothing: the others
/// do not wait for its repair.
async fn read<T: DeserializeOwned>(
    transaction: &Transaction,
    org: OrgId,
    range: &KeyRange,
    endpoint: impl Fn(uuid::Uuid) -> EndpointId,
    make: impl Fn(SealedRecord<T>) -> Made,
) -> Result<Vec<Hearer>, Error> {
    let records = transaction.scan_unchecked(range).await?;
    let endpoints: Vec<_> = records
        .iter()
        .filter_map(|record| Some((endpoint(keys::last_id(&record.key)?), record)))
        .collect();
    let states: Vec<_> = endpoints
        .iter()
        .map(|(endpoint, _)| keys::endpoint(org, *endpoint))
        .collect();
    let found = transaction.unchecked().get(&states).await?;
    let mut hearers = Vec::with_capacity(endpoints.len());
    for (((endpoint, record), key), state) in endpoints.into_iter().zip(states).zip(found) {
        // Deleted between the two readings.
        let Some(entry) = state else { continue };
        let state = KeyEntry { key, entry };
        let decoded = decode_value(record).and_then(|stored| Ok((stored, decode_value(&state)?)));
        let (stored, decoded_state): (SealedRecord<T>, EndpointState) = match decoded {
            Ok(decoded) => decoded,
            Err(error) => {
                tracing::error!(key = %record.key, %error, "an endpoint cannot be read and hears nothing");
                continue;
            }
        };
        let (standing, event_type, subscription) = make(stored);
        let read = [record, &state].map(|found| (found.key.clone(), found.entry.version));
        hearers.push(Hearer {
            endpoint,
            standing,
            event_type,
            state: decoded_state,
            subscription,
            read,
        });
    }
    Ok(hearers)
}

/// Whether a subscriber may still hear of the recall: it is a member, and may manage subscriptions in the workspace.
pub(super) async fn may_hear(
    transaction: &mut Transaction,
    subscription: &CitationSubscription,
    now: Timestamp,
) -> Result<bool, Error> {
    let trusted = Credential::Trusted {
        org: subscription.org_id,
        member: subscription.subscriber_user_id,
    };
    let kind = CredentialKind::Bearer;
    let entered = match Principal::recognise(transaction, &trusted, kind, now).await {
        Ok(subscriber) => {
            let workspace = subscription.workspace_id;
            let need = needs::SUBSCRIBE;
            subscriber.enter(transaction, workspace, need).await
        }
        Err(error) => Err(error),
    };
    match entered {
        Ok(_) => Ok(true),
        Err(Error::Unauthenticated { .. } | Error::Forbidden { .. } | Error::NotFound { .. }) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}
