//! Reasons for which a store cannot be served.

use crate::format::SCHEMA;
use crate::limits::InvalidLimit;
use crate::store::{StoreError, TransactionError};

/// Reason for which a store cannot be served.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Failure of the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Store written by a later version.
    #[error(
        "the store has schema {found}, but this program supports schemas up to {SCHEMA}; \
         use a later version"
    )]
    LaterSchema {
        /// Schema of the store.
        found: u32,
    },
    /// Store written by a version before the first release.
    #[error(
        "the store has schema {found}, but this program supports schemas from {SCHEMA} on; \
         use the version that wrote it"
    )]
    EarlierSchema {
        /// Schema of the store.
        found: u32,
    },
    /// Interrupted restore into the store.
    #[error(
        "the store contains an unfinished restore; restore the same dump again to complete it, or \
         restore into a new store"
    )]
    Unfinished,
    /// Secrets in the store that were sealed with another key.
    #[error(
        "the sealing key (fingerprint {given}) is not the one that sealed this store's secrets \
         (fingerprint {stored}); use that key"
    )]
    OtherSealingKey {
        /// Fingerprint of the given key.
        given: String,
        /// Fingerprint in the store.
        stored: String,
    },
    /// Unfinished replacement of the sealing key.
    #[error(
        "the sealing key {old} of this store is being replaced by {new}; complete that with both \
         keys (knowledge rekey)"
    )]
    Rekeying {
        /// Fingerprint of the key that is being replaced.
        old: String,
        /// Fingerprint of the new key.
        new: String,
    },
    /// Invalid limit.
    #[error(transparent)]
    Limit(#[from] InvalidLimit),
    /// Failure of a transaction during opening.
    #[error(transparent)]
    Transaction(TransactionError),
}

impl From<TransactionError> for OpenError {
    fn from(error: TransactionError) -> Self {
        match error {
            TransactionError::Store(error) => Self::Store(error),
            error => Self::Transaction(error),
        }
    }
}
