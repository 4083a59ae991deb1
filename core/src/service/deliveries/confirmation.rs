//! Confirmation of endpoints: consent of a host before it receives events.
//!
//! An endpoint is unconfirmed until its URL has answered a ping with 2xx. Until then, events wait
//! in its queue, and a claim leases pings only: those on request and, while none of them is
//! pending, one of its own, which is retried on schedule. The pings to the unconfirmed endpoints of
//! one host are bounded over all organisations, of which each has at most half; further ones wait.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::claim_builder::ClaimResult;
use super::endpoint_record::EndpointRecord;
use super::entry_claim::postpone;
use super::queue::EndpointQueue;
use super::queued_delivery::QueuedDelivery;
use super::record::StoredDelivery;
use super::schedule::{FAILING_MAX, REQUEUE_DELAY};
use crate::error::Error;
use crate::keys;
use crate::model::{
    DisabledReason, EventData, EventId, OrgId, Timestamp, WebhookPing, canonical_host,
};
use crate::service::tasks::ScheduledTask;
use crate::service::{Event, KnowledgeService};
use crate::store::{Key, Transaction, decode};

/// Number of failed attempts of a ping after which an unconfirmed endpoint is disabled.
///
/// The attempts take about two and a half hours.
pub(super) const PING_ATTEMPTS_MAX: u32 = 5;
/// Maximum number of pings of an unconfirmed endpoint that a claim considers.
const PENDING_PINGS_MAX: usize = 8;
/// Period in which the pings to a host are counted.
const WINDOW: Duration = Duration::from_secs(60 * 60);
/// Divisor of the share of the pings to a host that one organisation may send.
///
/// So no single organisation keeps others from confirming endpoints at a host that they share.
const SHARE_OF_ORGANIZATION: u64 = 2;

/// Pings to the unconfirmed endpoints of a host in the last hour.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::service) struct HostPings {
    /// Time and organisation of each.
    pings: Vec<(Timestamp, OrgId)>,
    /// Time of the purge, scheduled under `due`.
    pub(in crate::service) expires_at: Timestamp,
}

/// Pings that a host may receive now.
pub(super) struct HostRoom {
    key: Key,
    org: OrgId,
    /// Pings in the last hour.
    pings: Vec<(Timestamp, OrgId)>,
    /// Number of pings that the organisation may send.
    pub(super) left: usize,
    /// Time at which it may send a further one, if none now.
    pub(super) next: Timestamp,
}

impl EndpointQueue {
    /// Adds a ping to those that an unconfirmed endpoint receives.
    pub(super) fn note_ping(&mut self, event: EventId) {
        let pings = &mut self.state.pings;
        if pings.len() == PENDING_PINGS_MAX {
            pings.remove(0);
        }
        pings.push(event);
    }

    /// Returns the pending pings of an unconfirmed endpoint, ordered by time.
    ///
    /// Those that have ended, or are unreadable, are removed from its state.
    pub(super) async fn pending_pings(
        &mut self,
        transaction: &mut Transaction,
    ) -> Result<Vec<QueuedDelivery>, Error> {
        let key = |event: &EventId| keys::delivery(self.org, self.endpoint, *event);
        let records: Vec<Key> = self.state.pings.iter().map(key).collect();
        let found = transaction.entries(&records).await?;
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
    pub(super) fn ping_event(&self, record: &EndpointRecord, now: Timestamp) -> Event {
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

    /// Returns what the bound of pings permits for the host of an endpoint.
    ///
    /// The commit checks it, so that concurrent claims do not exceed the bound.
    pub(super) async fn host_room(
        &self,
        transaction: &mut Transaction,
        record: &EndpointRecord,
        now: Timestamp,
    ) -> Result<HostRoom, Error> {
        let org = record.org();
        let key = keys::host_pings(&canonical_host(record.url()));
        let found = transaction.read::<HostPings>(&key).await?;
        let mut pings = found.map_or_else(Vec::new, |found| found.pings);
        // Those further in the future date from before the clock was set back.
        pings.retain(|(at, _)| now.since(*at) < WINDOW && at.since(now) < WINDOW);
        pings.sort_unstable();
        let times: Vec<Timestamp> = pings.iter().map(|(at, _)| *at).collect();
        let own = pings.iter().filter(|(_, of)| *of == org);
        let own: Vec<Timestamp> = own.map(|(at, _)| *at).collect();
        let max = self.limits().pings_per_host_max;
        let (left, next) = room(&times, max, now);
        let (left_of_share, next_of_share) = room(&own, max.div_ceil(SHARE_OF_ORGANIZATION), now);
        Ok(HostRoom {
            key,
            org,
            left: left.min(left_of_share),
            next: next.max(next_of_share),
            pings,
        })
    }

    /// Postpones an endpoint until its host may receive a ping, but not for days.
    pub(super) fn wait_for_room(
        &self,
        transaction: &mut Transaction,
        mut queue: EndpointQueue,
        record: EndpointRecord,
        until: Timestamp,
        now: Timestamp,
    ) -> ClaimResult {
        let failing_since = *queue.state.failing_since.get_or_insert(now);
        if !record.is_active() || now.since(failing_since) < FAILING_MAX {
            return postpone(transaction, queue, until);
        }
        self.set_disabled(transaction, record, Some(DisabledReason::Failing), now);
        queue.state.failing_since = None;
        queue.state.pings.clear();
        // What waits for it is dead-lettered then.
        postpone(transaction, queue, now.plus(REQUEUE_DELAY))
    }

    /// Counts pings that are sent now.
    pub(super) fn take_room(
        &self,
        transaction: &mut Transaction,
        room: HostRoom,
        count: usize,
        now: Timestamp,
    ) {
        let mut pings = room.pings;
        pings.extend(std::iter::repeat_n((now, room.org), count));
        let last = pings.iter().map(|(at, _)| *at).max();
        let expires_at = last.unwrap_or(now).plus(WINDOW);
        transaction.put(room.key.clone(), &HostPings { pings, expires_at });
        ScheduledTask::record(room.key).schedule(transaction, expires_at, self.env());
    }
}

/// Returns how many pings a bound leaves beside those of the last hour, ordered by time, and when it
/// permits the next one.
fn room(times: &[Timestamp], max: u64, now: Timestamp) -> (usize, Timestamp) {
    let max = usize::try_from(max).unwrap_or(usize::MAX);
    let last_in_way = times
        .len()
        .checked_sub(max)
        .and_then(|last| times.get(last));
    let next = last_in_way.map_or(now, |at| at.plus(WINDOW));
    (max.saturating_sub(times.len()), next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::PINGS_PER_HOST_CEILING;
    use crate::store::VALUE_BYTES_MAX;

    #[test]
    fn pings_at_the_ceiling_fit_into_one_value() {
        let latest = Timestamp::from_millis(253_402_300_799_999);
        let ping = (latest, OrgId(uuid::Uuid::max()));
        let count = usize::try_from(PINGS_PER_HOST_CEILING).unwrap();
        let stored = HostPings {
            pings: vec![ping; count],
            expires_at: latest,
        };
        let stored = serde_json::to_vec(&stored).unwrap();
        assert!(stored.len() <= VALUE_BYTES_MAX, "{} bytes", stored.len());
    }
}
