//! Idempotency keys, as in the IETF draft "The Idempotency-Key HTTP Header Field".

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::digest::sha256;
use crate::model::{AuditLogId, OperationId, Timestamp};

/// The longest idempotency key, in characters.
const KEY_CHARS_MAX: usize = 255;

/// A key that its caller chooses anew for each request and repeats with each retry: 1 to 255 visible ASCII characters.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(String);

/// A text that is not an idempotency key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must have 1 to {KEY_CHARS_MAX} visible ASCII characters, bare or as a quoted string")]
pub struct InvalidIdempotencyKey;

impl IdempotencyKey {
    /// The key, without the quotes of its structured form.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for IdempotencyKey {
    type Err = InvalidIdempotencyKey;

    /// Reads a key, bare or as a structured-field string (RFC 9651, 3.3.3): both forms of one key are one key.
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

/// The content of a structured-field string whose first quote is already taken.
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

/// What a replay is rebuilt from, together with the audit pages of the operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct IdempotencyRecord {
    pub(super) operation_id: OperationId,
    /// The SHA-256 of the request as it was understood, so that white space does not matter.
    pub(super) fingerprint: String,
    pub(super) first_audit_id: AuditLogId,
    pub(super) items: u32,
    pub(super) expires_at: Timestamp,
}

/// The fingerprint of a request that was parsed.
pub(super) fn fingerprint<T: Serialize>(request: &T) -> String {
    let canonical = serde_json::to_vec(request).expect("a request serialises");
    sha256(canonical)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Result<String, InvalidIdempotencyKey> {
        text.parse::<IdempotencyKey>().map(|key| key.0)
    }

    #[test]
    fn bare_and_quoted_are_one_key() {
        assert_eq!(key("8e03978e-40d5"), Ok("8e03978e-40d5".to_owned()));
        assert_eq!(key(r#""8e03978e-40d5""#), key("8e03978e-40d5"));
        assert_eq!(key(r#""a\"b\\c""#), Ok(r#"a"b\c"#.to_owned()));
    }

    #[test]
    fn refuses_what_is_no_key() {
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
