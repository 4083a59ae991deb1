//! Atomic writes as data: checks and mutations.

use std::collections::HashSet;

use bytes::Bytes;
use foldhash::fast::RandomState;

use super::{Key, StoreError, StoreErrorKind, Version};

/// Maximum size of a value in bytes.
pub const VALUE_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of mutations in a commit.
pub const COMMIT_MUTATIONS_MAX: usize = 16_384;
/// Maximum size in bytes of the keys and values of a commit, checks included.
pub const COMMIT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Condition of a commit: `key` still has the version that was read, or is still absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Key that was read.
    pub key: Key,
    /// Version that was read; `None` if the key was absent.
    pub version: Option<Version>,
}

/// Change of one key by a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Writes a value, replacing any other.
    Put {
        /// Key to write.
        key: Key,
        /// Value of at most [`VALUE_BYTES_MAX`] bytes.
        value: Bytes,
    },
    /// Removes the entry, if it exists.
    Delete {
        /// Key to remove.
        key: Key,
    },
    /// Adds to a signed 64-bit counter, which begins at 0.
    ///
    /// The stored value is the sum in decimal digits, with a leading `-` if it is negative: it is
    /// valid JSON, and the same in every backend. A counter that reaches 0 remains as `0`. The
    /// commit fails as [`StoreErrorKind::Invalid`] if the value is not a counter or the sum exceeds
    /// 64 bits.
    Add {
        /// Key of the counter.
        key: Key,
        /// Summand.
        delta: i64,
    },
}

impl Mutation {
    /// Returns the key that is changed.
    #[must_use]
    pub fn key(&self) -> &Key {
        match self {
            Self::Put { key, .. } | Self::Delete { key } | Self::Add { key, .. } => key,
        }
    }

    /// Returns the value of a counter after `delta` has been added to `current`.
    ///
    /// This is the single definition of [`Mutation::Add`] for all backends in Rust.
    ///
    /// # Errors
    /// [`StoreErrorKind::Invalid`] if `current` is not a counter or the sum exceeds 64 bits.
    pub fn add_to(current: Option<&[u8]>, delta: i64) -> Result<Bytes, StoreError> {
        let current = match current {
            None => 0,
            Some(digits) => std::str::from_utf8(digits)
                .ok()
                .and_then(|digits| digits.parse::<i64>().ok())
                .ok_or_else(|| {
                    StoreError::new(
                        StoreErrorKind::Invalid,
                        "cannot add to a value that is not a counter",
                    )
                })?,
        };
        let sum = current.checked_add(delta).ok_or_else(|| {
            StoreError::new(
                StoreErrorKind::Invalid,
                "the sum of a counter exceeds 64 bits",
            )
        })?;
        Ok(Bytes::from(sum.to_string()))
    }
}

/// Checks and mutations, applied together or not at all, within the limits of every backend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commit {
    checks: Vec<Check>,
    mutations: Vec<Mutation>,
}

impl Commit {
    /// Returns a builder of an empty commit.
    #[must_use]
    pub fn builder() -> CommitBuilder {
        CommitBuilder::default()
    }

    /// Returns the conditions, all of which must hold.
    #[must_use]
    pub fn checks(&self) -> &[Check] {
        &self.checks
    }

    /// Returns the changes; no key is changed by more than one of them.
    #[must_use]
    pub fn mutations(&self) -> &[Mutation] {
        &self.mutations
    }

    /// Splits the commit into its checks and mutations.
    #[must_use]
    pub fn into_parts(self) -> (Vec<Check>, Vec<Mutation>) {
        (self.checks, self.mutations)
    }
}

/// Outcome of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitOutcome {
    /// Applied and durable; the written entries have this version.
    Committed(Version),
    /// Not applied, because a check failed.
    Conflict,
}

/// Error of a commit that exceeds the limits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidCommit {
    /// Two mutations of one key.
    #[error("the commit changes the key {key} twice")]
    KeyChangedTwice {
        /// Key of the mutation.
        key: Key,
    },
    /// Value of more than [`VALUE_BYTES_MAX`] bytes.
    #[error("the value under {key} has {bytes} bytes; the maximum is {VALUE_BYTES_MAX}")]
    ValueTooLarge {
        /// Key of the mutation.
        key: Key,
        /// Size of the value in bytes.
        bytes: usize,
    },
    /// More than [`COMMIT_MUTATIONS_MAX`] mutations.
    #[error("the commit has {mutations} mutations; the maximum is {COMMIT_MUTATIONS_MAX}")]
    TooManyMutations {
        /// Number of mutations.
        mutations: usize,
    },
    /// More than [`COMMIT_BYTES_MAX`] bytes.
    #[error("the commit has {bytes} bytes; the maximum is {COMMIT_BYTES_MAX}")]
    TooLarge {
        /// Size of the keys and values in bytes.
        bytes: usize,
    },
    /// Key of a length that is valid only as a bound of a range.
    #[error("the key {key} has more than {} bytes", super::KEY_BYTES_MAX)]
    KeyTooLong {
        /// Key of the mutation.
        key: Key,
    },
}

/// Builder of a [`Commit`], which checks the limits once for every backend.
#[derive(Clone, Debug, Default)]
pub struct CommitBuilder {
    commit: Commit,
}

impl CommitBuilder {
    /// Adds a check.
    #[must_use]
    pub fn check(mut self, key: Key, version: Option<Version>) -> Self {
        self.commit.checks.push(Check { key, version });
        self
    }

    /// Adds a mutation.
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

    /// Returns the commit if it is within the limits.
    ///
    /// # Errors
    /// [`InvalidCommit`], with the limit that is exceeded.
    pub fn build(self) -> Result<Commit, InvalidCommit> {
        let commit = self.commit;
        if commit.mutations.len() > COMMIT_MUTATIONS_MAX {
            return Err(InvalidCommit::TooManyMutations {
                mutations: commit.mutations.len(),
            });
        }
        let mut changed =
            HashSet::with_capacity_and_hasher(commit.mutations.len(), RandomState::default());
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
        Key::new(name.as_bytes()).unwrap()
    }

    #[test]
    fn commit_rejects_second_change_of_a_key() {
        let twice = Commit::builder()
            .put(key("a"), "1")
            .add(key("a"), 1)
            .build();
        assert_eq!(twice, Err(InvalidCommit::KeyChangedTwice { key: key("a") }));
    }

    #[test]
    fn commit_limits_are_inclusive() {
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
            many(COMMIT_MUTATIONS_MAX + 1),
            Err(InvalidCommit::TooManyMutations {
                mutations: COMMIT_MUTATIONS_MAX + 1
            })
        );
        let large = (0..129).fold(Commit::builder(), |builder, i| {
            builder.put(key(&format!("{i:05}")), vec![0; VALUE_BYTES_MAX])
        });
        assert!(matches!(large.build(), Err(InvalidCommit::TooLarge { .. })));
    }

    #[test]
    fn counter_is_decimal_and_rejects_overflow() {
        assert_eq!(Mutation::add_to(None, 5).unwrap(), "5");
        assert_eq!(Mutation::add_to(Some(b"5"), -7).unwrap(), "-2");
        assert!(Mutation::add_to(Some(b"{}"), 1).is_err());
        assert!(Mutation::add_to(Some(i64::MAX.to_string().as_bytes()), 1).is_err());
    }
}
