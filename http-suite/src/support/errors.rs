//! Errors as text of one line each, for snapshots.
//!
//! It covers the whole response: a header or a field that has no place in it fails the test.

use http::StatusCode;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::show::{particular_headers, stable};
use crate::client::Answer;

/// The body of an error, with its fields in their order.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct ErrorBody<D> {
    error: String,
    message: String,
    details: D,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Problems {
    fields: Vec<Problem>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Problem {
    path: String,
    code: String,
    message: String,
}

/// Returns an error as one line: status, code, message, details and the headers of its status.
///
/// An error in headers, without a body, is marked as such.
#[track_caller]
///
/// # Panics
/// If there is a header or a field that has no place in the line.
pub fn error(answer: &Answer) -> String {
    if answer.body.is_empty() {
        let status = status_of(answer, &["error-code", "error-message"]);
        let (code, message) = (answer.header("error-code"), answer.header("error-message"));
        return line(answer, format!("{status} {code} in headers: {message}"));
    }
    let status = status_of(answer, &[]);
    let body: ErrorBody<Value> = body_of(answer);
    let details = match body.details.to_string() {
        details if details == "{}" => String::new(),
        details => format!(" {details}"),
    };
    let (code, message) = (body.error, body.message);
    line(answer, format!("{status} {code}: {message}{details}"))
}

/// Returns the problems of an invalid request, each as a line `code: path message`.
#[track_caller]
///
/// # Panics
/// If it is another response.
pub fn problems(answer: &Answer) -> String {
    assert_eq!(status_of(answer, &[]), 400, "{answer:?}");
    let body: ErrorBody<Problems> = body_of(answer);
    assert_eq!(body.error, "invalid_request", "{answer:?}");
    let problems = body.details.fields;
    let first = match &*problems[0].code {
        "limit_reached" => problems[0].message.clone(),
        _ => format!("{} {}", problems[0].path, problems[0].message),
    };
    let more = match problems.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    let summary = format!("the request is not valid: {first}{more}");
    assert_eq!(body.message, summary, "{answer:?}");
    let lines = problems
        .iter()
        .map(|problem| format!("{}: {} {}", problem.code, problem.path, problem.message));
    stable(&lines.collect::<Vec<_>>().join("\n"))
}

/// Returns the body of an error, whose fields must be in their order.
#[track_caller]
fn body_of<D: DeserializeOwned + Serialize>(answer: &Answer) -> ErrorBody<D> {
    let body = serde_json::from_slice(&answer.body)
        .unwrap_or_else(|error| panic!("no error ({error}): {answer:?}"));
    let in_order = serde_json::to_vec(&body).expect("JSON");
    assert_eq!(in_order, answer.body, "{answer:?}");
    body
}

/// Returns the status of an error with exactly the headers of its status and these.
#[track_caller]
fn status_of(answer: &Answer, others: &[&str]) -> u16 {
    let mut expected = others.to_vec();
    expected.extend(header_of_status(answer.status));
    expected.sort_unstable();
    assert_eq!(particular_headers(answer), expected, "{answer:?}");
    answer.status.as_u16()
}

/// Returns the header that all errors with a status have.
fn header_of_status(status: StatusCode) -> Option<&'static str> {
    match status.as_u16() {
        401 => Some("www-authenticate"),
        405 => Some("allow"),
        429 | 503 => Some("retry-after"),
        _ => None,
    }
}

/// Returns a line with the header of its status.
fn line(answer: &Answer, mut text: String) -> String {
    if let Some(name) = header_of_status(answer.status) {
        text += &format!(" [{name}: {}]", answer.header(name));
    }
    stable(&text)
}
