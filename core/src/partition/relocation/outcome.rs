//! Steps, results and errors of a move.

use crate::partition::DirectoryError;
use crate::partition::identity::IdentityError;
use crate::store::{InvalidCommit, StoreError};

/// Step of a move, for reports of its progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MoveStep {
    /// Copies the entries while the organisation is served.
    Copying,
    /// Copies what has changed since and compares, while the writes of the organisation are held.
    Holding,
    /// Replaces the old partition by the new one.
    Switching,
    /// Removes the entries from the old partition.
    Removing,
}

/// Result of [`Relocation::run`](super::Relocation::run).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MoveOutcome {
    /// The organisation was in the partition already.
    Unmoved,
    /// The organisation stays in the partition: its move to another one was cancelled.
    Cancelled {
        /// Partition that it was being moved to.
        to: String,
    },
    /// The organisation was moved.
    Moved {
        /// Partition that it was moved from.
        from: String,
        /// Entries that were compared; `None` for a move that was resumed after that.
        copied: Option<Copied>,
    },
}

/// Entries of an organisation that are equal in both partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Copied {
    /// Number of entries.
    pub entries: u64,
    /// SHA-256 of keys and values, in hexadecimal digits.
    pub sha256: String,
}

/// Reason for which a move does not complete.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MoveError {
    /// A store failed. Repeat the move to resume it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A store is not the partition that it is said to be. Nothing was changed.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The directory changed.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The organisation does not exist.
    #[error("the organisation does not exist")]
    UnknownOrganization,
    /// The organisation was deleted while it was being moved; nothing of it is left elsewhere.
    #[error("the organisation was deleted during the move")]
    Deleted,
    /// The partition lacks the organisation that the directory places there. Nothing was changed.
    #[error(
        "the partition {name:?} lacks the organisation, which the directory places there; if the \
         store is an older copy, restore it as it was after the last move"
    )]
    Missing {
        /// Name of the partition.
        name: String,
    },
    /// The partition that the organisation would be moved to has it. Nothing was changed.
    #[error(
        "the partition {name:?} already has the organisation, which the directory places \
         elsewhere; if the store of home is an older copy, restore it as it was after the last move"
    )]
    Present {
        /// Name of the partition.
        name: String,
    },
    /// No store has this name.
    #[error("there is no partition {name:?}")]
    UnknownPartition {
        /// Name of the partition.
        name: String,
    },
    /// The organisation is being moved to another partition, and the move can be completed only.
    #[error("the organisation is being moved to {to:?}; complete that first")]
    OtherMove {
        /// Target of that move.
        to: String,
    },
    /// The other partition has an organisation with the same slug, which the directory lacks.
    #[error("the partition has another organisation with the same slug")]
    SlugTaken,
    /// The copy differs from its source although nothing should have changed.
    #[error("the copy differs from its source; repeat the move, or cancel it")]
    Differs,
    /// Another process took the move over.
    #[error("another process has taken over the move")]
    Superseded,
    /// An entry is larger than a store accepts.
    #[error(transparent)]
    Invalid(#[from] InvalidCommit),
}
