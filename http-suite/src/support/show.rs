//! Responses as text, the same in each run.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::client::Answer;
use crate::contract::INVARIANT_HEADERS;

/// Formats a complete response.
pub trait Show {
    /// Returns status, headers in alphabetical order, and body.
    ///
    /// JSON has as much on a line as fits; any other body is unchanged. Values that differ between
    /// runs are replaced everywhere, and by these rules only:
    ///
    /// | what | is shown as |
    /// | --- | --- |
    /// | a UUID | `<uuid 1>`, numbered in the order of appearance: one UUID keeps its number |
    /// | an entity tag (32 hexadecimal digits in quotes) | `"<etag 1>"`, likewise |
    /// | a timestamp in UTC with milliseconds | `<time>` |
    /// | the header `date` | `<date>` |
    /// | a bearer token (`wkt_`, an organisation and 32 bytes) | `<token>` |
    /// | the cursor of the next page | `<cursor>` |
    /// | a signing secret (`whsec_` and the base64 of 32 bytes) | `<secret>` |
    /// | the confirmation of an endpoint that is pending, whose ping may be tried | `<pending>` |
    /// | the slug of one of the fixture's organisations | `<org>` |
    fn show(&self) -> String;

    /// Returns the same without the headers that the contract checks in every response.
    fn brief(&self) -> String;
}

impl Show for Answer {
    fn show(&self) -> String {
        shown(self, |_| true)
    }

    fn brief(&self) -> String {
        shown(self, is_particular)
    }
}

/// Returns the status, these headers and the body.
fn shown(answer: &Answer, is_shown: fn(&str) -> bool) -> String {
    let head = head(answer, is_shown);
    let body = String::from_utf8_lossy(&answer.body);
    let content_type = answer.headers.get("content-type");
    if content_type.is_none_or(|value| value != "application/json") {
        return stable(&format!("{head}\n\n{body}"));
    }
    let shown = stable(&format!("{head}\n\n{}", flat(&body)));
    let (head, body) = shown.split_once("\n\n").unwrap_or((&shown, ""));
    format!("{head}\n\n{}", wrapped(body)).trim_end().to_owned()
}

/// Returns the names of the headers that the contract does not check in every response, sorted.
pub(super) fn particular_headers(answer: &Answer) -> Vec<&str> {
    let names = answer.headers.iter().map(|(name, _)| name.as_str());
    let mut names: Vec<_> = names.filter(|name| is_particular(name)).collect();
    names.sort_unstable();
    names
}

fn is_particular(header: &str) -> bool {
    !INVARIANT_HEADERS.contains(&header)
}

/// Returns the status and the headers in alphabetical order.
fn head(answer: &Answer, is_shown: impl Fn(&str) -> bool) -> String {
    let shown = answer
        .headers
        .iter()
        .filter(|(name, _)| is_shown(name.as_str()));
    let mut lines: Vec<_> = shown
        .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())))
        .collect();
    lines.sort();
    lines.insert(0, answer.status.to_string());
    lines.join("\n")
}

static VOLATILE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r#"(?x)
        (?<uuid> \b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b )
        | "(?<etag> [0-9a-f]{32} )"
        | (?<time> \b[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z )
        | (?<date> \n date:\x20[^\n]+ )
        | (?<secret> \b whsec_[A-Za-z0-9+/]{43}= )
        | (?<token> \b wkt_[0-9a-f]{32}_[A-Za-z0-9_-]{43} )
        | (?<cursor> "next_cursor":\x20"[A-Za-z0-9_-]+" )
        | (?<pending> "confirmation":\x20\{"state":\x20"pending"[^}]*\} )
        | (?<org> \b org-[0-9]{2}\b )
        "#,
    )
    .expect("a regular expression")
});

/// Returns the text without values that differ between runs.
pub(super) fn stable(text: &str) -> String {
    let mut numbers = HashMap::new();
    let mut number = |kind: &'static str, found: &str| {
        let of_kind = numbers.keys().filter(|(other, _)| *other == kind).count();
        *numbers
            .entry((kind, found.to_owned()))
            .or_insert(of_kind + 1)
    };
    let replaced = VOLATILE.replace_all(text, |found: &Captures<'_>| {
        if let Some(uuid) = found.name("uuid") {
            format!("<uuid {}>", number("uuid", uuid.as_str()))
        } else if let Some(etag) = found.name("etag") {
            format!("\"<etag {}>\"", number("etag", etag.as_str()))
        } else if found.name("time").is_some() {
            "<time>".to_owned()
        } else if found.name("date").is_some() {
            "\ndate: <date>".to_owned()
        } else if found.name("secret").is_some() {
            "<secret>".to_owned()
        } else if found.name("token").is_some() {
            "<token>".to_owned()
        } else if found.name("cursor").is_some() {
            "\"next_cursor\": \"<cursor>\"".to_owned()
        } else if found.name("pending").is_some() {
            "\"confirmation\": \"<pending>\"".to_owned()
        } else {
            "<org>".to_owned()
        }
    });
    replaced.trim_end().to_owned()
}

/// Indents flat JSON that does not fit on one line, and keeps all else: order, numbers and escapes.
fn wrapped(flat: &str) -> String {
    layout(flat, 0, LINE_LENGTH_MAX)
}

/// Maximum length of a line that has several values.
const LINE_LENGTH_MAX: usize = 96;

/// Returns JSON on one line, with a space after each colon and comma.
fn flat(json: &str) -> String {
    let mut text = String::new();
    let mut chars = json.chars();
    let mut is_in_string = false;
    while let Some(char) = chars.next() {
        text.push(char);
        match char {
            '"' => is_in_string = !is_in_string,
            '\\' if is_in_string => text.extend(chars.next()),
            ',' | ':' if !is_in_string => text.push(' '),
            _ => {}
        }
    }
    text
}

/// Indents the items of flat JSON that is longer than this, and theirs in the same way.
///
/// Items without lines of their own share a line as long as it is not longer than this either.
fn layout(flat: &str, depth: usize, length_max: usize) -> String {
    let (key, value) = key_and_value(flat);
    let items = items(value);
    if items.is_empty() || 2 * depth + flat.len() <= length_max {
        return flat.to_owned();
    }
    let mut lines: Vec<String> = Vec::new();
    for item in items {
        let item = layout(item, depth + 1, length_max);
        match lines.last_mut() {
            Some(line)
                if !line.contains('\n')
                    && !item.contains('\n')
                    && 2 * (depth + 1) + line.len() + 2 + item.len() <= length_max =>
            {
                *line += ", ";
                *line += &item;
            }
            _ => lines.push(item),
        }
    }
    let indent = |depth: usize| format!("\n{}", "  ".repeat(depth));
    let inside = indent(depth + 1) + &lines.join(&format!(",{}", indent(depth + 1)));
    let (open, close) = (&value[..1], &value[value.len() - 1..]);
    format!("{key}{open}{inside}{}{close}", indent(depth))
}

/// Splits an item into the key with its colon, which may be absent, and the value.
fn key_and_value(item: &str) -> (&str, &str) {
    match parts(item, ':').as_slice() {
        [key, ..] if key.len() < item.len() => item.split_at(key.len() + 2),
        _ => ("", item),
    }
}

/// Returns the items of an object or list.
fn items(value: &str) -> Vec<&str> {
    let Some(inside) = value.strip_prefix(['{', '[']) else {
        return Vec::new();
    };
    match &inside[..inside.len() - 1] {
        "" => Vec::new(),
        inside => parts(inside, ','),
    }
}

/// Splits flat JSON at a separator and the following space, outside strings, objects and lists.
fn parts(flat: &str, separator: char) -> Vec<&str> {
    let (mut parts, mut start, mut depth, mut is_in_string) = (Vec::new(), 0, 0, false);
    let mut chars = flat.char_indices();
    while let Some((index, char)) = chars.next() {
        match char {
            '"' => is_in_string = !is_in_string,
            '\\' if is_in_string => drop(chars.next()),
            '{' | '[' if !is_in_string => depth += 1,
            '}' | ']' if !is_in_string => depth -= 1,
            _ if char == separator && depth == 0 && !is_in_string => {
                parts.push(&flat[start..index]);
                start = index + 2;
            }
            _ => {}
        }
    }
    parts.push(&flat[start..]);
    parts
}

#[test]
fn shown_json_is_indented_and_otherwise_unchanged() {
    let json = r#"{"b":[],"a":[1,{"c":"x,:{\"}"}],"d":{}}"#;
    insta::assert_snapshot!(layout(&flat(json), 0, 0), @r#"
    {
      "b": [],
      "a": [
        1,
        {
          "c": "x,:{\"}"
        }
      ],
      "d": {}
    }
    "#);
}

#[test]
fn brief_json_has_as_much_on_a_line_as_fits() {
    let text = "x".repeat(LINE_LENGTH_MAX);
    let json =
        format!(r#"{{"a":{{"b":[1,2],"c":{{}}}},"d":true,"e":["{text}",{{"f":","}}],"g":1}}"#);
    let expected = format!(
        r#"{{
  "a": {{"b": [1, 2], "c": {{}}}}, "d": true,
  "e": [
    "{text}",
    {{"f": ","}}
  ],
  "g": 1
}}"#
    );
    assert_eq!(wrapped(&flat(&json)), expected);
}

#[test]
fn shown_values_that_differ_between_runs_are_replaced() {
    let text = r#"
date: Tue, 14 Jul 2026 09:00:00 GMT
etag: W/"0123456789abcdef0123456789abcdef"
"id": "01981a2b-0000-7000-8000-000000000001", "other": "01981a2b-0000-7000-8000-000000000002",
"again": "01981a2b-0000-7000-8000-000000000001", "at": "2026-07-14T09:00:00.123Z", "slug": "org-07",
"secret": "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=""#;
    insta::assert_snapshot!(stable(text), @r#"

    date: <date>
    etag: W/"<etag 1>"
    "id": "<uuid 1>", "other": "<uuid 2>",
    "again": "<uuid 1>", "at": "<time>", "slug": "<org>",
    "secret": "<secret>"
    "#);
}
