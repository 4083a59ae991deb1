//! Commits, reads and scans of a store, compared with a plain map.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use knowledge_core::store::{
    Commit, CommitOutcome, Direction, Key, KeyRange, Store, StoreErrorKind, StoreExt, Version,
};

/// Maximum number of commands of a script.
const COMMANDS_MAX: usize = 200;

type FoundEntry = (Key, Bytes, Version);

/// Change of one key.
#[derive(Clone, Debug)]
enum Change {
    Put(Bytes),
    Add(i64),
    Delete,
}

/// Expected state of a checked key.
#[derive(Clone, Copy, Debug)]
enum Expected {
    /// The current version: the check holds.
    Current,
    /// No entry.
    Absent,
    /// The version before the last change.
    Outdated,
}

/// Runs a script of commands, one per line, over a store and a map, and compares the results.
///
/// The lines before `commit` form a commit: `check KEY current|absent|outdated`, `put KEY VALUE`,
/// `fill KEY BYTES`, `add KEY NUMBER`, `delete KEY`. `get KEY…`, `scan all|prefix KEY|between KEY
/// KEY|after KEY KEY|before KEY KEY [LIMIT] [reverse]` and `reopen` are commands of one line. Bytes
/// of keys may be written `%00`. Unknown lines are ignored.
///
/// `open` creates the store, and reopens it from the one that is passed.
///
/// # Panics
/// If the store differs from the map.
pub async fn check_commands<O>(script: &[u8], mut open: O)
where
    O: FnMut(Option<Arc<dyn Store>>) -> Arc<dyn Store>,
{
    let mut store = open(None);
    let mut model = Model::default();
    let mut pending = Pending::default();
    let lines = script.split(|byte| *byte == b'\n').take(COMMANDS_MAX);
    for line in lines {
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        match words.as_slice() {
            [b"reopen"] => store = open(Some(store)),
            [b"commit"] => {
                let commit = std::mem::take(&mut pending);
                commit.commit(&*store, &mut model).await;
            }
            [b"get", keys @ ..] => {
                let keys: Vec<Key> = keys.iter().filter_map(|name| key(name)).collect();
                let found = store.get(&keys).await.expect("the store can be read");
                let found = found
                    .into_iter()
                    .map(|entry| Some((entry.as_ref()?.value.clone(), entry?.version)));
                assert_eq!(found.collect::<Vec<_>>(), model.get(&keys));
            }
            [b"scan", rest @ ..] => {
                let Some((range, rest)) = range(rest) else {
                    continue;
                };
                let limit = rest
                    .first()
                    .and_then(|word| number(word))
                    .unwrap_or(usize::MAX);
                let direction = match rest.last() {
                    Some(&b"reverse") => Direction::Reverse,
                    _ => Direction::Forward,
                };
                compare(&*store, &model, &range, limit, direction).await;
            }
            words => pending.add(words, line),
        }
    }
    let store = open(Some(store));
    for direction in [Direction::Forward, Direction::Reverse] {
        compare(&*store, &model, &KeyRange::all(), usize::MAX, direction).await;
    }
}

/// Compares a scan.
async fn compare(
    store: &dyn Store,
    model: &Model,
    range: &KeyRange,
    limit: usize,
    direction: Direction,
) {
    let found = store.scan(range, limit, direction).await;
    let found = found.expect("the store can be read").into_iter();
    let found = found.map(|found| (found.key, found.entry.value, found.entry.version));
    let expected = model.scan(range, limit, direction);
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

/// Parses a key, in which `%00` is a byte.
fn key(name: &[u8]) -> Option<Key> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((first, others)) = rest.split_first() {
        let digits = others
            .get(..2)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match escaped.filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &others[2..];
            }
            None => {
                bytes.push(*first);
                rest = others;
            }
        }
    }
    Key::new(bytes).ok()
}

fn number<T: std::str::FromStr>(word: &[u8]) -> Option<T> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// Parses the range of a scan; returns it with the words that follow.
fn range<'w>(words: &'w [&'w [u8]]) -> Option<(KeyRange, &'w [&'w [u8]])> {
    let prefix = |name: &[u8]| Some(KeyRange::prefix(&key(name)?));
    Some(match words {
        [b"all", rest @ ..] => (KeyRange::all(), rest),
        [b"prefix", name, rest @ ..] => (prefix(name)?, rest),
        [b"between", start, end, rest @ ..] => (KeyRange::new(key(start)?, key(end)?), rest),
        [b"after", name, after, rest @ ..] => (prefix(name)?.after(&key(after)?), rest),
        [b"before", name, before, rest @ ..] => (prefix(name)?.before(&key(before)?), rest),
        _ => return None,
    })
}

/// A commit that is not complete, with one change per key.
#[derive(Debug, Default)]
struct Pending {
    checks: Vec<(Key, Expected)>,
    changes: BTreeMap<Key, Change>,
}

impl Pending {
    fn add(&mut self, words: &[&[u8]], line: &[u8]) {
        let [command, name, rest @ ..] = words else {
            return;
        };
        let Some(name_key) = key(name) else {
            return;
        };
        let first = rest.first().copied().unwrap_or_default();
        let expected = match first {
            b"current" => Some(Expected::Current),
            b"absent" => Some(Expected::Absent),
            b"outdated" => Some(Expected::Outdated),
            _ => None,
        };
        let value = || {
            line.get(command.len() + name.len() + 2..)
                .unwrap_or_default()
                .to_vec()
        };
        let change = match *command {
            b"check" => {
                self.checks
                    .extend(expected.map(|expected| (name_key, expected)));
                return;
            }
            b"put" => Some(Change::Put(value().into())),
            b"fill" => number::<u32>(first)
                .map(|bytes| Change::Put(vec![b'x'; bytes as usize & 0x1_FFFF].into())),
            b"add" => number(first).map(Change::Add),
            b"delete" => Some(Change::Delete),
            _ => None,
        };
        self.changes.extend(change.map(|change| (name_key, change)));
    }

    /// Commits to the store and to the model. A commit beyond the limits cannot be built.
    async fn commit(self, store: &dyn Store, model: &mut Model) {
        let checks = self.checks.into_iter().map(|(key, expected)| {
            let version = match expected {
                Expected::Current => model.version(&key),
                Expected::Absent => None,
                Expected::Outdated => model.outdated.get(&key).copied(),
            };
            (key, version)
        });
        let checks: Vec<_> = checks.collect();
        let mut commit = Commit::builder();
        for (key, version) in &checks {
            commit = commit.check(key.clone(), *version);
        }
        for (key, change) in &self.changes {
            let key = key.clone();
            commit = match change {
                Change::Put(value) => commit.put(key, value.clone()),
                Change::Add(delta) => commit.add(key, *delta),
                Change::Delete => commit.delete(key),
            };
        }
        if let Ok(commit) = commit.build() {
            let outcome = store.commit(commit).await.map_err(|error| error.kind());
            model.commit(&checks, &self.changes, outcome);
        }
    }
}

/// A map of entries, and all versions used so far.
#[derive(Debug, Default)]
struct Model {
    entries: BTreeMap<Key, (Bytes, Version)>,
    outdated: BTreeMap<Key, Version>,
    used: HashSet<(Key, Version)>,
}

impl Model {
    fn version(&self, key: &Key) -> Option<Version> {
        self.entries.get(key).map(|(_, version)| *version)
    }

    fn get(&self, keys: &[Key]) -> Vec<Option<(Bytes, Version)>> {
        keys.iter()
            .map(|key| self.entries.get(key).cloned())
            .collect()
    }

    /// Filters all entries, to share no logic about bounds with the store.
    fn scan(&self, range: &KeyRange, limit: usize, direction: Direction) -> Vec<FoundEntry> {
        let inside =
            |key: &Key| *key >= range.start && range.end.as_ref().is_none_or(|end| key < end);
        let entries = self.entries.iter().filter(|(key, _)| inside(key));
        let entry = |(key, (value, version)): (&Key, &(Bytes, Version))| {
            (key.clone(), value.clone(), *version)
        };
        let mut found: Vec<FoundEntry> = entries.map(entry).collect();
        if direction == Direction::Reverse {
            found.reverse();
        }
        found.truncate(limit);
        found
    }

    /// Asserts that a commit has the expected outcome, and applies it.
    fn commit(
        &mut self,
        checks: &[(Key, Option<Version>)],
        changes: &BTreeMap<Key, Change>,
        outcome: Result<CommitOutcome, StoreErrorKind>,
    ) {
        if checks
            .iter()
            .any(|(key, expected)| self.version(key) != *expected)
        {
            assert_eq!(outcome, Ok(CommitOutcome::Conflict));
            return;
        }
        let written = changes
            .iter()
            .map(|(key, change)| Some((key, self.value_after(key, change)?)));
        let Some(written) = written.collect::<Option<Vec<_>>>() else {
            assert_eq!(outcome, Err(StoreErrorKind::Invalid));
            return;
        };
        let Ok(CommitOutcome::Committed(version)) = outcome else {
            panic!("all checks hold and all changes are valid, but: {outcome:?}");
        };
        for (key, value) in written {
            let replaced = match value {
                Some(value) => {
                    let is_new = self.used.insert((key.clone(), version));
                    assert!(is_new, "{version:?} was used twice");
                    self.entries.insert(key.clone(), (value, version))
                }
                None => self.entries.remove(key),
            };
            if let Some((_, replaced)) = replaced {
                self.outdated.insert(key.clone(), replaced);
            }
        }
    }

    /// Returns the value of a key after a change; the outer `None` if the change is invalid.
    fn value_after(&self, key: &Key, change: &Change) -> Option<Option<Bytes>> {
        Some(match change {
            Change::Put(value) => Some(value.clone()),
            Change::Delete => None,
            Change::Add(delta) => {
                let current: i64 = match self.entries.get(key) {
                    Some((digits, _)) => std::str::from_utf8(digits).ok()?.parse().ok()?,
                    None => 0,
                };
                Some(current.checked_add(*delta)?.to_string().into())
            }
        })
    }
}
