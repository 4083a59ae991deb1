//! Reads as data: one call of [`Store::read`](super::Store::read) performs any number of them.

use super::{Entry, Key, KeyEntry, KeyRange, StoreError, StoreErrorKind};

/// Order of the entries of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// First key to last, in byte order.
    Forward,
    /// Last key to first.
    Reverse,
}

/// Part of a call of [`Store::read`](super::Store::read).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read<'r> {
    /// List of keys, with the result [`Found::Keys`]. A key may occur more than once.
    Keys(&'r [Key]),
    /// First entries of a range, with the result [`Found::Range`].
    Range {
        /// Keys to read.
        range: &'r KeyRange,
        /// Maximum number of entries to return; `usize::MAX` for all of them.
        limit: usize,
        /// Order of reading.
        direction: Direction,
    },
}

impl<'r> Read<'r> {
    /// Reads all entries of a range in byte order, for ranges that are known to be short.
    #[must_use]
    pub fn all(range: &'r KeyRange) -> Self {
        Self::Range {
            range,
            limit: usize::MAX,
            direction: Direction::Forward,
        }
    }
}

/// Result of one [`Read`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// One place per key, in the requested order; `None` for an absent key.
    Keys(Vec<Option<Entry>>),
    /// Entries of the range in the requested order; fewer than `limit` only if there are no more.
    Range(Vec<KeyEntry>),
}

impl Found {
    /// Returns the entries of a [`Read::Keys`].
    ///
    /// # Errors
    /// [`StoreErrorKind::Corrupt`] if this is the result for a range, a defect of the backend.
    pub fn into_keys(self) -> Result<Vec<Option<Entry>>, StoreError> {
        match self {
            Self::Keys(entries) => Ok(entries),
            Self::Range(_) => Err(mismatch()),
        }
    }

    /// Returns the entries of a [`Read::Range`].
    ///
    /// # Errors
    /// [`StoreErrorKind::Corrupt`] if this is the result for a list of keys, a defect of the
    /// backend.
    pub fn into_range(self) -> Result<Vec<KeyEntry>, StoreError> {
        match self {
            Self::Range(entries) => Ok(entries),
            Self::Keys(_) => Err(mismatch()),
        }
    }
}

#[cold]
pub(super) fn mismatch() -> StoreError {
    let message = "the store returned results that do not match the reads";
    StoreError::new(StoreErrorKind::Corrupt, message)
}
