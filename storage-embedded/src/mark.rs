//! The mark: the last commit that was acknowledged, kept beside the engine.
//!
//! An engine may take a damaged end of its log for one that was never finished, and drop it in silence. The mark tells: it is
//! written after a group's sync and before its answers, so that it never names more than is on the disk, and a store that
//! opens with less has lost something. It is a few bytes in place and synced only now and then: after a power cut it may
//! name less than was acknowledged, which hides a loss but never invents one.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::record::hash;

/// How long a written mark may wait for its own sync.
pub(crate) const SYNC_INTERVAL: Duration = Duration::from_secs(1);
/// Each slot stands in a sector of its own, so that a torn write spoils one at most.
const SLOT_STRIDE_BYTES: usize = 4096;
const SLOT_BYTES: usize = 16;
const FILE_BYTES: usize = SLOT_STRIDE_BYTES + SLOT_BYTES;

/// The open file of the mark: two slots, written in turn, of version and checksum.
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
    /// Makes the file of a new store: nothing was acknowledged yet.
    pub(crate) fn create(path: &Path) -> io::Result<()> {
        let mut bytes = vec![0; FILE_BYTES];
        bytes[..SLOT_BYTES].copy_from_slice(&slot(0));
        bytes[SLOT_STRIDE_BYTES..].copy_from_slice(&slot(0));
        let mut file = File::create(path)?;
        file.write_all(&bytes)?;
        file.sync_all()
    }

    /// Opens the file; `None` where neither slot can be read.
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

    /// The last version that was acknowledged, as far as is known.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Notes that everything up to `version` is on the disk.
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

    /// Brings the mark itself to the disk, if it changed.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        if !self.is_synced {
            self.file.sync_data()?;
            self.is_synced = true;
            self.synced_at = Instant::now();
        }
        Ok(())
    }

    /// Whether there is something to sync once the thread has nothing else to do.
    pub(crate) fn is_synced(&self) -> bool {
        self.is_synced
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_survives_a_torn_slot() {
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
