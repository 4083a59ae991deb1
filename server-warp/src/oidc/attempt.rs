//! A sign-in that a browser has begun.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use knowledge_core::env::Env;
use knowledge_core::model::Timestamp;
use knowledge_core::service::KnowledgeService;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::error::SignInError;

/// Time within which a sign-in has to be completed.
pub(crate) const ATTEMPT_LIFETIME: Duration = Duration::from_secs(10 * 60);
/// Maximum length of the place to return to, in bytes.
const RETURN_BYTES_MAX: usize = 512;
/// Purpose of the sealed texts, different from every other identifier.
const PURPOSE: Uuid = Uuid::from_u128(0x6f1d_c0de_5a1e_8d1c_a77e_3b90_51c4_e2f7);

/// State of a sign-in.
///
/// The browser that has begun the sign-in keeps the state in a cookie, sealed with the key that all
/// servers over one store share. Any of these servers can complete the sign-in, and no other
/// browser can.
#[derive(Serialize, Deserialize)]
pub(crate) struct Attempt {
    /// Value that the provider returns with the code.
    pub(super) state: String,
    /// Value that the provider repeats in the ID token.
    pub(super) nonce: String,
    /// PKCE code verifier (RFC 7636).
    pub(super) verifier: String,
    pub(super) return_to: ReturnTo,
    expires_at: Timestamp,
}

impl Attempt {
    pub(super) fn new(env: &Env, return_to: ReturnTo) -> Self {
        let random = || URL_SAFE_NO_PAD.encode(env.random::<32>());
        Self {
            state: random(),
            nonce: random(),
            verifier: random(),
            return_to,
            expires_at: env.now().plus(ATTEMPT_LIFETIME),
        }
    }

    /// Returns the PKCE code challenge, by the method `S256`.
    pub(super) fn code_challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(Sha256::digest(&self.verifier))
    }

    pub(super) fn seal(&self, service: &KnowledgeService) -> String {
        let text = serde_json::to_string(self).expect("texts serialise");
        service.seal_text(&text, PURPOSE)
    }

    /// Opens a sealed attempt; `None` if it was not sealed by this service, or has expired.
    pub(super) fn open(service: &KnowledgeService, sealed: &str) -> Option<Self> {
        let text = service.open_text(sealed, PURPOSE)?;
        let attempt: Self = serde_json::from_str(&text).ok()?;
        (service.env().now() < attempt.expires_at).then_some(attempt)
    }
}

/// Place in the console to return to: a fragment, so that it cannot lead to another page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReturnTo(String);

impl ReturnTo {
    /// Reads the fragment of a screen, such as `#/handbook/members`; empty for the first screen.
    ///
    /// # Errors [`SignInError::InvalidReturn`] for anything else, also for the fragment of a login
    /// link, which could sign the browser in as somebody else.
    pub(crate) fn parse(text: &str) -> Result<Self, SignInError> {
        let is_url_character =
            |byte: u8| byte.is_ascii_graphic() && !b"\\\"<>^`{|}".contains(&byte);
        let is_place = text.strip_prefix("#/").is_some_and(|place| {
            text.len() <= RETURN_BYTES_MAX
                && place.bytes().all(is_url_character)
                && place.split('/').next() != Some("login")
        });
        if text.is_empty() || is_place {
            Ok(Self(text.to_owned()))
        } else {
            Err(SignInError::InvalidReturn)
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn return_is_limited_to_places_of_the_console() {
        for place in [
            "",
            "#/",
            "#/login-team/members",
            "#/handbook/members/a?status=pending&q=a%20b",
        ] {
            assert_eq!(ReturnTo::parse(place).unwrap().as_str(), place);
        }
        let long = format!("#/{}", "a".repeat(RETURN_BYTES_MAX));
        for other in [
            "/",
            "//evil.example",
            "https://evil.example/",
            "javascript:alert(1)",
            "/\\evil.example",
            "#",
            "#handbook",
            "?a=#/handbook",
            "#/a\r\nSet-Cookie: a=b",
            "#/a b",
            "#/<script>",
            "#/\u{e9}",
            "#/login/wkl_1_ab",
            &long,
        ] {
            assert!(ReturnTo::parse(other).is_err(), "{other}");
        }
    }
}
