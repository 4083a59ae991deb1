//! The cure of a torn batch at the end of fjall's journal.
//!
//! fjall drops a last batch whose framing is broken, and refuses to open if the framing is whole and the checksum is not. That
//! is what a loss of power leaves when the device wrote the last page of a batch and not one before it. The batch was
//! never acknowledged then, and is cut off here, after its bytes were put aside: a damaged batch that was acknowledged
//! looks the same, until the store compares its mark.
//!
//! A batch in a journal (numbers are little-endian):
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
/// The memory for reading, whatever a damaged length says.
const BUFFER_BYTES: usize = 64 * 1024;

/// The end of the newest journal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Tail {
    /// No batch in it has a wrong checksum.
    Sound,
    /// The last batch was torn, and is cut off.
    Cut {
        /// The place where it began.
        at: u64,
    },
    /// A batch is damaged, and whole ones follow: that is no torn end.
    Damaged {
        /// The place where it begins.
        at: u64,
    },
}

/// The reason why a batch cannot be read to its end.
enum Stop {
    /// The framing is broken, or the file ends.
    Broken,
    Io(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Broken,
            _ => Self::Io(error),
        }
    }
}

/// Reads a journal batch by batch.
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

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Stop> {
        let mut bytes = [0; N];
        self.file.read_exact(&mut bytes)?;
        self.at += N as u64;
        Ok(bytes)
    }

    /// Takes bytes that belong to the checksum.
    fn take_summed<const N: usize>(&mut self) -> Result<[u8; N], Stop> {
        let bytes = self.take()?;
        self.sum.update(&bytes);
        Ok(bytes)
    }

    /// Passes over bytes that belong to the checksum.
    fn pass_summed(&mut self, mut length: u64) -> Result<(), Stop> {
        while length > 0 {
            let buffered = self.file.fill_buf()?;
            let wanted = usize::try_from(length).unwrap_or(usize::MAX);
            let passed = buffered.len().min(wanted);
            if passed == 0 {
                return Err(Stop::Broken);
            }
            self.sum.update(&buffered[..passed]);
            self.file.consume(passed);
            self.at += passed as u64;
            length -= passed as u64;
        }
        Ok(())
    }

    fn pass_item(&mut self) -> Result<(), Stop> {
        let [kind, compression] = self.take_summed()?;
        if kind > 4 || compression > 1 {
            return Err(Stop::Broken);
        }
        let _keyspace: [u8; 8] = self.take_summed()?;
        let key = u16::from_le_bytes(self.take_summed()?);
        let _length: [u8; 4] = self.take_summed()?;
        let stored = u32::from_le_bytes(self.take_summed()?);
        self.pass_summed(u64::from(key) + u64::from(stored))
    }

    /// Passes over the next batch. Returns true if it is as it was written.
    fn pass_batch(&mut self) -> Result<bool, Stop> {
        self.sum = Xxh3::new();
        if self.take()? != [TAG_START] {
            return Err(Stop::Broken);
        }
        let count = u64::from(u32::from_le_bytes(self.take()?));
        let _sequence_number: [u8; 8] = self.take()?;
        let mut items = 0;
        loop {
            let [tag] = self.take()?;
            match tag {
                TAG_ITEM => {
                    self.sum.update(&[tag]);
                    self.pass_item()?;
                }
                TAG_CLEAR => {
                    self.sum.update(&[tag]);
                    let _keyspace: [u8; 8] = self.take_summed()?;
                }
                TAG_END => {
                    let sum = u64::from_le_bytes(self.take()?);
                    if self.take()? != *TRAILER {
                        return Err(Stop::Broken);
                    }
                    return Ok(items == count && self.sum.digest() == sum);
                }
                _ => return Err(Stop::Broken),
            }
            items += 1;
        }
    }
}

/// Looks at the newest journal of a closed database. A torn last batch is cut off; its bytes are in the file `kept`
/// before.
///
/// # Errors
/// Those of the operating system.
pub(crate) fn cut(database: &Path, kept: &Path) -> io::Result<Tail> {
    let Some(path) = newest_journal(database)? else {
        return Ok(Tail::Sound);
    };
    let tail = examine(&path)?;
    if let Tail::Cut { at } = tail {
        let mut file = OpenOptions::new().read(true).write(true).open(&path)?;
        keep(&mut file, at, kept)?;
        file.set_len(at)?;
        file.sync_all()?;
        tracing::warn!(
            journal = %path.display(), at, kept = %kept.display(),
            "the last batch of the journal is torn: it was cut off"
        );
    }
    Ok(tail)
}

/// The journal that was written last: that with the highest number.
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

/// Finds the end of a journal. Nothing is changed yet.
fn examine(path: &Path) -> io::Result<Tail> {
    let mut journal = Journal::open(path)?;
    let mut torn = None;
    loop {
        let began = journal.at;
        match (journal.pass_batch(), torn) {
            (Ok(true), None) => {}
            (Ok(true), Some(at)) => return Ok(Tail::Damaged { at }),
            (Ok(false), _) => torn = torn.or(Some(began)),
            (Err(Stop::Broken), None) => return Ok(Tail::Sound),
            (Err(Stop::Broken), Some(at)) => return Ok(Tail::Cut { at }),
            (Err(Stop::Io(error)), _) => return Err(error),
        }
    }
}

/// Puts the bytes from `at` on aside, without the zeros at the end.
fn keep(journal: &mut File, at: u64, kept: &Path) -> io::Result<()> {
    let mut copy = File::create(kept)?;
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
    if let Some(directory) = kept.parent() {
        File::open(directory)?.sync_all()?;
    }
    Ok(())
}
