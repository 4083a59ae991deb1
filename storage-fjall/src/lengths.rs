//! The check of counts that fjall trusts when it opens.
//!
//! For each tree of fjall, `lsm-tree` reserves memory for as many items as its files announce,
//! before it reads them or compares their checksums. With a corrupt count it reserves up to 170 GB,
//! and if that fails, the process aborts. The counts are therefore checked here first.
//!
//! Files of a tree (numbers are little-endian):
//!
//! | file | content |
//! | --- | --- |
//! | `current` | number of the list of levels (8), XXH3 of its file (16), tag 0 |
//! | `v` and the number | list of levels, an archive |
//! | `tables/*` | tables, each an archive |
//!
//! End of an archive:
//!
//! | part | bytes |
//! | --- | --- |
//! | sections | `TOC!`, their count (4), for each its offset (8), length (8), length of name (2), name |
//! | trailer | `SFA!`, tags 1 and 0, XXH3 of the sections (16), their offset (8), their length (8) |

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use knowledge_storage_embedded::EngineError;
use xxhash_rust::xxh3::xxh3_128;

/// File that fjall locks while it is open.
const LOCK: &str = "lock";
/// Directory of the trees.
const TREES: &str = "keyspaces";
/// File that names the list of levels.
const CURRENT: &str = "current";
/// Directory of the tables of a tree.
const TABLES: &str = "tables";

const SECTIONS: &[u8; 4] = b"TOC!";
/// Size of a section without its name, in bytes.
const SECTION_BYTES_MIN: u64 = 18;
const TRAILER: &[u8; 4] = b"SFA!";
const TRAILER_BYTES: usize = 38;
/// Position of the offset of the sections in the trailer.
const OFFSET_AT: usize = 22;

/// Checks the counts in a closed database.
///
/// A tree without a list of levels or tables is left to fjall. A database without the directory of
/// the trees is not: fjall would create empty ones.
///
/// # Errors
/// [`EngineError::Locked`] if a closed store still holds the database, [`EngineError::Corrupt`] if
/// a count is corrupt or there are no trees, [`EngineError::Io`] if a file cannot be read.
pub(crate) fn check(database: &Path) -> Result<(), EngineError> {
    // Held until the end: until a closed store releases its lock, it may replace the files.
    let lock = File::options()
        .read(true)
        .write(true)
        .open(database.join(LOCK));
    if let Ok(Err(TryLockError::WouldBlock)) = lock.as_ref().map(File::try_lock) {
        return Err(EngineError::Locked);
    }
    let trees = fs::read_dir(database.join(TREES)).map_err(|error| {
        if is_missing(&error) {
            EngineError::Corrupt(format!("fjall: the directory {TREES} is missing"))
        } else {
            error.into()
        }
    });
    for tree in trees? {
        let tree = tree?;
        let corrupt = |what: &str| {
            let name = tree.file_name();
            EngineError::Corrupt(format!(
                "fjall: {what} of tree {} is corrupt",
                name.display()
            ))
        };
        if !has_valid_levels(&tree.path())? {
            return Err(corrupt("the list of levels"));
        }
        let tables = match fs::read_dir(tree.path().join(TABLES)) {
            Err(error) if is_missing(&error) => continue,
            tables => tables?,
        };
        for table in tables {
            let table = table?;
            if !has_possible_sections(&table.path())? {
                return Err(corrupt(&format!("table {}", table.file_name().display())));
            }
        }
    }
    Ok(())
}

/// Returns true if the list of levels has its checksum, or if there is none.
fn has_valid_levels(tree: &Path) -> io::Result<bool> {
    let current = match fs::read(tree.join(CURRENT)) {
        Err(error) if is_missing(&error) => return Ok(true),
        read => read?,
    };
    let Some((number, sum)) = parse_current(&current) else {
        return Ok(false);
    };
    match fs::read(tree.join(format!("v{number}"))) {
        Err(error) if is_missing(&error) => Ok(false),
        read => Ok(xxh3_128(&read?) == sum),
    }
}

fn is_missing(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory)
}

/// Returns the number of the list of levels, and its checksum.
fn parse_current(current: &[u8]) -> Option<(u64, u128)> {
    let (number, rest) = current.split_first_chunk()?;
    let (sum, tag) = rest.split_first_chunk()?;
    (tag == [0]).then(|| (u64::from_le_bytes(*number), u128::from_le_bytes(*sum)))
}

/// Returns true if an archive has room for its sections, or no trailer.
///
/// Checksums are not compared, and files without a trailer are left to fjall: a table that was never
/// completed is no part of the database.
fn has_possible_sections(path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let mut trailer = [0; TRAILER_BYTES];
    let Some(at) = length.checked_sub(TRAILER_BYTES as u64) else {
        return Ok(true);
    };
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(&mut trailer)?;
    if !trailer.starts_with(TRAILER) {
        return Ok(true);
    }
    let offset = trailer[OFFSET_AT..].first_chunk().expect("it is longer");
    let offset = u64::from_le_bytes(*offset);
    let Some(bytes) = at.checked_sub(offset) else {
        return Ok(false);
    };
    file.seek(SeekFrom::Start(offset))?;
    let mut head = [0; 8];
    file.read_exact(&mut head)?;
    let (tag, count) = head.split_at(SECTIONS.len());
    let count = u32::from_le_bytes(*count.first_chunk().expect("it is four bytes"));
    Ok(tag != SECTIONS || u64::from(count) * SECTION_BYTES_MIN <= bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_needs_trees_but_no_tables() {
        let database = tempfile::tempdir().unwrap();
        let error = check(database.path()).unwrap_err();
        assert!(matches!(error, EngineError::Corrupt(_)), "{error}");
        fs::create_dir_all(database.path().join(TREES).join("1")).unwrap();
        check(database.path()).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn check_reports_tables_that_cannot_be_read() {
        let database = tempfile::tempdir().unwrap();
        let tree = database.path().join(TREES).join("1");
        fs::create_dir_all(&tree).unwrap();
        // A link to itself, which even root cannot follow.
        std::os::unix::fs::symlink(TABLES, tree.join(TABLES)).unwrap();
        let error = check(database.path()).unwrap_err();
        assert!(matches!(error, EngineError::Io(_)), "{error}");
    }
}
