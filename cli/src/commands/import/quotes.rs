//! Quotes and lines of comma-separated values. The parser accepts any quote and counts lines in its
//! own way; here, invalid quotes are found, and the first lines of rows.

use std::collections::VecDeque;
use std::io::{self, Read};

use super::lines::LineCounter;

/// Place in a row, by the rules of the parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// At the beginning of a row.
    Row,
    /// At the beginning of another field.
    Start,
    /// In text without quotes.
    Plain,
    /// Within quotes.
    Quoted,
    /// After a quote within quotes, which ends them unless another one follows.
    Closed,
}

/// Input that records its invalid quotes, and the first lines of its rows.
pub(super) struct Quotes<R> {
    input: R,
    delimiter: u8,
    place: Place,
    lines: LineCounter,
    /// Number of bytes read.
    bytes: u64,
    /// Offsets of the first bytes of rows with their lines, in ascending order.
    rows: VecDeque<(u64, u64)>,
    /// Offsets of text that directly follows a closing quote, in ascending order.
    misplaced: VecDeque<u64>,
    has_open_end: bool,
}

impl<R> Quotes<R> {
    /// Creates the input of a table after lines that have been read.
    pub(super) fn new(input: R, delimiter: u8, lines: LineCounter) -> Self {
        Self {
            input,
            delimiter,
            place: Place::Row,
            lines,
            bytes: 0,
            rows: VecDeque::new(),
            misplaced: VecDeque::new(),
            has_open_end: false,
        }
    }

    /// True once the input has ended within quotes.
    pub(super) fn has_open_end(&self) -> bool {
        self.has_open_end
    }

    /// Returns the line of the first row that ends before an offset, and forgets the row.
    pub(super) fn take_line(&mut self, end: u64) -> Option<u64> {
        let (offset, line) = *self.rows.front()?;
        if offset >= end {
            return None;
        }
        self.rows.pop_front();
        Some(line)
    }

    /// Returns true if text follows a closing quote before an offset, and forgets it.
    pub(super) fn take_misplaced(&mut self, end: u64) -> bool {
        let count = self.misplaced.partition_point(|offset| *offset < end);
        self.misplaced.drain(..count);
        count > 0
    }

    fn advance(&mut self, byte: u8) {
        let is_end = matches!(byte, b'\r' | b'\n');
        if self.place == Place::Row && !is_end {
            self.rows.push_back((self.bytes, self.lines.number()));
        }
        self.place = match (self.place, byte) {
            (Place::Row | Place::Start | Place::Closed, b'"') => Place::Quoted,
            (Place::Quoted, b'"') => Place::Closed,
            (Place::Quoted, _) => Place::Quoted,
            _ if is_end => Place::Row,
            (_, byte) if byte == self.delimiter => Place::Start,
            (Place::Closed, _) => {
                self.misplaced.push_back(self.bytes);
                Place::Plain
            }
            (Place::Row | Place::Start | Place::Plain, _) => Place::Plain,
        };
        self.lines.advance(byte);
        self.bytes += 1;
    }
}

impl<R: Read> Read for Quotes<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        for byte in &buffer[..read] {
            self.advance(*byte);
        }
        self.has_open_end = read == 0 && self.place == Place::Quoted;
        Ok(read)
    }
}
