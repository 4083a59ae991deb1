//! Reads the headers of a request.

use http::{HeaderMap, HeaderName, HeaderValue, Method, header};

use super::client_scheme::ClientScheme;
use crate::access::{Credential, CredentialKind, InvalidMemberRef, MemberRef, Secret};
use crate::error::{Error, ProblemCode};
use crate::service::{IdempotencyKey, IfMatch, SignedMessage};

/// Name of the cookie that carries a session.
pub const SESSION_COOKIE: &str = "service_session";
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Name of the header with the member that a service account acts for.
pub(super) const ACT_FOR: HeaderName = HeaderName::from_static("knowledge-act-for");
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
            cookie(headers, SESSION_COOKIE),
            "a session is required; send Cookie: service_session=wks_...",
        ),
        CredentialKind::Link => (None, "a login link authenticates no operation"),
    };
    let text = text.ok_or(Error::Unauthenticated { reason: missing })?;
    let unknown = Error::Unauthenticated {
        reason: "the credential is unknown, expired or revoked",
    };
    text.parse::<Secret>()
        .map(Credential::from)
        .map_err(|_| unknown)
}

/// Reads the member that a service account acts for, if there is one.
///
/// # Errors
/// [`Error::Forbidden`] if it is repeated or malformed, or with a session: a request that names
/// somebody is never carried out for another one.
pub(super) fn act_for(
    headers: &HeaderMap,
    kind: CredentialKind,
) -> Result<Option<MemberRef>, Error> {
    let mut values = headers.get_all(ACT_FOR).into_iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if kind != CredentialKind::Bearer {
        let reason = "Knowledge-Act-For requires an access token: nobody acts with a session";
        return Err(Error::forbidden(reason));
    }
    let text = value.to_str().ok().filter(|_| values.next().is_none());
    let member = text.and_then(|text| text.trim().parse().ok());
    let reason = format!("Knowledge-Act-For {InvalidMemberRef}, sent once");
    member.map(Some).ok_or_else(|| Error::forbidden(reason))
}

/// Returns true if an access token was sent, valid or not.
pub(super) fn has_token(headers: &HeaderMap) -> bool {
    bearer(headers).is_some()
}

/// Returns the bearer token, unless several were sent: a proxy could have checked another one.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(header::AUTHORIZATION).into_iter();
    let value = values.next().filter(|_| values.next().is_none())?;
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Returns the value of a cookie; `None` also if several with this name were sent.
pub fn cookie<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let cookies = headers
        .get_all(header::COOKIE)
        .into_iter()
        .filter_map(|value| value.to_str().ok());
    let mut values = cookies.flat_map(|line| line.split(';')).filter_map(|pair| {
        let (found, value) = pair.trim().split_once('=')?;
        (found == name).then_some(value)
    });
    values.next().filter(|_| values.next().is_none())
}

/// Reads the idempotency key, if there is one.
///
/// # Errors
/// As [`idempotency_key`] for an invalid one.
pub(super) fn optional_idempotency_key(
    headers: &HeaderMap,
) -> Result<Option<IdempotencyKey>, Error> {
    if headers.contains_key(IDEMPOTENCY_KEY) {
        idempotency_key(headers).map(Some)
    } else {
        Ok(None)
    }
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
        value
            .map(HeaderValue::as_bytes)
            .ok_or(Error::Unauthenticated {
                reason: "the message is not signed; send webhook-id, webhook-timestamp and \
                webhook-signature once each",
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

/// Rejects a write with a session cookie by a page of another origin that is not `trusted`.
///
/// Browsers set `Sec-Fetch-Site` and `Origin` themselves, so that no page can forge them, and send
/// at least one of them with every write: a write without both comes from a program. `none` is a
/// request of the user, who visits an address: it has no `Origin`. A page that came without TLS,
/// which anybody in between could have written, is no page of a service with TLS.
///
/// # Errors
/// [`Error::Forbidden`] for another origin, or with one of the headers repeated.
pub(super) fn reject_cross_site(
    headers: &HeaderMap,
    method: &Method,
    scheme: ClientScheme,
    trusted: &[String],
) -> Result<(), Error> {
    if method.is_safe() {
        return Ok(());
    }
    let text = |name: &HeaderName| {
        let value = headers.get(name)?;
        Some(value.to_str().unwrap_or_default())
    };
    for name in [&SEC_FETCH_SITE, &header::ORIGIN] {
        if headers.get_all(name).into_iter().nth(1).is_some() {
            return Err(Error::forbidden(format!("{name} must not be repeated")));
        }
    }
    let (site, origin) = (text(&SEC_FETCH_SITE), text(&header::ORIGIN));
    let is_trusted = |origin: &str| trusted.iter().any(|trusted| origin == trusted);
    let is_own = |origin: &str| {
        let Some((of_page, host)) = origin.split_once("://") else {
            return false;
        };
        let is_web = match of_page {
            "https" => true,
            "http" => scheme == ClientScheme::Http,
            _ => false,
        };
        let is_host = |own: &str| host.eq_ignore_ascii_case(own);
        is_web && text(&header::HOST).is_some_and(is_host)
    };
    let is_accepted = match (site, origin) {
        (_, Some(origin)) if is_trusted(origin) => true,
        (Some(site), origin) => site == "same-origin" || (site == "none" && origin.is_none()),
        (None, Some(origin)) => is_own(origin),
        (None, None) => true,
    };
    if is_accepted {
        return Ok(());
    }
    Err(Error::forbidden(
        "cross-origin writes with a session cookie are not allowed",
    ))
}

/// Rejects a request from a page whose origin is neither `trusted` nor the machine of the browser.
///
/// After DNS rebinding, a page keeps the origin of its own name, which is neither.
///
/// # Errors
/// [`Error::Forbidden`].
pub(super) fn reject_foreign_origin(headers: &HeaderMap, trusted: &[String]) -> Result<(), Error> {
    let is_accepted = |origin: &HeaderValue| {
        let Ok(origin) = origin.to_str() else {
            return false;
        };
        let host = match origin.split_once("://") {
            Some(("http" | "https", host)) => host,
            _ => "",
        };
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
            _ => host,
        };
        matches!(name, "localhost" | "127.0.0.1" | "[::1]")
            || trusted.iter().any(|trusted| origin == trusted)
    };
    if headers.get_all(header::ORIGIN).iter().all(is_accepted) {
        return Ok(());
    }
    let reason = "pages of this origin are not allowed; add it to the trusted origins";
    Err(Error::forbidden(reason))
}

/// Rejects a body whose content type is not JSON, or has several.
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
    let mut content_types = headers.get_all(header::CONTENT_TYPE).into_iter();
    let content_type = content_types
        .next()
        .filter(|_| content_types.next().is_none())
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
        assert_eq!(cookie(&found, SESSION_COOKIE), Some("wks_x"));
        assert_eq!(
            cookie(
                &headers(&[("cookie", "not_service_session=1")]),
                SESSION_COOKIE
            ),
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
    fn repeated_credentials_are_none() {
        let token = ("authorization", "Bearer wkt_x");
        assert_eq!(bearer(&headers(&[token, token])), None);
        let session_of =
            |pairs: &[(&str, &str)]| cookie(&headers(pairs), SESSION_COOKIE).map(str::to_owned);
        let cookie = ("cookie", "service_session=wks_x");
        assert_eq!(session_of(&[cookie, cookie]), None);
        let both = ("cookie", "service_session=wks_x; service_session=wks_y");
        assert_eq!(session_of(&[both]), None);
    }

    #[test]
    fn write_with_repeated_origin_headers_is_rejected() {
        let is_accepted = |pairs: &[(&str, &str)]| {
            reject_cross_site(&headers(pairs), &Method::POST, HTTPS, &[]).is_ok()
        };
        assert!(is_accepted(&[HOST, OWN]));
        assert!(!is_accepted(&[HOST, OWN, OTHER]));
        assert!(is_accepted(&[site("none")]));
        assert!(!is_accepted(&[site("none"), site("cross-site")]));
    }

    const OWN: (&str, &str) = ("origin", "https://a.example");
    const OTHER: (&str, &str) = ("origin", "https://b.example");
    const HOST: (&str, &str) = ("host", "a.example");
    const HTTPS: ClientScheme = ClientScheme::Https;

    fn site(value: &str) -> (&str, &str) {
        ("sec-fetch-site", value)
    }

    /// Returns true if a write with these headers is accepted.
    fn writes(pairs: &[(&str, &str)], trusted: &[String]) -> bool {
        reject_cross_site(&headers(pairs), &Method::PATCH, HTTPS, trusted).is_ok()
    }

    #[test]
    fn write_of_same_origin_is_accepted() {
        assert!(writes(&[site("same-origin")], &[]));
        // Behind a proxy, the host may be another than that of the page.
        assert!(writes(
            &[site("same-origin"), OWN, ("host", "internal")],
            &[]
        ));
        assert!(writes(&[site("none")], &[]));
        assert!(writes(&[OWN, HOST], &[]));
        assert!(writes(&[OWN, ("host", "A.example")], &[]));
    }

    #[test]
    fn page_without_tls_is_another_origin_for_a_client_with_tls() {
        let plain = ("origin", "http://a.example");
        let writes = |origin, scheme| {
            reject_cross_site(&headers(&[origin, HOST]), &Method::POST, scheme, &[]).is_ok()
        };
        assert!(writes(plain, ClientScheme::Http));
        assert!(!writes(plain, HTTPS));
        // A proxy may not say that its client used TLS.
        assert!(writes(OWN, ClientScheme::Http));
    }

    #[test]
    fn write_of_another_origin_is_rejected() {
        for value in [
            "same-site",
            "cross-site",
            "something new",
            "",
            "Same-Origin",
        ] {
            assert!(!writes(&[site(value), HOST], &[]), "{value}");
            assert!(!writes(&[site(value), OWN, HOST], &[]), "{value}");
        }
        assert!(!writes(&[site("none"), OWN, HOST], &[]));
        assert!(!writes(&[OTHER, HOST], &[]));
        assert!(!writes(&[("origin", "null"), HOST], &[]));
        assert!(!writes(&[("origin", "wss://a.example"), HOST], &[]));
        assert!(!writes(&[OWN, ("host", "a.example:8443")], &[]));
        assert!(!writes(&[("origin", ""), HOST], &[]));
        assert!(!writes(&[OWN], &[]));
    }

    #[test]
    fn write_without_either_header_is_accepted() {
        for scheme in [HTTPS, ClientScheme::Http] {
            for pairs in [&[][..], &[HOST]] {
                let write = reject_cross_site(&headers(pairs), &Method::PATCH, scheme, &[]);
                assert!(write.is_ok());
            }
        }
    }

    #[test]
    fn read_of_another_origin_is_accepted() {
        for method in [Method::GET, Method::HEAD] {
            let read = headers(&[site("cross-site"), OTHER, HOST]);
            assert!(reject_cross_site(&read, &method, HTTPS, &[]).is_ok());
        }
    }

    #[test]
    fn write_of_trusted_origin_is_accepted() {
        let trusted = ["https://app.example".to_owned()];
        for value in ["same-site", "cross-site", "none"] {
            let writes = |origin| writes(&[site(value), ("origin", origin), HOST], &trusted);
            assert!(writes("https://app.example"));
            assert!(!writes("http://app.example"));
            assert!(!writes("https://app.example:8443"));
            assert!(!writes("https://app.example.evil.example"));
            assert!(!writes("null"));
        }
        assert!(writes(&[("origin", "https://app.example")], &trusted));
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
        for other in ["text/plain", "application/json"] {
            assert!(is_rejected(&[
                ("content-type", "application/json"),
                ("content-type", other)
            ]));
        }
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
