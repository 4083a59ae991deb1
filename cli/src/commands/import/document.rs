//! JSON documents with entries: lists, envelopes with lists, or single entries.

use std::io::BufRead;
use std::ops::ControlFlow;

use serde_json::{Map, Value};

use super::entry::{Entry, Sink, Unreadable};
use super::export::Export;
use super::item::{Item, Object};
use super::problem::Problem;
use super::record::{Record, Rules};
use super::scanner::{Raw, Scanner};

/// Maximum size in bytes of an entry.
const ENTRY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Maximum size in bytes of the name of a field.
const NAME_BYTES_MAX: usize = 64 * 1024;
/// Maximum size in bytes of a table beside the entries.
const TABLE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Reads all documents of an input.
pub(super) fn read(
    input: impl BufRead,
    export: &'static Export,
    rules: &Rules,
    sink: Sink<'_>,
) -> Result<(), Unreadable> {
    let mut document = Document {
        scanner: Scanner::new(input),
        export,
        rules,
        sink,
    };
    match document.all() {
        Err(Ended::Unreadable(reason)) => Err(reason),
        Err(Ended::Stopped) | Ok(()) => Ok(()),
    }
}

/// Reads the fields with these names of the objects of an input, and nothing else.
///
/// # Errors
/// The message about an input that is no JSON.
pub(super) fn tables(
    input: impl BufRead,
    names: &[&str],
) -> Result<Map<String, Value>, Unreadable> {
    let mut scanner = Scanner::new(input);
    let mut tables = Map::new();
    let mut depth = 0_u32;
    loop {
        let line = scanner.line();
        let at = |error| Unreadable::at(line, error);
        match scanner.next_byte().map_err(at)? {
            None => return Ok(tables),
            Some(byte @ b'{') if depth == 0 => {
                depth = 1;
                scanner.skip(byte);
            }
            Some(byte @ (b',' | b':')) => scanner.skip(byte),
            Some(byte @ (b'}' | b']')) => {
                depth = 0;
                scanner.skip(byte);
            }
            Some(_) => {
                let name = scanner.value(NAME_BYTES_MAX).map_err(at)?;
                let name = serde_json::from_slice::<String>(&name.text);
                if depth == 0 || scanner.next_byte().map_err(at)? != Some(b':') {
                    continue;
                }
                scanner.skip(b':');
                scanner.next_byte().map_err(at)?;
                let wanted = name.ok().filter(|name| names.contains(&name.as_str()));
                let kept_max = if wanted.is_some() { TABLE_BYTES_MAX } else { 0 };
                let raw = scanner.value(kept_max).map_err(at)?;
                if let Some(name) = wanted {
                    let table = serde_json::from_slice(&raw.text);
                    let table = table.map_err(|_| {
                        Unreadable(format!("the table {name} in line {line} is invalid JSON"))
                    })?;
                    tables.insert(name, table);
                }
            }
        }
    }
}

/// State of reading.
struct Document<'d, R> {
    scanner: Scanner<R>,
    export: &'static Export,
    rules: &'d Rules,
    sink: Sink<'d>,
}

/// Reason for which reading ends before the input does.
enum Ended {
    Unreadable(Unreadable),
    /// No more entries are needed.
    Stopped,
}

impl<R: BufRead> Document<'_, R> {
    fn all(&mut self) -> Result<(), Ended> {
        loop {
            match self.next()? {
                None => return Ok(()),
                Some(b'[') => self.list("")?,
                Some(b'{') => self.object()?,
                Some(b',' | b':' | b']' | b'}') => return Err(self.invalid()),
                Some(_) => self.entry()?,
            }
        }
    }

    /// Returns the next byte that is no white space.
    fn next(&mut self) -> Result<Option<u8>, Ended> {
        let next = self.scanner.next_byte();
        next.map_err(|error| self.unreadable(error))
    }

    fn value(&mut self, kept_max: usize) -> Result<Raw, Ended> {
        let value = self.scanner.value(kept_max);
        value.map_err(|error| self.unreadable(error))
    }

    fn unreadable(&self, error: std::io::Error) -> Ended {
        Ended::Unreadable(Unreadable::at(self.scanner.line(), error))
    }

    fn invalid(&self) -> Ended {
        let line = self.scanner.line();
        Ended::Unreadable(Unreadable(format!(
            "line {line} is invalid JSON, and nothing after it can be read"
        )))
    }

    fn cut(&self) -> Ended {
        let line = self.scanner.line();
        Ended::Unreadable(Unreadable(format!(
            "the input ends in line {line}, before its end in JSON"
        )))
    }

    /// Reads a list of entries. Commas that are missing or too many cost no entry.
    fn list(&mut self, name: &str) -> Result<(), Ended> {
        self.scanner.skip(b'[');
        loop {
            match self.next()? {
                None => return Err(self.cut()),
                Some(b']') => {
                    self.scanner.skip(b']');
                    return Ok(());
                }
                Some(b',') => self.scanner.skip(b','),
                Some(b'"') if self.export.has_references(name) => {
                    self.value(0)?;
                }
                Some(_) => self.entry()?,
            }
        }
    }

    /// Reads one entry.
    fn entry(&mut self) -> Result<(), Ended> {
        let line = self.scanner.line();
        let raw = self.value(ENTRY_BYTES_MAX)?;
        let is_cut = raw.is_cut;
        if raw.text.is_empty() {
            // A bracket or a comma in place of a value.
            return Err(self.invalid());
        }
        self.add(line, parsed(&raw))?;
        if is_cut { Err(self.cut()) } else { Ok(()) }
    }

    fn add(&mut self, line: u64, item: Result<Item, Problem>) -> Result<(), Ended> {
        let records = match item {
            Ok(item) => self.export.records(item, self.rules),
            Err(problem) => vec![Err(problem)],
        };
        self.send(line, records)
    }

    fn send(&mut self, line: u64, records: Vec<Result<Record, Problem>>) -> Result<(), Ended> {
        for record in records {
            let entry = Entry {
                line,
                bytes: self.scanner.bytes(),
                record,
            };
            if let ControlFlow::Break(()) = (self.sink)(entry) {
                return Err(Ended::Stopped);
            }
        }
        Ok(())
    }

    /// Reads an object, which is an entry or an envelope with lists of entries.
    fn object(&mut self) -> Result<(), Ended> {
        let line = self.scanner.line();
        self.scanner.skip(b'{');
        let (mut entry, mut has_lists) = (Ok(Object::default()), false);
        loop {
            match self.next()? {
                None => return Err(self.cut()),
                Some(b'}') => {
                    self.scanner.skip(b'}');
                    break;
                }
                Some(b',') => {
                    self.scanner.skip(b',');
                    continue;
                }
                Some(b'"') => {}
                Some(_) => return Err(self.invalid()),
            }
            let name = self.value(NAME_BYTES_MAX)?;
            let name = serde_json::from_slice::<String>(&name.text);
            let name = name.map_err(|_| self.invalid())?;
            if self.next()? != Some(b':') {
                return Err(self.invalid());
            }
            self.scanner.skip(b':');
            match self.next()? {
                Some(b'[') if self.export.is_list(&name) => {
                    has_lists = true;
                    self.list(&name)?;
                    continue;
                }
                // No list.
                Some(b'n') if self.export.is_list(&name) => has_lists = true,
                _ => {}
            }
            // A field that is not read may have any size.
            let is_read = self.export.reads(&name);
            let raw = self.value(if is_read { ENTRY_BYTES_MAX } else { 0 })?;
            if raw.is_cut {
                return Err(self.cut());
            }
            if let (true, Ok(fields)) = (is_read, &mut entry) {
                match parsed::<Value>(&raw) {
                    Ok(value) => fields.add(name, value),
                    Err(problem) => entry = Err(problem),
                }
            }
        }
        let is_envelope = |entry: &Object| has_lists && !self.export.is_entry(&entry.fields);
        if entry.as_ref().is_ok_and(is_envelope) {
            return Ok(());
        }
        self.add(line, entry.map(Item::Object))
    }
}

fn parsed<T: serde::de::DeserializeOwned>(raw: &Raw) -> Result<T, Problem> {
    if raw.is_cut {
        return Err(Problem::new("is cut off: the input ends within it"));
    }
    if raw.is_too_long {
        return Err(Problem::new(format!(
            "is longer than {ENTRY_BYTES_MAX} bytes"
        )));
    }
    serde_json::from_slice(&raw.text).map_err(|error| Problem::of_entry(&error))
}
