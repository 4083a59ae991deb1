//! The mark: the number of the last acknowledged commit, kept beside the engine.
//!
//! An engine may silently drop a corrupt end of its log as unfinished. The mark detects this: it is
//! written after a group's sync and before its replies, so that it never exceeds the durable
//! commits. A store that opens with fewer commits has lost some.
//!
//! The mark is a few bytes, overwritten in place and synced only once a second. After a power loss
//! it may be older than the last acknowledged commit: this can hide a loss, but never reports a
//! false one.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::record::hash;

/// Longest time between a write of the mark and its sync.
pub(crate) const SYNC_INTERVAL: Duration = Duration::from_secs(1);
/// Distance of the slots: each has a sector of its own, so that a torn write corrupts at most one.
const SLOT_STRIDE_BYTES: usize = 4096;
const SLOT_BYTES: usize = 16;
const FILE_BYTES: usize = SLOT_STRIDE_BYTES + SLOT_BYTES;

/// Open file of the mark: two slots of version and checksum, written in turn.
#[derive(Debug)]
pub(crate) struct Mark {
    file: File,
    version: u64,
    next_slot: usize,
    synced_at: Instant,
    is_synced: bool,
}

fn slot(version: u64) -> [u8; SLOT_BYTES] {
    let mut bytes = [0; SLOT_BYTES];
    bytes[..8].copy_from_slice(&version.to_be_bytes());
    bytes[8..].copy_from_slice(&hash(&[b"mark", &version.to_be_bytes()]).to_be_bytes());
    bytes
}

fn read_slot(bytes: &[u8]) -> Option<u64> {
    let version = u64::from_be_bytes(*bytes.first_chunk()?);
    (bytes.get(..SLOT_BYTES)? == slot(version)).then_some(version)
}

impl Mark {
    /// Creates the file of a new store without commits.
    pub(crate) fn create(path: &Path) -> io::Result<()> {
        let mut bytes = vec![0; FILE_BYTES];
        bytes[..SLOT_BYTES].copy_from_slice(&slot(0));
        bytes[SLOT_STRIDE_BYTES..].copy_from_slice(&slot(0));
        let mut file = File::create(path)?;
        file.write_all(&bytes)?;
        file.sync_all()
    }

    /// Opens the file; `None` if neither slot is valid.
    pub(crate) fn open(path: &Path) -> io::Result<Option<Self>> {
        let mut file = OpenOptions::new().read(true).write(true).open(path)?;
        let mut bytes = Vec::with_capacity(FILE_BYTES);
        Read::by_ref(&mut file)
            .take(FILE_BYTES as u64)
            .read_to_end(&mut bytes)?;
        let first = read_slot(&bytes);
        let second = bytes.get(SLOT_STRIDE_BYTES..).and_then(read_slot);
        let Some(version) = first.max(second) else {
            return Ok(None);
        };
        Ok(Some(Self {
            file,
            version,
            next_slot: usize::from(first == Some(version)),
            synced_at: Instant::now(),
            is_synced: true,
        }))
    }

    /// Returns the last acknowledged version, as far as known.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Records that all commits up to `version` are durable.
    pub(crate) fn advance(&mut self, version: u64) -> io::Result<()> {
        let offset = (self.next_slot * SLOT_STRIDE_BYTES) as u64;
        self.file.seek(SeekFrom::Start(offset))?;
        self.file.write_all(&slot(version))?;
        self.next_slot = 1 - self.next_slot;
        self.version = version;
        self.is_synced = false;
        if self.synced_at.elapsed() >= SYNC_INTERVAL {
            self.sync()?;
        }
        Ok(())
    }

    /// Syncs the mark if it has changed.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        if !self.is_synced {
            self.file.sync_data()?;
            self.is_synced = true;
            self.synced_at = Instant::now();
        }
        Ok(())
    }

    /// True if the mark has not changed since its last sync.
    pub(crate) fn is_synced(&self) -> bool {
        self.is_synced
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mark_survives_a_torn_slot() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mark");
        Mark::create(&path).unwrap();
        let mut mark = Mark::open(&path).unwrap().unwrap();
        assert_eq!(mark.version(), 0);
        for version in 1..=9 {
            mark.advance(version).unwrap();
            assert_eq!(Mark::open(&path).unwrap().unwrap().version(), version);
        }
        let whole = std::fs::read(&path).unwrap();
        for offset in [3, SLOT_STRIDE_BYTES + 3] {
            let mut torn = whole.clone();
            torn[offset] ^= 1;
            std::fs::write(&path, &torn).unwrap();
            let version = Mark::open(&path).unwrap().unwrap().version();
            assert!((8..=9).contains(&version));
        }
        std::fs::write(&path, &whole[..4]).unwrap();
        assert!(Mark::open(&path).unwrap().is_none());
    }
}
