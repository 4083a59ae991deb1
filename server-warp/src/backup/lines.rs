//! Lines of a dump, from a file or another stream, one in memory at a time and of limited length.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use knowledge_core::dump::{Decoder, DumpError, Header, LINE_BYTES_MAX, Summary};

use super::BackupError;
use crate::partial_debug::partial_debug;

/// Reader of lines, each with its line feed.
pub struct DumpLines {
    input: Box<dyn BufRead + Send>,
    path: PathBuf,
    line: Vec<u8>,
    bytes: u64,
    length: Option<u64>,
}

partial_debug!(DumpLines: path, bytes);

impl DumpLines {
    /// Opens a file.
    ///
    /// # Errors
    /// [`BackupError::Io`].
    pub fn open(path: &Path) -> Result<Self, BackupError> {
        let open = || {
            let file = File::open(path)?;
            let metadata = file.metadata()?;
            if metadata.is_dir() {
                return Err(io::ErrorKind::IsADirectory.into());
            }
            // A pipe has no length.
            Ok((file, metadata.is_file().then_some(metadata.len())))
        };
        let (file, length) = open().map_err(BackupError::io(path))?;
        Ok(Self {
            length,
            ..Self::of(file, path)
        })
    }

    /// Reads a stream; `name` identifies it in errors.
    pub fn of(input: impl Read + Send + 'static, name: impl Into<PathBuf>) -> Self {
        Self {
            input: Box::new(BufReader::with_capacity(256 * 1024, input)),
            path: name.into(),
            line: Vec::new(),
            bytes: 0,
            length: None,
        }
    }

    /// Returns the next line; `None` at the end. A line that is too long is cut just after the
    /// limit.
    ///
    /// # Errors
    /// [`BackupError::Io`].
    pub fn read(&mut self) -> Result<Option<&[u8]>, BackupError> {
        self.line.clear();
        let bytes_max = LINE_BYTES_MAX as u64 + 1;
        let read = self
            .input
            .by_ref()
            .take(bytes_max)
            .read_until(b'\n', &mut self.line);
        self.bytes += read.map_err(BackupError::io(&self.path))? as u64;
        Ok((!self.line.is_empty()).then_some(&*self.line))
    }

    /// Returns the number of bytes read.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the total number of bytes, if known.
    #[must_use]
    pub fn length(&self) -> Option<u64> {
        self.length
    }
}

/// Header and summary of a verified dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedDump {
    /// First line.
    pub header: Header,
    /// Last line; it matches the entries.
    pub summary: Summary,
}

/// Reads a dump to its end. `progress` receives the number of bytes and entries read.
///
/// # Errors
/// [`BackupError::Dump`] with the line, [`BackupError::Io`].
pub fn check(
    mut lines: DumpLines,
    mut progress: impl FnMut(u64, u64),
) -> Result<CheckedDump, BackupError> {
    let mut decoder = Decoder::new();
    let path = lines.path.clone();
    let wrong = |source: DumpError| BackupError::Dump {
        path: path.clone(),
        source,
    };
    while let Some(line) = lines.read()? {
        decoder.read(line).map_err(&wrong)?;
        progress(lines.bytes(), decoder.entries());
    }
    let summary = decoder.finish().map_err(&wrong)?;
    let header = decoder.header().cloned();
    let header = header.expect("a complete dump has a header");
    Ok(CheckedDump { header, summary })
}
