//! Requests and responses as their parts.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use knowledge_core::api::ClientInfo;
use knowledge_core::{Error, ProblemCode};

/// Builds a request from its parts; the header lines are names and values in turn.
///
/// # Errors
/// A part is not valid in HTTP. A network server never passes on such a request; a host's `fetch`
/// may.
pub(crate) fn request(
    method: &str,
    target: &str,
    headers: &str,
    body: Vec<u8>,
) -> Result<Request<Bytes>, Error> {
    let malformed =
        |part: &str| Error::invalid(part, ProblemCode::InvalidValue, "must be valid in HTTP");
    let mut request = Request::new(Bytes::from(body));
    *request.method_mut() = parse_method(method).ok_or_else(|| malformed("method"))?;
    *request.uri_mut() = target.parse().map_err(|_| malformed("path"))?;
    let mut lines = headers.split('\n');
    while let (Some(line), Some(value)) = (lines.next(), lines.next()) {
        let name = HeaderName::from_bytes(line.as_bytes()).ok();
        let value = parse_value(value);
        let (name, value) = name.zip(value).ok_or_else(|| malformed(line))?;
        request.headers_mut().append(name, value);
    }
    Ok(request)
}

/// Adds the address of the client, if the host passes it in this header.
pub(crate) fn add_client(request: &mut Request<Bytes>, header: Option<&str>) {
    let value = header.and_then(|name| request.headers().get(name));
    let address = value.and_then(|value| value.to_str().ok()?.trim().parse().ok());
    request.extensions_mut().insert(ClientInfo {
        address,
        request_id: None,
    });
}

/// Parses the method and path of a rejected request, which decide the form of the response.
///
/// A part that cannot be parsed is replaced by its default.
pub(crate) fn parse_rejected(method: &str, target: &str) -> (Method, Uri) {
    let path = target.split('?').next().unwrap_or_default();
    (
        parse_method(method).unwrap_or_default(),
        path.parse().unwrap_or_default(),
    )
}

fn parse_method(method: &str) -> Option<Method> {
    Method::from_bytes(method.as_bytes()).ok()
}

/// Returns the lines of headers: names and values in turn, with one character per byte.
pub(crate) fn header_lines(headers: &HeaderMap) -> String {
    let mut lines = String::new();
    for (name, value) in headers {
        lines.push_str(name.as_str());
        lines.push('\n');
        match value.to_str() {
            Ok(text) => lines.push_str(text),
            Err(_) => lines.extend(value.as_bytes().iter().map(|&byte| char::from(byte))),
        }
        lines.push('\n');
    }
    lines
}

/// Parses a header value from JavaScript, where each character is one byte.
fn parse_value(text: &str) -> Option<HeaderValue> {
    if text.is_ascii() {
        return HeaderValue::from_str(text).ok();
    }
    let bytes: Option<Vec<u8>> = text.chars().map(|char| u8::try_from(char).ok()).collect();
    HeaderValue::from_bytes(&bytes?).ok()
}
