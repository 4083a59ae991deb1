//! Durable cursor of the fan-out of an event.

use serde::{Deserialize, Serialize};

use super::cited_event::Recalls;
use crate::model::EndpointId;

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
    /// Position among the recalls that cite memories of the event.
    Recalls(Recalls),
}

impl FanOutCursor {
    pub(super) const BEGIN: Self = Self::Webhooks {
        part: 0,
        after: None,
    };
}
