//! The session cookie, and the cookie of a sign-in that has begun.

use http::HeaderValue;
use knowledge_core::api::ClientScheme;
use knowledge_core::api::front_end::SESSION_COOKIE;
use knowledge_core::service::Issued;

#[cfg(feature = "oidc")]
use crate::oidc::ATTEMPT_LIFETIME;

/// Name of the cookie of a sign-in with a provider.
#[cfg(feature = "oidc")]
pub(super) const ATTEMPT_COOKIE: &str = "service_sign_in";

/// Returns the `Set-Cookie` of a new session, for as long as it is valid at most, below this base
/// URL: other applications of the same host do not get it.
///
/// `HttpOnly` hides it from scripts, and `SameSite=Lax` from requests of other sites, except for a
/// link that is followed there, whose method changes nothing.
pub(super) fn set_session(issued: &Issued, base_url: &str, scheme: ClientScheme) -> HeaderValue {
    let session = &issued.record;
    let milliseconds = session.expires_at.as_millis() - session.created_at.as_millis();
    let session = (SESSION_COOKIE, issued.secret.expose());
    cookie(
        session,
        &session_path(base_url),
        milliseconds / 1_000,
        scheme,
    )
}

/// Returns the `Set-Cookie` that removes a session.
pub(super) fn clear_session(base_url: &str, scheme: ClientScheme) -> HeaderValue {
    cookie((SESSION_COOKIE, ""), &session_path(base_url), 0, scheme)
}

fn session_path(base_url: &str) -> String {
    match path_of(base_url) {
        path if path.is_empty() => "/".to_owned(),
        path => path,
    }
}

/// Returns the path of a base URL without a slash at its end.
fn path_of(base_url: &str) -> String {
    let url = url::Url::parse(base_url);
    let path = url.as_ref().map_or("", url::Url::path);
    path.trim_end_matches('/').to_owned()
}

/// Returns the `Set-Cookie` of a sealed sign-in, for the paths of sign-ins below this base URL.
///
/// `SameSite=Lax`, as the provider's page leads back.
#[cfg(feature = "oidc")]
pub(super) fn set_attempt(sealed: &str, base_url: &str, scheme: ClientScheme) -> HeaderValue {
    let seconds = i64::try_from(ATTEMPT_LIFETIME.as_secs()).unwrap_or(i64::MAX);
    let path = attempt_path(base_url);
    cookie((ATTEMPT_COOKIE, sealed), &path, seconds, scheme)
}

/// Returns the `Set-Cookie` that removes a sign-in.
#[cfg(feature = "oidc")]
pub(super) fn clear_attempt(base_url: &str, scheme: ClientScheme) -> HeaderValue {
    cookie((ATTEMPT_COOKIE, ""), &attempt_path(base_url), 0, scheme)
}

#[cfg(feature = "oidc")]
fn attempt_path(base_url: &str) -> String {
    format!("{}/auth/oidc", path_of(base_url))
}

fn cookie(
    (name, value): (&str, &str),
    path: &str,
    max_age_seconds: i64,
    scheme: ClientScheme,
) -> HeaderValue {
    let secure = match scheme {
        ClientScheme::Http => "",
        ClientScheme::Https => "; Secure",
    };
    let text = format!(
        "{name}={value}; Path={path}; Max-Age={max_age_seconds}; HttpOnly; SameSite=Lax{secure}"
    );
    let mut cookie = HeaderValue::try_from(text).expect("secrets and paths are visible ASCII");
    cookie.set_sensitive(true);
    cookie
}

#[cfg(all(test, feature = "oidc"))]
mod tests {
    use super::*;

    #[test]
    fn session_is_sent_below_the_base_url_only() {
        for (base_url, path) in [
            ("http://127.0.0.1:8080", "/"),
            ("https://example.com/", "/"),
            ("https://example.com/kn", "/kn"),
            ("https://example.com/a/kn/", "/a/kn"),
            ("", "/"),
        ] {
            let cleared = clear_session(base_url, ClientScheme::Http);
            let expected =
                format!("service_session=; Path={path}; Max-Age=0; HttpOnly; SameSite=Lax");
            assert_eq!(cleared, expected.as_str());
        }
    }

    #[test]
    fn attempt_is_sent_to_the_paths_of_sign_ins_only() {
        let (http, https) = (ClientScheme::Http, ClientScheme::Https);
        let set = |base_url, scheme| set_attempt("c+d/e==", base_url, scheme);
        assert_eq!(
            set("http://127.0.0.1:8080", http),
            "service_sign_in=c+d/e==; Path=/auth/oidc; Max-Age=600; HttpOnly; SameSite=Lax"
        );
        // A proxy may serve the pages below a path.
        let below = "https://example.com/below";
        assert_eq!(
            set(below, https),
            "service_sign_in=c+d/e==; Path=/below/auth/oidc; Max-Age=600; HttpOnly; SameSite=Lax; \
             Secure"
        );
        assert_eq!(
            clear_attempt(below, https),
            "service_sign_in=; Path=/below/auth/oidc; Max-Age=0; HttpOnly; SameSite=Lax; Secure"
        );
    }
}
