//! The repair of a torn batch at the end of fjall's journal.
//!
//! fjall drops a last batch with broken framing, but refuses to open if only its checksum is wrong.
//! A power loss leaves such a batch if the device wrote its last page but not an earlier one. The
//! batch was then never acknowledged; its bytes are saved and it is truncated here. A corrupt batch
//! that was acknowledged looks the same; the store's mark detects that later.
//!
//! Format of a batch in a journal (numbers are little-endian):
//!
//! | part | bytes |
//! | --- | --- |
//! | start | tag 1, count of items (4), sequence number (8) |
//! | item | tag 2, type (1), compression (1), keyspace (8), length of key (2), length of value (4), length as stored (4), key, value |
//! | clearing | tag 4, keyspace (8) |
//! | end | tag 3, XXH3 of all items and clearings (8), `FJL` 3 |

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3;

const TAG_START: u8 = 1;
const TAG_ITEM: u8 = 2;
const TAG_END: u8 = 3;
const TAG_CLEAR: u8 = 4;
const TRAILER: &[u8; 4] = b"FJL\x03";
const JOURNAL_EXTENSION: &str = "jnl";
/// Size of the read buffer, independent of the lengths in the journal, which may be corrupt.
const BUFFER_BYTES: usize = 64 * 1024;

/// State of the end of the newest journal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Tail {
    /// No batch has a wrong checksum.
    Intact,
    /// The last batch is torn; [`truncate`] removes it.
    Truncated {
        /// Offset of the batch.
        at: u64,
    },
    /// A batch is corrupt and valid batches follow, so that it is no torn end.
    Corrupt {
        /// Offset of the batch.
        at: u64,
    },
}

/// Cause of an incomplete read of a batch.
enum StopReason {
    /// The framing is broken, or the file ends.
    Broken,
    Io(io::Error),
}

impl From<io::Error> for StopReason {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Broken,
            _ => Self::Io(error),
        }
    }
}

/// Reader of a journal, batch by batch.
struct Journal {
    file: BufReader<File>,
    at: u64,
    sum: Xxh3,
}

impl Journal {
    fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            file: BufReader::with_capacity(BUFFER_BYTES, File::open(path)?),
            at: 0,
            sum: Xxh3::new(),
        })
    }

    fn read<const N: usize>(&mut self) -> Result<[u8; N], StopReason> {
        let mut bytes = [0; N];
        self.file.read_exact(&mut bytes)?;
        self.at += N as u64;
        Ok(bytes)
    }

    /// Reads bytes that the checksum covers.
    fn read_summed<const N: usize>(&mut self) -> Result<[u8; N], StopReason> {
        let bytes = self.read()?;
        self.sum.update(&bytes);
        Ok(bytes)
    }

    /// Skips bytes that the checksum covers.
    fn skip_summed(&mut self, mut length: u64) -> Result<(), StopReason> {
        while length > 0 {
            let buffered = self.file.fill_buf()?;
            let wanted = usize::try_from(length).unwrap_or(usize::MAX);
            let skipped = buffered.len().min(wanted);
            if skipped == 0 {
                return Err(StopReason::Broken);
            }
            self.sum.update(&buffered[..skipped]);
            self.file.consume(skipped);
            self.at += skipped as u64;
            length -= skipped as u64;
        }
        Ok(())
    }

    fn skip_item(&mut self) -> Result<(), StopReason> {
        let [kind, compression] = self.read_summed()?;
        if kind > 4 || compression > 1 {
            return Err(StopReason::Broken);
        }
        let _keyspace: [u8; 8] = self.read_summed()?;
        let key = u16::from_le_bytes(self.read_summed()?);
        let _length: [u8; 4] = self.read_summed()?;
        let stored = u32::from_le_bytes(self.read_summed()?);
        self.skip_summed(u64::from(key) + u64::from(stored))
    }

    /// Reads the next batch. Returns true if its checksum is correct.
    fn verify_batch(&mut self) -> Result<bool, StopReason> {
        self.sum = Xxh3::new();
        if self.read()? != [TAG_START] {
            return Err(StopReason::Broken);
        }
        let count = u64::from(u32::from_le_bytes(self.read()?));
        let _sequence_number: [u8; 8] = self.read()?;
        let mut items = 0;
        loop {
            let [tag] = self.read()?;
            match tag {
                TAG_ITEM => {
                    self.sum.update(&[tag]);
                    self.skip_item()?;
                }
                TAG_CLEAR => {
                    self.sum.update(&[tag]);
                    let _keyspace: [u8; 8] = self.read_summed()?;
                }
                TAG_END => {
                    let sum = u64::from_le_bytes(self.read()?);
                    if self.read()? != *TRAILER {
                        return Err(StopReason::Broken);
                    }
                    return Ok(items == count && self.sum.digest() == sum);
                }
                _ => return Err(StopReason::Broken),
            }
            items += 1;
        }
    }
}

/// Truncates a torn last batch from the newest journal of a closed database.
///
/// Its bytes are first saved in the file `saved`.
///
/// # Errors
/// I/O errors.
pub(crate) fn truncate(database: &Path, saved: &Path) -> io::Result<Tail> {
    let Some(path) = newest_journal(database)? else {
        return Ok(Tail::Intact);
    };
    let tail = scan_journal(&path)?;
    if let Tail::Truncated { at } = tail {
        let mut file = OpenOptions::new().read(true).write(true).open(&path)?;
        save_tail(&mut file, at, saved)?;
        file.set_len(at)?;
        file.sync_all()?;
        tracing::warn!(
            journal = %path.display(), at, saved = %saved.display(),
            "truncated a torn batch at the end of the journal"
        );
    }
    Ok(tail)
}

/// Returns the journal with the highest number, which was written last.
fn newest_journal(database: &Path) -> io::Result<Option<PathBuf>> {
    let mut newest: Option<(u64, PathBuf)> = None;
    for entry in std::fs::read_dir(database)? {
        let path = entry?.path();
        if path
            .extension()
            .is_none_or(|extension| extension != JOURNAL_EXTENSION)
        {
            continue;
        }
        let name = path.file_stem().and_then(|name| name.to_str());
        let Some(number) = name.and_then(|name| name.parse().ok()) else {
            continue;
        };
        if newest.as_ref().is_none_or(|(highest, _)| number > *highest) {
            newest = Some((number, path));
        }
    }
    Ok(newest.map(|(_, path)| path))
}

/// Returns the state of a journal's end, without changing the journal.
fn scan_journal(path: &Path) -> io::Result<Tail> {
    let mut journal = Journal::open(path)?;
    let mut torn = None;
    loop {
        let start = journal.at;
        match (journal.verify_batch(), torn) {
            (Ok(true), None) => {}
            (Ok(true), Some(at)) => return Ok(Tail::Corrupt { at }),
            (Ok(false), _) => torn = torn.or(Some(start)),
            (Err(StopReason::Broken), None) => return Ok(Tail::Intact),
            (Err(StopReason::Broken), Some(at)) => return Ok(Tail::Truncated { at }),
            (Err(StopReason::Io(error)), _) => return Err(error),
        }
    }
}

/// Saves the bytes from `at` on, without trailing zeros.
fn save_tail(journal: &mut File, at: u64, saved: &Path) -> io::Result<()> {
    let mut copy = File::create(saved)?;
    journal.seek(SeekFrom::Start(at))?;
    let mut buffer = vec![0; BUFFER_BYTES];
    let (mut copied, mut used) = (0, 0);
    loop {
        let length = match journal.read(&mut buffer) {
            Ok(0) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        let part = &buffer[..length];
        copy.write_all(part)?;
        if let Some(last) = part.iter().rposition(|byte| *byte != 0) {
            used = copied + last as u64 + 1;
        }
        copied += length as u64;
    }
    copy.set_len(used)?;
    copy.sync_all()?;
    #[cfg(unix)]
    if let Some(directory) = saved.parent() {
        File::open(directory)?.sync_all()?;
    }
    Ok(())
}
