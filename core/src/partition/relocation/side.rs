//! The store of one partition, as a move changes it.

use std::sync::Arc;

use super::outcome::MoveError;
use crate::keys;
use crate::model::OrgId;
use crate::partition::identity;
use crate::partition::records::Hold;
use crate::store::{
    Commit, CommitBuilder, CommitOutcome, Key, Store, StoreError, StoreExt, Version,
};

/// Store of a partition, with the version of the hold that this move wrote there.
///
/// Every commit of a move checks that version, so that a move that another process has taken over
/// changes nothing any more.
pub(super) struct Side {
    pub(super) store: Arc<dyn Store>,
    fence: Key,
    /// Hold that this move wrote, with its version.
    held: Option<(Hold, Version)>,
}

impl Side {
    /// Opens the store with this name.
    pub(super) async fn open(
        store: &Arc<dyn Store>,
        name: &str,
        org: OrgId,
    ) -> Result<Self, MoveError> {
        identity::require(&**store, name).await?;
        Ok(Self {
            store: Arc::clone(store),
            fence: keys::hold(org),
            held: None,
        })
    }

    /// Returns the hold that is stored.
    pub(super) async fn stored(&self) -> Result<Option<(Hold, Version)>, StoreError> {
        let found = self.store.get_as::<Hold>(&self.fence).await?;
        Ok(found.map(|found| (found.value, found.version)))
    }

    /// Returns true if the store has a hold, of whichever move.
    pub(super) async fn is_held(&self) -> Result<bool, StoreError> {
        Ok(self.stored().await?.is_some())
    }

    /// Returns true if this move wrote the hold that the store has.
    pub(super) fn is_taken(&self) -> bool {
        self.held.is_some()
    }

    /// Returns true if the hold of this move is sealed.
    pub(super) fn is_sealed(&self) -> bool {
        self.held.as_ref().is_some_and(|(hold, _)| hold.is_sealed)
    }

    /// Replaces the hold `before`; false if it has changed.
    pub(super) async fn replace(
        &mut self,
        before: Option<Version>,
        hold: Hold,
    ) -> Result<bool, MoveError> {
        let value = serde_json::to_vec(&hold).expect("texts serialise");
        let key = self.fence.clone();
        let commit = Commit::builder().check(key.clone(), before).put(key, value);
        let outcome = self.store.commit(commit.build()?).await?;
        let CommitOutcome::Committed(version) = outcome else {
            return Ok(false);
        };
        self.held = Some((hold, version));
        Ok(true)
    }

    /// Seals the hold: from then on the move can only be completed.
    pub(super) async fn seal(&mut self) -> Result<(), MoveError> {
        let Some((mut hold, version)) = self.held.clone() else {
            return Err(MoveError::Superseded);
        };
        hold.is_sealed = true;
        if self.replace(Some(version), hold).await? {
            Ok(())
        } else {
            Err(MoveError::Superseded)
        }
    }

    /// Removes the hold, if this move wrote it.
    pub(super) async fn release(&mut self) -> Result<(), MoveError> {
        if self.is_taken() {
            self.commit(Commit::builder().delete(self.fence.clone()))
                .await?;
            self.held = None;
        }
        Ok(())
    }

    /// Commits, unless another process has taken the move over.
    pub(super) async fn commit(&self, commit: CommitBuilder) -> Result<(), MoveError> {
        let version = self.held.as_ref().map(|(_, version)| *version);
        let commit = commit.check(self.fence.clone(), version).build()?;
        match self.store.commit(commit).await? {
            CommitOutcome::Committed(_) => Ok(()),
            CommitOutcome::Conflict => Err(MoveError::Superseded),
        }
    }

    pub(super) async fn has(&self, key: Key) -> Result<bool, StoreError> {
        Ok(self.store.get(&[key]).await?[0].is_some())
    }
}
