//! The directory: which partition has an organisation.

use std::sync::Arc;

use super::records::{MoveState, Placement};
use crate::keys;
use crate::model::OrgId;
use crate::store::{
    Commit, CommitOutcome, KeyEntry, Store, StoreError, StoreExt, Version, decode_value, read_json,
};

/// Directory in the store of the partition [`HOME`](super::HOME).
#[derive(Clone)]
pub struct Directory {
    store: Arc<dyn Store>,
}

impl std::fmt::Debug for Directory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Directory").finish_non_exhaustive()
    }
}

/// Error of a change of the directory.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DirectoryError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another process changed the entry.
    #[error("another process has changed the directory")]
    Changed,
}

impl Directory {
    /// Creates the directory of this store.
    #[must_use]
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Returns the entry of an organisation; `None` if it is at home and not being moved, or does
    /// not exist.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn placement(&self, org: OrgId) -> Result<Option<Placement>, StoreError> {
        Ok(self.stored(org).await?.map(|(placement, _)| placement))
    }

    pub(super) async fn stored(
        &self,
        org: OrgId,
    ) -> Result<Option<(Placement, Version)>, StoreError> {
        let found = self
            .store
            .get_as::<Placement>(&keys::placement(org))
            .await?;
        Ok(found.map(|found| (found.value, found.version)))
    }

    /// Returns all entries.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn placements(&self) -> Result<Vec<(OrgId, Placement)>, StoreError> {
        let found = self.store.scan_all(&keys::placements()).await?;
        let entry = |found: KeyEntry| Ok((keys::last_id(&found.key), decode_value(&found)?));
        let entries: Result<Vec<_>, StoreError> = found.into_iter().map(entry).collect();
        let entries = entries?.into_iter();
        Ok(entries
            .filter_map(|(org, placement)| Some((OrgId(org?), placement)))
            .collect())
    }

    /// Returns the organisation with this slug, in any partition.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn organization(&self, slug: &str) -> Result<Option<OrgId>, StoreError> {
        // A text that no slug can be has no key.
        if slug.contains('/') || slug.len() > 64 {
            return Ok(None);
        }
        let found = self.store.get(&[keys::org_slug(slug)]).await?.pop();
        let found = found.flatten();
        Ok(found.and_then(|entry| read_json(&entry.value).ok()))
    }

    /// Removes the entry and the slug of an organisation that was deleted in this partition.
    ///
    /// # Errors
    /// [`DirectoryError`]; [`DirectoryError::Changed`] also if another partition has the
    /// organisation, or while it is being moved.
    pub async fn forget(&self, org: OrgId, partition: &str) -> Result<(), DirectoryError> {
        let Some((placement, version)) = self.stored(org).await? else {
            return Ok(());
        };
        if placement.partition != partition || placement.moving.is_some() {
            return Err(DirectoryError::Changed);
        }
        self.remove(org, &placement.slug, Some(version)).await
    }

    /// Removes the entry, and the slug if it is that of the organisation.
    pub(super) async fn remove(
        &self,
        org: OrgId,
        slug: &str,
        before: Option<Version>,
    ) -> Result<(), DirectoryError> {
        let (entry, slug) = (keys::placement(org), keys::org_slug(slug));
        let mut commit = Commit::builder().check(entry.clone(), before).delete(entry);
        let found = self.store.get_as::<OrgId>(&slug).await?;
        if let Some(found) = found.filter(|found| found.value == org) {
            commit = commit.check(slug.clone(), Some(found.version)).delete(slug);
        }
        let removed = commit_or_changed(&*self.store, commit.build()).await;
        removed.map(drop)
    }

    /// Replaces the entry; `None` removes it.
    #[cfg(feature = "transfer")]
    pub(super) async fn replace(
        &self,
        org: OrgId,
        before: Option<Version>,
        after: Option<&Placement>,
    ) -> Result<Version, DirectoryError> {
        let key = keys::placement(org);
        let commit = Commit::builder().check(key.clone(), before);
        let commit = match after {
            Some(placement) => {
                let value = serde_json::to_vec(placement).expect("texts serialise");
                commit.put(key, value)
            }
            None => commit.delete(key),
        };
        commit_or_changed(&*self.store, commit.build()).await
    }
}

async fn commit_or_changed(
    store: &dyn Store,
    commit: Result<Commit, crate::store::InvalidCommit>,
) -> Result<Version, DirectoryError> {
    let commit = commit.expect("a few short entries are within the limits of a commit");
    match store.commit(commit).await? {
        CommitOutcome::Committed(version) => Ok(version),
        CommitOutcome::Conflict => Err(DirectoryError::Changed),
    }
}

impl MoveState {
    /// Returns the partition that the organisation is moved to; `None` once it is there.
    #[must_use]
    pub fn to(&self) -> Option<&str> {
        match self {
            Self::Copying { to } | Self::Switching { to } => Some(to),
            Self::Removing { .. } => None,
        }
    }
}
