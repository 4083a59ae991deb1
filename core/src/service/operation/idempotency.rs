//! Idempotency keys, according to the IETF draft "The Idempotency-Key HTTP Header Field".

use std::fmt;
use std::str::FromStr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::access::RequiredPermission;
use crate::digest::sha256;
use crate::error::Error;
use crate::keys;
use crate::model::{AuditLogId, MemberId, OperationId, OrgId, Timestamp};
use crate::operation::Operation;
use crate::store::{Key, read_json};

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
    /// Identifier of the operation, or of what it created; an erasure has the same for both.
    pub(crate) operation_id: OperationId,
    /// SHA-256 of the parsed request, so that white space does not matter; of a request that
    /// creates or erases, see
    /// [`request_fingerprint`](crate::service::KnowledgeService::request_fingerprint).
    pub(crate) fingerprint: String,
    /// First of the audit entries that a replay is rebuilt from, if there are `items`.
    pub(crate) first_audit_id: AuditLogId,
    /// Number of audit entries that a replay is rebuilt from.
    pub(crate) items: u32,
    /// JSON of the response that is replayed as it was, or of the records that it shows; of a bulk
    /// update, of the label that covered nobody. It has no content of memories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) kept: Option<String>,
    pub(crate) expires_at: Timestamp,
}

/// Way in which a caller creates something with an idempotency key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Creation {
    /// By the first request with the key; any other one is rejected.
    Request(KeyedRequest),
    /// By a repetition, which reads what the first request created.
    Replay(Replay),
}

impl Creation {
    /// Returns the request, if it asks for this operation.
    pub(super) fn request(&self, operation: Operation) -> Option<&KeyedRequest> {
        match self {
            Self::Request(request) => Some(request).filter(|found| found.operation == operation),
            Self::Replay(_) => None,
        }
    }

    /// Returns the replay, if this operation reads what was created.
    pub(super) fn replay(&self, operation: Operation) -> Option<&Replay> {
        match self {
            Self::Request(_) => None,
            Self::Replay(replay) => {
                let reads = replay.operation.spec().replay == Some(operation);
                reads.then_some(replay)
            }
        }
    }

    /// Returns the permissions that an operation requires.
    ///
    /// A replay shows what was created to whoever may create it, so that its reading requires the
    /// permissions of the creation.
    pub(super) fn permissions_of(
        creation: Option<&Self>,
        operation: Operation,
    ) -> &'static [RequiredPermission] {
        let replay = creation.and_then(|creation| creation.replay(operation));
        let decisive = replay.map_or(operation, |replay| replay.operation);
        decisive.spec().permissions
    }
}

/// A repetition of a request that created something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replay {
    pub(in crate::service) operation: Operation,
    /// Identifier of what was created.
    pub(in crate::service) created: uuid::Uuid,
    /// JSON that the record kept for the replay.
    pub(in crate::service) kept: Option<String>,
}

impl Replay {
    /// Returns what the record kept.
    ///
    /// # Errors
    /// [`Error::Internal`] if it kept none.
    pub(in crate::service) fn response<T: DeserializeOwned>(self) -> Result<T, Error> {
        let kept = self
            .kept
            .ok_or_else(|| Error::internal("a replay without what it shows"))?;
        read_json(kept.as_bytes()).map_err(|error| Error::internal(error.to_string()))
    }
}

/// A request to create something, with an idempotency key.
///
/// The look-up follows the authorisation of the caller, and the record is part of the commit that
/// creates, which checks that there was none: of two concurrent requests with the same key, one
/// commits, and the other finds its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyedRequest {
    pub(crate) operation: Operation,
    pub(crate) key: IdempotencyKey,
    /// Fingerprint of the arguments; over HTTP, of the path and the JSON of the body.
    pub(crate) fingerprint: String,
}

impl KeyedRequest {
    /// Returns the key of the record, for a member and the service account that acts for it, if
    /// one does.
    pub(super) fn record_key(&self, org: OrgId, sender: (MemberId, Option<MemberId>)) -> Key {
        record_key(org, sender, &self.operation.id(), &self.key)
    }

    /// Returns true if the record is of the same request.
    pub(super) fn is_recorded_in(&self, record: &IdempotencyRecord) -> bool {
        record.fingerprint == self.fingerprint
    }

    /// Returns the record of the request, which created something with the identifier `created`.
    pub(super) fn record(
        &self,
        created: uuid::Uuid,
        kept: Option<String>,
        expires_at: Timestamp,
    ) -> IdempotencyRecord {
        IdempotencyRecord {
            operation_id: OperationId(created),
            fingerprint: self.fingerprint.clone(),
            first_audit_id: AuditLogId(created),
            items: 0,
            kept,
            expires_at,
        }
    }
}

/// Returns the key of the record of a request: a member's own ones, and those that each service
/// account makes for it, are apart.
pub(crate) fn record_key(
    org: OrgId,
    (member, via): (MemberId, Option<MemberId>),
    operation: &str,
    key: &IdempotencyKey,
) -> Key {
    match via {
        None => keys::idempotency(org, member, operation, key.as_str()),
        // No key contains a space.
        Some(via) => keys::idempotency(org, member, operation, &format!("{via} {}", key.0)),
    }
}

/// Returns the fingerprint of a parsed request.
pub(crate) fn fingerprint<T: Serialize>(request: &T) -> String {
    let canonical = serde_json::to_vec(request).expect("requests serialise");
    sha256(canonical)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::INGEST_MEMORIES_MAX;
    use crate::model::MemoryId;
    use crate::service::{IngestOutcome, IngestResult, IngestedMemory};
    use crate::store::VALUE_BYTES_MAX;

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

    #[test]
    fn record_of_the_longest_batch_fits_a_value() {
        let outcomes = IngestOutcome::ALL.iter().copied();
        let outcome = outcomes.max_by_key(|outcome| outcome.to_string().len());
        let memory = IngestedMemory {
            id: Some(MemoryId(uuid::Uuid::max())),
            outcome: outcome.unwrap(),
        };
        let memories = vec![memory; INGEST_MEMORIES_MAX];
        let key = "k".repeat(KEY_CHARS_MAX).parse().unwrap();
        let request = KeyedRequest {
            operation: Operation::IngestMemories,
            key,
            fingerprint: "f".repeat(64),
        };
        let kept = serde_json::to_string(&IngestResult { memories }).unwrap();
        let at = Timestamp::from_millis(i64::MAX);
        let record = request.record(uuid::Uuid::max(), Some(kept), at);
        let bytes = serde_json::to_vec(&record).map_or(0, |record| record.len());
        assert!((1..=VALUE_BYTES_MAX).contains(&bytes), "{bytes}");
    }
}
