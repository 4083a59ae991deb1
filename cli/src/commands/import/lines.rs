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

/// Reader that counts lines.
pub(super) struct Lines<R> {
    input: R,
    line: Vec<u8>,
    number: u64,
    bytes: u64,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input,
            line: Vec::new(),
            number: 0,
            bytes: 0,
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
            read_any = true;
            let end = available.iter().position(|byte| *byte == b'\n');
            let part = &available[..end.unwrap_or(available.len())];
            if self.line.len() + part.len() > LINE_BYTES_MAX {
                is_too_long = true; // The rest is skipped.
            } else if !is_too_long {
                self.line.extend_from_slice(part);
            }
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
            // Some editors start a file with a byte order mark.
            content = content.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(content);
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
        let mut lines = Lines::new("\u{FEFF}one\r\n\n  \ntwo".as_bytes());
        assert_eq!(lines.next().unwrap(), Some(Line::Complete(b"one")));
        assert_eq!(lines.next().unwrap(), Some(Line::Blank));
        assert_eq!(lines.next().unwrap(), Some(Line::Blank));
        assert_eq!(lines.next().unwrap(), Some(Line::Complete(b"two")));
        assert_eq!((lines.number(), lines.bytes()), (4, 15));
        assert_eq!(lines.next().unwrap(), None);
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
