//! Stored records of partitions.

use serde::{Deserialize, Serialize};

/// Place of an organisation that is not at [`HOME`](super::HOME), or is being moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Placement {
    /// Slug of the organisation.
    pub slug: String,
    /// Partition that has the organisation.
    pub partition: String,
    /// Progress of a move, while there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moving: Option<MoveState>,
}

/// Progress of a move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MoveState {
    /// The organisation is served, or its writes are held, while it is copied.
    Copying {
        /// Partition that it is moved to.
        to: String,
    },
    /// The copy is complete; neither partition serves the organisation for a moment.
    Switching {
        /// Partition that it is moved to.
        to: String,
    },
    /// The new partition serves the organisation; its entries in the old one are removed.
    Removing {
        /// Partition that it was moved from.
        from: String,
    },
}

impl Placement {
    /// Returns true while neither partition serves the organisation.
    #[must_use]
    pub fn is_switching(&self) -> bool {
        matches!(self.moving, Some(MoveState::Switching { .. }))
    }
}

/// Hold on the writes of an organisation in a store, by the move that wrote it last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hold {
    pub(crate) from: String,
    pub(crate) to: String,
    /// True once the copy was compared: the move can no longer be cancelled.
    #[serde(default)]
    pub(crate) is_sealed: bool,
}
