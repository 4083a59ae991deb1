//! Which endpoints could hear of an event.

use std::sync::Arc;

use super::super::queue::EndpointState;
use super::super::recipient::Recipient;
use crate::error::Error;
use crate::model::{EndpointId, EventType, OrgId};
use crate::keys;
use crate::store::{Entry, Key, KeyEntry, KeyRange, StoreError, StoreExt, Transaction, Version, decode};

/// An endpoint as it was read, without a check: who acts on it adds the checks.
#[derive(Clone, Debug)]
pub(super) struct Hearer {
    pub(super) endpoint: EndpointId,
    pub(super) recipient: Arc<Recipient>,
    pub(super) state: EndpointState,
    read: [(Key, Version); 2],
}

impl Hearer {
    fn decode(
        endpoint: EndpointId,
        record: &KeyEntry,
        key: Key,
        entry: &Entry,
    ) -> Result<Self, StoreError> {
        let state: EndpointState = decode(&key, entry)?.value;
        let recipient = Recipient::decode(state.place, &record.key, &record.entry)?;
        Ok(Self {
            endpoint,
            recipient: Arc::new(recipient),
            state,
            read: [
                (record.key.clone(), record.entry.version),
                (key, entry.version),
            ],
        })
    }

    /// Has the commit check the endpoint as it was read.
    pub(super) fn check(&self, transaction: &mut Transaction) {
        for (key, version) in &self.read {
            transaction.check(key.clone(), Some(*version));
        }
    }

    /// Whether it hears of events of this type for which there had been so many endpoints. What one misses that the
    /// service switched off is kept for it; what its owner switched off hears nothing.
    pub(super) fn hears(&self, event_type: EventType, endpoints: i64) -> bool {
        let wanted = match &*self.recipient {
            Recipient::Webhook(stored) => stored.record.event_type,
            Recipient::Subscription(_) => EventType::CitationChanged,
        };
        wanted == event_type && self.state.sequence <= endpoints && !self.recipient.is_paused()
    }
}

/// Reads the endpoints whose records are in a range, in the order of their identifiers. One that cannot be read hears
/// nothing: the others do not wait for its repair.
pub(super) async fn read(
    transaction: &Transaction,
    org: OrgId,
    range: &KeyRange,
) -> Result<Vec<Hearer>, Error> {
    let records = transaction.scan_unchecked(range).await?;
    let endpoints: Vec<_> = records
        .iter()
        .filter_map(|record| Some((EndpointId(keys::last_id(&record.key)?), record)))
        .collect();
    let states: Vec<_> = endpoints
        .iter()
        .map(|(endpoint, _)| keys::endpoint(org, *endpoint))
        .collect();
    let found = transaction.unchecked().get(&states).await?;
    let mut hearers = Vec::with_capacity(endpoints.len());
    for (((endpoint, record), key), state) in endpoints.into_iter().zip(states).zip(found) {
        // Deleted between the two readings.
        let Some(state) = state else { continue };
        match Hearer::decode(endpoint, record, key, &state) {
            Ok(hearer) => hearers.push(hearer),
            Err(error) => {
                tracing::error!(%endpoint, %error, "an endpoint cannot be read and hears nothing");
            }
        }
    }
    Ok(hearers)
}
