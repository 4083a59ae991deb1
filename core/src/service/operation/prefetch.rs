//! Reads that an operation announces, so that they are made with those of its authorisation.
//!
//! The organisation of the caller is known from its credential before the first read, so that an
//! operation names its keys at once. `unauthenticated` and `login` read them.

use crate::service::operation::idempotency::IdempotencyKey;
use crate::service::page::{Listing, PageRequest};
use crate::store::{Key, RangeRead, Transaction};

/// Reads that an operation is known to make, for reading them with those of its authorisation.
#[derive(Debug, Default)]
#[must_use]
pub(crate) struct Prefetch {
    pub(super) keys: Vec<Key>,
    pub(super) ranges: Vec<RangeRead>,
    /// Operation and key of an idempotency record.
    pub(super) idempotency: Option<(&'static str, String)>,
}

impl Prefetch {
    /// Returns no reads.
    pub(crate) fn none() -> Self {
        Self::default()
    }

    /// Returns the reads of these keys.
    pub(crate) fn keys(keys: impl IntoIterator<Item = Key>) -> Self {
        Self {
            keys: keys.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Returns the first read of a page, or none if the request is invalid.
    pub(crate) fn page(listing: &Listing, page: &PageRequest) -> Self {
        Self {
            ranges: listing.first_read(page).into_iter().collect(),
            ..Self::default()
        }
    }

    /// Adds the first entries of a range.
    pub(crate) fn and_range(mut self, range: RangeRead) -> Self {
        self.ranges.push(range);
        self
    }

    /// Adds the first entries of ranges.
    pub(crate) fn and_ranges(mut self, ranges: impl IntoIterator<Item = RangeRead>) -> Self {
        self.ranges.extend(ranges);
        self
    }

    /// Adds the record of an idempotency key of the caller.
    pub(crate) fn and_idempotency(mut self, operation: &'static str, key: &IdempotencyKey) -> Self {
        self.idempotency = Some((operation, key.as_str().to_owned()));
        self
    }

    /// Adds other reads of keys and ranges.
    pub(crate) fn and(mut self, others: Self) -> Self {
        self.keys.extend(others.keys);
        self.ranges.extend(others.ranges);
        self
    }

    /// Adds keys.
    pub(crate) fn and_keys(mut self, keys: impl IntoIterator<Item = Key>) -> Self {
        self.keys.extend(keys);
        self
    }
}

/// Function from what was prefetched to the reads that follow from it.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) type Next<'w> = &'w (dyn Fn(&Transaction) -> Prefetch + Sync);
/// Function from what was prefetched to the reads that follow from it.
#[cfg(target_arch = "wasm32")]
pub(crate) type Next<'w> = &'w dyn Fn(&Transaction) -> Prefetch;
