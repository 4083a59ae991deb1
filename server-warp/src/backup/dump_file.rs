//! The file of a dump: written under another name, and given its own once it is whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use knowledge_core::dump::{Decoder, Line};
use serde::{Deserialize, Serialize};

use super::BackupError;
use super::lines::{Checked, DumpLines, check};
use crate::private_file::{self, sync_parent, with_suffix};

/// What a dump was made of, for going on after an interruption: the same directory in the same state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The directory of the store.
    pub directory: String,
    /// The state of the store, see [`Embedded::revision`](knowledge_storage_embedded::Embedded::revision).
    pub revision: String,
}

/// A dump that is being written, to `FILE.partial`. It can be read by its owner alone.
#[derive(Debug)]
pub struct DumpFile {
    path: PathBuf,
    file: BufWriter<File>,
}

fn partial_of(path: &Path) -> PathBuf {
    with_suffix(path, ".partial")
}

/// Beside the dump that is being written stands what it is made of.
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
    /// Begins anew. With an origin the dump can go on after an interruption.
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

    /// Goes on with a dump of the same origin that was interrupted: what it has, up to its last whole line, and how far
    /// that is. `None` where there is none to go on with.
    ///
    /// # Errors
    /// [`BackupError::Io`].
    pub fn resume(path: &Path, origin: &Origin) -> Result<Option<(Self, Decoder)>, BackupError> {
        let (partial, note) = (partial_of(path), origin_of(path));
        let noted = private_file::read(&note).ok().flatten();
        let noted = noted.and_then(|noted| serde_json::from_str::<Origin>(&noted).ok());
        if noted.as_ref() != Some(origin) || !partial.is_file() {
            return Ok(None);
        }
        let mut lines = DumpLines::open(&partial)?;
        let (mut decoder, mut whole_bytes) = (Decoder::new(), 0);
        while let Some(line) = lines.read()? {
            let mut ahead = decoder.clone();
            match ahead.read(line) {
                Ok(Line::Header(_) | Line::Entry(..)) => decoder = ahead,
                // The last line is written again, and so is what a crash left half written.
                Ok(Line::Summary(_)) | Err(_) => break,
            }
            whole_bytes = lines.bytes();
        }
        let open = || {
            let mut file = OpenOptions::new().write(true).open(&partial)?;
            file.set_len(whole_bytes)?;
            file.seek(SeekFrom::End(0))?;
            Ok(file)
        };
        let file = open().map_err(BackupError::io(&partial))?;
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

    /// Brings the dump to the disk, reads it from there once more, and gives it its name: readers find it whole.
    ///
    /// # Errors
    /// [`BackupError`], one by one; the file does not have its name then.
    pub fn finish(self, progress: impl FnMut(u64, u64)) -> Result<Checked, BackupError> {
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
