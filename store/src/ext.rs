//! Typed reads over any [`Store`].

use async_trait::async_trait;
use serde::de::DeserializeOwned;

use super::read::mismatch;
use super::records::read_json;
use super::{
    Direction, Entry, Found, Key, KeyEntry, KeyRange, MaybeSend, Read, Store, StoreError,
    StoreErrorKind, Version,
};

/// Number of entries per page of [`StoreExt::scan_all`].
const SCAN_PAGE_ENTRIES: usize = 512;

/// Decoded value with the version that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versioned<T> {
    /// Decoded value.
    pub value: T,
    /// Version for a check.
    pub version: Version,
}

/// Decodes the JSON of an entry as a `T`.
///
/// # Errors
/// [`StoreErrorKind::Corrupt`] if the entry is not a `T`.
pub fn decode<T: DeserializeOwned>(key: &Key, entry: &Entry) -> Result<Versioned<T>, StoreError> {
    match read_json(&entry.value) {
        Ok(value) => Ok(Versioned {
            value,
            version: entry.version,
        }),
        Err(error) => Err(unreadable(key, error)),
    }
}

/// Separate from [`decode`], which is compiled once per type.
#[cold]
fn unreadable(key: &Key, error: serde_json::Error) -> StoreError {
    let message = format!("the value under {key} is not in the expected format: {error}");
    StoreError::new(StoreErrorKind::Corrupt, message).with_source(error)
}

/// Decodes the JSON of an entry that a scan found.
///
/// # Errors
/// Errors of [`decode`].
pub fn decode_value<T: DeserializeOwned>(found: &KeyEntry) -> Result<T, StoreError> {
    decode(&found.key, &found.entry).map(|found| found.value)
}

/// Number of different values that [`decode_alike`] remembers.
const ALIKE_MAX: usize = 16;

/// Decodes the JSON of entries in the order of their keys, and equal bytes only once.
///
/// For batches with few distinct values: each of the first 16 is decoded once.
///
/// # Errors
/// [`StoreErrorKind::Corrupt`] if an entry is not a `T`.
pub fn decode_alike<T: DeserializeOwned + Clone>(
    keys: &[Key],
    entries: &[Option<Entry>],
) -> Result<Vec<Option<T>>, StoreError> {
    let mut known: Vec<(&[u8], T)> = Vec::new();
    let mut values = Vec::with_capacity(entries.len());
    for (key, entry) in keys.iter().zip(entries) {
        let Some(entry) = entry else {
            values.push(None);
            continue;
        };
        let alike = known.iter().find(|(bytes, _)| **bytes == *entry.value);
        let value = match alike {
            Some((_, value)) => value.clone(),
            None => decode(key, entry)?.value,
        };
        if alike.is_none() && known.len() < ALIKE_MAX {
            known.push((&entry.value, value.clone()));
        }
        values.push(Some(value));
    }
    Ok(values)
}

/// Convenience methods of every [`Store`].
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
pub trait StoreExt: Store {
    /// Performs a fixed number of reads at one point in time, for destructuring by a pattern.
    ///
    /// # Errors
    /// Errors of [`Store::read`], and [`StoreErrorKind::Corrupt`] if the backend returns a different
    /// number of results.
    async fn read_array<const N: usize>(
        &self,
        reads: [Read<'_>; N],
    ) -> Result<[Found; N], StoreError> {
        let found = self.read(&reads).await?;
        found.try_into().map_err(|_| mismatch())
    }

    /// Reads keys at one point in time and returns one place per key, in the order of `keys`.
    ///
    /// # Errors
    /// Errors of [`Store::read`], and [`StoreErrorKind::Corrupt`] if the backend returns another
    /// number of places.
    async fn get(&self, keys: &[Key]) -> Result<Vec<Option<Entry>>, StoreError> {
        let [found] = self.read_array([Read::Keys(keys)]).await?;
        let found = found.into_keys()?;
        if found.len() == keys.len() {
            Ok(found)
        } else {
            Err(mismatch())
        }
    }

    /// Reads the first `limit` entries of `range` in the given direction, at one point in time.
    ///
    /// Returns fewer than `limit` only if the range contains no more.
    ///
    /// # Errors
    /// Errors of [`Store::read`].
    async fn scan(
        &self,
        range: &KeyRange,
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<KeyEntry>, StoreError> {
        let read = Read::Range {
            range,
            limit,
            direction,
        };
        let [found] = self.read_array([read]).await?;
        found.into_range()
    }

    /// Reads one JSON value.
    ///
    /// # Errors
    /// Errors of [`Store::read`], and [`StoreErrorKind::Corrupt`] if the value is not a `T`.
    async fn get_as<T: DeserializeOwned + MaybeSend>(
        &self,
        key: &Key,
    ) -> Result<Option<Versioned<T>>, StoreError> {
        let found = self.get(std::slice::from_ref(key)).await?;
        let entry = found.into_iter().next().flatten();
        entry.map(|entry| decode(key, &entry)).transpose()
    }

    /// Reads many JSON values of one type at one point in time, in the order of `keys`.
    ///
    /// # Errors
    /// Errors of [`StoreExt::get_as`].
    async fn get_many_as<T: DeserializeOwned + MaybeSend>(
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
    /// Errors of [`StoreExt::get_as`].
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

    /// Reads all entries of a range, page by page; each page is a separate point in time.
    ///
    /// # Errors
    /// Errors of [`Store::read`].
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

    /// Reads a counter; 0 if it does not exist.
    ///
    /// # Errors
    /// Errors of [`StoreExt::get_as`].
    async fn counter(&self, key: &Key) -> Result<i64, StoreError> {
        Ok(self.get_as(key).await?.map_or(0, |counter| counter.value))
    }
}

impl<S: Store + ?Sized> StoreExt for S {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decode_alike_equals_decoding_each_entry() {
        let key = |name: &str| Key::new(name.as_bytes()).unwrap();
        let entry = |json: &'static str| Entry {
            value: json.into(),
            version: Version::FIRST,
        };
        let keys = ["a", "b", "c", "d"].map(key);
        let entries = [Some(entry("1")), None, Some(entry("2")), Some(entry("1"))];
        let values = decode_alike::<u8>(&keys, &entries).unwrap();
        assert_eq!(values, [Some(1), None, Some(2), Some(1)]);
        let many = ALIKE_MAX + 4;
        let numbers: Vec<_> = (0..2 * many)
            .map(|number| (number % many).to_string())
            .collect();
        let entries = numbers.iter().map(|number| {
            let value = number.clone().into_bytes().into();
            let version = Version::FIRST;
            Some(Entry { value, version })
        });
        let entries: Vec<_> = entries.collect();
        let values = decode_alike::<usize>(&vec![keys[0].clone(); entries.len()], &entries);
        let expected: Vec<_> = (0..2 * many).map(|number| Some(number % many)).collect();
        assert_eq!(values.unwrap(), expected);
        let broken = [Some(entry("1")), Some(entry("{"))];
        let error = decode_alike::<u8>(&keys, &broken).unwrap_err();
        assert!(error.to_string().contains("under b"), "{error}");
    }
}
