//! Complete dispatch in one call, for hosts without a background process.

use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt};

use super::claim::{ClaimBatch, ClaimPass, ClaimTerms, ClaimedDelivery};
use super::delivery_lease::DeliveryLease;
use super::exchange::{DELIVERY_TIMEOUT, DeliverySender};
use super::finish::AttemptOutcome;
use super::in_flight::{IN_FLIGHT_PER_ENDPOINT_MAX, InFlight};
use crate::error::Error;
use crate::model::Timestamp;
use crate::service::deliveries::queue::DELIVERY_LEASE;
use crate::service::{Dispatcher, KnowledgeService};

/// Maximum number of times that one call fans out and claims.
const STEPS_MAX: usize = 2_048;
/// Duration of the leases.
///
/// It covers a whole exchange, because no lease is renewed during the call.
const LEASE: Duration = DELIVERY_TIMEOUT.saturating_add(DELIVERY_LEASE);

/// Limits of one call of [`Dispatcher::dispatch`]. The rest is left for the next call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DispatchLimits {
    /// Maximum number of concurrent exchanges, at least 1.
    ///
    /// It must not exceed the number that the host really sends concurrently, because the timeout
    /// of an exchange starts when it is handed over. At most half of them, and at most
    /// [`IN_FLIGHT_PER_ENDPOINT_MAX`], go to one endpoint, so that an unresponsive one does not
    /// hold up the others.
    pub at_once_max: usize,
    /// Maximum number of attempts, at least 1.
    pub attempts_max: usize,
}

impl Default for DispatchLimits {
    /// Returns limits of 64 concurrent exchanges and 1,024 attempts.
    fn default() -> Self {
        Self {
            at_once_max: 64,
            attempts_max: 1_024,
        }
    }
}

impl DispatchLimits {
    /// Raises each limit to at least 1, because a call with 0 would make no progress.
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

    /// Returns the number of attempts that may start now.
    fn capacity(&self, in_flight: usize, begun: usize) -> usize {
        let at_once = self.at_once_max - in_flight;
        at_once.min(self.attempts_max - begun)
    }
}

/// Result of one call of [`Dispatcher::dispatch`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DispatchReport {
    /// Number of attempts.
    pub attempts: u64,
    /// Number of successful attempts.
    pub delivered: u64,
    /// True if more can be done now: call again.
    pub has_more: bool,
    /// Time at which the next endpoint is due, if none is now.
    pub next_due: Option<Timestamp>,
}

impl Dispatcher<'_> {
    /// Fans out the events of the outbox and sends the deliveries that are due, within limits.
    ///
    /// It is meant for hosts without a process that does so continuously.
    ///
    /// The sender must keep to [`DELIVERY_TIMEOUT`], because the leases last little longer. The
    /// time is the later one of `now` and the clock of the service's [`Env`](crate::env::Env), so
    /// that it advances during the call.
    ///
    /// # Errors
    /// Those of the store; earlier steps remain committed.
    pub async fn dispatch(
        self,
        sender: &dyn DeliverySender,
        now: Timestamp,
        limits: DispatchLimits,
    ) -> Result<DispatchReport, Error> {
        let limits = limits.at_least_one();
        let mut report = DispatchReport::default();
        let mut in_flight = InFlight::default();
        let mut exchanges = FuturesUnordered::new();
        let (mut failed, mut begun) = (None, 0);
        for step in 0.. {
            let may_begin = failed.is_none() && begun < limits.attempts_max && step < STEPS_MAX;
            let (mut is_idle, now) = (true, now.max(self.service.env().now()));
            if may_begin {
                let capacity = limits.capacity(in_flight.len(), begun);
                let terms = limits.terms();
                match self
                    .service
                    .fan_out_and_claim(terms, now, capacity, &in_flight)
                    .await
                {
                    Ok((batch, has_more)) => {
                        is_idle = !has_more && batch.deliveries.is_empty();
                        (report.has_more, report.next_due) = (has_more, batch.next_due);
                        for delivery in batch.deliveries {
                            begun += 1;
                            in_flight.begin(&delivery.lease);
                            exchanges.push(self.service.exchange(sender, delivery, now));
                        }
                    }
                    Err(error) => failed = Some(error),
                }
            } else {
                report.has_more = true;
            }
            let Some((lease, outcome)) = exchanges.next().await else {
                if is_idle {
                    break;
                }
                continue;
            };
            in_flight.end(&lease);
            report.attempts += 1;
            match outcome {
                Ok(AttemptOutcome::Delivered) => report.delivered += 1,
                Ok(_) => {}
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        if report.has_more {
            report.next_due = None;
        }
        failed.map_or(Ok(report), Err)
    }
}

impl KnowledgeService {
    /// Fans out and claims; returns the claimed deliveries, and true if more can be done now.
    async fn fan_out_and_claim(
        &self,
        terms: ClaimTerms,
        now: Timestamp,
        capacity: usize,
        in_flight: &InFlight,
    ) -> Result<(ClaimBatch, bool), Error> {
        let fan_out = self.dispatcher().fan_out(now).await?;
        let mut batch = ClaimBatch::default();
        if capacity > 0 {
            batch = ClaimPass::new(self, terms, now, capacity, in_flight)
                .run()
                .await?;
        }
        let has_more = fan_out.has_more || batch.has_more;
        Ok((batch, has_more))
    }

    async fn exchange(
        &self,
        sender: &dyn DeliverySender,
        delivery: ClaimedDelivery,
        now: Timestamp,
    ) -> (DeliveryLease, Result<AttemptOutcome, Error>) {
        let attempt = sender.send(&delivery.request).await;
        let now = now.max(self.env().now());
        let outcome = self
            .dispatcher()
            .finish(now, &delivery.lease, &attempt)
            .await;
        (delivery.lease, outcome)
    }
}
