//! Which endpoints hear of an event: from the outbox to the queues.

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::model::{EndpointId, RecallId, Timestamp};
use crate::service::KnowledgeService;

/// What one call of [`KnowledgeService::expand_events`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expanded {
    /// Events that are done with.
    pub events: u64,
    /// Deliveries that were made of them.
    pub deliveries: u64,
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
    Citations {
        /// Which of the memories.
        memory: usize,
        /// The last recall that is done with.
        after: Option<RecallId>,
        /// The last endpoint that has a delivery for the recall behind that one.
        within: Option<EndpointId>,
    },
}

impl KnowledgeService {
    /// Expands events of the outbox to the endpoints that hear of them, the oldest first, a bounded part of the work.
    ///
    /// Several callers do no harm: every step is a commit under checks.
    ///
    /// # Errors
    /// Those of the store; what was done before stays done.
    pub async fn expand_events(&self, now: Timestamp) -> Result<Expanded, Error> {
        let _ = now;
        Err(Error::internal("not written yet"))
    }
}
