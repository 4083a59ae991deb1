//! Fan-out: from events in the outbox to deliveries in the queues of endpoints.

mod corrupt_events;
mod derived;
mod step;
mod targets;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

pub(in crate::service) use self::corrupt_events::CorruptEvents;
use self::step::{FanOutStep, StepReport};
use crate::error::Error;
use crate::keys;
use crate::model::{EndpointId, EventId, RecallId, Timestamp};
use crate::service::KnowledgeService;
use crate::store::{Direction, StoreExt};

/// Number of events that one scan of the outbox reads.
const EVENTS_PER_PAGE: usize = 100;

/// Result of one call of [`KnowledgeService::fan_out`].
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

/// Durable cursor of the fan-out of an event: the position to resume from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::service) enum FanOutCursor {
    /// Position among the webhooks that receive the event itself.
    Webhooks {
        /// Index of the part of the memories.
        part: usize,
        /// Last endpoint that has a delivery of this part.
        after: Option<EndpointId>,
    },
    /// Position among the recalls that cite a memory of the event.
    Citations(Citations),
}

/// Cursor over the recalls that cite memories of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::service) struct Citations {
    /// Index of the next memory.
    memory: usize,
    /// Last recall that is complete.
    after: Option<RecallId>,
    /// Last endpoint that has a delivery for the recall after that one.
    within: Option<EndpointId>,
}

impl FanOutCursor {
    const BEGIN: Self = Self::Webhooks {
        part: 0,
        after: None,
    };
}

/// Limits of one commit of the fan-out, and the number of commits of one call.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct FanOutLimits {
    /// Maximum number of commits of one call.
    pub steps: u32,
    /// Maximum number of deliveries.
    ///
    /// With related entries they stay far below the limits of a commit.
    pub deliveries: usize,
    /// Maximum number of recalls that are read.
    pub recalls: usize,
    /// Maximum number of memories and of citation entries that are examined.
    pub looks: usize,
}

impl Default for FanOutLimits {
    fn default() -> Self {
        Self {
            steps: 16,
            deliveries: 200,
            recalls: 100,
            looks: 500,
        }
    }
}

/// # Fan-out
impl KnowledgeService {
    /// Fans out a bounded number of events of the outbox to their endpoints, oldest first.
    ///
    /// Concurrent calls are safe, because every step is a conditional commit. An event that is
    /// unreadable, or that keeps conflicting with other writers, stays for another call and holds
    /// up no other event.
    ///
    /// # Errors
    /// Those of the store; earlier steps remain committed.
    pub async fn fan_out(&self, now: Timestamp) -> Result<FanOutReport, Error> {
        self.fan_out_within(now, FanOutLimits::default()).await
    }

    #[doc(hidden)]
    pub async fn fan_out_within(
        &self,
        now: Timestamp,
        limits: FanOutLimits,
    ) -> Result<FanOutReport, Error> {
        let (mut report, mut steps) = (FanOutReport::default(), limits.steps);
        let mut rest = keys::outbox_events();
        loop {
            let page = self.store();
            let page = page
                .scan(&rest, EVENTS_PER_PAGE, Direction::Forward)
                .await?;
            let Some(last) = page.last() else {
                return Ok(report);
            };
            rest = rest.after(&last.key);
            let events = page.iter().filter_map(|found| {
                let id = keys::last_id(&found.key).map(EventId);
                if id.is_none() && self.inner.corrupt_events.is_new(&found.key) {
                    tracing::error!(key = %found.key, "unreadable key in the outbox");
                }
                id
            });
            self.fan_out_page(events.collect(), now, limits, &mut steps, &mut report)
                .await?;
            if report.has_more {
                return Ok(report);
            }
        }
    }

    /// Fans out these events, several in one commit if they are small.
    ///
    /// An event with much to do gives way to the next one after each step.
    async fn fan_out_page(
        &self,
        mut events: VecDeque<EventId>,
        now: Timestamp,
        limits: FanOutLimits,
        steps: &mut u32,
        report: &mut FanOutReport,
    ) -> Result<(), Error> {
        let mut together = events.len();
        while !events.is_empty() {
            if *steps == 0 {
                report.has_more = true;
                return Ok(());
            }
            let some = events.make_contiguous();
            let some = &some[..together.min(some.len())];
            match self.fan_out_batch(some, now, limits).await {
                Ok(step) => {
                    report.events += step.events;
                    report.deliveries += step.deliveries;
                    report.dead_lettered += step.dead_lettered;
                    let is_whole = step.passed == some.len();
                    // Skipping corrupt events is not a step: it must not use up the steps for later
                    // events.
                    *steps -= u32::from(!is_whole || step.events > 0);
                    events.drain(..step.passed);
                    if !is_whole {
                        events.rotate_left(1);
                    }
                    together = together.saturating_mul(2);
                }
                // One of the events depends on corrupt data; a smaller batch holds up fewer others.
                Err(Error::Internal { .. }) if some.len() > 1 => together = some.len() / 2,
                Err(Error::Internal { detail }) => {
                    let event = some[0];
                    if self.inner.corrupt_events.is_new(&keys::outbox(event)) {
                        tracing::error!(%event, %detail, "fan-out of an event failed; skipping it");
                    }
                    events.pop_front();
                }
                // Another writer changes records that these events read; a single event conflicts
                // least.
                Err(Error::Conflict) if some.len() > 1 => together = 1,
                Err(Error::Conflict) => {
                    *steps -= 1;
                    report.has_more = true;
                    events.pop_front();
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn fan_out_batch(
        &self,
        events: &[EventId],
        now: Timestamp,
        limits: FanOutLimits,
    ) -> Result<StepReport, Error> {
        self.transact(|transaction| FanOutStep::new(self, transaction, now, limits).run(events))
            .await
    }
}
