//! Name of a store as a partition, which it keeps.
//!
//! A host records the name when it first opens the store as that partition. Names that were
//! exchanged in a configuration, a store under two names, and a move to a store that no host uses
//! are therefore noticed before anything is read or written. Home records the names of the others
//! too: no new store takes the place of one of them, even of one that has no organisation.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::keys;
use crate::store::{Commit, CommitOutcome, Store, StoreError, StoreExt, Version};

/// Identity of a store as a partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Identity {
    /// Name of the partition.
    pub name: String,
    /// Names of all other partitions that were ever opened; only at [`HOME`](super::HOME).
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub others: BTreeSet<String>,
}

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

/// Returns the identity of a store; `None` if it is no partition.
///
/// # Errors
/// Those of the store.
pub async fn read(store: &dyn Store) -> Result<Option<Identity>, StoreError> {
    Ok(stored(store).await?.map(|(identity, _)| identity))
}

async fn stored(store: &dyn Store) -> Result<Option<(Identity, Version)>, StoreError> {
    let found = store.get_as(&keys::partition_identity()).await?;
    Ok(found.map(|found| (found.value, found.version)))
}

/// Writes the identity in place of that with version `before`; false if it has changed.
async fn replace(
    store: &dyn Store,
    before: Option<Version>,
    identity: &Identity,
) -> Result<bool, StoreError> {
    let key = keys::partition_identity();
    let value = serde_json::to_vec(identity).expect("texts serialise");
    let commit = Commit::builder().check(key.clone(), before).put(key, value);
    let commit = commit.build().expect("a short entry is within all limits");
    Ok(matches!(
        store.commit(commit).await?,
        CommitOutcome::Committed(_)
    ))
}

/// Checks that a store is the partition with this name.
///
/// # Errors
/// [`IdentityError`].
pub async fn require(store: &dyn Store, expected: &str) -> Result<(), IdentityError> {
    match read(store).await? {
        Some(found) if found.name == expected => Ok(()),
        Some(found) => Err(IdentityError::Other {
            name: expected.to_owned(),
            found: found.name,
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
    if read(store).await?.is_none() {
        let identity = Identity {
            name: new.to_owned(),
            others: BTreeSet::new(),
        };
        if replace(store, None, &identity).await? {
            return Ok(());
        }
        // Another host was faster.
    }
    require(store, new).await
}

/// Records further names of other partitions at home, which has its own name.
///
/// # Errors
/// Those of the store.
pub async fn record_others<'n>(
    home: &dyn Store,
    names: impl IntoIterator<Item = &'n str> + Clone,
) -> Result<(), StoreError> {
    while let Some((mut identity, version)) = stored(home).await? {
        let before = identity.others.len();
        let names = names.clone().into_iter().map(str::to_owned);
        identity.others.extend(names);
        if identity.others.len() == before || replace(home, Some(version), &identity).await? {
            break;
        }
    }
    Ok(())
}
