//! The bytes in which a store is asked and answers: one buffer each way, because crossing the boundary costs more than
//! copying. `wasm/js/bridge.js` is the other half.
//!
//! | part | bytes |
//! | --- | --- |
//! | a length | 4, little-endian |
//! | bytes | their length, then they |
//! | a version | 8, an IEEE 754 number as JavaScript has it; 0 for none |
//! | a delta | 8, little-endian, two's complement |

use bytes::{Buf, Bytes};
use knowledge_core::store::{
    Commit, Entry, Key, KeyEntry, Mutation, StoreError, StoreErrorKind, Version,
};

const PUT: u8 = 0;
const DELETE: u8 = 1;
const ADD: u8 = 2;

/// The largest version: above it JavaScript's numbers have gaps.
const VERSION_MAX: f64 = 9_007_199_254_740_991.0;

fn write_length(buffer: &mut Vec<u8>, length: usize) {
    let length = u32::try_from(length).expect("memory has less than 2^32 bytes");
    buffer.extend_from_slice(&length.to_le_bytes());
}

fn write_bytes(buffer: &mut Vec<u8>, bytes: &[u8]) {
    write_length(buffer, bytes.len());
    buffer.extend_from_slice(bytes);
}

/// The keys of a read.
pub(crate) fn keys(keys: &[Key]) -> Vec<u8> {
    let mut buffer = Vec::new();
    for key in keys {
        write_bytes(&mut buffer, key.as_bytes());
    }
    buffer
}

/// The checks and the mutations of a commit, each list behind its length.
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

/// A version as a number of JavaScript; `None` for what can be none.
pub(crate) fn version(number: f64) -> Option<Version> {
    let is_whole = number.fract() == 0.0 && (1.0..=VERSION_MAX).contains(&number);
    // Exact, for what is whole and in that range.
    is_whole.then(|| Version::new(number as u64))?
}

/// An answer of a store, read from its beginning.
pub(crate) struct Answer(Bytes);

impl Answer {
    pub(crate) fn new(buffer: Vec<u8>) -> Self {
        Self(buffer.into())
    }

    /// What stands under `count` keys.
    pub(crate) fn entries(mut self, count: usize) -> Result<Vec<Option<Entry>>, StoreError> {
        let mut entries = Vec::with_capacity(count);
        for _ in 0..count {
            let version = self.number()?;
            entries.push(if version == 0.0 {
                None
            } else {
                Some(self.entry(version)?)
            });
        }
        self.end()?;
        Ok(entries)
    }

    /// What a scan found.
    pub(crate) fn key_entries(mut self) -> Result<Vec<KeyEntry>, StoreError> {
        let mut entries = Vec::new();
        while !self.0.is_empty() {
            let key = Key::new(self.bytes()?).map_err(|error| corrupt(&error.to_string()))?;
            let version = self.number()?;
            let entry = self.entry(version)?;
            entries.push(KeyEntry { key, entry });
        }
        Ok(entries)
    }

    fn entry(&mut self, number: f64) -> Result<Entry, StoreError> {
        let version = version(number).ok_or_else(|| {
            corrupt("a version of the store is not a whole number from 1 to 2^53 - 1")
        })?;
        let value = self.bytes()?;
        Ok(Entry { value, version })
    }

    fn number(&mut self) -> Result<f64, StoreError> {
        self.0.try_get_f64_le().map_err(|_| too_short())
    }

    fn bytes(&mut self) -> Result<Bytes, StoreError> {
        let length = self.0.try_get_u32_le().map_err(|_| too_short())? as usize;
        if length > self.0.len() {
            return Err(too_short());
        }
        Ok(self.0.split_to(length))
    }

    fn end(self) -> Result<(), StoreError> {
        match self.0.is_empty() {
            true => Ok(()),
            false => Err(corrupt("the store answered more than it was asked")),
        }
    }
}

fn too_short() -> StoreError {
    corrupt("the store answered less than it was asked")
}

/// A store that does not answer as it is asked.
pub(crate) fn corrupt(message: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Corrupt, message)
}
