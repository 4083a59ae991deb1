//! Quotes of comma-separated values. The parser accepts any; here, invalid ones are found.

use std::collections::VecDeque;
use std::io::{self, Read};

use super::lines::BYTE_ORDER_MARK;

/// Place in a row, by the rules of the parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// At the beginning of a field.
    Start,
    /// In text without quotes.
    Plain,
    /// Within quotes.
    Quoted,
    /// After a quote within quotes, which ends them unless another one follows.
    Closed,
}

/// Input that records its invalid quotes.
pub(super) struct Quotes<R> {
    input: R,
    place: Place,
    /// Number of bytes read.
    bytes: u64,
    /// Offsets of text that directly follows a closing quote, in ascending order.
    misplaced: VecDeque<u64>,
    has_open_end: bool,
}

impl<R> Quotes<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input,
            place: Place::Start,
            bytes: 0,
            misplaced: VecDeque::new(),
            has_open_end: false,
        }
    }

    /// True once the input has ended within quotes.
    pub(super) fn has_open_end(&self) -> bool {
        self.has_open_end
    }

    /// Returns true if text follows a closing quote before an offset, and forgets it.
    pub(super) fn take_misplaced(&mut self, end: u64) -> bool {
        let count = self.misplaced.partition_point(|offset| *offset < end);
        self.misplaced.drain(..count);
        count > 0
    }

    fn advance(&mut self, byte: u8) {
        let offset = usize::try_from(self.bytes).unwrap_or(usize::MAX);
        self.place = match (self.place, byte) {
            (Place::Start | Place::Closed, b'"') => Place::Quoted,
            (Place::Quoted, b'"') => Place::Closed,
            (Place::Quoted, _) => Place::Quoted,
            (_, b',' | b'\r' | b'\n') => Place::Start,
            (Place::Start, _) if BYTE_ORDER_MARK.get(offset) == Some(&byte) => Place::Start,
            (Place::Closed, _) => {
                self.misplaced.push_back(self.bytes);
                Place::Plain
            }
            (Place::Start | Place::Plain, _) => Place::Plain,
        };
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
