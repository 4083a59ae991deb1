//! Reads as data: one call of [`Store::read`](super::Store::read) takes any number of them.

use super::{Entry, Key, KeyEntry, KeyRange, StoreError, StoreErrorKind};

/// The order in which the entries of a range are returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the first key to the last, by byte order.
    Forward,
    /// From the last key to the first.
    Reverse,
}

/// One part of a [`Store::read`](super::Store::read).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read<'r> {
    /// Some keys, answered by [`Found::Keys`]. A key may occur more than once.
    Keys(&'r [Key]),
    /// The first entries of a range, answered by [`Found::Range`].
    Range {
        /// The keys to read.
        range: &'r KeyRange,
        /// The largest number of entries to return; `usize::MAX` for all of them.
        limit: usize,
        /// The end of the range at which reading begins.
        direction: Direction,
    },
}

impl<'r> Read<'r> {
    /// Every entry of a range, in byte order: for ranges that are known to be short.
    #[must_use]
    pub fn all(range: &'r KeyRange) -> Self {
        Self::Range {
            range,
            limit: usize::MAX,
            direction: Direction::Forward,
        }
    }
}

/// The answer to one [`Read`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// One place per key, in the order asked for; `None` for an absent key.
    Keys(Vec<Option<Entry>>),
    /// The entries of the range, in the direction asked for. Fewer than `limit` only if the range holds no more.
    Range(Vec<KeyEntry>),
}

impl Found {
    /// The entries of a [`Read::Keys`].
    ///
    /// # Errors
    /// [`StoreErrorKind::Corrupt`] if this answers a range: a defect of the backend.
    pub fn into_keys(self) -> Result<Vec<Option<Entry>>, StoreError> {
        match self {
            Self::Keys(entries) => Ok(entries),
            Self::Range(_) => Err(mismatch()),
        }
    }

    /// The entries of a [`Read::Range`].
    ///
    /// # Errors
    /// [`StoreErrorKind::Corrupt`] if this answers a list of keys: a defect of the backend.
    pub fn into_range(self) -> Result<Vec<KeyEntry>, StoreError> {
        match self {
            Self::Range(entries) => Ok(entries),
            Self::Keys(_) => Err(mismatch()),
        }
    }
}

#[cold]
pub(super) fn mismatch() -> StoreError {
    let message = "the store answered with another kind of read than the one asked for";
    StoreError::new(StoreErrorKind::Corrupt, message)
}
