//! The session cookie.

use http::HeaderValue;
use knowledge_core::api::front_end::SESSION_COOKIE;
use knowledge_core::service::Issued;

use crate::net::ClientScheme;

/// Returns the `Set-Cookie` of a new session, for as long as it is valid at most.
///
/// `HttpOnly` hides it from scripts, and `SameSite=Lax` from requests of other sites, except that
/// following a link there sends it, with a method that changes nothing.
pub(super) fn set_session(issued: &Issued, scheme: ClientScheme) -> HeaderValue {
    let session = &issued.record;
    let milliseconds = session.expires_at.as_millis() - session.created_at.as_millis();
    cookie(issued.secret.expose(), milliseconds / 1_000, scheme)
}

/// Returns the `Set-Cookie` that removes a session.
pub(super) fn clear_session(scheme: ClientScheme) -> HeaderValue {
    cookie("", 0, scheme)
}

fn cookie(value: &str, max_age_seconds: i64, scheme: ClientScheme) -> HeaderValue {
    let secure = match scheme {
        ClientScheme::Http => "",
        ClientScheme::Https => "; Secure",
    };
    let text = format!(
        "{SESSION_COOKIE}={value}; Path=/; Max-Age={max_age_seconds}; HttpOnly; SameSite=Lax{secure}"
    );
    let mut cookie = HeaderValue::try_from(text).expect("secrets are visible ASCII");
    cookie.set_sensitive(true);
    cookie
}
