//! Compression of responses (gzip), negotiated by `Accept-Encoding`.
//!
//! Besides responses that are small or not text, these are not compressed:
//! - Responses to `POST`: they are the ones that contain a newly generated secret. The length of a
//!   compressed response reveals what it has in common with the request (BREACH), so an attacker
//!   could probe for the secret.
//! - Responses with a strong entity tag, which identifies the exact bytes (RFC 9110, 8.8.3.3): a
//!   weak tag in its place could not be sent back as `If-Match`. Public resources are read-only, so
//!   their tag becomes a weak one.

use std::io::{self, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, VARY,
};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};

/// Longest body that is compressed on the thread that serves connections, in some 50 µs. The 280 kB
/// of a bulk update of 1,000 memories take 0.6 ms, during which the thread's other connections
/// would wait.
const INLINE_BYTES_MAX: usize = 16 * 1_024;

/// Compression level of gzip. Bulk updates shrink to a fourteenth; higher levels take up to twice
/// the time for 2 % less.
const LEVEL: u32 = 2;

/// Configuration of compression. It is off by default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompressionConfig {
    /// True if responses are compressed.
    pub enabled: bool,
    /// Shortest body that is compressed, in bytes. A shorter one would hardly shrink.
    pub bytes_min: usize,
}

impl Default for CompressionConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            bytes_min: 1_024,
        }
    }
}

/// Weights that a client assigns to gzip and to an uncompressed response.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct AcceptEncoding {
    gzip: f32,
    /// `None` if the client does not name it: then every other accepted coding is preferred.
    identity: Option<f32>,
}

impl AcceptEncoding {
    pub(super) fn read(headers: &HeaderMap) -> Self {
        let (mut gzip, mut identity, mut others) = (None, None, None);
        let codings = headers
            .get_all(ACCEPT_ENCODING)
            .into_iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|line| line.split(','));
        for coding in codings {
            let (name, quality) = match coding.split_once(';') {
                None => (coding.trim(), 1.0),
                Some((name, parameter)) => (name.trim(), quality(parameter)),
            };
            match name.to_ascii_lowercase().as_str() {
                "gzip" | "x-gzip" => gzip = Some(quality),
                "identity" => identity = Some(quality),
                "*" => others = Some(quality),
                _ => {}
            }
        }
        Self {
            gzip: gzip.or(others).unwrap_or(0.0),
            // `*` can forbid the codings that it matches, but expresses no preference (RFC 9110,
            // 12.5.3).
            identity: identity.or(others.filter(|quality| *quality == 0.0)),
        }
    }

    fn prefers_gzip(self) -> bool {
        self.gzip > 0.0 && self.identity.is_none_or(|identity| self.gzip >= identity)
    }

    fn refuses_identity(self) -> bool {
        self.identity == Some(0.0)
    }
}

/// Returns the weight of a coding; an invalid one counts as zero.
fn quality(parameter: &str) -> f32 {
    let weight = parameter.trim();
    let value = weight
        .strip_prefix("q=")
        .or_else(|| weight.strip_prefix("Q="));
    value
        .and_then(|value| value.parse().ok())
        .filter(|quality| (0.0..=1.0).contains(quality))
        .unwrap_or(0.0)
}

/// Compresses a response if its client prefers that, see the top of this module.
pub(super) async fn compress(
    config: &CompressionConfig,
    method: &Method,
    accepted: AcceptEncoding,
    mut response: Response<Bytes>,
) -> Response<Bytes> {
    if method == Method::POST {
        return response;
    }
    response
        .headers_mut()
        .append(VARY, HeaderValue::from_name(ACCEPT_ENCODING));
    let bytes_min = if accepted.refuses_identity() {
        1
    } else {
        config.bytes_min
    };
    let is_wanted = accepted.prefers_gzip()
        && length(method, &response) >= bytes_min
        && is_compressible(&response);
    if !is_wanted {
        return response;
    }
    let body = std::mem::take(response.body_mut());
    *response.body_mut() = if method == Method::HEAD {
        // The body is not sent, and its length is not that of the response to a GET.
        Bytes::new()
    } else {
        match compressed(body.clone()).await {
            Ok(compressed) if compressed.len() < body.len() => compressed,
            // The uncompressed body is correct, only longer.
            _ => {
                *response.body_mut() = body;
                return response;
            }
        }
    };
    let headers = response.headers_mut();
    if let Some(weak) = strong_tag(headers).and_then(weakened) {
        headers.insert(ETAG, weak);
    }
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    // For HEAD the length is unknown; otherwise hyper sets it.
    headers.remove(CONTENT_LENGTH);
    response
}

/// Returns the length of the body; for HEAD the length of the response to the corresponding GET.
fn length(method: &Method, response: &Response<Bytes>) -> usize {
    let announced = response
        .headers()
        .get(CONTENT_LENGTH)
        .filter(|_| method == Method::HEAD)
        .and_then(|value| value.to_str().ok()?.parse().ok());
    announced.unwrap_or(response.body().len())
}

fn strong_tag(headers: &HeaderMap) -> Option<&HeaderValue> {
    let is_strong = |tag: &&HeaderValue| !tag.as_bytes().starts_with(b"W/");
    headers.get(ETAG).filter(is_strong)
}

fn weakened(tag: &HeaderValue) -> Option<HeaderValue> {
    HeaderValue::from_bytes(&[b"W/", tag.as_bytes()].concat()).ok()
}

fn is_compressible(response: &Response<Bytes>) -> bool {
    let headers = response.headers();
    let is_public = headers
        .get(CACHE_CONTROL)
        .is_some_and(|value| value.as_bytes().starts_with(b"public"));
    let is_bound_to_bytes = strong_tag(headers).is_some() && !is_public;
    let is_whole = !matches!(
        response.status(),
        StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED | StatusCode::PARTIAL_CONTENT
    );
    let is_text = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .is_some_and(is_text);
    is_whole && is_text && !is_bound_to_bytes && !headers.contains_key(CONTENT_ENCODING)
}

fn is_text(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    let essence = essence.to_ascii_lowercase();
    essence.starts_with("text/")
        || essence.ends_with("+json")
        || essence.ends_with("+xml")
        || matches!(
            essence.as_str(),
            "application/json" | "application/javascript" | "application/xml"
        )
}

async fn compressed(body: Bytes) -> io::Result<Bytes> {
    if body.len() <= INLINE_BYTES_MAX {
        return gzip(&body);
    }
    // Bounded by the cap on requests in flight, of which this is one.
    let compressing = tokio::task::spawn_blocking(move || gzip(&body));
    compressing
        .await
        .unwrap_or_else(|error| Err(io::Error::other(error)))
}

fn gzip(body: &[u8]) -> io::Result<Bytes> {
    let buffer = Vec::with_capacity(body.len() / 4 + 64);
    let mut encoder = GzEncoder::new(buffer, Compression::new(LEVEL));
    encoder.write_all(body)?;
    Ok(encoder.finish()?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(values: &[&'static str]) -> AcceptEncoding {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(ACCEPT_ENCODING, HeaderValue::from_static(value));
        }
        AcceptEncoding::read(&headers)
    }

    #[test]
    fn accept_encoding_selects_supported_encoding() {
        for wanted in [
            "gzip",
            "GZIP",
            "x-gzip",
            "deflate, gzip;q=0.5, br",
            "br;q=1.0, gzip ; q=0.001",
            "*",
            "*;q=0.1",
            "gzip, identity;q=0",
            "gzip;q=0.5, identity;q=0.5",
            "*, identity;q=0.5",
            "identity;q=0, *;q=0, gzip",
        ] {
            assert!(accepted(&[wanted]).prefers_gzip(), "{wanted}");
        }
        for other in [
            "",
            "br",
            "identity",
            "gzip;q=0",
            "gzip;q=0.000, *",
            "*;q=0",
            "gzip;q=0.4, identity;q=0.5",
            "gzip;q=2",
            "gzip;q=many",
            "gzip;level=9",
            "gzip;q=NaN",
        ] {
            assert!(!accepted(&[other]).prefers_gzip(), "{other}");
        }
        assert!(!accepted(&[]).prefers_gzip());
        assert!(accepted(&["br", "gzip"]).prefers_gzip());
    }

    #[test]
    fn identity_encoding_may_be_rejected() {
        for refusing in ["identity;q=0", "*;q=0", "gzip, *;q=0"] {
            assert!(accepted(&[refusing]).refuses_identity(), "{refusing}");
        }
        for other in ["", "gzip", "*;q=0, identity;q=0.1", "identity"] {
            assert!(!accepted(&[other]).refuses_identity(), "{other}");
        }
    }

    #[test]
    fn text_types_are_compressible() {
        for text in [
            "application/json",
            "Application/JSON; charset=utf-8",
            "text/html",
            "application/problem+json",
            "image/svg+xml",
        ] {
            assert!(is_text(text), "{text}");
        }
        for other in [
            "image/png",
            "application/octet-stream",
            "application/gzip",
            "",
        ] {
            assert!(!is_text(other), "{other}");
        }
    }
}
