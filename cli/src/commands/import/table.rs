//! Comma-separated values, whose header names the fields.

use std::collections::HashSet;
use std::io::BufRead;

use csv::{ByteRecord, ReaderBuilder};

use super::document::{Position, PositionReader};
use super::entry::{Entry, Sink, Unreadable};
use super::quotes::Quotes;
use super::record::{Draft, Problem, Record, Rules};

/// Column with the text, the only one that is required.
const CONTENT: &str = "content";

/// Reads all rows of an input.
pub(super) fn read(input: impl BufRead, rules: &Rules, sink: Sink<'_>) -> Result<(), Unreadable> {
    let at = Position::new();
    let mut rows = ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .from_reader(Quotes::new(PositionReader::new(input, &at)));
    let mut row = ByteRecord::new();
    let mut header: Option<Vec<String>> = None;
    loop {
        at.begin();
        let line = rows.position().line();
        let read = rows.read_byte_record(&mut row);
        if !read.map_err(|error| Unreadable::at(line, error))? {
            return Ok(());
        }
        let line = row.position().map_or(line, |position| position.line());
        let end = rows.position().byte();
        let quotes = rows.get_mut();
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
        let draft = valid.and_then(|row| draft(columns, row));
        let entry = Entry {
            line,
            bytes: at.bytes(),
            record: draft.and_then(|draft| Record::new(draft, rules)),
        };
        if sink(entry).is_break() {
            return Ok(());
        }
    }
}

/// Returns the names of the columns.
fn columns(header: &ByteRecord) -> Result<Vec<String>, Problem> {
    let names = header.iter().map(|name| Ok(text(name)?.trim().to_owned()));
    let names: Vec<String> = names.collect::<Result<_, Problem>>()?;
    if !names.iter().any(|name| name == CONTENT) {
        return Err(Problem::new(format!("the header has no column {CONTENT}")));
    }
    match first_repeated(&names) {
        Some(name) => Err(Problem::new(format!(
            "the header has several columns {name}"
        ))),
        None => Ok(names),
    }
}

fn first_repeated(names: &[String]) -> Option<String> {
    let mut seen = HashSet::new();
    let repeated = names.iter().find(|name| !seen.insert(name.as_str()));
    repeated.cloned()
}

fn draft(columns: &[String], row: &ByteRecord) -> Result<Draft, Problem> {
    if row.len() != columns.len() {
        let detail = format!(" ({}, not {})", row.len(), columns.len());
        return Err(Problem::with(
            "must have as many fields as the header",
            detail,
        ));
    }
    let mut draft = Draft::default();
    for (column, field) in columns.iter().zip(row) {
        let value = text(field)?.to_owned();
        if value.is_empty() {
            continue;
        }
        match column.as_str() {
            CONTENT => draft.content = value,
            "title" => draft.title = Some(value),
            "source_key" => draft.source_key = Some(value),
            "audience_tag" => draft.audience_tag = Some(value),
            "sensitivity_label" => draft.sensitivity_label = Some(value),
            "user_id" => draft.user = Some(value),
            _ => draft.kept.push((column.clone(), value)),
        }
    }
    Ok(draft)
}

fn text(field: &[u8]) -> Result<&str, Problem> {
    std::str::from_utf8(field).map_err(|_| Problem::new("is not UTF-8"))
}
