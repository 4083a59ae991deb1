//! Reading of the input in any format, one entry at a time, on a thread of its own.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::ops::ControlFlow;

use clap::ValueEnum;
use tokio::sync::mpsc;

use super::document;
use super::entry::{Entry, Sink, Unreadable};
use super::export::{
    CLAUDE, Export, LETTA, MCP_MEMORY, MEM0, OPEN_WEBUI, OPENMEMORY, SUPERMEMORY, USER_TABLES, ZEP,
    users,
};
use super::item::Item;
use super::lines::{self, BYTE_ORDER_MARK, LINE_BYTES_MAX, Line, Lines};
use super::problem::Problem;
use super::record::{Record, Rules, parse_all};
use super::scanner::Scanner;
use super::table;

/// Entries that are read ahead.
const ENTRIES_AHEAD: usize = 16;

/// Format of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Lines of JSON, as described above
    Jsonl,
    /// Comma-separated values with a header; semicolons and tabs are recognised
    Csv,
    /// Memories of mem0: results of get_all, a list, or JSON lines
    Mem0,
    /// Memories of OpenMemory: its archive (ZIP), the memories.json in it, or responses of its API
    Openmemory,
    /// Facts, episodes or messages of Zep or Graphiti: responses of the API, a list, or JSON lines
    #[value(alias = "graphiti")]
    Zep,
    /// An agent file of Letta (.af), or archival passages: a list, or JSON lines
    Letta,
    /// Memories or documents of supermemory: responses of its API, a list, or JSON lines
    Supermemory,
    /// Memories of Open WebUI: the response of its API, a list, or JSON lines
    OpenWebui,
    /// The file of the reference memory server of the Model Context Protocol
    McpMemory,
    /// Memories of Claude: its data export (ZIP), or the memories.json in it
    Claude,
}

/// Receiver of the entries, in order.
pub(super) type Entries = mpsc::Receiver<Result<Entry, Unreadable>>;

impl Format {
    fn export(self) -> Option<&'static Export> {
        match self {
            Self::Jsonl | Self::Csv => None,
            Self::Mem0 => Some(&MEM0),
            Self::Openmemory => Some(&OPENMEMORY),
            Self::Zep => Some(&ZEP),
            Self::Letta => Some(&LETTA),
            Self::Supermemory => Some(&SUPERMEMORY),
            Self::OpenWebui => Some(&OPEN_WEBUI),
            Self::McpMemory => Some(&MCP_MEMORY),
            Self::Claude => Some(&CLAUDE),
        }
    }

    /// True if the entries of the format may say whose they are.
    pub(super) fn has_audiences(self) -> bool {
        self.export().is_none_or(Export::has_audiences)
    }

    /// True if the input may have a table of users, which is read before the entries.
    pub(super) fn has_users(self) -> bool {
        self.export().is_some_and(Export::has_users)
    }

    /// Returns the name of the file with the memories in an archive of the format.
    pub(super) fn member_of_archive(self) -> Option<&'static str> {
        matches!(self, Self::Openmemory | Self::Claude).then_some("memories.json")
    }

    /// Reads the table of users of an input; `None` if there is none.
    ///
    /// # Errors
    /// The message about an input that cannot be read.
    pub(super) fn users(
        self,
        input: Box<dyn Read + Send>,
    ) -> Result<Option<HashMap<String, String>>, Unreadable> {
        let tables = document::tables(BufReader::new(input), &USER_TABLES)?;
        Ok((!tables.is_empty()).then(|| users(&tables)))
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
        match self.export() {
            Some(export) => read_export(input, export, rules, sink),
            None if self == Self::Csv => table::read(input, rules, sink),
            None => read_lines(input, |line| Record::parse(line, rules), sink),
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
    let has_lines = is_line(&first, export);
    let input = Cursor::new(first).chain(input);
    if !has_lines {
        return document::read(input, export, rules, sink);
    }
    read_lines(input, |line| parse_line(line, export, rules), sink)
}

/// Returns true if a text begins with an object in one line, and the object is an entry or invalid.
fn is_line(text: &[u8], export: &Export) -> bool {
    let mut scanner = Scanner::new(text);
    // It reads from memory.
    let Ok(Some(b'{')) = scanner.next_byte() else {
        return false;
    };
    let Ok(raw) = scanner.value(text.len()) else {
        return false;
    };
    if raw.is_cut || scanner.line() > 1 {
        return false;
    }
    match serde_json::from_slice::<Item>(&raw.text) {
        Ok(Item::Object(object)) => export.is_entry(&object.fields),
        Ok(Item::Other(_)) => false,
        Err(_) => true,
    }
}

/// Parses a line of an export, which may have more than one entry.
fn parse_line(line: &[u8], export: &Export, rules: &Rules) -> Vec<Result<Record, Problem>> {
    match parse_all::<Item>(line) {
        Ok(items) => {
            let records = items.into_iter().map(|item| export.records(item, rules));
            records.flatten().collect()
        }
        Err(problem) => vec![Err(problem)],
    }
}

fn read_lines(
    input: impl BufRead,
    parse: impl Fn(&[u8]) -> Vec<Result<Record, Problem>>,
    sink: Sink<'_>,
) -> Result<(), Unreadable> {
    let mut lines = Lines::new(input);
    loop {
        let line = lines.number() + 1;
        let read = lines.next();
        let records = match read.map_err(|error| Unreadable::at(line, error))? {
            None => return Ok(()),
            Some(Line::Blank) => continue,
            Some(Line::TooLong) => vec![Err(Problem::new(lines::too_long()))],
            Some(Line::Complete(content)) => parse(content),
        };
        let bytes = lines.bytes();
        for record in records {
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
        let rules = Rules {
            audience: Some("org:acme".parse().unwrap()),
            ..Rules::default()
        };
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

        let list = format!("[{ONE},\n7,\n{{}}, {TWO}\n,oops, {{\"memory\": NaN}}\n; {ONE}");
        let (entries, error) = read(Format::Mem0, &list);
        let expected = [
            "1 one",
            "2 must be a JSON object, not a number",
            "3 has no field memory",
            "3 two",
            "4 is invalid JSON: expected value",
            "4 is invalid JSON: expected value",
            "5 is invalid JSON: expected value",
            "5 one",
        ];
        assert_eq!(entries, expected);
        assert_eq!(
            error.unwrap(),
            "the input ends in line 5, before its end in JSON"
        );
        let (entries, error) = read(Format::Mem0, &format!("[{ONE}\n{TWO},\n]"));
        assert_eq!((entries.len(), error), (2, None));
        let (_, error) = read(Format::Mem0, &format!("[{ONE}}}"));
        assert_eq!(
            error.unwrap(),
            "line 1 is invalid JSON, and nothing after it can be read"
        );

        let (entries, _) = read(Format::Mem0, r#"{"error": "unauthorized"}"#);
        assert_eq!(entries, ["1 has no field memory"]);
        let (entries, _) = read(Format::Mem0, "\"text\"");
        assert_eq!(entries, ["1 must be a JSON object, not a text"]);
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
        assert_eq!(entries, ["1 one", "1 is longer than 4194304 bytes"]);
        assert_eq!(error, None);
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
        let problem = "5 must have as many fields as the header (2, not 3)";
        assert_eq!(
            (entries.as_slice(), error),
            (&["2 one", problem, "6 three"].map(str::to_owned)[..], None)
        );
        let (_, error) = read(Format::Csv, "text,id\na,b\n");
        assert_eq!(
            error.unwrap(),
            "cannot read line 1: the header has no column content, but text, id"
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
        let rules = Rules {
            audience: Some("org:acme".parse().unwrap()),
            ..Rules::default()
        };
        let read = Format::Csv.read_into(csv.as_bytes(), &rules, &mut sink);
        read.unwrap();
        let expected = ["\"One\", and, \r\n\"more\"", "5\" wide", "Three"];
        assert_eq!(entries, expected);
    }

    #[test]
    fn bad_entry_of_a_document_costs_only_itself() {
        for bad in [
            r#"{"memory": "x", "score": NaN}"#,
            r#"{"memory": "x", "score": 9e9999}"#,
            r#"{"memory": "half \ud83d"}"#,
            r#"{"memory": "x"#,
            r#"{"memory": [1}"#,
            "{\"memory\": \"no end}\n}",
        ] {
            if bad != r#"{"memory": "x"# {
                let (entries, error) = read(Format::Mem0, &format!("[{ONE},\n{bad},\n{TWO}]"));
                assert_eq!((entries.len(), error), (3, None), "{bad}: {entries:?}");
                assert!(entries[1].starts_with("2 "), "{entries:?}");
                assert!(entries[2].ends_with("two"), "{entries:?}");
            }
            if !bad.contains('\n') {
                let (entries, error) = read(Format::Mem0, &format!("{ONE}\n{bad}\n{TWO}"));
                assert_eq!((entries.len(), error), (3, None), "{bad}: {entries:?}");
                let (entries, error) = read(Format::Mem0, &format!("{ONE}\n{TWO}\n{bad}"));
                assert_eq!((entries.len(), error), (3, None), "{bad}: {entries:?}");
            }
        }
        let (entries, error) = read(Format::Mem0, &format!("[{ONE},\n{{\"memory\": \"Tw"));
        assert_eq!(entries, ["1 one", "2 is cut off: the input ends within it"]);
        assert_eq!(
            error.unwrap(),
            "the input ends in line 2, before its end in JSON"
        );
        let (entries, error) = read(Format::Mem0, &format!("{ONE} {TWO}\n{ONE}{TWO}"));
        assert_eq!(entries, ["1 one", "1 two", "2 one", "2 two"]);
        assert_eq!(error, None);
    }

    #[test]
    fn lines_are_those_of_an_editor() {
        for end in ["\n", "\r\n", "\r"] {
            let csv = [
                "source_key,content",
                "one,One",
                "",
                "two,\"Two",
                "and more\"",
                "x",
                "3,Three",
            ];
            let (entries, _) = read(Format::Csv, &csv.join(end));
            let problem = "6 must have as many fields as the header (1, not 2)";
            assert_eq!(entries, ["2 one", "4 two", problem, "7 3"], "{end:?}");
            let list = ["[", ONE, ",", TWO, "]"];
            assert_eq!(
                read(Format::Mem0, &list.join(end)).0,
                ["2 one", "4 two"],
                "{end:?}"
            );
            let lines = [ONE, "", TWO];
            assert_eq!(
                read(Format::Mem0, &lines.join(end)).0,
                ["1 one", "3 two"],
                "{end:?}"
            );
        }
    }

    #[test]
    fn delimiters_and_names_of_spreadsheets_are_recognised() {
        for csv in [
            "sep=;\nSource Key;CONTENT\none;a, b\n",
            "\"sep=;\"\r\nsource-key;content\r\none;a, b\r\n",
            "SOURCE_KEY;Content\none;a, b\n",
            "Source_Key\tcontent\none\ta, b\n",
            "source_key|content\none|a, b\n",
        ] {
            let line = if csv.contains("sep=") { 3 } else { 2 };
            assert_eq!(
                read(Format::Csv, csv),
                (vec![format!("{line} one")], None),
                "{csv}"
            );
        }
    }
}
