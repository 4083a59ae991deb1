//! The file of a dump: written under a temporary name, renamed once complete.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use knowledge_core::dump::{Decoder, Line};
use serde::{Deserialize, Serialize};

use super::BackupError;
use super::lines::{CheckedDump, DumpLines, check};
use crate::private_file::{self, sync_parent, with_suffix};

/// Source of a dump: a resumed dump requires the same directory in the same state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Directory of the store.
    pub directory: String,
    /// Revision of the store, see [`revision`](knowledge_storage_embedded::Embedded::revision).
    pub revision: String,
}

/// A dump being written to `FILE.partial`, which only its owner can read.
#[derive(Debug)]
pub struct DumpFile {
    path: PathBuf,
    file: BufWriter<File>,
}

fn partial_of(path: &Path) -> PathBuf {
    with_suffix(path, ".partial")
}

/// Returns the path of the note beside a partial dump that identifies its source.
fn origin_of(path: &Path) -> PathBuf {
    with_suffix(path, ".partial.origin")
}

fn remove(path: &Path) -> Result<(), BackupError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(BackupError::io(path)(error)),
        _ => Ok(()),
    }
}

impl DumpFile {
    /// Starts a new dump. With an origin it can be resumed after an interruption.
    ///
    /// # Errors
    /// [`BackupError::Io`].
    pub fn create(path: &Path, origin: Option<&Origin>) -> Result<Self, BackupError> {
        let (partial, note) = (partial_of(path), origin_of(path));
        remove(&note)?;
        remove(&partial)?;
        let file = private_file::private(OpenOptions::new().write(true).create_new(true))
            .open(&partial)
            .map_err(BackupError::io(&partial))?;
        if let Some(origin) = origin {
            let origin = serde_json::to_string(origin).expect("two texts serialise");
            private_file::replace(&note, &origin).map_err(|error| {
                let error = io::Error::other(error);
                BackupError::io(&note)(error)
            })?;
        }
        Ok(Self {
            path: path.to_owned(),
            file: BufWriter::new(file),
        })
    }

    /// Returns true if there is a partial dump, or something else in its place.
    #[must_use]
    pub fn is_begun(path: &Path) -> bool {
        fs::symlink_metadata(partial_of(path)).is_ok()
    }

    /// Resumes an interrupted dump of the same origin.
    ///
    /// Returns the dump and a decoder at the end of its last complete line; `None` if there is no
    /// such dump in a file of this user. A link is not followed.
    ///
    /// # Errors
    /// [`BackupError::Io`].
    pub fn resume(path: &Path, origin: &Origin) -> Result<Option<(Self, Decoder)>, BackupError> {
        let (partial, note) = (partial_of(path), origin_of(path));
        let noted = private_file::read(&note).ok().flatten();
        let noted = noted.and_then(|noted| serde_json::from_str::<Origin>(&noted).ok());
        if noted.as_ref() != Some(origin) {
            return Ok(None);
        }
        let Some(mut file) = private_file::open_own(&partial) else {
            return Ok(None);
        };
        let input = file.try_clone().map_err(BackupError::io(&partial))?;
        let mut lines = DumpLines::of(input, &partial);
        let (mut decoder, mut whole_bytes) = (Decoder::new(), 0);
        while let Some(line) = lines.read()? {
            let mut ahead = decoder.clone();
            match ahead.read(line) {
                Ok(Line::Header(_) | Line::Entry(..)) => decoder = ahead,
                // The summary is written again, and so is a line that a crash truncated.
                Ok(Line::Summary(_)) | Err(_) => break,
            }
            whole_bytes = lines.bytes();
        }
        let cut = file.set_len(whole_bytes);
        cut.and_then(|()| file.seek(SeekFrom::End(0)))
            .map_err(BackupError::io(&partial))?;
        let resumed = Self {
            path: path.to_owned(),
            file: BufWriter::new(file),
        };
        Ok(Some((resumed, decoder)))
    }

    /// Writes the next lines.
    ///
    /// # Errors
    /// [`BackupError::Io`].
    pub fn write(&mut self, lines: &[u8]) -> Result<(), BackupError> {
        let written = self.file.write_all(lines);
        written.map_err(BackupError::io(&partial_of(&self.path)))
    }

    /// Syncs the dump to the disk, verifies it by reading it back, and renames it.
    ///
    /// # Errors
    /// [`BackupError`]; the file then keeps its temporary name.
    pub fn finish(self, progress: impl FnMut(u64, u64)) -> Result<CheckedDump, BackupError> {
        let (path, partial) = (&self.path, partial_of(&self.path));
        let file = self.file.into_inner().map_err(|error| error.into_error());
        file.and_then(|file| file.sync_all())
            .map_err(BackupError::io(&partial))?;
        let checked = check(DumpLines::open(&partial)?, progress)?;
        fs::rename(&partial, path).map_err(BackupError::io(path))?;
        sync_parent(path).map_err(|error| BackupError::io(path)(io::Error::other(error)))?;
        remove(&origin_of(path))?;
        Ok(checked)
    }
}
