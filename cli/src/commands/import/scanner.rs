//! Values of a JSON text, found by their quotes and brackets, valid or not.
//!
//! A parser ends at the first mistake. Here, a value that is none costs only itself: the values
//! after it are found again.

use std::io::{self, BufRead};

use super::lines::LineCounter;

/// Number of open brackets that a value remembers; deeper ones are only counted.
const BRACKETS_MAX: usize = 256;

/// One value as it is written.
#[derive(Debug, Default)]
pub(super) struct Raw {
    pub(super) text: Vec<u8>,
    /// True if the value is longer than the caller wanted to keep.
    pub(super) is_too_long: bool,
    /// True if the input ends within the value.
    pub(super) is_cut: bool,
}

/// Reader of values.
pub(super) struct Scanner<R> {
    input: R,
    lines: LineCounter,
    bytes: u64,
}

/// Brackets that are open.
#[derive(Default)]
struct Open {
    kinds: Vec<u8>,
    deeper: u64,
}

impl Open {
    fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    fn push(&mut self, bracket: u8) {
        if self.kinds.len() < BRACKETS_MAX {
            self.kinds.push(bracket);
        } else {
            self.deeper += 1;
        }
    }

    /// Closes the last bracket of a kind, with those that were left open within it.
    fn close(&mut self, bracket: u8) {
        if self.deeper > 0 {
            self.deeper -= 1;
            return;
        }
        let opening = if bracket == b'}' { b'{' } else { b'[' };
        let last = self.kinds.iter().rposition(|kind| *kind == opening);
        self.kinds.truncate(last.unwrap_or(0));
    }
}

impl<R: BufRead> Scanner<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input,
            lines: LineCounter::default(),
            bytes: 0,
        }
    }

    /// Returns the number of the line of the next byte, as an editor counts.
    pub(super) fn line(&self) -> u64 {
        self.lines.number()
    }

    /// Returns the number of bytes read.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the next byte without reading it; `None` at the end.
    fn peek(&mut self) -> io::Result<Option<u8>> {
        loop {
            match self.input.fill_buf() {
                Ok(available) => return Ok(available.first().copied()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads the byte that was peeked.
    pub(super) fn skip(&mut self, byte: u8) {
        self.input.consume(1);
        self.bytes += 1;
        self.lines.advance(byte);
    }

    /// Skips white space, and returns the next byte without reading it; `None` at the end.
    pub(super) fn next_byte(&mut self) -> io::Result<Option<u8>> {
        loop {
            match self.peek()? {
                Some(byte) if byte.is_ascii_whitespace() => self.skip(byte),
                next => return Ok(next),
            }
        }
    }

    /// Reads a value, of which `kept_max` bytes are kept.
    ///
    /// A value without quotes and brackets ends at a comma, a bracket or white space. A string ends
    /// with its line, which no valid one does, so that a missing quote costs one line.
    ///
    /// # Errors
    /// Those of the input.
    pub(super) fn value(&mut self, kept_max: usize) -> io::Result<Raw> {
        let mut raw = Raw::default();
        let (mut open, mut is_string, mut is_escaped) = (Open::default(), false, false);
        loop {
            let Some(byte) = self.peek()? else {
                raw.is_cut = is_string || !open.is_empty();
                return Ok(raw);
            };
            let is_between = !is_string && open.is_empty();
            if is_between && (b",:]}".contains(&byte) || byte.is_ascii_whitespace()) {
                return Ok(raw);
            }
            self.skip(byte);
            if raw.text.len() < kept_max {
                raw.text.push(byte);
            } else {
                raw.is_too_long = true;
            }
            let ends = if is_string {
                let ends = !is_escaped && (byte == b'"' || byte == b'\n');
                is_escaped = byte == b'\\' && !is_escaped;
                is_string = !ends;
                ends
            } else {
                match byte {
                    b'"' => (is_string, is_escaped) = (true, false),
                    b'{' | b'[' => open.push(byte),
                    b'}' | b']' => open.close(byte),
                    _ => {}
                }
                byte == b'}' || byte == b']'
            };
            if ends && open.is_empty() {
                return Ok(raw);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<String> {
        let mut scanner = Scanner::new(text.as_bytes());
        let mut values = Vec::new();
        while let Some(byte) = scanner.next_byte().unwrap() {
            if byte == b',' {
                scanner.skip(byte);
                continue;
            }
            let raw = scanner.value(usize::MAX).unwrap();
            let mut shown = String::from_utf8(raw.text).unwrap();
            if raw.is_cut {
                shown.push('…');
            }
            if shown.is_empty() {
                break;
            }
            values.push(shown);
        }
        values
    }

    #[test]
    fn values_end_where_their_brackets_and_quotes_do() {
        for (text, expected) in [
            (
                r#"{"a": [1, "]"]}, 7, "x,y""#,
                vec![r#"{"a": [1, "]"]}"#, "7", r#""x,y""#],
            ),
            (
                r#"{"a": NaN} {"b": "\"}"}"#,
                vec![r#"{"a": NaN}"#, r#"{"b": "\"}"}"#],
            ),
            (r#"{"a": "\\"} 1"#, vec![r#"{"a": "\\"}"#, "1"]),
            // Brackets that do not match.
            (r#"{"a": [1} {"b": 2}"#, vec![r#"{"a": [1}"#, r#"{"b": 2}"#]),
            // A missing quote.
            (
                "{\"a\": \"x}\n}, {\"b\": 2}",
                vec!["{\"a\": \"x}\n}", r#"{"b": 2}"#],
            ),
            (r#"{"a": "x"#, vec![r#"{"a": "x…"#]),
        ] {
            assert_eq!(values(text), expected, "{text}");
        }
    }

    #[test]
    fn deep_brackets_take_no_memory_and_long_values_are_cut() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let mut scanner = Scanner::new(deep.as_bytes());
        let raw = scanner.value(10).unwrap();
        assert_eq!(
            (raw.text.len(), raw.is_too_long, raw.is_cut),
            (10, true, false)
        );
        assert_eq!(scanner.bytes(), 200_000);
    }
}
