//! Reading `curl` lines as a shell and curl would, so that what is printed and written can be tried.

use super::http::Request;

/// The words of a line as a shell makes them of bare words, single and double quotes, adjacent ones joined.
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

/// The request that curl makes of a line.
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
fn words_are_those_of_a_shell() {
    let line = r#"curl -d '{"id": ["'"a b"'"]}' "x"y ''"#;
    assert_eq!(words(line), ["curl", "-d", r#"{"id": ["a b"]}"#, "xy", ""]);
}
