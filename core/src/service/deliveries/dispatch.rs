//! One round of everything, for hosts that have no process of their own for it.

use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt};

use super::claim::{ClaimTerms, Claimed, ClaimedDelivery, IN_FLIGHT_PER_ENDPOINT_MAX};
use super::exchange::{DELIVERY_TIMEOUT, DeliverySender};
use super::finish::Finished;
use super::in_flight::InFlight;
use super::lease::{DELIVERY_LEASE, DeliveryLease};
use crate::error::Error;
use crate::model::Timestamp;
use crate::service::KnowledgeService;

/// How many times one call expands and claims.
const STEPS_MAX: usize = 2_048;
/// How long the leases hold: nobody renews them meanwhile.
const LEASE: Duration = DELIVERY_TIMEOUT.saturating_add(DELIVERY_LEASE);

/// How much one round of [`KnowledgeService::dispatch`] may do. What does not fit is due in the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DispatchLimits {
    /// How many exchanges are under way at once, at least one: no more than the host really sends at once, as their time
    /// runs from when they are handed over. Half of them, or [`IN_FLIGHT_PER_ENDPOINT_MAX`] where that is less, may be with
    /// one endpoint: one that does not answer holds up nobody else.
    pub at_once_max: usize,
    /// How many attempts are made, at least one.
    pub attempts_max: usize,
}

impl Default for DispatchLimits {
    /// 64 at once, 1,024 in all.
    fn default() -> Self {
        Self {
            at_once_max: 64,
            attempts_max: 1_024,
        }
    }
}

impl DispatchLimits {
    /// With less than one nothing would ever be done, and there would always be more to do.
    fn at_least_one(self) -> Self {
        Self {
            at_once_max: self.at_once_max.max(1),
            attempts_max: self.attempts_max.max(1),
        }
    }

    fn terms(&self) -> ClaimTerms {
        ClaimTerms {
            lease: LEASE,
            per_endpoint_max: IN_FLIGHT_PER_ENDPOINT_MAX.min((self.at_once_max / 2).max(1)),
        }
    }

    /// How many more may begin.
    fn room(&self, in_flight: usize, begun: usize) -> usize {
        let at_once = self.at_once_max - in_flight;
        at_once.min(self.attempts_max - begun)
    }
}

/// What one round of [`KnowledgeService::dispatch`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dispatched {
    /// Attempts that were made.
    pub attempts: u64,
    /// Those that succeeded.
    pub delivered: u64,
    /// Whether there is more to do now: call again.
    pub has_more: bool,
    /// When something is due next, where nothing is now.
    pub next_due: Option<Timestamp>,
}

impl KnowledgeService {
    /// One whole round: expands what is in the outbox, and makes what is due, with this sender, within these limits. For
    /// hosts without a process of their own to do so all the time.
    ///
    /// The sender has to keep to [`DELIVERY_TIMEOUT`]: the leases hold for little longer. While the call lasts time goes on:
    /// of `now` and the clock of the service's [`Env`](crate::env::Env) the later one counts.
    ///
    /// # Errors
    /// Those of the store; what was done before stays done.
    pub async fn dispatch(
        &self,
        sender: &dyn DeliverySender,
        now: Timestamp,
        limits: DispatchLimits,
    ) -> Result<Dispatched, Error> {
        let limits = limits.at_least_one();
        let mut done = Dispatched::default();
        let mut in_flight = InFlight::default();
        let mut exchanges = FuturesUnordered::new();
        let (mut failed, mut begun) = (None, 0);
        for step in 0.. {
            let may_begin = failed.is_none() && begun < limits.attempts_max && step < STEPS_MAX;
            let (mut is_idle, now) = (true, now.max(self.env().now()));
            if may_begin {
                let room = limits.room(in_flight.len(), begun);
                let terms = limits.terms();
                match self.expand_and_claim(terms, now, room, &in_flight).await {
                    Ok((claimed, has_more)) => {
                        is_idle = !has_more && claimed.deliveries.is_empty();
                        (done.has_more, done.next_due) = (has_more, claimed.next_due);
                        for delivery in claimed.deliveries {
                            begun += 1;
                            in_flight.begin(&delivery.lease);
                            exchanges.push(self.exchange(sender, delivery, now));
                        }
                    }
                    Err(error) => failed = Some(error),
                }
            } else {
                done.has_more = true;
            }
            let Some((lease, finished)) = exchanges.next().await else {
                if is_idle {
                    break;
                }
                continue;
            };
            in_flight.end(&lease);
            done.attempts += 1;
            match finished {
                Ok(Finished::Delivered) => done.delivered += 1,
                Ok(_) => {}
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        if done.has_more {
            done.next_due = None;
        }
        failed.map_or(Ok(done), Err)
    }

    /// What is to be sent now, and whether there is more to do.
    async fn expand_and_claim(
        &self,
        terms: ClaimTerms,
        now: Timestamp,
        room: usize,
        in_flight: &InFlight,
    ) -> Result<(Claimed, bool), Error> {
        let expanded = self.expand_events(now).await?;
        let mut claimed = Claimed::default();
        if room > 0 {
            claimed = self.claim_under(terms, now, room, in_flight).await?;
        }
        let has_more = expanded.has_more || claimed.has_more;
        Ok((claimed, has_more))
    }

    async fn exchange(
        &self,
        sender: &dyn DeliverySender,
        delivery: ClaimedDelivery,
        now: Timestamp,
    ) -> (DeliveryLease, Result<Finished, Error>) {
        let attempt = sender.send(&delivery.request).await;
        let now = now.max(self.env().now());
        let finished = self.finish_delivery(now, &delivery.lease, &attempt).await;
        (delivery.lease, finished)
    }
}
