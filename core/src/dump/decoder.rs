//! Reading a dump, line by line: what was cut off, reordered or altered is refused with the number of its line.

use bytes::Bytes;

use super::line::{Tally, read_entry, write_record};
use super::{FORMAT, FORMAT_VERSION, Header, LINE_BYTES_MAX, Summary};
use crate::store::{Key, VALUE_BYTES_MAX};

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// The first line.
    Header(Header),
    /// One entry.
    Entry(Key, Bytes),
    /// The last line, which agrees with all the others.
    Summary(Summary),
}

/// Why something is not a whole dump. What was read of it before is what was written, as far as it went.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {number} of the dump {problem}")]
pub struct DumpError {
    /// The number of the line; the first is 1.
    pub number: u64,
    /// What is wrong with it.
    pub problem: LineProblem,
}

/// What is wrong with a line of a dump.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineProblem {
    /// The text is none of ours.
    #[error("is not the first line of a dump")]
    NotADump,
    /// A later program wrote the dump.
    #[error("has the format {found}, this program knows format {FORMAT_VERSION}")]
    UnknownFormat {
        /// The number found.
        found: u32,
    },
    /// The line does not end, or there is none where one has to be.
    #[error("is cut off: the dump is not whole")]
    CutOff,
    /// The line is longer than any that is written.
    #[error("has more than {LINE_BYTES_MAX} bytes")]
    TooLong,
    /// The line is not exactly as it would be written.
    #[error("is not as dumps are written")]
    Malformed,
    /// A key or a value that no store takes.
    #[error("has a key or a value over the limits of a store")]
    OverTheLimits,
    /// The key does not sort behind the one before.
    #[error("does not stand in the order of the keys")]
    OutOfOrder,
    /// Another number of entries was written.
    #[error("says that there are {said} entries, {found} stand before it")]
    Count {
        /// The number in the line.
        said: u64,
        /// How many were read.
        found: u64,
    },
    /// Something before this line is not as it was written.
    #[error("has another checksum than the lines before it: the dump was altered or damaged")]
    Checksum,
    /// There is something behind the last line.
    #[error("stands behind the end of the dump")]
    BehindTheEnd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expects {
    Header,
    Entry,
    Nothing,
}

/// Reads a dump: give it the lines in their order, each with its line feed.
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
    /// Begins before the first line.
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

    /// Reads the next line, which has to have its line feed.
    ///
    /// # Errors
    /// [`DumpError`] tells the line and what is wrong with it. After that nothing more can be read.
    pub fn read(&mut self, line: &[u8]) -> Result<Line, DumpError> {
        self.number += 1;
        self.line(line).map_err(|problem| DumpError {
            number: self.number,
            problem,
        })
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// [`LineProblem::CutOff`] where the last line was not read yet.
    pub fn finish(&self) -> Result<Summary, DumpError> {
        match self.expects {
            Expects::Nothing => Ok(self.tally.summary()),
            Expects::Header | Expects::Entry => Err(DumpError {
                number: self.number + 1,
                problem: LineProblem::CutOff,
            }),
        }
    }

    /// The first line, once it was read.
    #[must_use]
    pub fn header(&self) -> Option<&Header> {
        self.header.as_ref()
    }

    /// How many entries were read.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.tally.entries
    }

    /// The key of the last entry that was read.
    #[must_use]
    pub fn last_key(&self) -> Option<&Key> {
        self.tally.last_key.as_ref()
    }

    /// The value of the last entry that was read.
    pub(super) fn last_value(&self) -> Option<&Bytes> {
        self.last_value.as_ref()
    }

    /// What the lines come to that were read; nothing where the dump came to its end.
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
        let said: Summary = serde_json::from_slice(line).map_err(|_| LineProblem::Malformed)?;
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
    /// What every format has in its first line.
    #[derive(serde::Deserialize)]
    struct Format {
        format: String,
        version: u32,
    }

    let format: Format = serde_json::from_slice(line).map_err(|_| LineProblem::NotADump)?;
    if format.format != FORMAT {
        return Err(LineProblem::NotADump);
    }
    if format.version != FORMAT_VERSION {
        let found = format.version;
        return Err(LineProblem::UnknownFormat { found });
    }
    let header: Header = serde_json::from_slice(line).map_err(|_| LineProblem::Malformed)?;
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
