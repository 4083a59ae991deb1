//! Backlog of events and deliveries.

use crate::error::Error;
use crate::keys;
use crate::model::{Timestamp, time_of};
use crate::service::Dispatcher;
use crate::store::{Direction, Found, Read, StoreExt};

/// Maximum to which events of the outbox are counted.
///
/// Counting reads them, and one may list thousands of memories.
const PENDING_EVENTS_COUNTED_MAX: usize = 100;

/// Maximum number of queues in which the oldest delivery is looked for.
const QUEUES_EXAMINED_MAX: usize = 64;
/// Maximum number of entries of each that are examined: pings precede older deliveries.
const FRONT_EXAMINED_MAX: usize = 8;

/// Current backlog of events and deliveries in the whole store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutboxStatus {
    /// Number of events that are not yet fanned out, counted up to 100.
    pub pending_events: u64,
    /// Number of pending deliveries.
    pub undelivered: u64,
    /// Time of the oldest event that is not yet fanned out or has a pending delivery.
    ///
    /// Of the deliveries without a failed attempt, only the first 8 of each of the 64 queues that
    /// are due first are considered.
    pub oldest: Option<Timestamp>,
    /// Earliest due time of an endpoint that is due but unclaimed.
    ///
    /// An endpoint that waits for its next attempt, or for the end of one, is not due.
    pub overdue_since: Option<Timestamp>,
    /// Number of endpoints that the service disabled.
    pub disabled_endpoints: u64,
}

impl Dispatcher<'_> {
    /// Returns the current backlog, for metrics.
    ///
    /// It takes a few reads, and two counters of each organisation that ever had endpoints.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn outbox_status(self) -> Result<OutboxStatus, Error> {
        let store = self.service.store();
        let (outbox, undelivered, ready) = (
            keys::outbox_events(),
            keys::all_undelivered(),
            keys::endpoints_due(),
        );
        let events = store
            .scan(&outbox, PENDING_EVENTS_COUNTED_MAX, Direction::Forward)
            .await?;
        let failed = store.scan(&undelivered, 1, Direction::Forward).await?;
        let due: Vec<_> = store
            .scan(&ready, QUEUES_EXAMINED_MAX, Direction::Forward)
            .await?
            .iter()
            .filter_map(|found| keys::parse_endpoint_due(&found.key))
            .collect();
        let queues: Vec<_> = due
            .iter()
            .map(|(_, org, endpoint)| keys::deliveries_due(*org, *endpoint))
            .collect();
        let reads: Vec<_> = queues
            .iter()
            .map(|range| Read::Range {
                range,
                limit: FRONT_EXAMINED_MAX,
                direction: Direction::Forward,
            })
            .collect();
        let fronts = store.read(&reads).await?;
        let fronts = fronts
            .into_iter()
            .map(Found::into_range)
            .collect::<Result<Vec<_>, _>>()?;
        let now = self.service.env().now();
        let pending_since = events.first().and_then(|found| keys::last_id(&found.key));
        let failing_since = failed
            .first()
            .and_then(|found| keys::second_last_id(&found.key));
        let waiting = fronts
            .iter()
            .flatten()
            .filter_map(|found| keys::last_id(&found.key));
        let oldest = pending_since.into_iter().chain(failing_since);
        Ok(OutboxStatus {
            pending_events: events.len() as u64,
            undelivered: self
                .service
                .sum_counters(&keys::undelivered_counts())
                .await?,
            oldest: oldest.chain(waiting).map(time_of).min(),
            overdue_since: due.first().map(|(at, ..)| *at).filter(|at| *at <= now),
            disabled_endpoints: self
                .service
                .sum_counters(&keys::disabled_endpoint_counts())
                .await?,
        })
    }
}
