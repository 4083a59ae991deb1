//! Name of a store as a partition, which it keeps.
//!
//! A host records the name when it first opens the store as that partition. Names that were
//! exchanged in a configuration, a store under two names, and a move to a store that no host uses
//! are therefore noticed before anything is read or written. Home records the names of the others
//! too: no new store takes the place of one of them, even of one that has no organisation.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::HOME;
use crate::keys;
use crate::store::{Commit, CommitOutcome, Store, StoreError, StoreExt, Version};

/// Identity of a store as a partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Identity {
    /// Name of the partition.
    pub name: String,
    /// Names of all other partitions that were ever opened; only at [`HOME`].
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
    /// The store is a new one in the place of a partition that there has been.
    #[error(
        "the store of the partition {name:?} is a new one, but there has been a store with this \
         name; check its address, or choose another name"
    )]
    New {
        /// Name of the partition.
        name: String,
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

/// Checks the names of the stores of all partitions, and gives new stores theirs.
///
/// `others` are the stores beside home, and `placed` the partitions that the directory names. A new
/// store in the place of a partition that there has been is refused: its address leads elsewhere. A
/// home without other partitions gets no name.
///
/// Home gets its name first, and records those of the others last.
///
/// # Errors
/// [`IdentityError::Store`], [`IdentityError::Other`], [`IdentityError::New`].
pub async fn establish(
    home: &dyn Store,
    others: &[(&str, &dyn Store)],
    placed: impl IntoIterator<Item = &str>,
) -> Result<(), IdentityError> {
    let mut stores = vec![(HOME, home)];
    stores.extend(others);
    let mut identities = Vec::with_capacity(stores.len());
    for (_, store) in &stores {
        identities.push(read(*store).await?);
    }
    if others.is_empty() && identities[0].is_none() {
        return Ok(());
    }
    let mut known: BTreeSet<&str> = placed.into_iter().collect();
    if let Some(home) = &identities[0] {
        known.extend(home.others.iter().map(String::as_str));
    } else if identities.iter().any(Option::is_some) {
        // Whichever store has a name got it after home.
        known.insert(HOME);
    }
    for ((name, _), identity) in stores.iter().zip(&identities) {
        if identity.is_none() && known.contains(name) {
            return Err(IdentityError::New {
                name: (*name).to_owned(),
            });
        }
    }
    for (name, store) in &stores {
        adopt(*store, name).await?;
    }
    record_others(home, others.iter().map(|(name, _)| *name)).await?;
    Ok(())
}

/// Checks that a store is the partition with this name, and records the name if it has none.
async fn adopt(store: &dyn Store, new: &str) -> Result<(), IdentityError> {
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
async fn record_others<'n>(
    home: &dyn Store,
    names: impl Iterator<Item = &'n str> + Clone,
) -> Result<(), StoreError> {
    while let Some((mut identity, version)) = stored(home).await? {
        let before = identity.others.len();
        identity.others.extend(names.clone().map(str::to_owned));
        if identity.others.len() == before || replace(home, Some(version), &identity).await? {
            break;
        }
    }
    Ok(())
}
