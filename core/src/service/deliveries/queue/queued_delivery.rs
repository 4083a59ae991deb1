//! Entries of the queues of endpoints.

use crate::error::Error;
use crate::keys;
use crate::model::{EventId, Timestamp};
use crate::store::KeyEntry;

/// Entry of an endpoint's queue: an event, and the time at which its delivery is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::service) struct QueuedDelivery {
    pub(in crate::service) at: Timestamp,
    pub(in crate::service) event: EventId,
}

impl QueuedDelivery {
    /// Parses an entry of a queue.
    pub(in crate::service) fn parse(found: &KeyEntry) -> Result<Self, Error> {
        let parsed = keys::parse_delivery_due(&found.key);
        let parsed = parsed.map(|(at, event)| Self { at, event });
        parsed.ok_or_else(|| Error::internal(format!("{} is not a queue entry", found.key)))
    }
}
