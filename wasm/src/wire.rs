//! Encoding of store calls: one buffer each way, because crossing the boundary costs more than
//! copying. `wasm/js/bridge.js` is the other half.
//!
//! | part | bytes |
//! | --- | --- |
//! | a length | 4, little-endian |
//! | bytes | their length, then the bytes |
//! | a list | the number of its items as a length, then the items |
//! | a version | 8, an IEEE 754 number as in JavaScript; 0 for none |
//! | a delta | 8, little-endian, two's complement |

use bytes::{Buf, Bytes};
use knowledge_core::store::{
    Commit, Direction, Entry, Found, Key, KeyEntry, KeyRange, Mutation, Read, StoreError,
    StoreErrorKind, Version,
};

const KEYS: u8 = 0;
const RANGE: u8 = 1;
const RANGE_REVERSE: u8 = 2;

const PUT: u8 = 0;
const DELETE: u8 = 1;
const ADD: u8 = 2;

/// Maximum version: above it, numbers in JavaScript have gaps.
const VERSION_MAX: f64 = 9_007_199_254_740_991.0;

fn write_length(buffer: &mut Vec<u8>, length: usize) {
    let length = u32::try_from(length).expect("memory has less than 2^32 bytes");
    buffer.extend_from_slice(&length.to_le_bytes());
}

fn write_bytes(buffer: &mut Vec<u8>, bytes: &[u8]) {
    write_length(buffer, bytes.len());
    buffer.extend_from_slice(bytes);
}

/// Returns true if a read is empty in any store; such a read is never sent to one.
pub(crate) fn is_empty(read: Read<'_>) -> bool {
    match read {
        Read::Keys(keys) => keys.is_empty(),
        Read::Range { range, limit, .. } => limit == 0 || range.is_empty(),
    }
}

/// Encodes the reads of one call as a list, without the empty ones.
///
/// A read of keys is its kind and the list of the keys. A read of a range is its kind, the list of
/// its bounds (only the first if it has no end) and its limit as a length.
pub(crate) fn reads(reads: &[Read<'_>]) -> Vec<u8> {
    let asked = || reads.iter().filter(|read| !is_empty(**read));
    let mut buffer = Vec::new();
    write_length(&mut buffer, asked().count());
    for read in asked() {
        match *read {
            Read::Keys(keys) => {
                buffer.push(KEYS);
                write_length(&mut buffer, keys.len());
                for key in keys {
                    write_bytes(&mut buffer, key.as_bytes());
                }
            }
            Read::Range {
                range,
                limit,
                direction,
            } => {
                buffer.push(match direction {
                    Direction::Forward => RANGE,
                    Direction::Reverse => RANGE_REVERSE,
                });
                write_length(&mut buffer, 1 + usize::from(range.end.is_some()));
                for bound in std::iter::once(&range.start).chain(&range.end) {
                    write_bytes(&mut buffer, bound.as_bytes());
                }
                write_length(&mut buffer, limit);
            }
        }
    }
    buffer
}

/// Encodes a commit: the list of its checks, then the list of its mutations.
pub(crate) fn commit(commit: &Commit) -> Vec<u8> {
    let mut buffer = Vec::new();
    write_length(&mut buffer, commit.checks().len());
    for check in commit.checks() {
        write_bytes(&mut buffer, check.key.as_bytes());
        let version = check.version.map_or(0.0, |version| version.get() as f64);
        buffer.extend_from_slice(&version.to_le_bytes());
    }
    write_length(&mut buffer, commit.mutations().len());
    for mutation in commit.mutations() {
        buffer.push(match mutation {
            Mutation::Put { .. } => PUT,
            Mutation::Delete { .. } => DELETE,
            Mutation::Add { .. } => ADD,
        });
        write_bytes(&mut buffer, mutation.key().as_bytes());
        match mutation {
            Mutation::Put { value, .. } => write_bytes(&mut buffer, value),
            Mutation::Delete { .. } => {}
            Mutation::Add { delta, .. } => buffer.extend_from_slice(&delta.to_le_bytes()),
        }
    }
    buffer
}

/// Converts a number from JavaScript into a version; `None` if it is not valid as one.
pub(crate) fn version(number: f64) -> Option<Version> {
    let is_whole = number.fract() == 0.0 && (1.0..=VERSION_MAX).contains(&number);
    // Exact for a whole number in that range.
    is_whole.then(|| Version::new(number as u64))?
}

/// Decoder of a result of a store, from its beginning.
#[derive(Default)]
pub(crate) struct Decoder(Bytes);

impl Decoder {
    pub(crate) fn new(buffer: Vec<u8>) -> Self {
        Self(buffer.into())
    }

    /// Decodes the results of all `reads`.
    pub(crate) fn found(mut self, reads: &[Read<'_>]) -> Result<Vec<Found>, StoreError> {
        let found = reads.iter().map(|read| match *read {
            Read::Keys(keys) => self.keys(keys.len()).map(Found::Keys),
            // It was not sent to the store, so no result was encoded.
            Read::Range { .. } if is_empty(*read) => Ok(Found::Range(Vec::new())),
            Read::Range {
                range,
                limit,
                direction,
            } => self.range(range, limit, direction).map(Found::Range),
        });
        let found = found.collect::<Result<_, _>>()?;
        if self.0.is_empty() {
            Ok(found)
        } else {
            Err(corrupt("the store returned more than was requested"))
        }
    }

    /// Decodes one optional entry per key.
    fn keys(&mut self, count: usize) -> Result<Vec<Option<Entry>>, StoreError> {
        let mut entries = Vec::with_capacity(count);
        for _ in 0..count {
            let version = self.number()?;
            entries.push(if version == 0.0 {
                None
            } else {
                Some(self.entry(version)?)
            });
        }
        Ok(entries)
    }

    /// Decodes the list of entries of a range.
    fn range(
        &mut self,
        range: &KeyRange,
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<KeyEntry>, StoreError> {
        let mut found: Vec<KeyEntry> = Vec::new();
        for _ in 0..self.length()? {
            let key = Key::new(self.bytes()?).map_err(|error| corrupt(&error.to_string()))?;
            // A caller that reads in pages continues after the last key: a repeated key would make
            // it loop forever.
            let is_next = found.last().is_none_or(|last| match direction {
                Direction::Forward => last.key < key,
                Direction::Reverse => last.key > key,
            });
            if !is_next || found.len() == limit || !range.contains(&key) {
                return Err(corrupt(
                    "the store returned too many keys for a range, or keys outside it or out of \
                     order",
                ));
            }
            let version = self.number()?;
            let entry = self.entry(version)?;
            found.push(KeyEntry { key, entry });
        }
        Ok(found)
    }

    fn entry(&mut self, number: f64) -> Result<Entry, StoreError> {
        let version = version(number).ok_or_else(|| {
            corrupt("the store returned a version that is not a whole number from 1 to 2^53 - 1")
        })?;
        let value = self.bytes()?;
        Ok(Entry { value, version })
    }

    fn number(&mut self) -> Result<f64, StoreError> {
        self.0.try_get_f64_le().map_err(|_| too_short())
    }

    fn length(&mut self) -> Result<usize, StoreError> {
        let length = self.0.try_get_u32_le().map_err(|_| too_short())?;
        Ok(length as usize)
    }

    fn bytes(&mut self) -> Result<Bytes, StoreError> {
        let length = self.length()?;
        if length > self.0.len() {
            return Err(too_short());
        }
        Ok(self.0.split_to(length))
    }
}

fn too_short() -> StoreError {
    corrupt("the store returned less than was requested")
}

/// Returns the error for a result of a store that is malformed.
pub(crate) fn corrupt(message: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Corrupt, message)
}
