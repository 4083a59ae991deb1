//! Access tokens of the provider as bearer tokens: JWTs by the profile of RFC 9068.

use jsonwebtoken::jwk::Jwk;
use knowledge_core::model::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::id_token::{Claims, InvalidToken, Registered, verify_claims};

/// Types of a JWT access token (RFC 9068, section 2.1). A token for another purpose has another
/// type.
const TYPES: [&str; 2] = ["at+jwt", "application/at+jwt"];

/// Values that an access token must have.
pub(super) struct Expected<'e> {
    pub(super) issuer: &'e str,
    /// This server, as the provider knows it.
    pub(super) audience: &'e str,
    pub(super) now: Timestamp,
}

/// Claims that RFC 9068, section 2.2, requires.
#[derive(Deserialize)]
struct Required {
    #[serde(flatten)]
    registered: Registered,
    #[serde(rename = "client_id")]
    _client_id: String,
    #[serde(rename = "jti")]
    _jti: String,
}

/// Returns true for a bearer token in the form of a JWT, which no token of the service has.
pub(super) fn is_jwt(token: &str) -> bool {
    token.split('.').count() == 3
}

/// Verifies an access token by one of these keys (RFC 9068, section 4), and returns its claims.
pub(super) fn verify(
    token: &str,
    keys: &[Jwk],
    expected: &Expected<'_>,
) -> Result<Claims, InvalidToken> {
    let is_access_token = |typ: Option<&str>| {
        typ.is_some_and(|typ| TYPES.iter().any(|known| typ.eq_ignore_ascii_case(known)))
    };
    let claims = verify_claims(token, keys, is_access_token)?;
    let required = Value::Object(claims.clone());
    let found: Required = serde_json::from_value(required).map_err(|_| InvalidToken::Malformed)?;
    let registered = &found.registered;
    registered.check(expected.issuer, expected.audience, expected.now)?;
    Ok(claims)
}

/// Returns what a client is told about an access token that is not valid.
pub(super) fn reason(error: InvalidToken) -> &'static str {
    match error {
        InvalidToken::Unreadable => {
            "the access token is no JWT of the type at+jwt with a permitted algorithm"
        }
        InvalidToken::UnknownKey | InvalidToken::Signature => {
            "the signature of the access token is not valid"
        }
        InvalidToken::Malformed => "the access token lacks a claim, or one has another type",
        InvalidToken::Issuer => "the access token is of another issuer",
        InvalidToken::Audience => "the access token is for another audience",
        InvalidToken::Time => "the access token has expired, or is from the future",
        InvalidToken::Nonce => "the access token is of another sign-in",
    }
}
