//! A group: commits that are checked one after the other and written together.

use std::collections::HashMap;
use std::collections::hash_map;

use knowledge_store::{Commit, CommitOutcome, Entry, Key, Mutation, StoreError, Version};

use crate::engine::{Change, Changes, Engine, View};
use crate::error::guarded;
use crate::record::Ledger;
use crate::shared::Shared;

/// The state of one key in a group.
#[derive(Debug)]
struct Slot {
    /// The entry before the group.
    before: Option<Entry>,
    /// The entry that the commits of the group left, if one of them changed it.
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

/// Commits that are decided against the published state and against those ahead of them in the group.
pub(crate) struct Group<'s, E: Engine> {
    shared: &'s Shared<E>,
    view: E::View,
    ledger: Ledger,
    slots: HashMap<Key, Slot>,
    is_changed: bool,
}

impl<'s, E: Engine> Group<'s, E> {
    /// Begins a group after everything that is published, with its ledger.
    pub(crate) fn new(shared: &'s Shared<E>, ledger: Ledger) -> Self {
        Self {
            shared,
            view: shared.engine.view(),
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
        self.read(&commit)?;
        let (checks, mutations) = commit.into_parts();
        for check in &checks {
            if self.current(&check.key).map(|entry| entry.version) != check.version {
                return Ok(CommitOutcome::Conflict);
            }
        }
        let mut values = Vec::with_capacity(mutations.len());
        for mutation in mutations {
            let current = self.current(mutation.key());
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

    /// Reads the keys of a commit that the group has not met yet, all at once.
    fn read(&mut self, commit: &Commit) -> Result<(), StoreError> {
        let checked = commit.checks().iter().map(|check| &check.key);
        let changed = commit.mutations().iter().map(Mutation::key);
        let mut keys: Vec<Key> = checked
            .chain(changed)
            .filter(|key| !self.slots.contains_key(*key))
            .cloned()
            .collect();
        // In byte order neighbours are found in one block of the engine.
        keys.sort_unstable();
        keys.dedup();
        let found = guarded(|| self.view.keys(&keys));
        let found = found.map_err(|error| self.shared.read_error(&error))?;
        self.slots.reserve(keys.len());
        for (key, before) in keys.into_iter().zip(found) {
            let after = None;
            self.slots.insert(key, Slot { before, after });
        }
        Ok(())
    }

    /// The entry that the next commit of the group finds.
    fn current(&self, key: &Key) -> Option<&Entry> {
        self.slots.get(key).and_then(Slot::current)
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

    /// Ends the group: the ledger after it, and the changes, if a commit changed anything.
    pub(crate) fn finish(self) -> (Ledger, Option<Changes>) {
        if !self.is_changed {
            return (self.ledger, None);
        }
        let change = |(key, slot): (Key, Slot)| {
            let (before, after) = (slot.before, slot.after?);
            // Removing an absent entry would cost the engine a write all the same.
            (before.is_some() || after.is_some()).then_some(Change { key, before, after })
        };
        let changes = Changes {
            entries: self.slots.into_iter().filter_map(change).collect(),
            ledger: self.ledger.encode(),
        };
        (self.ledger, Some(changes))
    }
}
