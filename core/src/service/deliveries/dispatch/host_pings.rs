//! Bound of the pings to the unconfirmed endpoints of one host.
//!
//! It applies over all organisations, of which each has at most half; further pings wait. Pings to
//! confirmed URLs do not count.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::keys;
use crate::model::{ConfirmationReason, OrgId, Timestamp, canonical_host};
use crate::service::KnowledgeService;
use crate::service::endpoints::EndpointRecord;
use crate::service::tasks::ScheduledTask;
use crate::store::{Key, Transaction};

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
    /// Bound that permits a further one last.
    pub(super) limit: ConfirmationReason,
}

impl KnowledgeService {
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
        let found = transaction.get::<HostPings>(&key).await?;
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
        let limit = if next_of_share >= next {
            ConfirmationReason::OrganizationLimit
        } else {
            ConfirmationReason::HostLimit
        };
        Ok(HostRoom {
            key,
            org,
            left: left.min(left_of_share),
            next: next.max(next_of_share),
            limit,
            pings,
        })
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
