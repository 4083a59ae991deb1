//! Compression of answers (gzip), as clients ask for it in `Accept-Encoding`.
//!
//! What is not compressed, besides what is small or is no text:
//! - Answers to `POST`: they are the ones that show a secret which was just made. The length of a compressed answer
//!   tells of what it has in common with what was sent (BREACH), and nothing that was sent should be measured against
//!   a secret.
//! - Answers with a strong entity tag, which stands for the very bytes (RFC 9110, 8.8.3.3): a weak one in its place
//!   could not be sent back as `If-Match`. What is public is only read: there the tag becomes a weak one.

use std::io::{self, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, VARY,
};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};

/// The shortest body that is compressed, in bytes, when nothing else is said.
pub const COMPRESSION_BYTES_MIN_DEFAULT: usize = 1_024;

/// The longest body that is compressed on the thread that serves connections, in some 50 µs. The 280 kB of a bulk
/// update of 1,000 memories take 0.6 ms, for which the other connections of the thread would wait.
const INLINE_BYTES_MAX: usize = 16 * 1_024;

/// The level of gzip: bulk updates become a fourteenth, and higher levels take up to twice the time for 2 % less.
const LEVEL: u32 = 2;

/// Which answers are compressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompressionConfig {
    /// The shortest body that is compressed, in bytes. A shorter one would hardly become shorter.
    pub bytes_min: usize,
}

impl Default for CompressionConfig {
    fn default() -> Self {
        Self {
            bytes_min: COMPRESSION_BYTES_MIN_DEFAULT,
        }
    }
}

/// What a client says of an answer that is not compressed, and of gzip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Accepted {
    gzip: f32,
    /// `None` where the client does not say: then everything else that it takes comes before.
    identity: Option<f32>,
}

impl Accepted {
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
            // The asterisk forbids what it stands for and prefers nothing (RFC 9110, 12.5.3).
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

/// The weight of a coding; one that cannot be read counts as refused.
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

/// The answer as the client wants it, see the top of this module.
pub(super) async fn compress(
    config: &CompressionConfig,
    method: &Method,
    accepted: Accepted,
    mut response: Response<Bytes>,
) -> Response<Bytes> {
    if method == Method::POST {
        return response;
    }
    response
        .headers_mut()
        .append(VARY, HeaderValue::from_name(ACCEPT_ENCODING));
    let bytes_min = match accepted.refuses_identity() {
        true => 1,
        false => config.bytes_min,
    };
    let is_wanted = accepted.prefers_gzip()
        && length(method, &response) >= bytes_min
        && is_compressible(&response);
    if !is_wanted {
        return response;
    }
    let body = std::mem::take(response.body_mut());
    *response.body_mut() = match method == Method::HEAD {
        // Nobody sees it, and its length is not that of the answer to a GET.
        true => Bytes::new(),
        false => match compressed(body.clone()).await {
            Ok(compressed) if compressed.len() < body.len() => compressed,
            // Sent as it is: it is right, and only longer.
            _ => {
                *response.body_mut() = body;
                return response;
            }
        },
    };
    let headers = response.headers_mut();
    if let Some(weak) = strong_tag(headers).and_then(weakened) {
        headers.insert(ETAG, weak);
    }
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    // For HEAD it is not known; for everything else hyper says it.
    headers.remove(CONTENT_LENGTH);
    response
}

/// The length of the body, or of the one that a GET in place of this HEAD would be answered with.
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
    // Bounded by the cap on requests in work, which this one still counts towards.
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

    fn accepted(values: &[&'static str]) -> Accepted {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(ACCEPT_ENCODING, HeaderValue::from_static(value));
        }
        Accepted::read(&headers)
    }

    #[test]
    fn clients_say_what_they_take() {
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
    fn an_answer_as_it_is_may_be_refused() {
        for refusing in ["identity;q=0", "*;q=0", "gzip, *;q=0"] {
            assert!(accepted(&[refusing]).refuses_identity(), "{refusing}");
        }
        for other in ["", "gzip", "*;q=0, identity;q=0.1", "identity"] {
            assert!(!accepted(&[other]).refuses_identity(), "{other}");
        }
    }

    #[test]
    fn texts_are_told_by_their_type() {
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
