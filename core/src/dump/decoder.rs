//! Reads a dump line by line; a truncated, reordered or altered one fails with the line number.

use bytes::Bytes;

use super::line::{Tally, read_entry, write_record};
use super::{FORMAT, FORMAT_VERSION, Header, LINE_BYTES_MAX, Summary};
use crate::store::{Key, VALUE_BYTES_MAX, read_json};

/// A decoded line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// The first line.
    Header(Header),
    /// One entry.
    Entry(Key, Bytes),
    /// The last line, which matches all the others.
    Summary(Summary),
}

/// Error of a dump that is not complete and unaltered. The lines before it are as they were
/// written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {number} of the dump {problem}")]
pub struct DumpError {
    /// Line number, from 1.
    pub number: u64,
    /// Problem with the line.
    pub problem: LineProblem,
}

/// Problem with a line of a dump.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineProblem {
    /// Not a dump.
    #[error("is not the first line of a dump")]
    NotADump,
    /// Dump of an unknown format version.
    #[error("has format version {found}; this program reads version {FORMAT_VERSION}")]
    UnknownFormat {
        /// Version in the dump.
        found: u32,
    },
    /// Truncated line, or missing line.
    #[error("is cut off; the dump is incomplete")]
    CutOff,
    /// Line longer than [`LINE_BYTES_MAX`].
    #[error("is longer than {LINE_BYTES_MAX} bytes")]
    TooLong,
    /// Line that is not in canonical form.
    #[error("is not in canonical form")]
    Malformed,
    /// Key or value that exceeds the limits of a store.
    #[error("has a key or value that exceeds the limits of a store")]
    OverTheLimits,
    /// Key that does not sort after the previous one.
    #[error("is not in key order")]
    OutOfOrder,
    /// Number of entries that differs from the summary.
    #[error("names {said} entries, but {found} precede it")]
    Count {
        /// Number in the summary.
        said: u64,
        /// Number of entries read.
        found: u64,
    },
    /// Checksum that does not match the lines before it.
    #[error("has a checksum that does not match; the dump was altered or damaged")]
    Checksum,
    /// Line after the summary.
    #[error("follows the end of the dump")]
    BehindTheEnd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expects {
    Header,
    Entry,
    Nothing,
}

/// Decodes a dump from its lines, in order, each with its line feed.
#[derive(Clone, Debug)]
pub struct Decoder {
    expects: Expects,
    number: u64,
    header: Option<Header>,
    last_value: Option<Bytes>,
    tally: Tally,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// Creates a decoder for the first line.
    #[must_use]
    pub fn new() -> Self {
        Self {
            expects: Expects::Header,
            number: 0,
            header: None,
            last_value: None,
            tally: Tally::default(),
        }
    }

    /// Decodes the next line, which must include its line feed.
    ///
    /// # Errors
    /// [`DumpError`] with the line number and the problem. No further line can be decoded then.
    pub fn read(&mut self, line: &[u8]) -> Result<Line, DumpError> {
        self.number += 1;
        self.line(line).map_err(|problem| DumpError {
            number: self.number,
            problem,
        })
    }

    /// Completes the dump.
    ///
    /// # Errors
    /// [`LineProblem::CutOff`] if the last line has not been read.
    pub fn finish(&self) -> Result<Summary, DumpError> {
        match self.expects {
            Expects::Nothing => Ok(self.tally.summary()),
            Expects::Header | Expects::Entry => Err(DumpError {
                number: self.number + 1,
                problem: LineProblem::CutOff,
            }),
        }
    }

    /// Returns the first line, once it has been read.
    #[must_use]
    pub fn header(&self) -> Option<&Header> {
        self.header.as_ref()
    }

    /// Returns the number of entries read.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.tally.entries
    }

    /// Returns the key of the last entry read.
    #[must_use]
    pub fn last_key(&self) -> Option<&Key> {
        self.tally.last_key.as_ref()
    }

    /// Returns the value of the last entry read.
    pub(super) fn last_value(&self) -> Option<&Bytes> {
        self.last_value.as_ref()
    }

    /// Returns the tally of the lines read; `None` after the summary.
    pub(super) fn into_tally(self) -> Option<Tally> {
        (self.expects == Expects::Entry).then_some(self.tally)
    }

    fn line(&mut self, line: &[u8]) -> Result<Line, LineProblem> {
        if self.expects == Expects::Nothing {
            return Err(LineProblem::BehindTheEnd);
        }
        if line.len() > LINE_BYTES_MAX {
            return Err(LineProblem::TooLong);
        }
        if line.last() != Some(&b'\n') {
            return Err(LineProblem::CutOff);
        }
        if self.expects == Expects::Header {
            let header = header(line)?;
            self.tally.line(line);
            self.header = Some(header.clone());
            self.expects = Expects::Entry;
            return Ok(Line::Header(header));
        }
        if line.starts_with(b"{\"entries\"") {
            let summary = self.summary(line)?;
            self.expects = Expects::Nothing;
            return Ok(Line::Summary(summary));
        }
        let (key, value) = read_entry(line).ok_or(LineProblem::Malformed)?;
        let key = Key::new(key).map_err(|_| LineProblem::OverTheLimits)?;
        if value.len() > VALUE_BYTES_MAX {
            return Err(LineProblem::OverTheLimits);
        }
        if self
            .tally
            .last_key
            .as_ref()
            .is_some_and(|last| *last >= key)
        {
            return Err(LineProblem::OutOfOrder);
        }
        self.tally.entry(key.clone(), line);
        let value = Bytes::from(value);
        self.last_value = Some(value.clone());
        Ok(Line::Entry(key, value))
    }

    fn summary(&self, line: &[u8]) -> Result<Summary, LineProblem> {
        let said: Summary = read_json(line).map_err(|_| LineProblem::Malformed)?;
        let found = self.tally.summary();
        if said.entries != found.entries {
            let (said, found) = (said.entries, found.entries);
            return Err(LineProblem::Count { said, found });
        }
        if said.sha256 != found.sha256 {
            return Err(LineProblem::Checksum);
        }
        is_as_written(line, &said)?;
        Ok(said)
    }
}

fn header(line: &[u8]) -> Result<Header, LineProblem> {
    /// Part of the header that every format version has.
    #[derive(serde::Deserialize)]
    struct Format {
        format: String,
        version: u32,
    }

    let format: Format = read_json(line).map_err(|_| LineProblem::NotADump)?;
    if format.format != FORMAT {
        return Err(LineProblem::NotADump);
    }
    if format.version != FORMAT_VERSION {
        let found = format.version;
        return Err(LineProblem::UnknownFormat { found });
    }
    let header: Header = read_json(line).map_err(|_| LineProblem::Malformed)?;
    is_as_written(line, &header)?;
    Ok(header)
}

fn is_as_written(line: &[u8], record: &impl serde::Serialize) -> Result<(), LineProblem> {
    let mut written = Vec::with_capacity(line.len());
    write_record(&mut written, record);
    (written == line)
        .then_some(())
        .ok_or(LineProblem::Malformed)
}
