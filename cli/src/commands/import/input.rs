//! Reading of the input in any format, one entry at a time, on a thread of its own.

use std::io::{BufRead, BufReader, Cursor, Read};
use std::ops::ControlFlow;

use clap::ValueEnum;
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use super::document;
use super::entry::{Entry, Sink, Unreadable};
use super::export::{Export, LETTA, MEM0, ZEP};
use super::item::Item;
use super::lines::{self, BYTE_ORDER_MARK, LINE_BYTES_MAX, Line, Lines};
use super::record::{Problem, Record, Rules};
use super::table;

/// Entries that are read ahead.
const ENTRIES_AHEAD: usize = 16;

/// Format of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Lines of JSON, as described above
    Jsonl,
    /// Memories of mem0: results of get_all, a list, or JSON lines
    Mem0,
    /// Facts, episodes or messages of Zep: responses of its API, a list, or JSON lines
    Zep,
    /// An agent file of Letta (.af), or archival passages: a list, or JSON lines
    Letta,
    /// Comma-separated values with a header
    Csv,
}

/// Receiver of the entries, in order.
pub(super) type Entries = mpsc::Receiver<Result<Entry, Unreadable>>;

impl Format {
    /// True if the entries of the format may say whose they are.
    pub(super) fn has_audiences(self) -> bool {
        !matches!(self, Self::Zep | Self::Letta)
    }

    /// Starts to read an input. The thread ends with the input, or once the receiver is dropped.
    pub(super) fn read(self, input: Box<dyn Read + Send>, rules: Rules) -> Entries {
        let (sender, entries) = mpsc::channel(ENTRIES_AHEAD);
        std::thread::spawn(move || {
            let mut sink = |entry| match sender.blocking_send(Ok(entry)) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            };
            let read = self.read_into(BufReader::new(input), &rules, &mut sink);
            if let Err(unreadable) = read {
                // Without a receiver nobody is waiting for it.
                let _ = sender.blocking_send(Err(unreadable));
            }
        });
        entries
    }

    pub(super) fn read_into(
        self,
        input: impl BufRead,
        rules: &Rules,
        sink: Sink<'_>,
    ) -> Result<(), Unreadable> {
        match self {
            Self::Jsonl => read_lines(input, |line| Record::parse(line, rules), sink),
            Self::Csv => table::read(input, rules, sink),
            Self::Mem0 => read_export(input, &MEM0, rules, sink),
            Self::Zep => read_export(input, &ZEP, rules, sink),
            Self::Letta => read_export(input, &LETTA, rules, sink),
        }
    }
}

/// Reads an export: JSON lines if its first line is an entry, otherwise JSON documents.
fn read_export(
    mut input: impl BufRead,
    export: &'static Export,
    rules: &Rules,
    sink: Sink<'_>,
) -> Result<(), Unreadable> {
    let mut first = Vec::new();
    let mut beginning = (&mut input).take(LINE_BYTES_MAX as u64);
    let read = beginning.read_until(b'\n', &mut first);
    read.map_err(|error| Unreadable::at(1, error))?;
    if first.starts_with(BYTE_ORDER_MARK) {
        first.drain(..BYTE_ORDER_MARK.len());
    }
    let parsed = serde_json::from_slice::<Map<String, Value>>(&first);
    let has_lines = parsed.is_ok_and(|object| export.is_entry(&object));
    let input = Cursor::new(first).chain(input);
    if !has_lines {
        return document::read(input, export, rules, sink);
    }
    let parse = |line: &[u8]| {
        let entry: Item = serde_json::from_slice(line).map_err(|error| Problem::of_json(&error))?;
        export.record(&entry, rules)
    };
    read_lines(input, parse, sink)
}

fn read_lines(
    input: impl BufRead,
    parse: impl Fn(&[u8]) -> Result<Record, Problem>,
    sink: Sink<'_>,
) -> Result<(), Unreadable> {
    let mut lines = Lines::new(input);
    loop {
        let line = lines.number() + 1;
        let read = lines.next();
        let record = match read.map_err(|error| Unreadable::at(line, error))? {
            None => return Ok(()),
            Some(Line::Blank) => continue,
            Some(Line::TooLong) => Err(Problem::new(lines::too_long())),
            Some(Line::Complete(content)) => parse(content),
        };
        let bytes = lines.bytes();
        let entry = Entry {
            line,
            bytes,
            record,
        };
        if sink(entry).is_break() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the entries, as their lines with their keys or problems, and the final error.
    fn read(format: Format, input: &str) -> (Vec<String>, Option<String>) {
        let mut entries = Vec::new();
        let mut sink = |entry: Entry| {
            let shown = match entry.record {
                Ok(record) => record.into_memory().source_key.unwrap(),
                Err(problem) => problem.to_string(),
            };
            entries.push(format!("{} {shown}", entry.line));
            ControlFlow::Continue(())
        };
        let rules = Rules::default();
        let read = format.read_into(
            BufReader::with_capacity(7, input.as_bytes()),
            &rules,
            &mut sink,
        );
        (entries, read.err().map(|unreadable| unreadable.0))
    }

    const ONE: &str = r#"{"id": "one", "memory": "One.", "hash": "x"}"#;
    const TWO: &str = r#"{"id": "two", "memory": "Two."}"#;

    #[test]
    fn export_is_read_in_all_its_forms() {
        for (input, lines) in [
            (format!("{ONE}\n\n{TWO}"), [1, 3]),
            (format!("\u{FEFF}{ONE}\n{TWO}\n"), [1, 2]),
            (format!("[{ONE}, {TWO}]\n"), [1, 1]),
            (format!("\n[\n{ONE},\n\n{TWO}\n]\n"), [3, 5]),
            (
                format!("{{\"results\": [{ONE},\n{TWO}], \"relations\": [{{}}]}}"),
                [1, 2],
            ),
            (
                format!("{{\"count\": 2,\n\"results\": [\n{ONE}, {TWO}\n]}}"),
                [3, 3],
            ),
            (
                format!("{{\"results\": [{ONE}]}}\n{{\"results\": [{TWO}]}}\n"),
                [1, 2],
            ),
            (ONE.replace(", ", ",\n") + "\n" + TWO, [1, 4]),
        ] {
            let (entries, error) = read(Format::Mem0, &input);
            let expected = [format!("{} one", lines[0]), format!("{} two", lines[1])];
            assert_eq!(
                (entries.as_slice(), error),
                (&expected[..], None),
                "{input}"
            );
        }
        for empty in ["", "\n", "[]", r#"{"results": []}"#, r#"{"results": null}"#] {
            assert_eq!(read(Format::Mem0, empty), (Vec::new(), None), "{empty}");
        }
    }

    #[test]
    fn invalid_entries_of_exports_are_reported() {
        let (entries, error) = read(Format::Mem0, &format!("{ONE}\nnot JSON\n{TWO}"));
        let expected = ["1 one", "2 is invalid JSON at column 2", "3 two"];
        assert_eq!(
            (entries.as_slice(), error),
            (&expected.map(str::to_owned)[..], None)
        );

        let (entries, error) = read(Format::Mem0, &format!("[{ONE},\n7,\n{{}}, {TWO}\n,oops"));
        let expected = [
            "1 one",
            "2 must be a JSON object",
            "3 has no field memory",
            "3 two",
        ];
        assert_eq!(entries, expected);
        assert_eq!(
            error.unwrap(),
            "line 4 is invalid JSON, and nothing after it can be read"
        );

        let (entries, _) = read(Format::Mem0, r#"{"error": "unauthorized"}"#);
        assert_eq!(entries, ["1 has no field memory"]);
        let (_, error) = read(Format::Mem0, "\"text\"");
        assert!(error.unwrap().contains("expected a list or an object"));
    }

    #[test]
    fn fields_that_exports_repeat_are_rejected_if_they_are_read() {
        let entry = r#"{"memory": "One.", "user_id": "maya", "user_id": "bob"}"#;
        for (input, line) in [
            (entry.to_owned(), 1),
            (entry.replace(", ", ",\n"), 1),
            (format!("[\n{entry}]"), 2),
            (format!("{{\"results\":\n[{entry}]}}"), 2),
        ] {
            let expected = format!("{line} duplicate field `user_id`");
            assert_eq!(read(Format::Mem0, &input), (vec![expected], None));
        }
        let entry = ONE.replace('}', r#", "hash": "y"}"#);
        for input in [entry.clone(), format!("[{entry}]")] {
            let expected = vec!["1 one".to_owned()];
            assert_eq!(read(Format::Mem0, &input), (expected, None));
        }
    }

    #[test]
    fn edge_of_zep_is_an_entry_and_names_its_episodes() {
        let edge = "{\n\"episodes\": [\"a\", \"b\"],\n\"fact\": \"It is.\", \"uuid\": \"edge\"}";
        assert_eq!(read(Format::Zep, edge), (vec!["1 edge".to_owned()], None));
        let episodes = r#"{"episodes": [{"uuid": "episode", "content": "It was."}]}"#;
        assert_eq!(
            read(Format::Zep, episodes),
            (vec!["1 episode".to_owned()], None)
        );
    }

    #[test]
    fn entry_of_document_is_limited_in_length() {
        let long = format!("[{ONE}, \"{}\"]", "x".repeat(5 * 1024 * 1024));
        let (entries, error) = read(Format::Mem0, &long);
        assert_eq!(entries, ["1 one"]);
        assert!(error.unwrap().contains("longer than 4194304 bytes"));
        let ignored = format!(
            "{{\"log\": \"{}\", \"results\": [{ONE}]}}",
            "x".repeat(5 * 1024 * 1024)
        );
        assert_eq!(
            read(Format::Mem0, &ignored),
            (vec!["1 one".to_owned()], None)
        );
    }

    #[test]
    fn rows_of_csv_are_read_by_their_header() {
        let csv =
            "content,source_key,created_at\n\"One,\nand more\",one,\n\nTwo,two\nThree,three,2024\n";
        let (entries, error) = read(Format::Csv, csv);
        // Blank lines belong to the row after them.
        let problem = "4 must have as many fields as the header (2, not 3)";
        assert_eq!(
            (entries.as_slice(), error),
            (&["2 one", problem, "6 three"].map(str::to_owned)[..], None)
        );
        let (_, error) = read(Format::Csv, "text,id\na,b\n");
        assert_eq!(
            error.unwrap(),
            "cannot read line 1: the header has no column content"
        );
        let (_, error) = read(Format::Csv, "content,content\na,b\n");
        assert_eq!(
            error.unwrap(),
            "cannot read line 1: the header has several columns content"
        );
        assert_eq!(read(Format::Csv, ""), (Vec::new(), None));
    }

    #[test]
    fn csv_header_with_many_columns_is_read() {
        // Comparing each column with all others would take minutes.
        let columns: Vec<String> = (0..200_000).map(|index| index.to_string()).collect();
        let csv = format!("{},content\n", columns.join(","));
        assert_eq!(read(Format::Csv, &csv), (Vec::new(), None));
        let (_, error) = read(Format::Csv, &csv.replace("content", "content,7"));
        assert!(error.unwrap().ends_with("has several columns 7"));
    }

    #[test]
    fn csv_quote_without_end_imports_nothing_of_its_row() {
        for (end, line) in [
            ("two,\"broken\nthree,Three.\n", 3),
            ("two,\"broken \"\"quote\"\"\nthree,Three.", 3),
            ("two,\"", 3),
            ("two,Two.\nthree,\"Three.\"\"", 4),
        ] {
            let csv = format!("source_key,content\none,\"One\"\n{end}");
            let (entries, error) = read(Format::Csv, &csv);
            assert_eq!(entries[0], "2 one");
            assert_eq!(entries.len(), line - 2, "{end}");
            let expected =
                format!("line {line} has a quote without an end, and nothing after it can be read");
            assert_eq!(error, Some(expected), "{end}");
        }
        let (entries, error) = read(Format::Csv, "source_key,\"content\none,One\n");
        assert!(entries.is_empty());
        assert!(error.unwrap().starts_with("line 1 has a quote"));
    }

    #[test]
    fn csv_text_after_a_closing_quote_is_rejected() {
        let csv = "source_key,content\none,One\ntwo,\"broken\nbob,\"secret of bob\"\n\
                   four,\"Four\"\n";
        let (entries, error) = read(Format::Csv, csv);
        let problem = "3 has text after a closing quote; a quote within quotes must be doubled";
        assert_eq!(
            (entries.as_slice(), error),
            (&["2 one", problem, "5 four"].map(str::to_owned)[..], None)
        );
        let (_, error) = read(Format::Csv, "\"source_key\" ,content\none,One\n");
        assert!(
            error
                .unwrap()
                .contains("line 1: has text after a closing quote")
        );
    }

    #[test]
    fn csv_quotes_that_are_valid_are_accepted() {
        let csv = "\u{FEFF}\"source_key\",content\r\none,\"\"\"One\"\", and, \r\n\"\"more\"\"\"\r\n\
                   two,5\" wide\r\n\"three\",\"Three\"";
        let mut entries = Vec::new();
        let mut sink = |entry: Entry| {
            entries.push(entry.record.unwrap().into_memory().content);
            ControlFlow::Continue(())
        };
        let rules = Rules::default();
        let read = Format::Csv.read_into(csv.as_bytes(), &rules, &mut sink);
        read.unwrap();
        let expected = ["\"One\", and, \r\n\"more\"", "5\" wide", "Three"];
        assert_eq!(entries, expected);
    }
}
