//! JSON documents with entries: lists, envelopes with lists, or single entries.

use std::cell::Cell;
use std::fmt;
use std::io::{self, BufRead, Read};

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::entry::{Entry, Sink, Unreadable};
use super::export::Export;
use super::item::{Item, Object};
use super::record::Rules;

/// Maximum size in bytes of an entry.
const ENTRY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Position in the input.
#[derive(Debug)]
pub(super) struct Position {
    line: Cell<u64>,
    bytes: Cell<u64>,
    /// Number of bytes that the current part may still have.
    left: Cell<usize>,
}

/// Reader that records its position, and limits the size of its parts.
pub(super) struct PositionReader<'p, R> {
    input: R,
    at: &'p Position,
}

impl Position {
    pub(super) fn new() -> Self {
        Self {
            line: Cell::new(1),
            bytes: Cell::new(0),
            left: Cell::new(ENTRY_BYTES_MAX),
        }
    }

    /// Returns the number of bytes read.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    /// Begins an entry.
    pub(super) fn begin(&self) {
        self.left.set(ENTRY_BYTES_MAX);
    }

    fn advance(&self, read: &[u8]) {
        let lines = read.iter().filter(|byte| **byte == b'\n').count();
        self.line.set(self.line.get() + lines as u64);
        self.bytes.set(self.bytes.get() + read.len() as u64);
        self.left.set(self.left.get().saturating_sub(read.len()));
    }
}

impl<'p, R: BufRead> PositionReader<'p, R> {
    pub(super) fn new(input: R, at: &'p Position) -> Self {
        Self { input, at }
    }

    /// Skips white space; returns true if anything follows.
    fn has_more(&mut self) -> io::Result<bool> {
        loop {
            let available = match self.input.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                available => available?,
            };
            let blank = available.len() - available.trim_ascii_start().len();
            let is_end = available.is_empty();
            let has_more = blank < available.len();
            self.at.advance(&available[..blank]);
            self.input.consume(blank);
            if is_end || has_more {
                return Ok(has_more);
            }
        }
    }
}

impl<R: BufRead> Read for PositionReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at.left.get() == 0 {
            let message = format!("an entry is longer than {ENTRY_BYTES_MAX} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        let read = self.input.read(buffer)?;
        self.at.advance(&buffer[..read]);
        Ok(read)
    }
}

/// Reads all documents of an input.
pub(super) fn read(
    input: impl BufRead,
    export: &'static Export,
    rules: &Rules,
    sink: Sink<'_>,
) -> Result<(), Unreadable> {
    let at = Position::new();
    let mut input = PositionReader::new(input, &at);
    let mut document = Document {
        export,
        rules,
        sink,
        at: &at,
        has_stopped: false,
    };
    loop {
        let more = input.has_more();
        if !more.map_err(|error| Unreadable::at(at.line.get(), error))? {
            return Ok(());
        }
        at.begin();
        // It reads no byte beyond the end of a list or an object.
        let mut json = serde_json::Deserializer::from_reader(&mut input);
        let read = json.deserialize_any(DocumentVisitor(&mut document));
        let line = at.line.get();
        match read {
            Ok(()) => {}
            Err(_) if document.has_stopped => return Ok(()),
            Err(error) if error.is_syntax() || error.is_eof() => {
                return Err(Unreadable(format!(
                    "line {line} is invalid JSON, and nothing after it can be read"
                )));
            }
            Err(error) => return Err(Unreadable::at(line, error)),
        }
    }
}

/// State of reading.
struct Document<'d> {
    export: &'static Export,
    rules: &'d Rules,
    sink: Sink<'d>,
    at: &'d Position,
    /// True once the sink needs no more entries.
    has_stopped: bool,
}

impl Document<'_> {
    fn add<E: serde::de::Error>(&mut self, line: u64, entry: &Item) -> Result<(), E> {
        let entry = Entry {
            line,
            bytes: self.at.bytes(),
            record: self.export.record(entry, self.rules),
        };
        if (self.sink)(entry).is_break() {
            self.has_stopped = true;
            return Err(E::custom("no more entries are needed"));
        }
        Ok(())
    }

    fn add_list<'de, A: SeqAccess<'de>>(
        &mut self,
        name: &str,
        mut list: A,
    ) -> Result<(), A::Error> {
        while let Some((line, entry)) = list.next_element_seed(Element(self.at))? {
            if !self.export.is_reference(name, &entry) {
                self.add(line, &entry)?;
            }
        }
        Ok(())
    }
}

/// One element of a list, with the number of its first line.
struct Element<'p>(&'p Position);

impl<'de> DeserializeSeed<'de> for Element<'_> {
    type Value = (u64, Item);

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(u64, Item), D::Error> {
        self.0.begin();
        let line = self.0.line.get();
        Ok((line, Item::deserialize(json)?))
    }
}

/// Visitor of one document.
struct DocumentVisitor<'w, 'd>(&'w mut Document<'d>);

impl<'de> Visitor<'de> for DocumentVisitor<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list or an object")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<(), A::Error> {
        self.0.add_list("", list)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        let document = self.0;
        let at = document.at;
        let line = at.line.get();
        let (mut entry, mut has_lists) = (Object::default(), false);
        loop {
            at.begin();
            let Some(name) = object.next_key::<String>()? else {
                break;
            };
            if document.export.is_list(&name) {
                has_lists = true;
                object.next_value_seed(List(document, &name))?;
            } else if document.export.reads(&name) {
                entry.add(name, object.next_value()?);
            } else {
                // It takes no memory, so that it may have any size.
                at.left.set(usize::MAX);
                object.next_value::<IgnoredAny>()?;
            }
        }
        if has_lists && !document.export.is_entry(&entry.fields) {
            return Ok(());
        }
        document.add(line, &Item::Object(entry))
    }
}

/// A field of an envelope: entries if it is a list.
struct List<'l, 'd>(&'l mut Document<'d>, &'l str);

impl<'de> DeserializeSeed<'de> for List<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for List<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of entries in {}", self.1)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<(), A::Error> {
        self.0.add_list(self.1, list)
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}
