//! Endpoints that may receive an event.

use std::sync::Arc;

use crate::error::Error;
use crate::keys;
use crate::model::{EndpointId, EventType, OrgId};
use crate::service::deliveries::queue::EndpointState;
use crate::service::endpoints::EndpointRecord;
use crate::store::{
    Entry, Key, KeyEntry, KeyRange, StoreError, StoreExt, Transaction, Version, decode,
};

/// An endpoint that was read without a check. A commit that relies on it adds the checks.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) endpoint: EndpointId,
    pub(super) record: Arc<EndpointRecord>,
    pub(super) state: EndpointState,
    read: [(Key, Version); 2],
}

impl Target {
    fn decode(
        endpoint: EndpointId,
        stored: &KeyEntry,
        key: Key,
        entry: &Entry,
    ) -> Result<Self, StoreError> {
        let state: EndpointState = decode(&key, entry)?.value;
        let record = EndpointRecord::decode(state.parent, &stored.key, &stored.entry)?;
        Ok(Self {
            endpoint,
            record: Arc::new(record),
            state,
            read: [
                (stored.key.clone(), stored.entry.version),
                (key, entry.version),
            ],
        })
    }

    /// Makes the commit check that the endpoint has not changed since it was read.
    pub(super) fn check(&self, transaction: &mut Transaction) {
        for (key, version) in &self.read {
            transaction.check(key.clone(), Some(*version));
        }
    }

    /// Returns true if the endpoint receives events of this type.
    ///
    /// `endpoints` is the number of endpoints that the workspace had ever had at the commit of the
    /// event. Events for an endpoint that the service disabled become dead letters; one that its
    /// owner deactivated receives none.
    pub(super) fn matches(&self, event_type: EventType, endpoints: i64) -> bool {
        let wanted = match &*self.record {
            EndpointRecord::Webhook(stored) => stored.record.event_type,
            EndpointRecord::Subscription(_) => EventType::CitationChanged,
        };
        wanted == event_type
            && self.state.sequence <= endpoints
            && !self.record.is_disabled_by_owner()
    }
}

/// Reads the endpoints whose records are in a range, in the order of their identifiers.
///
/// A corrupt endpoint is omitted, so that the others do not wait for its repair.
pub(super) async fn read(
    transaction: &mut Transaction,
    org: OrgId,
    range: &KeyRange,
) -> Result<Vec<Target>, Error> {
    let records = transaction.unchecked().store().scan_all(range).await?;
    let endpoints: Vec<_> = records
        .iter()
        .filter_map(|record| Some((EndpointId(keys::last_id(&record.key)?), record)))
        .collect();
    let states: Vec<_> = endpoints
        .iter()
        .map(|(endpoint, _)| keys::endpoint(org, *endpoint))
        .collect();
    let found = transaction.unchecked().store().get(&states).await?;
    let mut targets = Vec::with_capacity(endpoints.len());
    for (((endpoint, record), key), state) in endpoints.into_iter().zip(states).zip(found) {
        // Deleted between the two reads.
        let Some(state) = state else { continue };
        match Target::decode(endpoint, record, key, &state) {
            Ok(target) => targets.push(target),
            Err(error) => {
                tracing::error!(%endpoint, %error, "corrupt endpoint; skipping its deliveries");
            }
        }
    }
    Ok(targets)
}
