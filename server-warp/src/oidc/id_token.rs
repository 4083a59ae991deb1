//! Verification of ID tokens (OpenID Connect Core 1.0, section 3.1.3.7).

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
    #[error("the ID token cannot be read, or its algorithm is not permitted")]
    Unreadable,
    #[error("the ID token is signed with an unknown key")]
    UnknownKey,
    #[error("the signature of the ID token is not valid")]
    Signature,
    #[error("the ID token lacks a claim, or one has another type")]
    Malformed,
    #[error("the ID token is of another issuer")]
    Issuer,
    #[error("the ID token is for another client")]
    Audience,
    #[error("the ID token has expired, or is from the future")]
    Time,
    #[error("the ID token belongs to another sign-in")]
    Nonce,
}

#[derive(Deserialize)]
struct Required {
    iss: String,
    sub: String,
    aud: Audience,
    azp: Option<String>,
    exp: f64,
    iat: f64,
    nbf: Option<f64>,
    nonce: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

/// Verifies an ID token by one of these keys, and returns its claims.
pub(super) fn verify(
    token: &str,
    keys: &[Jwk],
    expected: &Expected<'_>,
) -> Result<Claims, InvalidToken> {
    signature::install();
    let header = decode_header(token).map_err(|_| InvalidToken::Unreadable)?;
    // Nothing that a header may declare critical is understood here (RFC 7515, section 4.1.11).
    // Other kinds of tokens have other types (RFC 8725, section 3.11).
    let is_plain = |typ: &String| typ.eq_ignore_ascii_case("JWT");
    let is_id_token = header.crit.is_none() && header.typ.as_ref().is_none_or(is_plain);
    if !ALGORITHMS.contains(&header.alg) || !is_id_token {
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
            Ok(verified) => return check(verified.claims, expected),
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
    if found.sub.is_empty() || found.sub.len() > SUBJECT_BYTES_MAX {
        return Err(InvalidToken::Malformed);
    }
    let mut times = [found.exp, found.iat].into_iter().chain(found.nbf);
    if !times.all(|time| (0.0..=SECONDS_MAX).contains(&time)) {
        return Err(InvalidToken::Malformed);
    }
    if found.iss != expected.issuer {
        return Err(InvalidToken::Issuer);
    }
    let client = expected.client_id;
    let (is_audience, is_only_one) = match &found.aud {
        Audience::One(audience) => (audience == client, true),
        Audience::Many(all) => (all.iter().any(|one| one == client), all.len() == 1),
    };
    let is_authorized = match &found.azp {
        Some(azp) => azp == client,
        None => is_only_one,
    };
    if !is_audience || !is_authorized {
        return Err(InvalidToken::Audience);
    }
    let now = expected.now.as_seconds();
    let (earliest, latest) = ((now - LEEWAY_SECONDS) as f64, (now + LEEWAY_SECONDS) as f64);
    let is_begun = found.iat <= latest && found.nbf.is_none_or(|nbf| nbf <= latest);
    if found.exp <= earliest || !is_begun {
        return Err(InvalidToken::Time);
    }
    if found.nonce != expected.nonce {
        return Err(InvalidToken::Nonce);
    }
    Ok(claims)
}
