//! Responses as text, the same in each run.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::client::Answer;

/// Formats a complete response.
pub(crate) trait Show {
    /// Returns status, headers in alphabetical order, and body.
    ///
    /// JSON is indented, any other body is unchanged. Values that differ between runs are replaced
    /// everywhere, and by these rules only:
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
    /// | the slug of one of the fixture's organisations | `<org>` |
    fn show(&self) -> String;
}

impl Show for Answer {
    fn show(&self) -> String {
        let mut headers: Vec<_> = self
            .headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())))
            .collect();
        headers.sort();
        let content_type = self.headers.get("content-type");
        let body = String::from_utf8_lossy(&self.body);
        let body = match content_type.is_some_and(|value| value == "application/json") {
            true => indented(&body),
            false => body.into_owned(),
        };
        stable(&format!(
            "{}\n{}\n\n{body}",
            self.status,
            headers.join("\n")
        ))
    }
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
        | (?<org> \b org-[0-9]{2}\b )
        "#,
    )
    .expect("a regular expression")
});

/// Returns the text without values that differ between runs.
fn stable(text: &str) -> String {
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
        } else {
            "<org>".to_owned()
        }
    });
    replaced.trim_end().to_owned()
}

/// Indents JSON, and keeps all else: order of fields, numbers and escapes.
fn indented(json: &str) -> String {
    let mut text = String::new();
    let mut depth = 0;
    let mut chars = json.chars().peekable();
    let mut is_in_string = false;
    while let Some(char) = chars.next() {
        let line = |depth: usize| format!("\n{}", "  ".repeat(depth));
        text.push(char);
        match char {
            '"' => is_in_string = !is_in_string,
            '\\' if is_in_string => text.extend(chars.next()),
            '{' | '[' if !is_in_string => match chars.next_if(|next| matches!(next, '}' | ']')) {
                Some(end) => text.push(end),
                None => {
                    depth += 1;
                    text += &line(depth);
                }
            },
            ',' if !is_in_string => text += &line(depth),
            ':' if !is_in_string => text.push(' '),
            _ => {}
        }
        if !is_in_string && chars.peek().is_some_and(|next| matches!(next, '}' | ']')) {
            depth -= 1;
            text += &line(depth);
        }
    }
    text
}

#[test]
fn shown_json_is_indented_and_otherwise_unchanged() {
    let json = r#"{"b":[],"a":[1,{"c":"x,:{\"}"}],"d":{}}"#;
    insta::assert_snapshot!(indented(json), @r#"
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
