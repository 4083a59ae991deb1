//! Comma-separated values, whose header names the fields.

use std::collections::HashSet;
use std::io::{BufRead, Cursor, Read};

use csv::{ByteRecord, ReaderBuilder};

use super::entry::{Entry, Sink, Unreadable};
use super::lines::{BYTE_ORDER_MARK, LINE_BYTES_MAX, LineCounter};
use super::past;
use super::problem::Problem;
use super::quotes::Quotes;
use super::record::{Draft, Record, Rules};

/// Column with the text, the only one that is required.
const CONTENT: &str = "content";
/// Column with the identifier of the user that a memory is about.
const USER: &str = "user_id";
/// Columns that are fields of a memory, by their names in lower case with `_` for other characters.
const FIELDS: [&str; 6] = [
    CONTENT,
    "title",
    "source_key",
    "audience_tag",
    "sensitivity_label",
    USER,
];
/// Characters that separate fields, in the order in which they are preferred.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// Beginning of a table.
struct Beginning {
    delimiter: u8,
    /// Lines before the header.
    lines: LineCounter,
}

/// Column of a table.
struct Column {
    /// Name as the header has it.
    name: String,
    /// Field of a memory that it is, if it is one.
    field: Option<&'static str>,
}

/// Reads all rows of an input.
pub(super) fn read(
    mut input: impl BufRead,
    rules: &Rules,
    sink: Sink<'_>,
) -> Result<(), Unreadable> {
    let (beginning, rest) = begin(&mut input).map_err(|error| Unreadable::at(1, error))?;
    let input = Cursor::new(rest).chain(input);
    let mut rows = ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .delimiter(beginning.delimiter)
        .from_reader(Quotes::new(input, beginning.delimiter, beginning.lines));
    let mut row = ByteRecord::new();
    let mut header: Option<Vec<Column>> = None;
    let mut last = 1;
    loop {
        let read = rows.read_byte_record(&mut row);
        if !read.map_err(|error| Unreadable::at(last, error))? {
            return Ok(());
        }
        let end = rows.position().byte();
        let quotes = rows.get_mut();
        let line = quotes.take_line(end).unwrap_or(last);
        last = line;
        if quotes.has_open_end() {
            // The row may have swallowed rows of other users.
            return Err(Unreadable(format!(
                "line {line} has a quote without an end, and nothing after it can be read"
            )));
        }
        let valid = if quotes.take_misplaced(end) {
            Err(Problem::new(
                "has text after a closing quote; a quote within quotes must be doubled",
            ))
        } else {
            Ok(&row)
        };
        let Some(columns) = &header else {
            let columns = valid.and_then(columns);
            let columns = columns.map_err(|problem| Unreadable::at(line, problem))?;
            header = Some(columns);
            continue;
        };
        let draft = valid.and_then(|row| draft(columns, row, rules));
        let entry = Entry {
            line,
            bytes: end,
            record: draft.and_then(|draft| Record::new(draft, rules)),
        };
        if sink(entry).is_break() {
            return Ok(());
        }
    }
}

/// Reads what precedes the rows: a byte order mark, and a line `sep=` as spreadsheets write it.
/// Returns the first bytes of the header too, which tell the delimiter.
fn begin(input: &mut impl BufRead) -> std::io::Result<(Beginning, Vec<u8>)> {
    let mut first = Vec::new();
    input
        .take(LINE_BYTES_MAX as u64)
        .read_until(b'\n', &mut first)?;
    if first.starts_with(BYTE_ORDER_MARK) {
        first.drain(..BYTE_ORDER_MARK.len());
    }
    let mut lines = LineCounter::default();
    let end = first.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
    let line = &first[..end.unwrap_or(first.len())];
    let line = line.trim_ascii();
    let line = line
        .strip_prefix(b"\"")
        .and_then(|line| line.strip_suffix(b"\""))
        .unwrap_or(line);
    let named = match line {
        [b's' | b'S', b'e' | b'E', b'p' | b'P', b'=', delimiter] => Some(*delimiter),
        _ => None,
    };
    let Some(delimiter) = named else {
        let delimiter = delimiter_of(&first);
        return Ok((Beginning { delimiter, lines }, first));
    };
    let mut length = end.unwrap_or(first.len());
    while let Some(byte) = first
        .get(length)
        .filter(|byte| matches!(byte, b'\r' | b'\n'))
    {
        lines.advance(*byte);
        length += 1;
        if lines.number() > 1 && first.get(length) != Some(&b'\n') {
            break;
        }
    }
    first.drain(..length);
    Ok((Beginning { delimiter, lines }, first))
}

/// Returns the most frequent delimiter of a header, outside quotes.
fn delimiter_of(text: &[u8]) -> u8 {
    let mut counts = [0_usize; DELIMITERS.len()];
    let mut is_quoted = false;
    for byte in text {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b'\r' | b'\n' if !is_quoted => break,
            _ if is_quoted => {}
            _ => {
                let index = DELIMITERS.iter().position(|delimiter| delimiter == byte);
                counts.iter_mut().enumerate().for_each(|(other, count)| {
                    *count += usize::from(Some(other) == index);
                });
            }
        }
    }
    let most = counts.iter().max().copied().unwrap_or_default();
    let index = counts.iter().position(|count| *count == most);
    DELIMITERS[index.unwrap_or_default()]
}

/// Returns the columns that a header names.
fn columns(header: &ByteRecord) -> Result<Vec<Column>, Problem> {
    let names = header.iter().map(|name| Ok(text(name)?.trim().to_owned()));
    let names: Vec<String> = names.collect::<Result<_, Problem>>()?;
    let columns = names.iter().map(|name| Column {
        name: name.clone(),
        field: field_of(name),
    });
    let columns: Vec<Column> = columns.collect();
    if !columns.iter().any(|column| column.field == Some(CONTENT)) {
        let names = names.join(", ");
        return Err(Problem::new(format!(
            "the header has no column {CONTENT}, but {names}"
        )));
    }
    let known = columns.iter();
    let known = known.map(|column| column.field.unwrap_or(&column.name));
    match first_repeated(known) {
        Some(name) => Err(Problem::new(format!(
            "the header has several columns {name}"
        ))),
        None => Ok(columns),
    }
}

/// Returns the field that a column is: `Source Key` is `source_key`.
fn field_of(name: &str) -> Option<&'static str> {
    let words = name.split(|char: char| !char.is_alphanumeric());
    let words: Vec<String> = words
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let name = words.join("_");
    FIELDS.into_iter().find(|field| *field == name)
}

fn first_repeated<'n>(mut names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let mut seen = HashSet::new();
    names.find(|name| !seen.insert(*name))
}

fn draft(columns: &[Column], row: &ByteRecord, rules: &Rules) -> Result<Draft, Problem> {
    if row.len() != columns.len() {
        let detail = format!(" ({}, not {})", row.len(), columns.len());
        return Err(Problem::with(
            "must have as many fields as the header",
            detail,
        ));
    }
    let mut draft = Draft {
        is_personal: true,
        ..Draft::default()
    };
    for (column, field) in columns.iter().zip(row) {
        let value = text(field)?.to_owned();
        if value.is_empty() {
            continue;
        }
        match column.field {
            Some(CONTENT) => draft.content = value,
            Some("title") => draft.title = Some(value),
            Some("source_key") => draft.source_key = Some(value),
            Some("audience_tag") => draft.audience_tag = Some(value),
            Some("sensitivity_label") => draft.sensitivity_label = Some(value),
            Some(USER) => draft.user = Some(value),
            _ => {
                if let Some(now) = rules.now {
                    past::check(&column.name, &value.as_str().into(), now)?;
                }
                draft.kept.push((column.name.clone(), value));
            }
        }
    }
    Ok(draft)
}

fn text(field: &[u8]) -> Result<&str, Problem> {
    std::str::from_utf8(field).map_err(|_| Problem::not_utf8())
}
