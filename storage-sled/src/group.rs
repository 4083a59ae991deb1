//! A group: commits that are checked one after the other and written together.

use std::collections::HashMap;
use std::collections::hash_map;

use knowledge_core::store::{Commit, CommitOutcome, Entry, Key, Mutation, StoreError, Version};

use crate::error::{EngineError, guarded};
use crate::record;
use crate::record::{LEDGER_KEY, Ledger, encode, entry_key};
use crate::shared::Shared;
use crate::timeline::Before;

/// What a group knows of one key.
#[derive(Debug)]
struct Slot {
    /// What stood there before the group.
    before: Option<Entry>,
    /// What the commits of the group made of it, where one of them did.
    after: Option<Option<Entry>>,
}

impl Slot {
    fn current(&self) -> Option<&Entry> {
        match &self.after {
            Some(after) => after.as_ref(),
            None => self.before.as_ref(),
        }
    }
}

/// Commits that are decided against what stands in sled and against those ahead of them in the group.
#[derive(Debug)]
pub(crate) struct Group<'t> {
    tree: &'t sled::Tree,
    shared: &'t Shared,
    ledger: Ledger,
    slots: HashMap<Key, Slot>,
    is_changed: bool,
}

/// What a group comes to: one batch, what it changes as it stood before, and the ledger after it.
#[derive(Debug)]
pub(crate) struct Changes {
    pub(crate) batch: sled::Batch,
    pub(crate) before: Before,
    pub(crate) ledger: Ledger,
}

impl<'t> Group<'t> {
    /// A group behind everything that is in `tree`, with its ledger.
    pub(crate) fn new(tree: &'t sled::Tree, ledger: Ledger, shared: &'t Shared) -> Self {
        Self {
            tree,
            shared,
            ledger,
            slots: HashMap::new(),
            is_changed: false,
        }
    }

    /// Decides one commit. Its outcome holds once the group is durable.
    ///
    /// # Errors
    /// Those of [`Mutation::add_to`] and of reading: nothing of this commit is then part of the group.
    pub(crate) fn admit(&mut self, commit: Commit) -> Result<CommitOutcome, StoreError> {
        let (checks, mutations) = commit.into_parts();
        for check in &checks {
            let stands = self.current(&check.key)?.map(|entry| entry.version);
            if stands != check.version {
                return Ok(CommitOutcome::Conflict);
            }
        }
        let mut values = Vec::with_capacity(mutations.len());
        for mutation in mutations {
            let current = self.current(mutation.key())?;
            values.push(match mutation {
                Mutation::Put { key, value } => (key, Some(value)),
                Mutation::Delete { key } => (key, None),
                Mutation::Add { key, delta } => {
                    let sum = Mutation::add_to(current.map(|entry| &*entry.value), delta)?;
                    (key, Some(sum))
                }
            });
        }
        // A commit without mutations takes a version too, so that no two answers are the same.
        let version = self.ledger.next_version();
        for (key, value) in values {
            self.write(key, value.map(|value| Entry { value, version }), version);
        }
        Ok(CommitOutcome::Committed(version))
    }

    /// What stands under a key for the next commit of the group.
    fn current(&mut self, key: &Key) -> Result<Option<&Entry>, StoreError> {
        // Looked up twice where it is there: the entry API would need the key cloned on every look.
        if !self.slots.contains_key(key) {
            let before = read(self.tree, key).map_err(|error| self.shared.read_error(&error))?;
            let slot = Slot {
                before,
                after: None,
            };
            self.slots.insert(key.clone(), slot);
        }
        Ok(self.slots.get(key).and_then(Slot::current))
    }

    fn write(&mut self, key: Key, entry: Option<Entry>, version: Version) {
        let hash_map::Entry::Occupied(mut slot) = self.slots.entry(key) else {
            unreachable!("every key is read before it is written");
        };
        if let Some(current) = slot.get().current() {
            self.ledger.remove(slot.key(), current.version);
        }
        if entry.is_some() {
            self.ledger.insert(slot.key(), version);
        }
        slot.get_mut().after = Some(entry);
        self.is_changed = true;
    }

    /// What there is to write; `Err` with the ledger alone where no commit changed anything.
    pub(crate) fn finish(self) -> Result<Changes, Ledger> {
        if !self.is_changed {
            return Err(self.ledger);
        }
        let mut batch = sled::Batch::default();
        let mut before = Before::new();
        for (key, slot) in self.slots {
            let Some(after) = slot.after else { continue };
            match &after {
                Some(entry) => batch.insert(entry_key(&key), encode(entry)),
                // Removing what is not there would cost sled a write all the same.
                None if slot.before.is_none() => continue,
                None => batch.remove(entry_key(&key)),
            }
            before.insert(key, slot.before);
        }
        batch.insert(LEDGER_KEY, self.ledger.encode());
        Ok(Changes {
            batch,
            before,
            ledger: self.ledger,
        })
    }
}

/// Reads one entry as it stands in sled, synced or not.
fn read(tree: &sled::Tree, key: &Key) -> Result<Option<Entry>, EngineError> {
    guarded(|| {
        let stored = tree.get(entry_key(key))?;
        stored.map(|stored| record::decode(&stored)).transpose()
    })
}
