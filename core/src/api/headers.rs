//! Reads the headers of a request.

use http::{HeaderMap, HeaderName, HeaderValue, Method, header};

use crate::access::{Credential, CredentialKind, Secret};
use crate::error::{Error, ProblemCode};
use crate::service::{IdempotencyKey, IfMatch, SignedMessage};

/// Name of the cookie that carries a session.
pub(super) const SESSION_COOKIE: &str = "service_session";
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Signed headers and signature of a message (Standard Webhooks 1.0.0).
const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Reads the credential of the kind that the operation uses.
///
/// # Errors
/// [`Error::Unauthenticated`] if it is missing or malformed.
pub(super) fn credential(headers: &HeaderMap, kind: CredentialKind) -> Result<Credential, Error> {
    let (text, missing) = match kind {
        CredentialKind::Bearer => (
            bearer(headers),
            "an access token is required; send Authorization: Bearer wkt_...",
        ),
        CredentialKind::Session => (
            session(headers),
            "a session is required; send Cookie: service_session=wks_...",
        ),
    };
    let text = text.ok_or(Error::Unauthenticated { reason: missing })?;
    let unknown = Error::Unauthenticated {
        reason: "the credential is unknown, expired or revoked",
    };
    text.parse::<Secret>()
        .map(Credential::from)
        .map_err(|_| unknown)
}

/// Returns true if an access token was sent, valid or not.
pub(super) fn has_token(headers: &HeaderMap) -> bool {
    bearer(headers).is_some()
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers
        .get(header::AUTHORIZATION)?
        .to_str()
        .ok()?
        .split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn session(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers
        .get_all(header::COOKIE)
        .into_iter()
        .filter_map(|value| value.to_str().ok());
    cookies.flat_map(|line| line.split(';')).find_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        (name == SESSION_COOKIE).then_some(value)
    })
}

/// Reads the idempotency key, which is required.
pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<IdempotencyKey, Error> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).into_iter();
    let invalid =
        |message: String| Error::invalid("Idempotency-Key", ProblemCode::InvalidValue, message);
    match (values.next(), values.next()) {
        (None, _) => Err(Error::IdempotencyKeyRequired),
        (Some(_), Some(_)) => Err(invalid("must not be repeated".to_owned())),
        (Some(value), None) => {
            let text = value.to_str().unwrap_or_default().trim();
            text.parse()
                .map_err(|error: crate::service::InvalidIdempotencyKey| invalid(error.to_string()))
        }
    }
}

/// Reads the signed message of a request with this body.
///
/// Each of the three headers of Standard Webhooks has to be sent exactly once.
///
/// # Errors
/// [`Error::Unauthenticated`].
pub(super) fn signed_message<'m>(
    headers: &'m HeaderMap,
    body: &'m [u8],
) -> Result<SignedMessage<'m>, Error> {
    let one = |name: HeaderName| {
        let mut values = headers.get_all(name).into_iter();
        let value = values.next().filter(|_| values.next().is_none());
        value.map(HeaderValue::as_bytes).ok_or(Error::Unauthenticated {
            reason: "the message is not signed; send webhook-id, webhook-timestamp and webhook-signature once each",
        })
    };
    Ok(SignedMessage {
        id: one(WEBHOOK_ID)?,
        timestamp: one(WEBHOOK_TIMESTAMP)?,
        signature: one(WEBHOOK_SIGNATURE)?,
        body,
    })
}

/// Reads the precondition of a change, if there is one (RFC 9110, 13.1.1).
pub(super) fn if_match(headers: &HeaderMap) -> Option<IfMatch> {
    let tags = entity_tags(headers, &header::IF_MATCH)?;
    Some(if tags.iter().any(|tag| tag == "*") {
        IfMatch::Any
    } else {
        IfMatch::Tags(tags)
    })
}

/// Returns true if the caller already has the response with this entity tag.
///
/// The comparison is weak (RFC 9110, 13.1.2).
pub(super) fn has_current(headers: &HeaderMap, etag: &str) -> bool {
    let opaque = |tag: &str| tag.strip_prefix("W/").unwrap_or(tag).to_owned();
    entity_tags(headers, &header::IF_NONE_MATCH).is_some_and(|tags| {
        tags.iter()
            .any(|tag| tag == "*" || opaque(tag) == opaque(etag))
    })
}

fn entity_tags(headers: &HeaderMap, name: &HeaderName) -> Option<Vec<String>> {
    if !headers.contains_key(name) {
        return None;
    }
    // Entity tags of this service contain no comma, so commas separate them.
    let lines = headers
        .get_all(name)
        .into_iter()
        .filter_map(|value| value.to_str().ok());
    Some(
        lines
            .flat_map(|line| line.split(','))
            .map(|tag| tag.trim().to_owned())
            .collect(),
    )
}

/// Rejects a cross-site write with a session cookie, unless its origin is one of the `trusted`.
pub(super) fn reject_cross_site(
    headers: &HeaderMap,
    method: &Method,
    trusted: &[String],
) -> Result<(), Error> {
    if matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) {
        return Ok(());
    }
    // Browsers set the origin themselves, so that no page can forge it.
    if let Some(origin) = headers.get(header::ORIGIN)
        && trusted.iter().any(|trusted| origin == trusted)
    {
        return Ok(());
    }
    let cross_site =
        || Error::forbidden("cross-site requests with a session cookie are not allowed");
    let text = |name: &HeaderName| {
        headers
            .get(name)
            .map(|value| value.to_str().unwrap_or_default())
    };
    if text(&SEC_FETCH_SITE)
        .is_some_and(|site| !matches!(site, "same-origin" | "same-site" | "none"))
    {
        return Err(cross_site());
    }
    let Some(origin) = text(&header::ORIGIN) else {
        return Ok(());
    };
    let origin_host = origin.split_once("://").map(|(_, host)| host);
    match (origin_host, text(&header::HOST)) {
        (Some(origin), Some(host)) if origin.eq_ignore_ascii_case(host) => Ok(()),
        // The browser confirms the same site; its port or subdomain may differ.
        _ if text(&SEC_FETCH_SITE)
            .is_some_and(|site| matches!(site, "same-origin" | "same-site")) =>
        {
            Ok(())
        }
        _ => Err(cross_site()),
    }
}

/// Rejects a body whose content type is not JSON.
pub(super) fn require_json(headers: &HeaderMap, has_body: bool) -> Result<(), Error> {
    if !has_body {
        return Ok(());
    }
    if headers
        .get(header::CONTENT_ENCODING)
        .is_some_and(|encoding| encoding != "identity")
    {
        return Err(Error::UnsupportedMediaType);
    }
    let content_type = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let mut parts = content_type.split(';').map(str::trim);
    let is_json = parts
        .next()
        .is_some_and(|essence| essence.eq_ignore_ascii_case("application/json"));
    let is_utf8 = parts.all(|parameter| match parameter.split_once('=') {
        Some((name, value)) if name.trim().eq_ignore_ascii_case("charset") => {
            value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
        }
        _ => true,
    });
    if is_json && is_utf8 {
        Ok(())
    } else {
        Err(Error::UnsupportedMediaType)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn session_is_found_among_other_cookies() {
        let found = headers(&[("cookie", "a=1; service_session=wks_x"), ("cookie", "b=2")]);
        assert_eq!(session(&found), Some("wks_x"));
        assert_eq!(
            session(&headers(&[("cookie", "not_service_session=1")])),
            None
        );
    }

    #[test]
    fn bearer_scheme_is_case_insensitive() {
        assert_eq!(
            bearer(&headers(&[("authorization", "bearer wkt_x")])),
            Some("wkt_x")
        );
        assert_eq!(bearer(&headers(&[("authorization", "Basic wkt_x")])), None);
        assert_eq!(bearer(&headers(&[("authorization", "wkt_x")])), None);
    }

    #[test]
    fn cross_site_write_is_rejected() {
        let is_rejected = |pairs: &[(&str, &str)]| {
            reject_cross_site(&headers(pairs), &Method::PATCH, &[]).is_err()
        };
        assert!(!is_rejected(&[]));
        assert!(!is_rejected(&[
            ("sec-fetch-site", "same-origin"),
            ("origin", "https://a.example"),
            ("host", "internal")
        ]));
        assert!(!is_rejected(&[
            ("origin", "https://a.example"),
            ("host", "a.example")
        ]));
        assert!(is_rejected(&[("sec-fetch-site", "cross-site")]));
        assert!(is_rejected(&[
            ("origin", "https://evil.example"),
            ("host", "a.example")
        ]));
        assert!(is_rejected(&[("origin", "null"), ("host", "a.example")]));
        let reading = headers(&[("sec-fetch-site", "cross-site")]);
        assert!(reject_cross_site(&reading, &Method::GET, &[]).is_ok());
    }

    #[test]
    fn cross_site_write_from_trusted_origin_is_accepted() {
        let trusted = ["https://app.example".to_owned()];
        let is_rejected = |origin: &str| {
            let pairs = [
                ("sec-fetch-site", "cross-site"),
                ("origin", origin),
                ("host", "a.example"),
            ];
            reject_cross_site(&headers(&pairs), &Method::PATCH, &trusted).is_err()
        };
        assert!(!is_rejected("https://app.example"));
        assert!(is_rejected("http://app.example"));
        assert!(is_rejected("https://app.example:8443"));
        assert!(is_rejected("https://app.example.evil.example"));
        assert!(is_rejected("null"));
    }

    #[test]
    fn json_body_requires_json_content_type() {
        let is_rejected = |pairs: &[(&str, &str)]| require_json(&headers(pairs), true).is_err();
        assert!(!is_rejected(&[("content-type", "application/json")]));
        assert!(!is_rejected(&[(
            "content-type",
            "Application/JSON; charset=\"UTF-8\""
        )]));
        assert!(is_rejected(&[]));
        assert!(is_rejected(&[("content-type", "text/plain")]));
        assert!(is_rejected(&[(
            "content-type",
            "application/json; charset=latin1"
        )]));
        assert!(is_rejected(&[
            ("content-type", "application/json"),
            ("content-encoding", "gzip")
        ]));
        assert!(require_json(&headers(&[]), false).is_ok());
    }

    #[test]
    fn if_none_match_compares_etags_weakly() {
        let found = headers(&[("if-none-match", "\"a\", W/\"b\"")]);
        assert!(has_current(&found, "W/\"a\""));
        assert!(has_current(&found, "W/\"b\""));
        assert!(!has_current(&found, "W/\"c\""));
        assert_eq!(if_match(&headers(&[("if-match", "*")])), Some(IfMatch::Any));
    }
}
