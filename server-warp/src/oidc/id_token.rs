//! Verification of ID tokens (OpenID Connect Core 1.0, section 3.1.3.7), and of the signatures of
//! all tokens of the provider.

use jsonwebtoken::jwk::{Jwk, KeyOperations, PublicKeyUse};
use jsonwebtoken::{DecodingKey, Header, Validation, decode, decode_header};
use knowledge_core::model::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::signature::{self, ALGORITHMS};

/// Tolerated difference between the clocks of the provider and of this server, in seconds.
const LEEWAY_SECONDS: i64 = 60;
/// Maximum length of a subject (OpenID Connect Core 1.0, section 2).
const SUBJECT_BYTES_MAX: usize = 255;
/// End of the year 9999, in seconds since 1970; no later time is plausible.
const SECONDS_MAX: f64 = 253_402_300_799.0;

/// Claims about a person, by name.
pub(super) type Claims = Map<String, Value>;

/// Values that an ID token must have.
pub(super) struct Expected<'e> {
    pub(super) issuer: &'e str,
    pub(super) client_id: &'e str,
    pub(super) nonce: &'e str,
    pub(super) now: Timestamp,
}

/// Reason to reject an ID token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum InvalidToken {
    #[error("the token cannot be read, or its algorithm is not permitted")]
    Unreadable,
    #[error("the token is signed with an unknown key")]
    UnknownKey,
    #[error("the signature of the token is not valid")]
    Signature,
    #[error("the token lacks a claim, or one has another type")]
    Malformed,
    #[error("the token is of another issuer")]
    Issuer,
    #[error("the token is for another client")]
    Audience,
    #[error("the token has expired, or is from the future")]
    Time,
    #[error("the token belongs to another sign-in")]
    Nonce,
}

#[derive(Deserialize)]
struct Required {
    #[serde(flatten)]
    registered: Registered,
    azp: Option<String>,
    nonce: String,
}

/// Claims that every token of the provider has (RFC 7519, section 4.1).
#[derive(Deserialize)]
pub(super) struct Registered {
    iss: String,
    sub: String,
    aud: Audience,
    exp: f64,
    iat: f64,
    nbf: Option<f64>,
}

impl Registered {
    /// Checks that the token is about a person, from this issuer, for this recipient, and valid now.
    pub(super) fn check(
        &self,
        issuer: &str,
        recipient: &str,
        now: Timestamp,
    ) -> Result<(), InvalidToken> {
        let is_subject = (1..=SUBJECT_BYTES_MAX).contains(&self.sub.len());
        let mut times = [self.exp, self.iat].into_iter().chain(self.nbf);
        if !is_subject || !times.all(|time| (0.0..=SECONDS_MAX).contains(&time)) {
            return Err(InvalidToken::Malformed);
        }
        if self.iss != issuer {
            return Err(InvalidToken::Issuer);
        }
        if !self.aud.contains(recipient) {
            return Err(InvalidToken::Audience);
        }
        let now = now.as_seconds();
        let (earliest, latest) = ((now - LEEWAY_SECONDS) as f64, (now + LEEWAY_SECONDS) as f64);
        let is_begun = self.iat <= latest && self.nbf.is_none_or(|nbf| nbf <= latest);
        if self.exp <= earliest || !is_begun {
            return Err(InvalidToken::Time);
        }
        Ok(())
    }
}

/// Recipients of a token (RFC 7519, section 4.1.3).
#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

impl Audience {
    /// Returns true if a recipient is among them.
    fn contains(&self, recipient: &str) -> bool {
        match self {
            Self::One(one) => one == recipient,
            Self::Many(all) => all.iter().any(|one| one == recipient),
        }
    }
}

/// Verifies an ID token by one of these keys, and returns its claims.
pub(super) fn verify(
    token: &str,
    keys: &[Jwk],
    expected: &Expected<'_>,
) -> Result<Claims, InvalidToken> {
    // Other kinds of tokens have other types (RFC 8725, section 3.11).
    let is_id_token =
        |typ: Option<&str>| typ.is_none_or(|typ: &str| typ.eq_ignore_ascii_case("JWT"));
    let claims = verify_claims(token, keys, is_id_token)?;
    check(claims, expected)
}

/// Verifies the signature of a JWT with an expected type by one of these keys, and returns its
/// claims, unchecked.
pub(super) fn verify_claims(
    token: &str,
    keys: &[Jwk],
    is_type: impl FnOnce(Option<&str>) -> bool,
) -> Result<Claims, InvalidToken> {
    signature::install();
    let header = decode_header(token).map_err(|_| InvalidToken::Unreadable)?;
    // Nothing that a header may declare critical is understood here (RFC 7515, section 4.1.11).
    let is_expected = header.crit.is_none() && is_type(header.typ.as_deref());
    if !ALGORITHMS.contains(&header.alg) || !is_expected {
        return Err(InvalidToken::Unreadable);
    }
    let mut validation = Validation::new(header.alg);
    // Claims are checked below, by the clock of the service.
    validation.validate_exp = false;
    validation.validate_aud = false;
    validation.required_spec_claims.clear();
    let mut error = InvalidToken::UnknownKey;
    for key in keys.iter().filter(|key| may_have_signed(key, &header)) {
        let Ok(key) = DecodingKey::from_jwk(key) else {
            continue;
        };
        if key.family() != header.alg.family() {
            continue;
        }
        match decode::<Claims>(token, &key, &validation) {
            Ok(verified) => return Ok(verified.claims),
            Err(_) if header.kid.is_some() => error = InvalidToken::Signature,
            // A key that is not among these may have signed it.
            Err(_) => {}
        }
    }
    Err(error)
}

/// Returns true for a key that the header names, or does not exclude.
fn may_have_signed(key: &Jwk, header: &Header) -> bool {
    let common = &key.common;
    let is_named = header.kid.is_none() || header.kid == common.key_id;
    let is_for_signatures = matches!(common.public_key_use, None | Some(PublicKeyUse::Signature));
    let operations = common.key_operations.as_ref();
    let is_for_verification = operations.is_none_or(|all| all.contains(&KeyOperations::Verify));
    let algorithm = common.key_algorithm;
    let is_for_algorithm = algorithm.is_none_or(|algorithm| algorithm == header.alg.into());
    is_named && is_for_signatures && is_for_verification && is_for_algorithm
}

fn check(claims: Claims, expected: &Expected<'_>) -> Result<Claims, InvalidToken> {
    let required = Value::Object(claims.clone());
    let found: Required = serde_json::from_value(required).map_err(|_| InvalidToken::Malformed)?;
    let (client, registered) = (expected.client_id, &found.registered);
    registered.check(expected.issuer, client, expected.now)?;
    let is_only_one = match &registered.aud {
        Audience::One(_) => true,
        Audience::Many(all) => all.len() == 1,
    };
    let is_authorized = match &found.azp {
        Some(azp) => azp == client,
        None => is_only_one,
    };
    if !is_authorized {
        return Err(InvalidToken::Audience);
    }
    if found.nonce != expected.nonce {
        return Err(InvalidToken::Nonce);
    }
    Ok(claims)
}
