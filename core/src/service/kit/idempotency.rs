//! Idempotency keys, according to the IETF draft "The Idempotency-Key HTTP Header Field".

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::digest::sha256;
use crate::model::{AuditLogId, OperationId, Timestamp};

/// Maximum length of an idempotency key, in characters.
const KEY_CHARS_MAX: usize = 255;

/// A key that the caller chooses for each request and repeats with each retry.
///
/// It has 1 to 255 visible ASCII characters.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(String);

/// An invalid idempotency key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must have 1 to {KEY_CHARS_MAX} visible ASCII characters, bare or as a quoted string")]
pub struct InvalidIdempotencyKey;

impl IdempotencyKey {
    /// Returns the key, without the quotes of its structured form.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for IdempotencyKey {
    type Err = InvalidIdempotencyKey;

    /// Parses a key, bare or as a structured-field string (RFC 9651, 3.3.3).
    ///
    /// Both forms of a key are equal.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let key = match text.strip_prefix('"') {
            Some(quoted) => unquote(quoted).ok_or(InvalidIdempotencyKey)?,
            None => text.to_owned(),
        };
        let is_key = (1..=KEY_CHARS_MAX).contains(&key.len())
            && key.bytes().all(|byte| byte.is_ascii_graphic());
        is_key.then_some(Self(key)).ok_or(InvalidIdempotencyKey)
    }
}

/// Returns the content of a structured-field string, given the text after its opening quote.
fn unquote(quoted: &str) -> Option<String> {
    let mut content = String::with_capacity(quoted.len());
    let mut chars = quoted.chars();
    loop {
        match chars.next()? {
            '"' => return chars.next().is_none().then_some(content),
            '\\' => content.push(
                chars
                    .next()
                    .filter(|escaped| matches!(escaped, '"' | '\\'))?,
            ),
            plain => content.push(plain),
        }
    }
}

impl fmt::Debug for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// The record from which a replay is rebuilt, together with the audit pages of the operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct IdempotencyRecord {
    pub(crate) operation_id: OperationId,
    /// SHA-256 of the parsed request, so that white space does not matter.
    pub(crate) fingerprint: String,
    pub(crate) first_audit_id: AuditLogId,
    pub(crate) items: u32,
    pub(crate) expires_at: Timestamp,
}

/// Returns the fingerprint of a parsed request.
pub(crate) fn fingerprint<T: Serialize>(request: &T) -> String {
    let canonical = serde_json::to_vec(request).expect("requests serialise");
    sha256(canonical)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Result<String, InvalidIdempotencyKey> {
        text.parse::<IdempotencyKey>().map(|key| key.0)
    }

    #[test]
    fn idempotency_key_is_equal_bare_and_quoted() {
        assert_eq!(key("8e03978e-40d5"), Ok("8e03978e-40d5".to_owned()));
        assert_eq!(key(r#""8e03978e-40d5""#), key("8e03978e-40d5"));
        assert_eq!(key(r#""a\"b\\c""#), Ok(r#"a"b\c"#.to_owned()));
    }

    #[test]
    fn idempotency_key_parser_rejects_malformed_text() {
        assert!(key(&"k".repeat(255)).is_ok());
        for bad in [
            "",
            "\"\"",
            "\"open",
            "\"a\"b",
            r#""a\b""#,
            "a b",
            "ä",
            "a\u{7f}",
            &"k".repeat(256),
        ] {
            assert_eq!(key(bad), Err(InvalidIdempotencyKey), "{bad}");
        }
    }
}
