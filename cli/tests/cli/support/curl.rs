//! A parser of `curl` lines, so that printed and documented commands can be run.

use super::http::Request;

/// Splits a line into words as a shell does: bare, single- and double-quoted parts are joined.
pub(crate) fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    for char in line.chars() {
        match (quote, char) {
            (Some(open), _) if open == char => quote = None,
            (None, '\'' | '"') => {
                quote = Some(char);
                word.get_or_insert_default();
            }
            (None, _) if char.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(char),
        }
    }
    assert_eq!(quote, None, "a quote stays open in {line}");
    words.extend(word);
    words
}

/// Returns the request that curl makes of a line.
pub(crate) fn request_of(line: &str) -> Request {
    let mut request = Request {
        method: "GET".to_owned(),
        ..Request::default()
    };
    let mut words = words(line).into_iter().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().expect("a value");
        match word.as_str() {
            "-sS" | "-i" => {}
            "-X" => request.method = value(),
            "-H" => request.headers.push(value()),
            "-d" => request.body = value(),
            url => request.url = url.to_owned(),
        }
    }
    request
}

#[test]
fn curl_line_is_split_as_by_a_shell() {
    let line = r#"curl -d '{"id": ["'"a b"'"]}' "x"y ''"#;
    assert_eq!(words(line), ["curl", "-d", r#"{"id": ["a b"]}"#, "xy", ""]);
}
