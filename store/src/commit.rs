//! An atomic write as data: checks and mutations.

use std::collections::HashSet;

use bytes::Bytes;

use super::{Key, StoreError, StoreErrorKind, Version};

/// The largest value a store has to take, in bytes.
pub const VALUE_BYTES_MAX: usize = 64 * 1024;
/// The most mutations of one commit.
pub const COMMIT_MUTATIONS_MAX: usize = 4_096;
/// The most bytes of keys and values in the checks and mutations of one commit.
pub const COMMIT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// A condition of a commit: `key` still stands at the version it was read at, or is still absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The key that was read.
    pub key: Key,
    /// The version it was read at; `None` where nothing stood.
    pub version: Option<Version>,
}

/// One change of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Writes a value, whatever stood there.
    Put {
        /// Where to write.
        key: Key,
        /// At most [`VALUE_BYTES_MAX`] bytes.
        value: Bytes,
    },
    /// Removes the entry, if there is one.
    Delete {
        /// What to remove.
        key: Key,
    },
    /// Adds to a signed 64-bit counter, which begins at 0. The stored value is the sum in decimal digits, `-` before
    /// it where it is negative, so that it reads as JSON and sums alike in every backend. A counter that reaches 0
    /// stays as `0`. The commit fails as [`StoreErrorKind::Invalid`] where the value is no counter or the sum leaves 64 bits.
    Add {
        /// The counter.
        key: Key,
        /// What to add.
        delta: i64,
    },
}

impl Mutation {
    /// The key that is changed.
    #[must_use]
    pub fn key(&self) -> &Key {
        match self {
            Self::Put { key, .. } | Self::Delete { key } | Self::Add { key, .. } => key,
        }
    }

    /// The value of a counter after `delta` was added to what stands there: the one definition of
    /// [`Mutation::Add`] for all backends written in Rust.
    ///
    /// # Errors
    /// [`StoreErrorKind::Invalid`] where `current` is no counter or the sum leaves 64 bits.
    pub fn add_to(current: Option<&[u8]>, delta: i64) -> Result<Bytes, StoreError> {
        let current = match current {
            None => 0,
            Some(digits) => std::str::from_utf8(digits)
                .ok()
                .and_then(|digits| digits.parse::<i64>().ok())
                .ok_or_else(|| {
                    StoreError::new(
                        StoreErrorKind::Invalid,
                        "add to a value that is not a counter",
                    )
                })?,
        };
        let sum = current.checked_add(delta).ok_or_else(|| {
            StoreError::new(
                StoreErrorKind::Invalid,
                "the sum of a counter leaves 64 bits",
            )
        })?;
        Ok(Bytes::from(sum.to_string()))
    }
}

/// Checks and mutations that are applied together or not at all, within the limits that every backend can hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commit {
    checks: Vec<Check>,
    mutations: Vec<Mutation>,
}

impl Commit {
    /// Begins an empty commit.
    #[must_use]
    pub fn builder() -> CommitBuilder {
        CommitBuilder::default()
    }

    /// The conditions, all of which have to hold.
    #[must_use]
    pub fn checks(&self) -> &[Check] {
        &self.checks
    }

    /// The changes; no key is changed by more than one of them.
    #[must_use]
    pub fn mutations(&self) -> &[Mutation] {
        &self.mutations
    }

    /// The parts of the commit, for a backend that keeps them.
    #[must_use]
    pub fn into_parts(self) -> (Vec<Check>, Vec<Mutation>) {
        (self.checks, self.mutations)
    }
}

/// What became of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitOutcome {
    /// Applied and durable; the entries written carry this version.
    Committed(Version),
    /// A check did not hold; nothing was applied.
    Conflict,
}

/// A commit that no backend has to take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidCommit {
    /// Two mutations of one key.
    #[error("the commit changes the key {key} twice")]
    KeyChangedTwice {
        /// The key.
        key: Key,
    },
    /// A value over [`VALUE_BYTES_MAX`].
    #[error("the value under {key} has {bytes} bytes, at most {VALUE_BYTES_MAX} are allowed")]
    ValueTooLarge {
        /// The key.
        key: Key,
        /// The size of the value in bytes.
        bytes: usize,
    },
    /// More than [`COMMIT_MUTATIONS_MAX`] mutations.
    #[error("the commit has {mutations} mutations, at most {COMMIT_MUTATIONS_MAX} are allowed")]
    TooManyMutations {
        /// How many there were.
        mutations: usize,
    },
    /// More than [`COMMIT_BYTES_MAX`] bytes.
    #[error("the commit has {bytes} bytes, at most {COMMIT_BYTES_MAX} are allowed")]
    TooLarge {
        /// The size of keys and values in bytes.
        bytes: usize,
    },
    /// A key that only a scan's bound may have.
    #[error("the key {key} is longer than {} bytes", super::KEY_BYTES_MAX)]
    KeyTooLong {
        /// The key.
        key: Key,
    },
}

/// Collects the parts of a [`Commit`] and checks the limits once, for every backend.
#[derive(Clone, Debug, Default)]
pub struct CommitBuilder {
    commit: Commit,
}

impl CommitBuilder {
    /// Adds a condition.
    #[must_use]
    pub fn check(mut self, key: Key, version: Option<Version>) -> Self {
        self.commit.checks.push(Check { key, version });
        self
    }

    /// Adds a change.
    #[must_use]
    pub fn mutate(mut self, mutation: Mutation) -> Self {
        self.commit.mutations.push(mutation);
        self
    }

    /// Adds a put.
    #[must_use]
    pub fn put(self, key: Key, value: impl Into<Bytes>) -> Self {
        self.mutate(Mutation::Put {
            key,
            value: value.into(),
        })
    }

    /// Adds a delete.
    #[must_use]
    pub fn delete(self, key: Key) -> Self {
        self.mutate(Mutation::Delete { key })
    }

    /// Adds an addition to a counter.
    #[must_use]
    pub fn add(self, key: Key, delta: i64) -> Self {
        self.mutate(Mutation::Add { key, delta })
    }

    /// The commit, if every backend can take it.
    ///
    /// # Errors
    /// [`InvalidCommit`] names the limit that it passes.
    pub fn build(self) -> Result<Commit, InvalidCommit> {
        let commit = self.commit;
        if commit.mutations.len() > COMMIT_MUTATIONS_MAX {
            return Err(InvalidCommit::TooManyMutations {
                mutations: commit.mutations.len(),
            });
        }
        let mut changed = HashSet::with_capacity(commit.mutations.len());
        let mut bytes = 0;
        for mutation in &commit.mutations {
            let key = mutation.key();
            if key.as_bytes().len() > super::KEY_BYTES_MAX {
                return Err(InvalidCommit::KeyTooLong { key: key.clone() });
            }
            if !changed.insert(key) {
                return Err(InvalidCommit::KeyChangedTwice { key: key.clone() });
            }
            bytes += key.as_bytes().len();
            if let Mutation::Put { value, .. } = mutation {
                if value.len() > VALUE_BYTES_MAX {
                    return Err(InvalidCommit::ValueTooLarge {
                        key: key.clone(),
                        bytes: value.len(),
                    });
                }
                bytes += value.len();
            }
        }
        bytes += commit
            .checks
            .iter()
            .map(|check| check.key.as_bytes().len())
            .sum::<usize>();
        if bytes > COMMIT_BYTES_MAX {
            return Err(InvalidCommit::TooLarge { bytes });
        }
        Ok(commit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::new(name.as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn a_key_is_changed_once() {
        let twice = Commit::builder()
            .put(key("a"), "1")
            .add(key("a"), 1)
            .build();
        assert_eq!(twice, Err(InvalidCommit::KeyChangedTwice { key: key("a") }));
    }

    #[test]
    fn limits_are_checked_at_their_edges() {
        assert!(
            Commit::builder()
                .put(key("a"), vec![0; VALUE_BYTES_MAX])
                .build()
                .is_ok()
        );
        assert_eq!(
            Commit::builder()
                .put(key("a"), vec![0; VALUE_BYTES_MAX + 1])
                .build(),
            Err(InvalidCommit::ValueTooLarge {
                key: key("a"),
                bytes: VALUE_BYTES_MAX + 1
            })
        );
        let many = |count: usize| {
            (0..count)
                .fold(Commit::builder(), |builder, i| {
                    builder.delete(key(&format!("{i:05}")))
                })
                .build()
        };
        assert!(many(COMMIT_MUTATIONS_MAX).is_ok());
        assert_eq!(
            many(4_097),
            Err(InvalidCommit::TooManyMutations { mutations: 4_097 })
        );
        let large = (0..129).fold(Commit::builder(), |builder, i| {
            builder.put(key(&format!("{i:05}")), vec![0; VALUE_BYTES_MAX])
        });
        assert!(matches!(large.build(), Err(InvalidCommit::TooLarge { .. })));
    }

    #[test]
    fn counters_are_decimal_and_refuse_to_overflow() {
        assert_eq!(Mutation::add_to(None, 5).unwrap(), "5");
        assert_eq!(Mutation::add_to(Some(b"5"), -7).unwrap(), "-2");
        assert!(Mutation::add_to(Some(b"{}"), 1).is_err());
        assert!(Mutation::add_to(Some(i64::MAX.to_string().as_bytes()), 1).is_err());
    }
}
