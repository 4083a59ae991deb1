//! Which endpoints hear of an event: from the outbox to the queues.

use crate::error::Error;
use crate::model::Timestamp;
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
