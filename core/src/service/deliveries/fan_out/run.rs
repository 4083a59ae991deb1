//! Calls of the fan-out, which take bounded batches of events.

use std::time::Duration;

use super::fair_queue::{EVENTS_PER_BATCH, FairQueue, QueuedEvent};
use super::fan_out_limits::FanOutLimits;
use super::step::{FanOutStep, StepReport};
use crate::error::Error;
use crate::keys;
use crate::model::Timestamp;
use crate::service::{Dispatcher, KnowledgeService};

/// Time after which a call that has made progress begins no further commit.
///
/// Until it ends, its caller claims nothing and renews no lease. Without it, a call would last as
/// long as events keep arriving, if commits are slow.
const TIME_MAX: Duration = Duration::from_millis(500);

/// Result of one call of [`Dispatcher::fan_out`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FanOutReport {
    /// Number of events that are completely fanned out.
    pub events: u64,
    /// Number of deliveries created.
    pub deliveries: u64,
    /// Number of these dead-lettered immediately, because the service disabled their endpoint.
    pub dead_lettered: u64,
    /// True if more can be done now: call again.
    pub has_more: bool,
}

/// # Fan-out
impl Dispatcher<'_> {
    /// Fans out a bounded number of events of the outbox to their endpoints.
    ///
    /// Organisations take turns, so that a backlog of one does not delay the others; the events of
    /// one begin with the oldest. After half a second, a call that has made progress ends.
    /// Concurrent calls are safe, because every step is a conditional commit. An event that is
    /// unreadable, or that keeps conflicting with other writers, stays for another call and holds
    /// up no other event; so do those of an organisation whose writes are held.
    ///
    /// # Errors
    /// Those of the store; earlier steps remain committed.
    pub async fn fan_out(self, now: Timestamp) -> Result<FanOutReport, Error> {
        self.fan_out_within(now, FanOutLimits::default()).await
    }

    #[doc(hidden)]
    pub async fn fan_out_within(
        self,
        now: Timestamp,
        limits: FanOutLimits,
    ) -> Result<FanOutReport, Error> {
        let mut turns = match self.service.inner.next_turn.get() {
            Some(start) => FairQueue::begin(start),
            None => FairQueue::begin_with(self.service.org_of_oldest_event().await?),
        };
        let result = self.service.take_turns(&mut turns, now, limits).await;
        self.service.inner.next_turn.set(turns.start());
        result
    }
}

impl KnowledgeService {
    /// Fans out batches of events, several events in one commit if they are small.
    ///
    /// An event with much to do gives way to others after each step, those of other organisations
    /// first.
    async fn take_turns(
        &self,
        turns: &mut FairQueue,
        now: Timestamp,
        limits: FanOutLimits,
    ) -> Result<FanOutReport, Error> {
        let (mut report, mut steps) = (FanOutReport::default(), limits.steps);
        let (mut together, mut has_stepped) = (EVENTS_PER_BATCH, false);
        let began = self.env().now();
        loop {
            let mut batch = turns.next_batch(self).await?;
            if batch.is_empty() {
                turns.restart();
                return Ok(report);
            }
            // Not before a step, because the next call meets what holds this one up again.
            let is_late = has_stepped && self.env().now().since(began) >= TIME_MAX;
            if steps == 0 || is_late {
                report.has_more = true;
                return Ok(report);
            }
            batch.truncate(together);
            match self.fan_out_batch(&batch, now, limits).await {
                Ok(step) => {
                    has_stepped = true;
                    report.events += step.events;
                    report.deliveries += step.deliveries;
                    report.dead_lettered += step.dead_lettered;
                    let is_whole = step.passed == batch.len();
                    // Skipping corrupt events is not a step: it must not use up the steps for later
                    // events.
                    steps -= u32::from(!is_whole || step.events > 0);
                    turns.served(&batch, step.passed);
                    together = together.saturating_mul(2);
                }
                // One of the events depends on corrupt data; a smaller batch holds up fewer others.
                Err(Error::Internal { .. }) if batch.len() > 1 => together = batch.len() / 2,
                Err(Error::Internal { detail }) => {
                    let (_, event) = batch[0];
                    if self.inner.corrupt_events.is_new(&keys::outbox(event)) {
                        tracing::error!(%event, %detail, "fan-out of an event failed; skipping it");
                    }
                    turns.served(&batch, 1);
                }
                // Another writer changes records that these events read; a single event conflicts
                // least.
                Err(Error::Conflict) if batch.len() > 1 => together = 1,
                Err(Error::Conflict) => {
                    steps -= 1;
                    report.has_more = true;
                    turns.served(&batch, 1);
                }
                Err(error) => {
                    let orgs = batch.iter().map(|(org, _)| *org).collect();
                    turns.skip(self.fenced_orgs(error, orgs).await?);
                }
            }
        }
    }

    async fn fan_out_batch(
        &self,
        events: &[QueuedEvent],
        now: Timestamp,
        limits: FanOutLimits,
    ) -> Result<StepReport, Error> {
        self.transact(|transaction| FanOutStep::new(self, transaction, now, limits).run(events))
            .await
    }
}
