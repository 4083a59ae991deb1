//! Keys and ranges of keys.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// Maximum size of a key in bytes.
pub const KEY_BYTES_MAX: usize = 512;

/// Key of 1 to [`KEY_BYTES_MAX`] bytes, ordered byte by byte. Clones share the bytes.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Key(Arc<[u8]>);

impl Ord for Key {
    #[cfg(not(target_arch = "wasm32"))]
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }

    #[cfg(target_arch = "wasm32")]
    fn cmp(&self, other: &Self) -> Ordering {
        compare_words(&self.0, &other.0)
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Compares two byte strings by eight bytes at a time.
///
/// On wasm32, the library's comparison goes byte by byte, and neighbouring keys share long prefixes.
#[cfg(any(target_arch = "wasm32", test))]
fn compare_words(left: &[u8], right: &[u8]) -> Ordering {
    let (left_words, _) = left.as_chunks();
    let (right_words, _) = right.as_chunks();
    for (left, right) in left_words.iter().zip(right_words) {
        let (left, right) = (u64::from_be_bytes(*left), u64::from_be_bytes(*right));
        if left != right {
            return left.cmp(&right);
        }
    }
    let compared = left_words.len().min(right_words.len()) * size_of::<u64>();
    left[compared..].iter().cmp(&right[compared..])
}

/// Error of bytes that are not a valid [`Key`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key must have 1 to {KEY_BYTES_MAX} bytes; this one has {bytes}")]
pub struct InvalidKey {
    /// Number of bytes given.
    pub bytes: usize,
}

impl Key {
    /// Creates a key from bytes.
    ///
    /// # Errors
    /// [`InvalidKey`] if there are no bytes, or more than [`KEY_BYTES_MAX`].
    pub fn new(bytes: impl AsRef<[u8]>) -> Result<Self, InvalidKey> {
        let bytes = bytes.as_ref();
        if bytes.is_empty() || bytes.len() > KEY_BYTES_MAX {
            return Err(InvalidKey { bytes: bytes.len() });
        }
        Ok(Self(bytes.into()))
    }

    /// Returns the bytes of the key.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the area of the key: the bytes between its first two `/`, or after its only one.
    ///
    /// Keys that change together should have the same area, for [`Store::mark`](super::Store::mark).
    #[must_use]
    pub fn area(&self) -> &[u8] {
        self.0
            .split(|byte| *byte == b'/')
            .nth(1)
            .unwrap_or_default()
    }

    /// Returns the family and the area, each with the `/` after it; nothing if one is missing.
    ///
    /// Every key that begins with them is of this family and area.
    pub(crate) fn through_area(&self) -> &[u8] {
        let dividers = self.0.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let end = dividers.map(|(index, _)| index + 1).nth(1);
        &self.0[..end.unwrap_or_default()]
    }

    /// Returns the next key in order, for paging.
    ///
    /// It may be one byte longer than a stored key, which only the bounds of a range allow.
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

/// Keys from `start` (inclusive) to `end` (exclusive), or to the last key if there is no `end`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// First key of the range.
    pub start: Key,
    /// First key after the range, if it has an end.
    pub end: Option<Key>,
}

impl KeyRange {
    /// Returns the range of all keys.
    #[must_use]
    pub fn all() -> Self {
        Self {
            start: Key([0].into()),
            end: None,
        }
    }

    /// Returns the range from `start` (inclusive) to `end` (exclusive); empty if `end` is not after
    /// `start`.
    #[must_use]
    pub fn new(start: Key, end: Key) -> Self {
        Self {
            start,
            end: Some(end),
        }
    }

    /// Returns the range of the keys that begin with `prefix`, including the prefix itself.
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

    /// Returns the part of the range after `key`: the next page of a forward scan.
    #[must_use]
    pub fn after(&self, key: &Key) -> Self {
        Self {
            start: key.successor().max(self.start.clone()),
            end: self.end.clone(),
        }
    }

    /// Returns the part of the range before `key`: the next page of a reverse scan.
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

    /// Returns true if no key can be in the range.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }

    /// Returns true if `key` is in the range.
    #[must_use]
    pub fn contains(&self, key: &Key) -> bool {
        self.start <= *key && self.end.as_ref().is_none_or(|end| key < end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(bytes: &[u8]) -> Key {
        Key::new(bytes).unwrap()
    }

    #[test]
    fn key_has_1_to_512_bytes() {
        assert_eq!(Key::new(Vec::new()), Err(InvalidKey { bytes: 0 }));
        assert!(Key::new(vec![1; KEY_BYTES_MAX]).is_ok());
        assert_eq!(
            Key::new(vec![1; KEY_BYTES_MAX + 1]),
            Err(InvalidKey { bytes: 513 })
        );
    }

    #[test]
    fn area_is_second_part() {
        for (bytes, area, through_area) in [
            ("memory/acme/1", "acme", "memory/acme/"),
            ("credential/abc", "abc", ""),
            ("meta", "", ""),
            ("a//b", "", "a//"),
        ] {
            let key = key(bytes.as_bytes());
            assert_eq!(key.area(), area.as_bytes(), "{bytes}");
            assert_eq!(key.through_area(), through_area.as_bytes(), "{bytes}");
        }
    }

    #[test]
    fn words_are_compared_as_their_bytes_are() {
        let base: Vec<u8> = (0..20).map(|byte| byte * 13).collect();
        let mut strings = vec![Vec::new()];
        for length in 1..=base.len() {
            for last in [0, 1, 0x7f, 0x80, 0xff] {
                let mut string = base[..length].to_vec();
                string[length - 1] = last;
                strings.push(string);
                let mut inner = base.clone();
                inner[length - 1] = last;
                strings.push(inner);
            }
        }
        for left in &strings {
            for right in &strings {
                assert_eq!(compare_words(left, right), left.cmp(right));
            }
        }
    }

    #[test]
    fn prefix_range_ends_after_last_key_with_prefix() {
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
    fn consecutive_ranges_do_not_overlap() {
        let range = KeyRange::prefix(&key(b"p"));
        let middle = key(b"pm");
        assert!(!range.after(&middle).contains(&middle));
        assert!(!range.before(&middle).contains(&middle));
        assert!(range.after(&middle).contains(&middle.successor()));
        assert!(range.before(&key(b"p")).is_empty());
    }
}
