//! Scripts of requests, and requests with a body, as text.

use std::time::Duration;

use http::{HeaderName, HeaderValue, Method};

/// Beginning of the lines that continue a request.
const INDENT: &[u8] = b"  ";

/// A step of a script.
#[derive(Debug)]
pub(super) enum Step<'s> {
    /// `advance SECONDS`.
    Advance(Duration),
    /// `maintain`: one call of the maintenance.
    Maintain,
    /// `deliver STATUS`: fan-out, and an attempt of what is due that is answered so.
    Deliver(u16),
    /// `CALLER METHOD TARGET`, with its headers and its body on indented lines.
    Request(RequestText<'s>),
}

/// A request before its references are replaced.
#[derive(Debug)]
pub(super) struct RequestText<'s> {
    pub(super) caller: &'s str,
    pub(super) method: Method,
    pub(super) target: &'s str,
    pub(super) headers: Vec<(HeaderName, &'s [u8])>,
    pub(super) body: &'s [u8],
}

/// Parses a script. Lines without a meaning are left out.
pub(super) fn parse(script: &[u8]) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    for line in script.split(|byte| *byte == b'\n') {
        match (line.strip_prefix(INDENT), steps.last_mut()) {
            (Some(rest), Some(Step::Request(request))) => match header(rest) {
                Some(header) => request.headers.push(header),
                None => request.body = rest,
            },
            (None, _) => steps.extend(std::str::from_utf8(line).ok().and_then(step)),
            _ => {}
        }
    }
    steps
}

fn step(line: &str) -> Option<Step<'_>> {
    let mut words = line.split_ascii_whitespace();
    let (first, second) = (words.next()?, words.next());
    match (first, second) {
        ("maintain", None) => Some(Step::Maintain),
        ("advance", Some(seconds)) => {
            let seconds = seconds.parse::<u32>().ok()?;
            Some(Step::Advance(Duration::from_secs(seconds.into())))
        }
        ("deliver", Some(status)) => {
            let status = status.parse().ok();
            Some(Step::Deliver(
                status.filter(|status| (100..600).contains(status))?,
            ))
        }
        (caller, Some(method)) => Some(Step::Request(RequestText {
            caller,
            method: method.parse().ok()?,
            target: words.next()?,
            headers: Vec::new(),
            body: b"",
        })),
        _ => None,
    }
}

/// Parses `name: value`.
pub(super) fn header(line: &[u8]) -> Option<(HeaderName, &[u8])> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let value = line[colon + 1..].trim_ascii();
    HeaderValue::from_bytes(value).ok()?;
    Some((HeaderName::from_bytes(&line[..colon]).ok()?, value))
}

/// Splits headers, one per line, from the body that follows an empty line.
pub(super) fn headers_and_body(mut text: &[u8]) -> (Vec<(HeaderName, &[u8])>, &[u8]) {
    let mut headers = Vec::new();
    while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
        let line = &text[..end];
        text = &text[end + 1..];
        if line.is_empty() {
            return (headers, text);
        }
        headers.extend(header(line));
    }
    (headers, b"")
}
