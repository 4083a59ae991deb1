//! Requests and answers in parts.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri};
use js_sys::{Array, Uint8Array};
use wasm_bindgen::JsValue;

/// A request of these parts; the headers are names and values in turns, each in a line.
///
/// # Errors
/// The answer to what is no request of HTTP: as the server gives it, which does not get as far as the interface either.
pub(crate) fn request(
    method: &str,
    target: &str,
    headers: &str,
    body: Vec<u8>,
) -> Result<Request<Bytes>, Response<Bytes>> {
    let malformed = || {
        let mut response = Response::new(Bytes::new());
        *response.status_mut() = StatusCode::BAD_REQUEST;
        response
    };
    let mut request = Request::new(Bytes::from(body));
    *request.method_mut() = parse_method(method).ok_or_else(malformed)?;
    *request.uri_mut() = parse_target(target).ok_or_else(malformed)?;
    let mut lines = headers.split('\n');
    while let (Some(name), Some(value)) = (lines.next(), lines.next()) {
        let name = HeaderName::from_bytes(name.as_bytes()).ok();
        let value = latin1(value).and_then(|bytes| HeaderValue::from_bytes(&bytes).ok());
        let (name, value) = name.zip(value).ok_or_else(malformed)?;
        request.headers_mut().append(name, value);
    }
    Ok(request)
}

pub(crate) fn parse_method(method: &str) -> Option<Method> {
    Method::from_bytes(method.as_bytes()).ok()
}

pub(crate) fn parse_target(target: &str) -> Option<Uri> {
    target.parse().ok()
}

/// The parts of an answer, as JavaScript takes them: status, headers in lines, body.
pub(crate) fn answer(response: Response<Bytes>) -> JsValue {
    let (parts, body) = response.into_parts();
    let mut headers = String::new();
    for (name, value) in &parts.headers {
        headers.push_str(name.as_str());
        headers.push('\n');
        headers.extend(value.as_bytes().iter().map(|&byte| char::from(byte)));
        headers.push('\n');
    }
    let body = Uint8Array::new_from_slice(&body);
    Array::of3(
        &JsValue::from(parts.status.as_u16()),
        &JsValue::from_str(&headers),
        &body,
    )
    .into()
}

/// The bytes of a header as JavaScript has them, one for each character.
fn latin1(text: &str) -> Option<Vec<u8>> {
    text.chars().map(|char| u8::try_from(char).ok()).collect()
}
