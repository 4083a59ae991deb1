//! Moves of organisations between partitions.
//!
//! Every step can be repeated, and the directory records how far a move is, so that
//! [`Relocation::run`] resumes one that was interrupted:
//!
//! 1. *Copying.* The entries of the organisation are copied while it is served; the new store is held
//!    from the beginning. Then a hold in the old store rejects its commits, the difference is copied,
//!    and counts and checksums are compared. Until then a move can be cancelled. The hold is sealed,
//!    and what others would find without the key of the organisation (`shared_families`) follows.
//! 2. *Switching.* The credentials and the places of the inbound webhooks are deleted in the old
//!    store, which answers nobody from then on, and the hold of the new one ends.
//! 3. *Removing.* The directory names the new partition. The old store is emptied, and its hold ends.
//!
//! Commands that move the same organisation at the same time exclude each other: each rewrites the
//! entry of the directory first and then the hold of each store that it changes, and every commit
//! checks the version of the hold that it wrote. The seal is a commit in the old store, so that no
//! write comes between the comparison and the point of no return.

mod copying;
mod outcome;
mod shared_families;
mod side;

use std::collections::BTreeMap;
use std::sync::Arc;

use self::copying::{remove, synchronize, tally};
pub use self::outcome::{Copied, MoveError, MoveOutcome, MoveStep};
use self::shared_families::{copy_credentials, delete_credentials, move_tasks};
use self::side::Side;
use super::identity;
use super::records::{Hold, MoveState, Placement};
use super::{Directory, HOME};
use crate::keys;
use crate::model::{OrgId, Organization};
use crate::store::{Commit, Key, Store, StoreError, StoreExt, Version};

/// Stores of all partitions by name, [`HOME`] included, not [holding](super::HoldingStore).
pub type Stores = BTreeMap<String, Arc<dyn Store>>;

/// A move of an organisation to a partition, or the cancellation of one.
#[derive(Clone, Copy, Debug)]
pub struct Relocation<'m> {
    /// Organisation.
    pub org: OrgId,
    /// Name of the partition that it is moved to.
    pub to: &'m str,
}

impl Relocation<'_> {
    /// Moves the organisation, or resumes its move.
    ///
    /// With the partition that still has it, a move that has not been compared yet is cancelled.
    /// `progress` receives the step and the number of entries of it that were processed. The stores
    /// must have their [names](identity).
    ///
    /// # Errors
    /// [`MoveError`]. Unless it is cancelled, an interrupted move keeps the writes of the
    /// organisation held if it had begun to hold them.
    pub async fn run(
        &self,
        stores: &Stores,
        mut progress: impl FnMut(MoveStep, u64) + Send,
    ) -> Result<MoveOutcome, MoveError> {
        store_of(stores, self.to)?;
        let mut running = Move::begin(self.org, stores, &mut progress).await?;
        if let Some(MoveState::Removing { from }) = running.moving() {
            running.empty(&from).await?;
            if running.placement.partition == self.to {
                return Ok(MoveOutcome::Moved { from, copied: None });
            }
        }
        let from = running.placement.partition.clone();
        let mut old = running.side(&from).await?;
        let new = running.side(self.to).await?;
        match running.moving() {
            Some(MoveState::Copying { to }) if from == self.to => {
                let new = running.side(&to).await?;
                running.cancel(old, new, &to).await?;
                return Ok(MoveOutcome::Cancelled { to });
            }
            Some(MoveState::Copying { to } | MoveState::Switching { to }) if to != self.to => {
                return Err(MoveError::OtherMove { to });
            }
            None => {
                running.require_only_at(&old, &new, self.to).await?;
                running.free(&mut old).await?;
                if from == self.to {
                    return Ok(MoveOutcome::Unmoved);
                }
            }
            Some(_) => {}
        }
        let copied = running.copy_and_switch(old, new, self.to).await?;
        running.empty(&from).await?;
        Ok(MoveOutcome::Moved { from, copied })
    }
}

/// A move that runs.
struct Move<'m> {
    org: OrgId,
    stores: &'m Stores,
    directory: Directory,
    /// Place of the organisation in the directory.
    placement: Placement,
    /// Version of the entry in the directory; `None` if there is none.
    version: Option<Version>,
    progress: &'m mut (dyn FnMut(MoveStep, u64) + Send),
}

impl<'m> Move<'m> {
    async fn begin(
        org: OrgId,
        stores: &'m Stores,
        progress: &'m mut (dyn FnMut(MoveStep, u64) + Send),
    ) -> Result<Self, MoveError> {
        let home = store_of(stores, HOME)?;
        identity::require(&**home, HOME).await?;
        let directory = Directory::new(Arc::clone(home));
        let (placement, version) = match directory.stored(org).await? {
            Some((placement, version)) => (placement, Some(version)),
            None => {
                let found = home.get_as::<Organization>(&keys::org(org)).await?;
                let placement = Placement {
                    slug: found.ok_or(MoveError::UnknownOrganization)?.value.slug,
                    partition: HOME.to_owned(),
                    moving: None,
                };
                (placement, None)
            }
        };
        Ok(Self {
            org,
            stores,
            directory,
            placement,
            version,
            progress,
        })
    }

    fn moving(&self) -> Option<MoveState> {
        self.placement.moving.clone()
    }

    async fn side(&mut self, name: &str) -> Result<Side, MoveError> {
        Side::open(store_of(self.stores, name)?, name, self.org).await
    }

    /// Checks that the organisation is where the directory places it, and not where it is moved to.
    ///
    /// A partition that was restored from an older copy has lost it, or still has it. The move would
    /// delete what another partition has of it.
    async fn require_only_at(&mut self, old: &Side, new: &Side, to: &str) -> Result<(), MoveError> {
        let record = || keys::org(self.org);
        let here = &self.placement.partition;
        let found = if !old.has(record()).await? {
            MoveError::Missing { name: here.clone() }
        } else if here != to && !new.is_held().await? && new.has(record()).await? {
            // With a hold, it would be the copy of a process that another one has superseded.
            let name = to.to_owned();
            MoveError::Present { name }
        } else {
            return Ok(());
        };
        if self.is_current().await? {
            Err(found)
        } else {
            Err(MoveError::Superseded)
        }
    }

    /// Records the progress of the move, and thereby takes it over; an organisation at home that is
    /// not moved has no entry.
    async fn record(&mut self, moving: Option<MoveState>) -> Result<(), MoveError> {
        self.placement.moving = moving;
        let is_home = self.placement.partition == HOME && self.placement.moving.is_none();
        let after = (!is_home).then_some(&self.placement);
        let version = self
            .directory
            .replace(self.org, self.version, after)
            .await?;
        self.version = after.map(|_| version);
        Ok(())
    }

    /// Returns true if the directory is as this move has left it.
    async fn is_current(&mut self) -> Result<bool, StoreError> {
        let now = self.directory.stored(self.org).await?;
        Ok(now.map(|(_, version)| version) == self.version)
    }

    /// Takes the move over in a store: writes the hold, which keeps its seal.
    ///
    /// The hold was read before the directory, so that it is never that of a process which has taken
    /// the move over from this one.
    async fn take(&mut self, side: &mut Side, to: &str) -> Result<(), MoveError> {
        let found = side.stored().await?;
        if !self.is_current().await? {
            return Err(MoveError::Superseded);
        }
        let mut hold = Hold {
            from: self.placement.partition.clone(),
            to: to.to_owned(),
            is_sealed: false,
        };
        hold.is_sealed = found.as_ref().is_some_and(|(found, _)| {
            found.is_sealed && (&found.from, &found.to) == (&hold.from, &hold.to)
        });
        let before = found.map(|(_, version)| version);
        if !side.replace(before, hold).await? {
            return Err(MoveError::Superseded);
        }
        if self.is_current().await? {
            return Ok(());
        }
        // The move may be over by now. A hold that was there before is left to whoever goes on.
        if before.is_none() {
            side.release().await?;
        }
        Err(MoveError::Superseded)
    }

    /// Moves the organisation up to the point at which the new partition serves it.
    async fn copy_and_switch(
        &mut self,
        mut old: Side,
        mut new: Side,
        to: &str,
    ) -> Result<Option<Copied>, MoveError> {
        let taken = new.store.get_as::<OrgId>(&self.slug()).await?;
        if taken.is_some_and(|taken| taken.value != self.org) {
            return Err(MoveError::SlugTaken);
        }
        let copying = MoveState::Copying { to: to.to_owned() };
        let moving = self.moving().unwrap_or(copying);
        self.record(Some(moving)).await?;
        let mut copied = None;
        if !old.stored().await?.is_some_and(|(hold, _)| hold.is_sealed) {
            copied = self.copy(&mut old, &mut new, to).await?;
        }
        self.switch(&mut old, &mut new, to).await?;
        Ok(copied)
    }

    fn slug(&self) -> Key {
        keys::org_slug(&self.placement.slug)
    }

    /// Copies the organisation: first while it is served, then what has changed while it is held.
    async fn copy(
        &mut self,
        old: &mut Side,
        new: &mut Side,
        to: &str,
    ) -> Result<Option<Copied>, MoveError> {
        self.take(new, to).await?;
        let ranges = keys::movable_of(self.org);
        if !old.is_held().await? {
            let report = &mut |entries| (self.progress)(MoveStep::Copying, entries);
            synchronize(old, new, &ranges, report).await?;
        }
        (self.progress)(MoveStep::Holding, 0);
        self.take(old, to).await?;
        if old.is_sealed() {
            // The process that this one takes over from was faster.
            return Ok(None);
        }
        if !old.has(keys::org(self.org)).await? {
            // Whatever is left in the old store is purged there.
            remove(new, &ranges, &mut |_| {}).await?;
            new.release().await?;
            old.release().await?;
            self.directory
                .remove(self.org, &self.placement.slug, self.version)
                .await?;
            return Err(MoveError::Deleted);
        }
        let report = &mut |entries| (self.progress)(MoveStep::Holding, entries);
        let read = synchronize(old, new, &ranges, report).await?;
        let written = tally(&*new.store, &ranges).await?;
        if read != written {
            return Err(MoveError::Differs);
        }
        old.seal().await?;
        Ok(Some(Copied {
            entries: read.entries,
            sha256: read.sha256(),
        }))
    }

    /// Replaces the old partition by the new one.
    async fn switch(&mut self, old: &mut Side, new: &mut Side, to: &str) -> Result<(), MoveError> {
        if !old.is_taken() {
            self.take(old, to).await?;
        }
        if !new.is_taken() && new.is_held().await? {
            self.take(new, to).await?;
        }
        // Without a hold, the new partition has everything, and serves the organisation.
        if new.is_taken() {
            // Before the tasks: one that finds nothing to do is over.
            copy_credentials(old, new, self.org).await?;
            if to != HOME {
                let value = serde_json::to_vec(&self.org).expect("an identifier serialises");
                new.commit(Commit::builder().put(self.slug(), value))
                    .await?;
            }
            move_tasks(old, new, self.org).await?;
        }
        (self.progress)(MoveStep::Switching, 0);
        let switching = MoveState::Switching { to: to.to_owned() };
        if self.placement.moving.as_ref() != Some(&switching) {
            self.record(Some(switching)).await?;
        }
        delete_credentials(old, self.org).await?;
        if self.placement.partition != HOME {
            old.commit(Commit::builder().delete(self.slug())).await?;
        }
        new.release().await?;
        let from = std::mem::replace(&mut self.placement.partition, to.to_owned());
        self.record(Some(MoveState::Removing { from })).await
    }

    /// Removes the organisation from the partition that had it.
    async fn empty(&mut self, from: &str) -> Result<(), MoveError> {
        let mut old = self.side(from).await?;
        self.record(self.moving()).await?;
        let to = self.placement.partition.clone();
        self.take(&mut old, &to).await?;
        let mut ranges = keys::movable_of(self.org);
        ranges.push(keys::outbox_queue_of(self.org));
        let report = &mut |entries| (self.progress)(MoveStep::Removing, entries);
        remove(&old, &ranges, report).await?;
        old.release().await?;
        self.record(None).await
    }

    /// Ends a move that is not sealed: the old partition serves the organisation as before.
    async fn cancel(&mut self, mut old: Side, mut new: Side, to: &str) -> Result<(), MoveError> {
        let sealed = || MoveError::OtherMove { to: to.to_owned() };
        if old.stored().await?.is_some_and(|(hold, _)| hold.is_sealed) {
            return Err(sealed());
        }
        self.record(self.moving()).await?;
        if old.is_held().await? {
            self.take(&mut old, to).await?;
            if old.is_sealed() {
                return Err(sealed());
            }
        }
        self.take(&mut new, to).await?;
        remove(&new, &keys::movable_of(self.org), &mut |_| {}).await?;
        new.release().await?;
        old.release().await?;
        self.record(None).await
    }

    /// Removes a hold that no move needs, left by a process that was stopped while another one
    /// completed its move.
    async fn free(&mut self, side: &mut Side) -> Result<(), MoveError> {
        if side.is_held().await? {
            let here = self.placement.partition.clone();
            self.take(side, &here).await?;
            side.release().await?;
        }
        Ok(())
    }
}

fn store_of<'s>(stores: &'s Stores, name: &str) -> Result<&'s Arc<dyn Store>, MoveError> {
    stores.get(name).ok_or_else(|| MoveError::UnknownPartition {
        name: name.to_owned(),
    })
}
