//! Keys and ranges of keys.

use std::fmt;

use bytes::Bytes;

/// The longest key a store has to take, in bytes.
pub const KEY_BYTES_MAX: usize = 512;

/// A key of 1 to [`KEY_BYTES_MAX`] bytes, ordered byte by byte.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Bytes);

/// Bytes that cannot be a [`Key`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key has 1 to {KEY_BYTES_MAX} bytes, this one has {bytes}")]
pub struct InvalidKey {
    /// How many bytes were given.
    pub bytes: usize,
}

impl Key {
    /// A key of these bytes.
    ///
    /// # Errors
    /// [`InvalidKey`] for no bytes or more than [`KEY_BYTES_MAX`].
    pub fn new(bytes: impl Into<Bytes>) -> Result<Self, InvalidKey> {
        let bytes = bytes.into();
        if bytes.is_empty() || bytes.len() > KEY_BYTES_MAX {
            return Err(InvalidKey { bytes: bytes.len() });
        }
        Ok(Self(bytes))
    }

    /// The bytes of the key.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The first key that sorts behind this one, for paging: the bounds of a scan may be one byte longer than a key
    /// that is stored.
    #[must_use]
    pub fn successor(&self) -> Self {
        let mut bytes = Vec::with_capacity(self.0.len() + 1);
        bytes.extend_from_slice(&self.0);
        bytes.push(0);
        Self(bytes.into())
    }
}

impl AsRef<[u8]> for Key {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

/// The keys from `start` (inside) to `end` (outside); without an `end`, to the last key there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// The first key inside the range.
    pub start: Key,
    /// The first key behind the range, where it has an end.
    pub end: Option<Key>,
}

impl KeyRange {
    /// Every key of a store.
    #[must_use]
    pub fn all() -> Self {
        Self {
            start: Key(Bytes::from_static(&[0])),
            end: None,
        }
    }

    /// The keys from `start` (inside) to `end` (outside). Empty where `end` does not sort behind `start`.
    #[must_use]
    pub fn new(start: Key, end: Key) -> Self {
        Self {
            start,
            end: Some(end),
        }
    }

    /// The keys that begin with `prefix`, the prefix itself included.
    #[must_use]
    pub fn prefix(prefix: &Key) -> Self {
        let mut end = prefix.0.to_vec();
        while end.last() == Some(&u8::MAX) {
            end.pop();
        }
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        Self {
            start: prefix.clone(),
            end: (!end.is_empty()).then(|| Key(end.into())),
        }
    }

    /// The part of the range behind `key`: the next page of a forward scan that ended with it.
    #[must_use]
    pub fn after(&self, key: &Key) -> Self {
        Self {
            start: key.successor().max(self.start.clone()),
            end: self.end.clone(),
        }
    }

    /// The part of the range before `key`: the next page of a reverse scan that ended with it.
    #[must_use]
    pub fn before(&self, key: &Key) -> Self {
        let end = match &self.end {
            Some(end) => end.min(key).clone(),
            None => key.clone(),
        };
        Self {
            start: self.start.clone(),
            end: Some(end),
        }
    }

    /// Whether no key can stand in the range.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }

    /// Whether `key` stands in the range.
    #[must_use]
    pub fn contains(&self, key: &Key) -> bool {
        self.start <= *key && self.end.as_ref().is_none_or(|end| key < end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(bytes: &[u8]) -> Key {
        Key::new(bytes.to_vec()).unwrap()
    }

    #[test]
    fn a_key_has_between_one_and_512_bytes() {
        assert_eq!(Key::new(Vec::new()), Err(InvalidKey { bytes: 0 }));
        assert!(Key::new(vec![1; KEY_BYTES_MAX]).is_ok());
        assert_eq!(
            Key::new(vec![1; KEY_BYTES_MAX + 1]),
            Err(InvalidKey { bytes: 513 })
        );
    }

    #[test]
    fn a_prefix_range_ends_where_the_prefix_ends() {
        let range = KeyRange::prefix(&key(b"a/"));
        assert!(range.contains(&key(b"a/")));
        assert!(range.contains(&key(b"a/\xff\xff")));
        assert!(!range.contains(&key(b"a0")));
        assert!(!range.contains(&key(b"a")));

        let carried = KeyRange::prefix(&key(b"a\xff\xff"));
        assert_eq!(carried.end, Some(key(b"b")));
        let unbounded = KeyRange::prefix(&key(b"\xff"));
        assert_eq!(unbounded.end, None);
    }

    #[test]
    fn pages_meet_without_overlap() {
        let range = KeyRange::prefix(&key(b"p"));
        let middle = key(b"pm");
        assert!(!range.after(&middle).contains(&middle));
        assert!(!range.before(&middle).contains(&middle));
        assert!(range.after(&middle).contains(&middle.successor()));
        assert!(range.before(&key(b"p")).is_empty());
    }
}
