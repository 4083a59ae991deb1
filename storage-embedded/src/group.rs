//! A group: commits that are checked in order and written together.

use std::collections::HashMap;
use std::collections::hash_map;

use foldhash::fast::RandomState;
use knowledge_store::{Commit, CommitOutcome, Entry, Key, Mutation, StoreError, Version};

use crate::engine::{Change, Changes, Engine, View};
use crate::entry_cache::PublishedView;
use crate::error::catch_panic;
use crate::record::Ledger;
use crate::shared::Shared;

/// State of one key in a group.
#[derive(Debug)]
struct Slot {
    /// Entry before the group.
    before: Option<Entry>,
    /// Entry after the group's commits so far, if one of them changed it.
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

/// Commits checked against the published state and the earlier commits of the group.
pub(crate) struct Group<'s, E: Engine> {
    shared: &'s Shared<E>,
    view: PublishedView<'s, E::View>,
    ledger: Ledger,
    slots: HashMap<Key, Slot, RandomState>,
    is_changed: bool,
}

impl<'s, E: Engine> Group<'s, E> {
    /// Begins a group on top of the published state and its ledger.
    pub(crate) fn new(shared: &'s Shared<E>, ledger: Ledger) -> Self {
        Self {
            shared,
            view: shared.view(),
            ledger,
            slots: HashMap::default(),
            is_changed: false,
        }
    }

    /// Checks a commit and adds it to the group. Its outcome is final once the group is durable.
    ///
    /// # Errors
    /// Errors of [`Mutation::add_to`] and of reads. The group then contains nothing of this commit.
    pub(crate) fn add(&mut self, commit: Commit) -> Result<CommitOutcome, StoreError> {
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
        // A commit without mutations takes a version too, so that every outcome is unique.
        let version = self.ledger.next_version();
        for (key, value) in values {
            self.write(key, value.map(|value| Entry { value, version }), version);
        }
        Ok(CommitOutcome::Committed(version))
    }

    /// Reads in one call the keys of a commit that are new to the group.
    fn read(&mut self, commit: &Commit) -> Result<(), StoreError> {
        let checked = commit.checks().iter().map(|check| &check.key);
        let changed = commit.mutations().iter().map(Mutation::key);
        let mut keys: Vec<Key> = checked
            .chain(changed)
            .filter(|key| !self.slots.contains_key(*key))
            .cloned()
            .collect();
        // Sorted keys share blocks of the engine.
        keys.sort_unstable();
        keys.dedup();
        let found = catch_panic(|| self.view.get(&keys));
        let found = found.map_err(|error| self.shared.read_error(&error))?;
        self.slots.reserve(keys.len());
        for (key, before) in keys.into_iter().zip(found) {
            let after = None;
            self.slots.insert(key, Slot { before, after });
        }
        Ok(())
    }

    /// Returns the entry as the group's next commit sees it.
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

    /// Returns the new ledger, and the group's changes, if any.
    pub(crate) fn finish(self) -> (Ledger, Option<Changes>) {
        if !self.is_changed {
            return (self.ledger, None);
        }
        let change = |(key, slot): (Key, Slot)| {
            let (before, after) = (slot.before, slot.after?);
            // Skip removals of absent entries: the engine would still write them.
            (before.is_some() || after.is_some()).then_some(Change { key, before, after })
        };
        let changes = Changes {
            entries: self.slots.into_iter().filter_map(change).collect(),
            ledger: self.ledger.encode(),
        };
        (self.ledger, Some(changes))
    }
}
