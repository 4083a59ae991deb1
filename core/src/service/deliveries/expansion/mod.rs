//! Which endpoints hear of an event: from the outbox to the queues.

mod damage;
mod derived;
mod hearers;
mod step;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

pub(in crate::service) use self::damage::Damage;
use self::step::{Step, Stepped};
use crate::error::Error;
use crate::model::{EndpointId, EventId, RecallId, Timestamp};
use crate::service::KnowledgeService;
use crate::keys;
use crate::store::{Direction, StoreExt};

/// How many events are looked at together.
const EVENTS_PER_PAGE: usize = 100;

/// What one call of [`KnowledgeService::expand_events`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expanded {
    /// Events that are done with.
    pub events: u64,
    /// Deliveries that were made of them.
    pub deliveries: u64,
    /// How many of these are dead letters from the beginning, as the service has switched their endpoints off.
    pub given_up: u64,
    /// Whether there is more to do now: call again.
    pub has_more: bool,
}

/// How far the expansion of an event has come: what is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::service) enum Expansion {
    /// The webhooks that hear of the event itself.
    Webhooks {
        /// Which part of the memories.
        part: usize,
        /// The last endpoint that has a delivery of this part.
        after: Option<EndpointId>,
    },
    /// Those who hear of the recalls that cite a memory of the event.
    Citations(Citations),
}

/// How far those have come who hear of recalls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::service) struct Citations {
    /// Which of the memories is next.
    memory: usize,
    /// The last recall that is done with.
    after: Option<RecallId>,
    /// The last endpoint that has a delivery for the recall behind that one.
    within: Option<EndpointId>,
}

impl Expansion {
    const BEGIN: Self = Self::Webhooks {
        part: 0,
        after: None,
    };
}

/// How much one commit of an expansion does at most, and how many commits one call makes.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct ExpansionLimits {
    /// How many steps.
    pub steps: u32,
    /// How many deliveries: with what goes with them far from what a commit can hold.
    pub deliveries: usize,
    /// How many recalls are read.
    pub recalls: usize,
    /// How many memories and marks of recalls are looked at.
    pub looks: usize,
}

impl Default for ExpansionLimits {
    fn default() -> Self {
        Self {
            steps: 16,
            deliveries: 200,
            recalls: 100,
            looks: 500,
        }
    }
}

impl KnowledgeService {
    /// Expands events of the outbox to the endpoints that hear of them, the oldest first, a bounded part of the work.
    ///
    /// Several callers do no harm: every step is a commit under checks. An event that cannot be read, or that others are
    /// always ahead of, stays where it is for another call, and keeps no other from being expanded.
    ///
    /// # Errors
    /// Those of the store; what was done before stays done.
    pub async fn expand_events(&self, now: Timestamp) -> Result<Expanded, Error> {
        self.expand_within(now, ExpansionLimits::default()).await
    }

    #[doc(hidden)]
    pub async fn expand_within(
        &self,
        now: Timestamp,
        limits: ExpansionLimits,
    ) -> Result<Expanded, Error> {
        let (mut done, mut steps) = (Expanded::default(), limits.steps);
        let mut rest = keys::outbox_events();
        loop {
            let page = self.store();
            let page = page
                .scan(&rest, EVENTS_PER_PAGE, Direction::Forward)
                .await?;
            let Some(last) = page.last() else {
                return Ok(done);
            };
            rest = rest.after(&last.key);
            let events = page.iter().filter_map(|found| {
                let id = keys::last_id(&found.key).map(EventId);
                if id.is_none() && self.inner.damage.is_new(&found.key) {
                    tracing::error!(key = %found.key, "a key of the outbox cannot be read");
                }
                id
            });
            self.expand_page(events.collect(), now, limits, &mut steps, &mut done)
                .await?;
            if done.has_more {
                return Ok(done);
            }
        }
    }

    /// Expands these events, several in a commit where they are small. One with much to do gives way to the next after
    /// each step.
    async fn expand_page(
        &self,
        mut events: VecDeque<EventId>,
        now: Timestamp,
        limits: ExpansionLimits,
        steps: &mut u32,
        done: &mut Expanded,
    ) -> Result<(), Error> {
        let mut together = events.len();
        while !events.is_empty() {
            if *steps == 0 {
                done.has_more = true;
                return Ok(());
            }
            let some = events.make_contiguous();
            let some = &some[..together.min(some.len())];
            match self.expand_some(some, now, limits).await {
                Ok(stepped) => {
                    done.events += stepped.events;
                    done.deliveries += stepped.deliveries;
                    done.given_up += stepped.given_up;
                    let is_whole = stepped.passed == some.len();
                    // To pass by what is damaged is no step: it would hide what is behind it.
                    *steps -= u32::from(!is_whole || stepped.events > 0);
                    events.drain(..stepped.passed);
                    if !is_whole {
                        events.rotate_left(1);
                    }
                    together = together.saturating_mul(2);
                }
                // Something damaged is in the way of one of them: the fewer there are together, the fewer it holds up.
                Err(Error::Internal { .. }) if some.len() > 1 => together = some.len() / 2,
                Err(Error::Internal { detail }) => {
                    let event = some[0];
                    if self.inner.damage.is_new(&keys::outbox(event)) {
                        tracing::error!(%event, %detail, "an event cannot be expanded");
                    }
                    events.pop_front();
                }
                // Others write what these meet: alone, each meets the least.
                Err(Error::Conflict) if some.len() > 1 => together = 1,
                Err(Error::Conflict) => {
                    *steps -= 1;
                    done.has_more = true;
                    events.pop_front();
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn expand_some(
        &self,
        events: &[EventId],
        now: Timestamp,
        limits: ExpansionLimits,
    ) -> Result<Stepped, Error> {
        self.transact(|transaction| Step::new(self, transaction, now, limits).take(events))
            .await
    }
}
