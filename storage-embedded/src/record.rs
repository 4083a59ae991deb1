//! The encoding of entries and of the ledger, common to all engines.
//!
//! | key in the engine | value |
//! | --- | --- |
//! | `d` + key | version (8 bytes, big-endian) + value |
//! | `m` | the ledger: last version, count of entries, digest of entries (8 bytes each, big-endian) |

use bytes::Bytes;
use knowledge_store::{Entry, Key, KeyRange, Version};

use crate::error::EngineError;

const ENTRY_PREFIX: u8 = b'd';
/// Engine key of the ledger.
pub const LEDGER_KEY: &[u8] = b"m";
const VERSION_BYTES: usize = size_of::<u64>();

/// Writes the engine key of an entry into a reusable buffer.
pub fn write_entry_key(buffer: &mut Vec<u8>, key: &Key) {
    buffer.clear();
    buffer.push(ENTRY_PREFIX);
    buffer.extend_from_slice(key.as_bytes());
}

/// Returns the engine key of an entry.
#[must_use]
pub fn entry_key(key: &Key) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1 + key.as_bytes().len());
    write_entry_key(&mut bytes, key);
    bytes
}

/// Returns the range of engine keys for a range of keys; empty or inverted if that range is.
#[must_use]
pub fn entry_range(range: &KeyRange) -> std::ops::Range<Vec<u8>> {
    let end = match &range.end {
        Some(end) => entry_key(end),
        None => vec![ENTRY_PREFIX + 1],
    };
    entry_key(&range.start)..end
}

/// Encodes an entry as an engine value.
#[must_use]
pub fn encode(entry: &Entry) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(VERSION_BYTES + entry.value.len());
    bytes.extend_from_slice(&entry.version.get().to_be_bytes());
    bytes.extend_from_slice(&entry.value);
    bytes
}

/// Decodes an entry from an engine value, without copying it.
///
/// # Errors
/// [`EngineError::Corrupt`] if [`encode`] cannot have written it.
pub fn decode(mut stored: Bytes) -> Result<Entry, EngineError> {
    let version = stored
        .first_chunk::<VERSION_BYTES>()
        .ok_or_else(|| EngineError::Corrupt("an entry is shorter than its version".to_owned()))?;
    let version = Version::new(u64::from_be_bytes(*version))
        .ok_or_else(|| EngineError::Corrupt("an entry has no version".to_owned()))?;
    Ok(Entry {
        value: stored.split_off(VERSION_BYTES),
        version,
    })
}

/// Decodes a key from an engine key.
///
/// # Errors
/// [`EngineError::Corrupt`] if [`entry_key`] cannot have written it.
pub fn decode_key(stored: &[u8]) -> Result<Key, EngineError> {
    let key = match stored.split_first() {
        Some((&ENTRY_PREFIX, key)) => Key::new(key).ok(),
        _ => None,
    };
    key.ok_or_else(|| {
        EngineError::Corrupt(format!(
            "a key has an unknown format: {}",
            stored.escape_ascii()
        ))
    })
}

/// Totals over all entries, written atomically with every group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ledger {
    /// Number of the last commit; 0 before the first. It never decreases, so that versions are
    /// unique.
    pub(crate) last_version: u64,
    /// Number of entries.
    pub(crate) entries: u64,
    /// Wrapping sum of the fingerprints of all entries.
    ///
    /// A missing or unexpected entry or another version changes it.
    pub(crate) digest: u64,
}

impl Ledger {
    pub(crate) fn next_version(&mut self) -> Version {
        self.last_version += 1;
        Version::new(self.last_version).expect("an incremented number is not zero")
    }

    pub(crate) fn insert(&mut self, key: &Key, version: Version) {
        self.entries += 1;
        self.digest = self.digest.wrapping_add(fingerprint(key, version));
    }

    pub(crate) fn remove(&mut self, key: &Key, version: Version) {
        self.entries = self.entries.wrapping_sub(1);
        self.digest = self.digest.wrapping_sub(fingerprint(key, version));
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        [self.last_version, self.entries, self.digest]
            .map(u64::to_be_bytes)
            .concat()
    }

    pub(crate) fn decode(stored: &[u8]) -> Option<Self> {
        let (numbers, rest) = stored.as_chunks::<8>();
        match (numbers, rest) {
            ([last_version, entries, digest], []) => Some(Self {
                last_version: u64::from_be_bytes(*last_version),
                entries: u64::from_be_bytes(*entries),
                digest: u64::from_be_bytes(*digest),
            }),
            _ => None,
        }
    }
}

fn fingerprint(key: &Key, version: Version) -> u64 {
    hash(&[key.as_bytes(), &version.get().to_be_bytes()])
}

/// Hashes bytes by FNV-1a with the finaliser of SplitMix64.
///
/// Without the finaliser, sums of similar keys could cancel out. The hash is part of the format,
/// and the hashers of the standard library may change.
pub(crate) fn hash(parts: &[&[u8]]) -> u64 {
    let bytes = parts.iter().copied().flatten();
    let mut hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_encoding_is_pinned() {
        let entry = Entry {
            value: "v".into(),
            version: Version::new(258).unwrap(),
        };
        assert_eq!(encode(&entry), b"\0\0\0\0\0\0\x01\x02v");
        assert_eq!(decode(encode(&entry).into()).unwrap(), entry);
        let key = Key::new("k").unwrap();
        assert_eq!(entry_key(&key), b"dk");
        assert_eq!(fingerprint(&key, entry.version), FINGERPRINT);
    }

    /// Pinned value: it is stored in every ledger, and another value requires a new format number.
    const FINGERPRINT: u64 = 1_482_465_152_409_847_741;

    #[test]
    fn ledger_remove_undoes_insert() {
        let key = |name: &'static str| Key::new(name).unwrap();
        let mut ledger = Ledger::default();
        let version = ledger.next_version();
        ledger.insert(&key("a"), version);
        let one = ledger;
        ledger.insert(&key("b"), version);
        assert_ne!(ledger.digest, one.digest);
        ledger.remove(&key("b"), version);
        assert_eq!(ledger, one);
        assert_eq!(Ledger::decode(&ledger.encode()), Some(ledger));
        assert_eq!(Ledger::decode(&ledger.encode()[1..]), None);
    }
}
