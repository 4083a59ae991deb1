//! Credentials in a dump, and how a restore treats them.

use bytes::Bytes;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::access::{CredentialKind, CredentialRecord};
use crate::keys;
use crate::service::access::created::CreatedRecord;
use crate::service::secrets::sealing::SealedRecord;
use crate::service::tasks::ScheduledTask;
use crate::store::{Key, VALUE_BYTES_MAX, read_json};

/// Treatment of the credentials in a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CredentialPolicy {
    /// No credential of the dump is valid in the restored store. For backups: what was revoked
    /// after the backup stays revoked.
    Revoke,
    /// Every entry is restored unchanged. For copies that replace a store.
    Keep,
}

impl CredentialPolicy {
    /// Returns the verb for messages.
    pub(super) fn verb(self) -> &'static str {
        match self {
            Self::Revoke => "revokes",
            Self::Keep => "keeps",
        }
    }
}

/// Numbers of credentials that a restore revoked, and of what depends on them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RevokedCredentials {
    /// Tokens that were not restored.
    pub tokens: u64,
    /// Sessions that were not restored.
    pub sessions: u64,
    /// MCP keys that were not restored.
    pub mcp_keys: u64,
    /// Inbound webhooks, whose signing secrets are revoked until they are rotated.
    pub inbound_webhooks: u64,
    /// Outbound webhooks that depend on a scoped token: they deliver nothing until they are
    /// rotated.
    pub webhooks: u64,
    /// Citation subscriptions that depend on a scoped token: they deliver nothing until they are
    /// rotated.
    pub subscriptions: u64,
}

impl RevokedCredentials {
    /// Revokes the credential in an entry, and counts it.
    ///
    /// Returns the value to restore; `None` if the entry is not restored. The entries come in the
    /// order of their keys.
    pub(super) fn revoke(&mut self, key: &Key, value: Bytes) -> Option<Bytes> {
        let family = std::str::from_utf8(key.as_bytes()).map(keys::family_name);
        match family.unwrap_or_default() {
            "credential" => self.count(&value),
            "mcp_key" => {
                self.mcp_keys += 1;
                // The credential of the key was counted before.
                self.tokens = self.tokens.saturating_sub(1);
            }
            "credential_id" | "credential_use" | "token" | "token_count" => {}
            "mcp_key_count" | "mcp_key_use" => {}
            "due" if expires_credential(&value) => {}
            // The person can get another login link.
            "invitation" => return Some(Bytes::from_static(b"null")),
            "created_with" if is_credential(&value) => {}
            "inbound_webhook" => {
                self.inbound_webhooks += 1;
                return without_secret(&value);
            }
            "webhook" => {
                self.webhooks += u64::from(depends_on_token(&value));
                return Some(value);
            }
            "subscription" => {
                self.subscriptions += u64::from(depends_on_token(&value));
                return Some(value);
            }
            _ => return Some(value),
        }
        None
    }

    /// Counts a token or session that had not been revoked.
    fn count(&mut self, value: &[u8]) {
        let record = read_json::<CredentialRecord>(value).ok();
        let valid = record.filter(|record| record.revoked_at.is_none());
        match valid.map(|record| record.kind) {
            Some(CredentialKind::Bearer) => self.tokens += 1,
            Some(CredentialKind::Session) => self.sessions += 1,
            // A login link is valid for so short a time that nobody misses it.
            Some(CredentialKind::Link) | None => {}
        }
    }
}

/// Returns true if a scheduled task deletes an expired credential.
fn expires_credential(task: &[u8]) -> bool {
    let Ok(ScheduledTask::Expire { records, .. }) = read_json(task) else {
        return false;
    };
    let expiring = records.first().map(|key| keys::family_name(key));
    matches!(expiring, Some("credential" | "mcp_key" | "token"))
}

/// Returns the record of an inbound webhook with its secrets revoked.
///
/// A record in which they cannot be revoked is not restored.
fn without_secret(record: &[u8]) -> Option<Bytes> {
    let mut record: SealedRecord<Box<RawValue>> = read_json(record).ok()?;
    record.revoke_secrets();
    let revoked = serde_json::to_vec(&record).expect("a record serialises into memory");
    (revoked.len() <= VALUE_BYTES_MAX).then(|| revoked.into())
}

/// Returns true if an entry of the index of what credentials created is about another credential.
fn is_credential(entry: &[u8]) -> bool {
    let record = read_json::<CreatedRecord>(entry);
    matches!(
        record,
        Ok(CreatedRecord::McpKey(_) | CreatedRecord::Token(_))
    )
}

/// Returns true if a webhook or a subscription ends with a scoped token.
fn depends_on_token(record: &[u8]) -> bool {
    let record = read_json::<SealedRecord<IgnoredAny>>(record);
    record.is_ok_and(|record| record.delegator.dependency().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inbound_webhook_that_cannot_be_revoked_is_not_restored() {
        let key = Key::new("inbound_webhook/1/2/3").unwrap();
        let mut revoked = RevokedCredentials::default();
        for value in ["1", "{}", "{\"record\":{}}"] {
            assert_eq!(revoked.revoke(&key, value.into()), None, "{value}");
        }
        assert_eq!(revoked.inbound_webhooks, 3);
    }
}
