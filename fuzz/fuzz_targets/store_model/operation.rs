//! Operations that the fuzzer generates.

use std::collections::BTreeMap;

use arbitrary::Arbitrary;
use knowledge_core::store::{Commit, Key, KeyRange, Version};

#[derive(Arbitrary, Debug)]
pub(crate) enum Operation {
    Commit {
        checks: Vec<(Name, Expected)>,
        /// Changes, one per key, as a commit requires.
        changes: BTreeMap<Name, Change>,
    },
    Get(Vec<Name>),
    Scan {
        bounds: Bounds,
        limit: u8,
        reverse: bool,
    },
}

/// A key of one to three bytes, so that operations share keys. Different names are different keys.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Name {
    One([Byte; 1]),
    Two([Byte; 2]),
    Three([Byte; 3]),
}

/// Bytes that are edges of prefixes and ranges.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Byte {
    Zero,
    Letter,
    NextLetter,
    Max,
}

impl Name {
    pub(crate) fn key(&self) -> Key {
        let bytes: &[Byte] = match self {
            Self::One(bytes) => bytes,
            Self::Two(bytes) => bytes,
            Self::Three(bytes) => bytes,
        };
        let bytes = bytes.iter().map(|byte| match byte {
            Byte::Zero => 0,
            Byte::Letter => b'a',
            Byte::NextLetter => b'b',
            Byte::Max => u8::MAX,
        });
        Key::new(bytes.collect::<Vec<u8>>()).expect("one to three bytes are a key")
    }
}

/// Expected state of a checked key.
#[derive(Arbitrary, Debug)]
pub(crate) enum Expected {
    /// The current version: the check holds.
    Current,
    /// No entry.
    Absent,
    /// The version before the last change.
    Outdated,
}

#[derive(Arbitrary, Debug)]
pub(crate) enum Change {
    Put(Vec<u8>),
    PutNumber(i64),
    Delete,
    Add(i64),
}

#[derive(Arbitrary, Debug)]
pub(crate) enum Bounds {
    All,
    Prefix(Name),
    Between(Name, Name),
    /// Keys of a prefix after a key.
    After(Name, Name),
    /// Keys of a prefix before a key.
    Before(Name, Name),
}

impl Bounds {
    pub(crate) fn range(&self) -> KeyRange {
        match self {
            Self::All => KeyRange::all(),
            Self::Prefix(prefix) => KeyRange::prefix(&prefix.key()),
            Self::Between(start, end) => KeyRange::new(start.key(), end.key()),
            Self::After(prefix, key) => KeyRange::prefix(&prefix.key()).after(&key.key()),
            Self::Before(prefix, key) => KeyRange::prefix(&prefix.key()).before(&key.key()),
        }
    }
}

/// Returns a commit of checks and changes.
pub(crate) fn commit(checks: &[(Key, Option<Version>)], changes: &[(Key, &Change)]) -> Commit {
    let mut commit = Commit::builder();
    for (key, version) in checks {
        commit = commit.check(key.clone(), *version);
    }
    for (key, change) in changes {
        let key = key.clone();
        commit = match change {
            Change::Put(value) => commit.put(key, value.clone()),
            Change::PutNumber(number) => commit.put(key, number.to_string()),
            Change::Delete => commit.delete(key),
            Change::Add(delta) => commit.add(key, *delta),
        };
    }
    commit
        .build()
        .expect("inputs are within the limits of a commit")
}
