//! Opening of an input: archives, compression and encodings.

use std::fs::File;
use std::io::{self, Cursor, Read, Seek};
use std::path::{Path, PathBuf};

use encoding_rs::{Encoding, UTF_16BE, UTF_16LE};
use encoding_rs_io::DecodeReaderBytesBuilder;
use flate2::read::MultiGzDecoder;
use zip::ZipArchive;

use crate::commands::failure::Failure;

/// Bytes at the beginning of an input that tell what it is.
const BEGINNING_BYTES: usize = 512;
/// Files that are none of the formats, by their first bytes.
const OTHER_FILES: [(&[u8], &str); 9] = [
    (b"\xFD7zXZ\0", "compressed by xz; unpack it first"),
    (b"BZh", "compressed by bzip2; unpack it first"),
    (
        b"\x28\xB5\x2F\xFD",
        "compressed by Zstandard; unpack it first",
    ),
    (b"7z\xBC\xAF\x27\x1C", "a 7z archive; unpack it first"),
    (b"Rar!", "a RAR archive; unpack it first"),
    (
        b"SQLite format 3\0",
        "an SQLite database; export its table as CSV or JSON",
    ),
    (b"%PDF", "a PDF document; convert it to text, CSV or JSON"),
    (
        b"\xD0\xCF\x11\xE0",
        "a spreadsheet or document of Microsoft Office; save it as CSV",
    ),
    (b"PAR1", "a Parquet file; convert it to CSV or JSON lines"),
];

/// A file to import, or standard input.
pub(super) struct Input {
    /// `None` for standard input.
    path: Option<PathBuf>,
    encoding: Option<&'static Encoding>,
    /// Name of the file with the memories in an archive of the format.
    member: Option<&'static str>,
}

/// Parses the label of an encoding, as HTML has it.
///
/// # Errors
/// A message about an unknown label.
pub(super) fn encoding(label: &str) -> Result<&'static Encoding, &'static str> {
    Encoding::for_label(label.as_bytes())
        .ok_or("must be the name of an encoding, for example utf-8, utf-16 or windows-1252")
}

impl Input {
    pub(super) fn new(
        path: &Path,
        encoding: Option<&'static Encoding>,
        member: Option<&'static str>,
    ) -> Self {
        Self {
            path: (path.as_os_str() != "-").then(|| path.to_owned()),
            encoding,
            member,
        }
    }

    /// Opens the input: as UTF-8, unless an encoding was chosen that is another one. The length in
    /// bytes is that of the text, if it is known.
    ///
    /// # Errors
    /// The message about an input that cannot be read, or is no text.
    pub(super) fn open(&self) -> Result<(Box<dyn Read + Send>, Option<u64>), Failure> {
        let Some(path) = &self.path else {
            return Ok((self.unpack(Box::new(io::stdin()), "standard input")?, None));
        };
        let name = path.display().to_string();
        let refused = |error| Failure::new(format!("cannot read {name}: {error}"));
        let mut file = File::open(path).map_err(refused)?;
        let metadata = file.metadata().map_err(refused)?;
        if metadata.is_dir() {
            return Err(Failure::new(format!("{name} is a directory")));
        }
        if !metadata.is_file() {
            return Ok((self.unpack(Box::new(file), &name)?, None));
        }
        let beginning = beginning_of(&mut file).map_err(refused)?;
        file.rewind().map_err(refused)?;
        if beginning.starts_with(b"PK\x03\x04") {
            let file = self.member_of(file, &name)?;
            return Ok((self.unpack(file, &name)?, None));
        }
        // What is packed has another length.
        let length = (!beginning.starts_with(b"\x1F\x8B")).then_some(metadata.len());
        Ok((self.unpack(Box::new(file), &name)?, length))
    }

    /// True if the input can be read more than once.
    pub(super) fn is_repeatable(&self) -> bool {
        let path = self.path.as_ref();
        path.is_some_and(|path| path.metadata().is_ok_and(|metadata| metadata.is_file()))
    }

    /// Opens the file with the memories in an archive.
    fn member_of(&self, file: File, name: &str) -> Result<Box<dyn Read + Send>, Failure> {
        let refused = |error| Failure::new(format!("cannot read the archive {name}: {error}"));
        let mut archive = ZipArchive::new(file).map_err(refused)?;
        let files = archive.file_names();
        let files: Result<Vec<_>, _> = files.collect();
        let files = files
            .map_err(refused)?
            .into_iter()
            .map(|file| file.into_owned());
        let files = files.filter(|file| !file.ends_with('/') && !file.starts_with("__MACOSX/"));
        let files: Vec<String> = files.collect();
        let is_office = |file: &String| {
            ["xl/workbook.xml", "word/document.xml", "content.xml"].contains(&file.as_str())
        };
        if files.iter().any(is_office) {
            return Err(Failure::new(format!(
                "{name} is a spreadsheet or document of an office program; save it as CSV in UTF-8"
            )));
        }
        let is_wanted = |file: &&String| {
            let last = file.rsplit('/').next();
            self.member.is_some() && last == self.member
        };
        let chosen = match files.as_slice() {
            [only] => Some(only),
            many => many.iter().find(is_wanted),
        };
        let Some(chosen) = chosen else {
            let files = files.join(", ");
            return Err(Failure::new(format!(
                "{name} is an archive of several files: {files}; unpack it and import one of them, \
                 or choose the --format of the tool that wrote it"
            )));
        };
        let refused = |error| Failure::new(format!("cannot unpack {chosen} from {name}: {error}"));
        let mut packed = archive
            .by_name(chosen)
            .map_err(|error| refused(error.into()))?;
        let mut unpacked = tempfile::tempfile().map_err(refused)?;
        io::copy(&mut packed, &mut unpacked).map_err(refused)?;
        unpacked.rewind().map_err(refused)?;
        Ok(Box::new(unpacked))
    }

    /// Unpacks and decodes an input.
    fn unpack(
        &self,
        mut input: Box<dyn Read + Send>,
        name: &str,
    ) -> Result<Box<dyn Read + Send>, Failure> {
        let refused = |error| Failure::new(format!("cannot read {name}: {error}"));
        let mut beginning = beginning_of(&mut input).map_err(refused)?;
        let mut input: Box<dyn Read + Send> = Box::new(Cursor::new(beginning.clone()).chain(input));
        if beginning.starts_with(b"\x1F\x8B") {
            input = Box::new(MultiGzDecoder::new(input));
            beginning = beginning_of(&mut input).map_err(refused)?;
            input = Box::new(Cursor::new(beginning.clone()).chain(input));
        }
        let is_archive = beginning.starts_with(b"PK\x03\x04");
        let other = OTHER_FILES.iter();
        let mut other = other.filter(|(bytes, _)| beginning.starts_with(bytes));
        let what = match other.next() {
            Some((_, what)) => Some(*what),
            None if is_archive => Some("a ZIP archive; save it to a file"),
            None if beginning.get(257..262) == Some(b"ustar") => {
                Some("a tar archive; unpack it first")
            }
            None => None,
        };
        if let Some(what) = what {
            return Err(Failure::new(format!("{name} is {what}")));
        }
        let encoding = self.encoding.or_else(|| utf16_of(&beginning));
        let decoded = DecodeReaderBytesBuilder::new()
            .encoding(encoding)
            .utf8_passthru(true)
            .strip_bom(true)
            .bom_sniffing(true)
            .build(input);
        Ok(Box::new(decoded))
    }
}

fn beginning_of(input: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut beginning = Vec::new();
    let mut first = input.by_ref().take(BEGINNING_BYTES as u64);
    first.read_to_end(&mut beginning)?;
    Ok(beginning)
}

/// Returns the encoding of a text in UTF-16 without a byte order mark: every second byte of its
/// first characters is zero.
fn utf16_of(beginning: &[u8]) -> Option<&'static Encoding> {
    let zeros = |first: usize| {
        let bytes = beginning.iter().skip(first).step_by(2).take(4);
        bytes.clone().count() == 4 && bytes.clone().all(|byte| *byte == 0)
    };
    match (zeros(0), zeros(1)) {
        (false, true) => Some(UTF_16LE),
        (true, false) => Some(UTF_16BE),
        _ => None,
    }
}
