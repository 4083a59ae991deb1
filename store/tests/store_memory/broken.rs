//! A store with a defect of choice.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use knowledge_store::{
    Commit, CommitOutcome, Direction, Entry, Found, Key, KeyEntry, KeyRange, Mark, Marks, Mutation,
    Read, Store, StoreError, Version,
};

/// The defect of a [`Broken`] store.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Defect {
    None,
    AnswersGetSorted,
    SkipsRepeatedKeys,
    IgnoresReverse,
    TakesTheFirstInReverse,
    LimitOffByOne,
    ScansToTheEndInclusive,
    ScansFromTheStartExclusive,
    FailsOnInvertedRanges,
    CutsLongBounds,
    IgnoresChecks,
    IgnoresChecksOfAbsence,
    ChecksTheFirstOnly,
    ChecksInAnotherStep,
    AppliesOneByOne,
    AppliesBeforeAnInvalidAdd,
    ConflictsOnChecksOnly,
    ReadsKeyByKey,
    ReadsOneByOne,
    AnswersKeysFirst,
    ReadsOldState,
    ReusesVersionsAfterDelete,
    ReusesVersionsOverReopen,
    KeepsTheVersionOfEqualValues,
    KeepsTheVersionOfCounters,
    AnswersAnotherVersion,
    AddLosesTheSign,
    AddWraps,
    AddRemovesZero,
    AddIsLost,
    AddTreatsTextAsZero,
    CutsLargeValues,
    DropsMutationsPastThousand,
    ReopenLosesTheLastCommit,
    ReopenForgetsDeletes,
    KeepsTheMark,
    ChangesTheMarkTooEarly,
}

/// A map with numbered commits, like [`MemoryStore`], but with one defect.
pub(crate) struct Broken {
    defect: Defect,
    state: Mutex<State>,
    marks: Marks,
}

#[derive(Clone, Default)]
struct State {
    entries: BTreeMap<Key, Entry>,
    deleted: HashMap<Key, Entry>,
    last_version: u64,
    previous: Option<Box<State>>,
}

impl State {
    fn read(&self, read: Read<'_>, defect: Defect) -> Found {
        match read {
            Read::Keys(keys) => Found::Keys(self.under(&asked(keys, defect), defect)),
            Read::Range {
                range,
                limit,
                direction,
            } => Found::Range(self.scan(range.clone(), limit, direction, defect)),
        }
    }

    fn under(&self, keys: &[Key], defect: Defect) -> Vec<Option<Entry>> {
        let entries = match &self.previous {
            Some(previous) if defect == Defect::ReadsOldState => &previous.entries,
            _ => &self.entries,
        };
        keys.iter().map(|key| entries.get(key).cloned()).collect()
    }

    fn scan(
        &self,
        mut range: KeyRange,
        mut limit: usize,
        direction: Direction,
        defect: Defect,
    ) -> Vec<KeyEntry> {
        match defect {
            Defect::FailsOnInvertedRanges => {
                assert!(range.end.as_ref().is_none_or(|end| *end >= range.start));
            }
            Defect::ScansToTheEndInclusive => range.end = range.end.map(|end| end.successor()),
            Defect::ScansFromTheStartExclusive => range.start = range.start.successor(),
            Defect::CutsLongBounds => {
                let cut = range.start.as_bytes().len().min(512);
                range.start = Key::new(&range.start.as_bytes()[..cut]).unwrap();
            }
            Defect::LimitOffByOne => limit = limit.saturating_add(1),
            _ => {}
        }
        let mut found = self.within(&range);
        if defect == Defect::TakesTheFirstInReverse {
            found.truncate(limit);
        }
        if direction == Direction::Reverse && defect != Defect::IgnoresReverse {
            found.reverse();
        }
        found.truncate(limit);
        found
    }

    fn within(&self, range: &KeyRange) -> Vec<KeyEntry> {
        let inside = self.entries.iter().filter(|(key, _)| range.contains(key));
        let entry = |(key, entry): (&Key, &Entry)| KeyEntry {
            key: key.clone(),
            entry: entry.clone(),
        };
        inside.map(entry).collect()
    }

    fn apply(&mut self, key: &Key, entry: Option<Entry>) {
        match entry {
            Some(entry) => drop(self.entries.insert(key.clone(), entry)),
            None => {
                let removed = self.entries.remove(key);
                self.deleted
                    .extend(removed.map(|entry| (key.clone(), entry)));
            }
        }
    }
}

impl Broken {
    pub(crate) fn new(defect: Defect) -> Self {
        Self {
            defect,
            state: Mutex::default(),
            marks: Marks::default(),
        }
    }

    fn is(&self, defect: Defect) -> bool {
        self.defect == defect
    }

    fn checks_hold(&self, state: &State, commit: &Commit) -> bool {
        let mut checks = commit.checks();
        if self.is(Defect::ChecksTheFirstOnly) {
            checks = &checks[..checks.len().min(1)];
        }
        checks.iter().all(|check| {
            let is_ignored = self.is(Defect::IgnoresChecks)
                || (self.is(Defect::IgnoresChecksOfAbsence) && check.version.is_none());
            let stands = state.entries.get(&check.key).map(|entry| entry.version);
            is_ignored || stands == check.version
        })
    }

    fn sum(&self, current: Option<&[u8]>, delta: i64) -> Result<String, StoreError> {
        let counted = Mutation::add_to(current, 0);
        if self.is(Defect::AddTreatsTextAsZero) && counted.is_err() {
            return Ok(delta.to_string());
        }
        if self.is(Defect::AddWraps) {
            let current: i64 = std::str::from_utf8(&counted?).unwrap().parse().unwrap();
            return Ok(current.wrapping_add(delta).to_string());
        }
        let sum = String::from_utf8(Mutation::add_to(current, delta)?.to_vec()).unwrap();
        Ok(match self.defect {
            Defect::AddLosesTheSign => sum.trim_start_matches('-').to_owned(),
            _ => sum,
        })
    }

    /// Returns the entry that a mutation leaves under its key.
    fn left_by(
        &self,
        mutation: &Mutation,
        current: Option<&Entry>,
        version: Version,
    ) -> Result<Option<Entry>, StoreError> {
        let value = match mutation {
            Mutation::Delete { .. } => return Ok(None),
            Mutation::Put { value, .. } => {
                let is_cut = self.is(Defect::CutsLargeValues) && value.len() == 64 * 1024;
                value.slice(..value.len() - usize::from(is_cut))
            }
            Mutation::Add { delta, .. } => {
                let sum = self.sum(current.map(|entry| &*entry.value), *delta)?;
                if self.is(Defect::AddRemovesZero) && sum == "0" {
                    return Ok(None);
                }
                sum.into()
            }
        };
        let is_add = matches!(mutation, Mutation::Add { .. });
        let version = match current {
            Some(current) if self.is(Defect::KeepsTheVersionOfCounters) && is_add => {
                current.version
            }
            Some(current)
                if self.is(Defect::KeepsTheVersionOfEqualValues) && current.value == value =>
            {
                current.version
            }
            None if self.is(Defect::ReusesVersionsAfterDelete) => Version::FIRST,
            _ => version,
        };
        Ok(Some(Entry { value, version }))
    }

    fn commit_to(&self, state: &mut State, commit: &Commit) -> Result<Version, StoreError> {
        if self.is(Defect::ReopenLosesTheLastCommit) || self.is(Defect::ReadsOldState) {
            state.previous = None;
            state.previous = Some(Box::new(state.clone()));
        }
        state.last_version += 1;
        let version = Version::new(state.last_version).unwrap();
        let mut left = Vec::new();
        for (i, mutation) in commit.mutations().iter().enumerate() {
            let is_dropped = (self.is(Defect::DropsMutationsPastThousand) && i >= 1_000)
                || (self.is(Defect::AddIsLost) && i == 2);
            if is_dropped {
                continue;
            }
            let key = mutation.key();
            let entry = self.left_by(mutation, state.entries.get(key), version)?;
            match self.defect {
                Defect::AppliesBeforeAnInvalidAdd => state.apply(key, entry),
                _ => left.push((key, entry)),
            }
        }
        for (key, entry) in left {
            state.apply(key, entry);
        }
        Ok(match self.defect {
            Defect::AnswersAnotherVersion => version.next(),
            _ => version,
        })
    }

    async fn commit_one_by_one(&self, commit: &Commit) -> Result<Version, StoreError> {
        let version = {
            let mut state = self.state.lock().unwrap();
            state.last_version += 1;
            Version::new(state.last_version).unwrap()
        };
        for (i, mutation) in commit.mutations().iter().enumerate() {
            if i == 1 {
                between_two_steps().await;
            }
            let mut state = self.state.lock().unwrap();
            let current = state.entries.get(mutation.key());
            let left = self.left_by(mutation, current, version)?;
            state.apply(mutation.key(), left);
        }
        Ok(version)
    }

    pub(crate) fn reopened(&self) -> Self {
        let mut state = self.state.lock().unwrap().clone();
        match self.defect {
            Defect::ReopenLosesTheLastCommit => {
                if let Some(previous) = state.previous.take() {
                    state = *previous;
                }
            }
            Defect::ReopenForgetsDeletes => {
                let deleted = std::mem::take(&mut state.deleted);
                state.entries.extend(deleted);
            }
            Defect::ReusesVersionsOverReopen => {
                let versions = state.entries.values().map(|entry| entry.version.get());
                state.last_version = versions.max().unwrap_or(0);
            }
            _ => {}
        }
        Self {
            defect: self.defect,
            state: Mutex::new(state),
            marks: Marks::default(),
        }
    }
}

impl Broken {
    /// Reads some keys; a store with that defect does so in two steps.
    async fn get(&self, keys: &[Key]) -> Vec<Option<Entry>> {
        let (first, second) = keys.split_at(keys.len() / 2);
        let mut found = self.state.lock().unwrap().under(first, self.defect);
        if self.is(Defect::ReadsKeyByKey) {
            between_two_steps().await;
        }
        found.extend(self.state.lock().unwrap().under(second, self.defect));
        found
    }
}

/// Waits long enough for another task to run in between, even with more threads than cores.
async fn between_two_steps() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// Returns the keys that a store with this defect reads instead of the given ones.
fn asked(keys: &[Key], defect: Defect) -> Vec<Key> {
    let mut keys = keys.to_vec();
    match defect {
        Defect::AnswersGetSorted => keys.sort(),
        Defect::SkipsRepeatedKeys => {
            keys.sort();
            keys.dedup();
        }
        _ => {}
    }
    keys
}

#[async_trait]
impl Store for Broken {
    async fn read(&self, reads: &[Read<'_>]) -> Result<Vec<Found>, StoreError> {
        if self.is(Defect::ReadsKeyByKey)
            && let [Read::Keys(keys)] = reads
        {
            return Ok(vec![Found::Keys(self.get(keys).await)]);
        }
        if self.is(Defect::ReadsOneByOne) {
            let mut found = Vec::new();
            for read in reads {
                if !found.is_empty() {
                    between_two_steps().await;
                }
                found.push(self.state.lock().unwrap().read(*read, self.defect));
            }
            return Ok(found);
        }
        let mut reads = reads.to_vec();
        if self.is(Defect::AnswersKeysFirst) {
            reads.sort_by_key(|read| matches!(read, Read::Range { .. }));
        }
        let state = self.state.lock().unwrap();
        let read = |read: &Read<'_>| state.read(*read, self.defect);
        Ok(reads.iter().map(read).collect())
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome, StoreError> {
        if self.is(Defect::ConflictsOnChecksOnly) && commit.mutations().is_empty() {
            return Ok(CommitOutcome::Conflict);
        }
        let changed = || {
            self.marks
                .change(commit.mutations().iter().map(Mutation::key), || {});
        };
        if self.is(Defect::ChangesTheMarkTooEarly) {
            changed();
            between_two_steps().await;
        }
        let early = [Defect::ChangesTheMarkTooEarly, Defect::KeepsTheMark];
        let in_another_step = [Defect::ChecksInAnotherStep, Defect::AppliesOneByOne];
        {
            let mut state = self.state.lock().unwrap();
            if !self.checks_hold(&state, &commit) {
                return Ok(CommitOutcome::Conflict);
            }
            if !early.contains(&self.defect) {
                changed();
            }
            if !in_another_step.contains(&self.defect) {
                let version = self.commit_to(&mut state, &commit);
                return version.map(CommitOutcome::Committed);
            }
        }
        let version = if self.is(Defect::AppliesOneByOne) {
            self.commit_one_by_one(&commit).await
        } else {
            between_two_steps().await;
            self.commit_to(&mut self.state.lock().unwrap(), &commit)
        };
        version.map(CommitOutcome::Committed)
    }

    fn mark(&self, area: &[u8]) -> Option<Mark> {
        self.marks.get(area)
    }
}
