//! Typed reads over any [`Store`].

use async_trait::async_trait;
use serde::de::DeserializeOwned;

use super::{
    Direction, Entry, Key, KeyEntry, KeyRange, MaybeSend, Store, StoreError, StoreErrorKind,
    Version,
};

/// How many entries one page of [`StoreExt::scan_all`] asks for.
const SCAN_PAGE_ENTRIES: usize = 512;

/// A value read as its type, with the version it was read at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versioned<T> {
    /// What was read.
    pub value: T,
    /// The version that a check has to name.
    pub version: Version,
}

/// Reads an entry's JSON as `T`.
pub(crate) fn decode<T: DeserializeOwned>(
    key: &Key,
    entry: &Entry,
) -> Result<Versioned<T>, StoreError> {
    match serde_json::from_slice(&entry.value) {
        Ok(value) => Ok(Versioned {
            value,
            version: entry.version,
        }),
        Err(error) => Err(unreadable(key, error)),
    }
}

/// Apart from [`decode`], of which there is one for each type.
#[cold]
fn unreadable(key: &Key, error: serde_json::Error) -> StoreError {
    let message = format!("the value under {key} is not what this program writes: {error}");
    StoreError::new(StoreErrorKind::Corrupt, message).with_source(error)
}

/// Reads the JSON of an entry that a scan found.
pub(crate) fn decode_value<T: DeserializeOwned>(found: &KeyEntry) -> Result<T, StoreError> {
    decode(&found.key, &found.entry).map(|found| found.value)
}

/// Conveniences that need nothing of a backend but its three methods. Every [`Store`] has them.
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
pub trait StoreExt: Store {
    /// Reads one JSON value.
    ///
    /// # Errors
    /// Those of [`Store::get`], and [`StoreErrorKind::Corrupt`] where the value is not a `T`.
    async fn read<T: DeserializeOwned + MaybeSend>(
        &self,
        key: &Key,
    ) -> Result<Option<Versioned<T>>, StoreError> {
        let found = self.get(std::slice::from_ref(key)).await?;
        found
            .into_iter()
            .next()
            .flatten()
            .map(|entry| decode(key, &entry))
            .transpose()
    }

    /// Reads many JSON values of one type at one point in time, in the order of `keys`.
    ///
    /// # Errors
    /// As [`StoreExt::read`].
    async fn read_many<T: DeserializeOwned + MaybeSend>(
        &self,
        keys: &[Key],
    ) -> Result<Vec<Option<Versioned<T>>>, StoreError> {
        let found = self.get(keys).await?;
        found
            .iter()
            .zip(keys)
            .map(|(entry, key)| entry.as_ref().map(|entry| decode(key, entry)).transpose())
            .collect()
    }

    /// Reads the first `limit` JSON values of a range, with their keys.
    ///
    /// # Errors
    /// As [`StoreExt::read`].
    async fn scan_as<T: DeserializeOwned + MaybeSend>(
        &self,
        range: &KeyRange,
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<(Key, Versioned<T>)>, StoreError> {
        let found = self.scan(range, limit, direction).await?;
        found
            .into_iter()
            .map(|found| decode(&found.key, &found.entry).map(|value| (found.key, value)))
            .collect()
    }

    /// Every key of a range, read in pages: each page is a point in time of its own.
    ///
    /// # Errors
    /// Those of [`Store::scan`].
    async fn scan_all(&self, range: &KeyRange) -> Result<Vec<KeyEntry>, StoreError> {
        let mut rest = range.clone();
        let mut found = Vec::new();
        loop {
            let page = self
                .scan(&rest, SCAN_PAGE_ENTRIES, Direction::Forward)
                .await?;
            let is_last = page.len() < SCAN_PAGE_ENTRIES;
            found.extend(page);
            match found.last() {
                Some(last) if !is_last => rest = rest.after(&last.key),
                _ => return Ok(found),
            }
        }
    }

    /// The value of a counter; 0 where it was never added to.
    ///
    /// # Errors
    /// As [`StoreExt::read`].
    async fn counter(&self, key: &Key) -> Result<i64, StoreError> {
        Ok(self.read(key).await?.map_or(0, |counter| counter.value))
    }
}

impl<S: Store + ?Sized> StoreExt for S {}
