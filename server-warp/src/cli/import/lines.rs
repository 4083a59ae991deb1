//! Lines of a stream, of which one is in memory at a time, and none without end.

use std::io::{self, BufRead};

/// The longest line in bytes: a memory of the largest size, every character of it escaped.
const LINE_BYTES_MAX: usize = 256 * 1024;

/// Why a line was not taken.
pub(super) fn too_long() -> String {
    format!("has more than {LINE_BYTES_MAX} bytes")
}

/// One line, without its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'l> {
    /// White space alone.
    Blank,
    /// More than [`LINE_BYTES_MAX`].
    TooLong,
    /// Everything else.
    Whole(&'l [u8]),
}

/// Reads lines and counts them.
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

    /// The number of the line that was read last, from 1 on.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// How many bytes were read.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The next line; `None` at the end.
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
                is_too_long = true; // Its rest is read and thrown away.
            } else if !is_too_long {
                self.line.extend_from_slice(part);
            }
            let taken = part.len() + usize::from(end.is_some());
            self.input.consume(taken);
            self.bytes += taken as u64;
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
            content => Line::Whole(content),
        }))
    }

    fn content(&self) -> &[u8] {
        let mut content = self.line.as_slice();
        if self.number == 1 {
            // Some editors begin a file with a byte order mark.
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
    fn lines_are_counted_with_the_blank_ones() {
        let mut lines = Lines::new("\u{FEFF}one\r\n\n  \ntwo".as_bytes());
        assert_eq!(lines.next().unwrap(), Some(Line::Whole(b"one")));
        assert_eq!(lines.next().unwrap(), Some(Line::Blank));
        assert_eq!(lines.next().unwrap(), Some(Line::Blank));
        assert_eq!(lines.next().unwrap(), Some(Line::Whole(b"two")));
        assert_eq!((lines.number(), lines.bytes()), (4, 15));
        assert_eq!(lines.next().unwrap(), None);
    }

    #[test]
    fn a_line_without_end_is_not_held() {
        let long = "x".repeat(3 * LINE_BYTES_MAX);
        let text = format!("{long}\nnext\n{}", "y".repeat(LINE_BYTES_MAX));
        let mut lines = Lines::new(BufReader::with_capacity(1_000, text.as_bytes()));
        assert_eq!(lines.next().unwrap(), Some(Line::TooLong));
        assert!(lines.line.capacity() <= 2 * LINE_BYTES_MAX);
        assert_eq!(lines.next().unwrap(), Some(Line::Whole(b"next")));
        assert!(
            matches!(lines.next().unwrap(), Some(Line::Whole(line)) if line.len() == LINE_BYTES_MAX)
        );
    }
}
