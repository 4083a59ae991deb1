//! Pings: consent of an endpoint's URL before it receives events.
//!
//! An endpoint is unconfirmed until its URL has answered a ping of the organisation with 2xx. Until
//! then, events wait in its queue, and a claim leases pings only: those on request and, while none
//! of them is pending and no other endpoint asks the same URL, one of its own, which is retried on
//! schedule.

use super::endpoint_queue::EndpointQueue;
use super::queued_delivery::QueuedDelivery;
use super::stored_delivery::StoredDelivery;
use crate::error::Error;
use crate::keys;
use crate::model::{EventData, EventId, Timestamp, WebhookPing};
use crate::service::endpoints::EndpointRecord;
use crate::service::{Event, KnowledgeService};
use crate::store::{Entry, Key, Transaction, decode};

/// Maximum number of pings of an unconfirmed endpoint that a claim considers.
const PENDING_PINGS_MAX: usize = 8;
impl EndpointQueue {
    /// Adds a ping to those that an unconfirmed endpoint receives.
    pub(in crate::service) fn note_ping(&mut self, event: EventId) {
        let pings = &mut self.state.pings;
        if pings.len() == PENDING_PINGS_MAX {
            pings.remove(0);
        }
        pings.push(event);
    }

    /// Returns the pending pings of an unconfirmed endpoint, ordered by time.
    ///
    /// Those that have ended, or are unreadable, are removed from its state.
    pub(in crate::service) async fn pending_pings(
        &mut self,
        transaction: &mut Transaction,
    ) -> Result<Vec<QueuedDelivery>, Error> {
        let key = |event: &EventId| keys::delivery(self.org, self.endpoint, *event);
        let records: Vec<Key> = self.state.pings.iter().map(key).collect();
        let found = transaction.get_many::<Entry>(&records).await?;
        let mut pending = Vec::new();
        for (key, entry) in records.iter().zip(found) {
            let delivery = entry.map(|entry| decode::<StoredDelivery>(key, &entry));
            if let Some(Ok(delivery)) = delivery
                && let Some(at) = delivery.value.due
            {
                let event = delivery.value.delivery.event_id;
                pending.push(QueuedDelivery { at, event });
            }
        }
        self.state.pings = pending.iter().map(|queued| queued.event).collect();
        pending.sort_unstable_by_key(|queued| queued.at);
        Ok(pending)
    }
}

impl KnowledgeService {
    /// Creates a ping of an endpoint.
    pub(in crate::service) fn ping_event(&self, record: &EndpointRecord, now: Timestamp) -> Event {
        let (endpoint_id, workspace_id) = (record.endpoint(), record.workspace());
        Event {
            id: EventId(self.env().uuid_at(now)),
            org_id: record.org(),
            workspace_id,
            timestamp: now,
            data: EventData::WebhookPing(WebhookPing {
                endpoint_id,
                workspace_id,
            }),
            endpoints: 0,
            audit: None,
        }
    }
}
