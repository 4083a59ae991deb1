//! Name of a store as a partition, which it keeps.
//!
//! A host records the name when it first opens the store as that partition. Names that were
//! exchanged in a configuration, a store under two names, and a move to a store that no host uses
//! are therefore noticed before anything is read or written.

use crate::keys;
use crate::store::{Commit, CommitOutcome, Store, StoreError, StoreExt};

/// Reason for which a store cannot be used as the partition with a name.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store is another partition.
    #[error("the store of the partition {name:?} is the partition {found:?}")]
    Other {
        /// Expected name.
        name: String,
        /// Name that the store has.
        found: String,
    },
    /// No host has opened the store as a partition.
    #[error("no server has opened the partition {name:?}; start the servers with it first")]
    Unnamed {
        /// Expected name.
        name: String,
    },
}

/// Returns the name that a store has as a partition; `None` if it is not one.
///
/// # Errors
/// Those of the store.
pub async fn name(store: &dyn Store) -> Result<Option<String>, StoreError> {
    let found = store.get_as::<String>(&keys::partition_name()).await?;
    Ok(found.map(|found| found.value))
}

/// Checks that a store is the partition with this name.
///
/// # Errors
/// [`IdentityError`].
pub async fn require(store: &dyn Store, expected: &str) -> Result<(), IdentityError> {
    match name(store).await? {
        Some(found) if found == expected => Ok(()),
        Some(found) => Err(IdentityError::Other {
            name: expected.to_owned(),
            found,
        }),
        None => Err(IdentityError::Unnamed {
            name: expected.to_owned(),
        }),
    }
}

/// Checks that a store is the partition with this name, and records the name if it has none.
///
/// # Errors
/// [`IdentityError::Store`], [`IdentityError::Other`].
pub async fn adopt(store: &dyn Store, new: &str) -> Result<(), IdentityError> {
    if name(store).await?.is_none() {
        let key = keys::partition_name();
        let value = serde_json::to_vec(new).expect("a text serialises");
        let commit = Commit::builder().check(key.clone(), None).put(key, value);
        let commit = commit.build().expect("a short entry is within all limits");
        if let CommitOutcome::Committed(_) = store.commit(commit).await? {
            return Ok(());
        }
        // Another host was faster.
    }
    require(store, new).await
}
