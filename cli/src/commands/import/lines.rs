//! Lines of a stream, one in memory at a time and of limited length.

use std::io::{self, BufRead};

/// Byte order mark, with which some editors start a file.
pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
/// Maximum length of a line in bytes: the largest memory with every character escaped.
pub(super) const LINE_BYTES_MAX: usize = 256 * 1024;

/// Returns the message for a line that is too long.
pub(super) fn too_long() -> String {
    format!("is longer than {LINE_BYTES_MAX} bytes")
}

/// Number of the line at a place in a text, as editors count: a line ends with LF, CR LF or CR.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LineCounter {
    ended: u64,
    is_after_cr: bool,
}

impl LineCounter {
    pub(super) fn advance(&mut self, byte: u8) {
        let is_second = byte == b'\n' && self.is_after_cr;
        if (byte == b'\n' && !is_second) || byte == b'\r' {
            self.ended += 1;
        }
        self.is_after_cr = byte == b'\r';
    }

    /// Returns the number of the line of the next byte, starting at 1.
    pub(super) fn number(self) -> u64 {
        self.ended + 1
    }
}

/// One line, without its terminator.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'l> {
    /// Only white space.
    Blank,
    /// More than [`LINE_BYTES_MAX`].
    TooLong,
    /// Any other line.
    Complete(&'l [u8]),
}

/// Reader that counts lines, which end with LF, CR LF or CR.
pub(super) struct Lines<R> {
    input: R,
    line: Vec<u8>,
    number: u64,
    bytes: u64,
    /// True if the last line ended with CR, whose LF belongs to it.
    is_after_cr: bool,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input,
            line: Vec::new(),
            number: 0,
            bytes: 0,
            is_after_cr: false,
        }
    }

    /// Returns the number of the last line read, starting at 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the number of bytes read.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the next line; `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.line.clear();
        let mut is_too_long = false;
        let mut read_any = false;
        loop {
            let available = match self.input.fill_buf() {
                Ok(available) => available,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if available.is_empty() {
                break;
            }
            if std::mem::take(&mut self.is_after_cr) && available[0] == b'\n' {
                self.input.consume(1);
                self.bytes += 1;
                continue;
            }
            read_any = true;
            let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
            let end = available.iter().position(is_end);
            let part = &available[..end.unwrap_or(available.len())];
            if self.line.len() + part.len() > LINE_BYTES_MAX {
                is_too_long = true; // The rest is skipped.
            } else if !is_too_long {
                self.line.extend_from_slice(part);
            }
            self.is_after_cr = end.is_some_and(|end| available[end] == b'\r');
            let consumed = part.len() + usize::from(end.is_some());
            self.input.consume(consumed);
            self.bytes += consumed as u64;
            if end.is_some() {
                break;
            }
        }
        if !read_any {
            return Ok(None);
        }
        self.number += 1;
        Ok(Some(match self.content() {
            _ if is_too_long => Line::TooLong,
            [] => Line::Blank,
            content => Line::Complete(content),
        }))
    }

    fn content(&self) -> &[u8] {
        let mut content = self.line.as_slice();
        if self.number == 1 {
            content = content.strip_prefix(BYTE_ORDER_MARK).unwrap_or(content);
        }
        content.trim_ascii()
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    #[test]
    fn line_numbers_include_blank_lines() {
        for end in ["\r\n", "\n", "\r"] {
            let text = format!("\u{FEFF}one{end}{end}  {end}two");
            let mut lines = Lines::new(BufReader::with_capacity(4, text.as_bytes()));
            assert_eq!(lines.next().unwrap(), Some(Line::Complete(b"one")));
            assert_eq!(lines.next().unwrap(), Some(Line::Blank));
            assert_eq!(lines.next().unwrap(), Some(Line::Blank));
            assert_eq!(lines.next().unwrap(), Some(Line::Complete(b"two")));
            assert_eq!((lines.number(), lines.bytes()), (4, text.len() as u64));
            assert_eq!(lines.next().unwrap(), None);
            let mut counter = LineCounter::default();
            text.bytes().for_each(|byte| counter.advance(byte));
            assert_eq!(counter.number(), 4, "{end:?}");
        }
    }

    #[test]
    fn overlong_line_is_skipped_without_buffering() {
        let long = "x".repeat(3 * LINE_BYTES_MAX);
        let text = format!("{long}\nnext\n{}", "y".repeat(LINE_BYTES_MAX));
        let mut lines = Lines::new(BufReader::with_capacity(1_000, text.as_bytes()));
        assert_eq!(lines.next().unwrap(), Some(Line::TooLong));
        assert!(lines.line.capacity() <= 2 * LINE_BYTES_MAX);
        assert_eq!(lines.next().unwrap(), Some(Line::Complete(b"next")));
        assert!(matches!(
            lines.next().unwrap(),
            Some(Line::Complete(line)) if line.len() == LINE_BYTES_MAX
        ));
    }
}
