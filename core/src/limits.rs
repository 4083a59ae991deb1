//! Limits of the service: named, with their units, and configurable.

use std::time::Duration;

use crate::model::URL_CHARS_MAX;

/// Maximum number of memories in one bulk update.
pub const BULK_MEMORIES_MAX: usize = 1_000;
/// Maximum size of a memory's content, in bytes.
pub const CONTENT_BYTES_MAX: usize = 32 * 1024;
/// Maximum size of a request body, in bytes.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;
/// Maximum length of a name or title, in characters.
pub const NAME_CHARS_MAX: usize = 128;
/// Maximum length of the key of a memory at its source, in characters.
pub const SOURCE_KEY_CHARS_MAX: usize = 512;
/// Minimum interval between the syncs of a connector.
pub const SYNC_INTERVAL_MIN: Duration = Duration::from_secs(60);
/// Maximum interval between the syncs of a connector.
pub const SYNC_INTERVAL_MAX: Duration = Duration::from_secs(31 * 24 * 60 * 60);
/// Default rotation period of an MCP key.
pub const ROTATION_DEFAULT: Duration = Duration::from_secs(90 * 24 * 60 * 60);
/// Maximum rotation period of an MCP key.
pub const ROTATION_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);
/// Maximum length of a description, in characters.
pub const DESCRIPTION_CHARS_MAX: usize = 1_024;
/// Maximum number of outbound webhooks of a workspace.
pub const WEBHOOKS_PER_WORKSPACE_MAX: u64 = 50;
/// Maximum number of inbound webhooks of a workspace.
pub const INBOUND_WEBHOOKS_PER_WORKSPACE_MAX: u64 = 50;
/// Maximum number of connectors of a workspace; the dashboard shows all of them.
pub const CONNECTORS_PER_WORKSPACE_MAX: u64 = 100;
/// Maximum number of MCP keys of a workspace; the dashboard shows all of them.
pub const MCP_KEYS_PER_WORKSPACE_MAX: u64 = 100;
/// Maximum number of custom roles of an organisation.
pub const CUSTOM_ROLES_PER_ORG_MAX: u64 = 100;
/// Maximum number of memories that one recall cites.
pub const RECALL_MEMORIES_MAX: usize = 500;
/// Maximum number of memories in one ingest.
pub const INGEST_MEMORIES_MAX: usize = 100;
/// Maximum number of subscriptions to a recall.
pub const SUBSCRIPTIONS_PER_RECALL_MAX: u64 = 50;
/// Maximum number of teams of a member.
pub const TEAMS_PER_MEMBER_MAX: usize = 100;
/// Maximum number of workspaces, and of audience labels, in the scope of a token.
pub const NARROWING_MAX: usize = 100;
/// Default number of items on a page of a list.
pub const PAGE_ITEMS_DEFAULT: usize = 50;
/// Maximum number of items on a page of a list.
pub const PAGE_ITEMS_MAX: usize = 200;
/// Maximum number of records that one page of a filtered list reads.
///
/// It bounds the cost of a filter that nothing matches.
pub const PAGE_RECORDS_MAX: usize = 2_000;
/// Time for which a replaced signing secret remains valid.
pub const SIGNING_SECRET_OVERLAP: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum difference, either way, between the time of a signed message and its arrival.
pub const SIGNED_MESSAGE_TOLERANCE: Duration = Duration::from_secs(5 * 60);
/// Retention of the deduplication record of an inbound message.
///
/// It is longer than senders retry (Standard Webhooks 1.0.0 proposes about 75 hours).
pub const INBOUND_MESSAGE_RETENTION: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Retention of the result of a bulk update, for replays.
pub const IDEMPOTENCY_RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

/// Retention of an event and its deliveries.
pub const DELIVERY_RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Minimum of [`Limits::delivery_retention`].
///
/// It is longer than the whole retry schedule, so that no pending delivery is purged.
pub const DELIVERY_RETENTION_MIN: Duration = Duration::from_secs(8 * 24 * 60 * 60);

/// Retention of an entry of the audit log: a year, and time for a yearly review.
pub const AUDIT_RETENTION: Duration = Duration::from_secs(400 * 24 * 60 * 60);

/// The limits in force. [`Limits::default`] has the values of the constants in this module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// See [`BULK_MEMORIES_MAX`]. At most [`BULK_MEMORIES_CEILING`].
    pub bulk_memories_max: usize,
    /// See [`CONTENT_BYTES_MAX`]. At most that, so that a memory fits into one value.
    ///
    /// Content that exceeds 60 KiB once JSON escapes it is rejected too.
    pub content_bytes_max: usize,
    /// See [`BODY_BYTES_MAX`].
    pub body_bytes_max: usize,
    /// See [`NAME_CHARS_MAX`]. At most that, so that a title fits into one value with its content.
    pub name_chars_max: usize,
    /// See [`URL_CHARS_MAX`]. At most that, the maximum of the type.
    pub url_chars_max: usize,
    /// See [`WEBHOOKS_PER_WORKSPACE_MAX`].
    pub webhooks_per_workspace_max: u64,
    /// See [`INBOUND_WEBHOOKS_PER_WORKSPACE_MAX`].
    pub inbound_webhooks_per_workspace_max: u64,
    /// See [`CONNECTORS_PER_WORKSPACE_MAX`].
    pub connectors_per_workspace_max: u64,
    /// See [`MCP_KEYS_PER_WORKSPACE_MAX`].
    pub mcp_keys_per_workspace_max: u64,
    /// See [`CUSTOM_ROLES_PER_ORG_MAX`].
    pub custom_roles_per_org_max: u64,
    /// See [`SUBSCRIPTIONS_PER_RECALL_MAX`].
    pub subscriptions_per_recall_max: u64,
    /// See [`IDEMPOTENCY_RETENTION`].
    pub idempotency_retention: Duration,
    /// See [`AUDIT_RETENTION`]. At least [`Limits::idempotency_retention`], because a replay is
    /// rebuilt from the audit log.
    pub audit_retention: Duration,
    /// See [`DELIVERY_RETENTION`]. At least [`DELIVERY_RETENTION_MIN`].
    pub delivery_retention: Duration,
}

/// A limit outside its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the limit {name} must be between {min} and {max}")]
pub struct InvalidLimit {
    /// Field of [`Limits`].
    pub name: &'static str,
    /// Minimum.
    pub min: usize,
    /// Maximum.
    pub max: usize,
}

/// Maximum of [`Limits::bulk_memories_max`].
///
/// A bulk update of that size fits into one commit, however many workspaces it reaches.
pub const BULK_MEMORIES_CEILING: usize = 1_300;

impl Limits {
    /// Checks that every limit is within its range.
    ///
    /// Outside it, requests would fail with an internal error instead of being rejected, or no
    /// request could succeed.
    ///
    /// # Errors
    /// [`InvalidLimit`] names the first one out of range.
    pub fn validate(&self) -> Result<(), InvalidLimit> {
        let millis = |time: Duration| usize::try_from(time.as_millis()).unwrap_or(usize::MAX);
        let retention_ms = millis(self.idempotency_retention);
        let checks = [
            (
                "bulk_memories_max",
                self.bulk_memories_max,
                BULK_MEMORIES_CEILING,
            ),
            (
                "content_bytes_max",
                self.content_bytes_max,
                CONTENT_BYTES_MAX,
            ),
            ("body_bytes_max", self.body_bytes_max, usize::MAX),
            ("name_chars_max", self.name_chars_max, NAME_CHARS_MAX),
            ("url_chars_max", self.url_chars_max, URL_CHARS_MAX),
            ("idempotency_retention", retention_ms, usize::MAX),
        ];
        let wrong = checks
            .into_iter()
            .find(|(_, value, max)| !(1..=*max).contains(value));
        if let Some((name, _, max)) = wrong {
            return Err(InvalidLimit { name, min: 1, max });
        }
        if millis(self.audit_retention) < retention_ms {
            return Err(InvalidLimit {
                name: "audit_retention",
                min: retention_ms,
                max: usize::MAX,
            });
        }
        if self.delivery_retention < DELIVERY_RETENTION_MIN {
            return Err(InvalidLimit {
                name: "delivery_retention",
                min: millis(DELIVERY_RETENTION_MIN),
                max: usize::MAX,
            });
        }
        Ok(())
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bulk_memories_max: BULK_MEMORIES_MAX,
            content_bytes_max: CONTENT_BYTES_MAX,
            body_bytes_max: BODY_BYTES_MAX,
            name_chars_max: NAME_CHARS_MAX,
            url_chars_max: URL_CHARS_MAX,
            webhooks_per_workspace_max: WEBHOOKS_PER_WORKSPACE_MAX,
            inbound_webhooks_per_workspace_max: INBOUND_WEBHOOKS_PER_WORKSPACE_MAX,
            connectors_per_workspace_max: CONNECTORS_PER_WORKSPACE_MAX,
            mcp_keys_per_workspace_max: MCP_KEYS_PER_WORKSPACE_MAX,
            custom_roles_per_org_max: CUSTOM_ROLES_PER_ORG_MAX,
            subscriptions_per_recall_max: SUBSCRIPTIONS_PER_RECALL_MAX,
            idempotency_retention: IDEMPOTENCY_RETENTION,
            audit_retention: AUDIT_RETENTION,
            delivery_retention: DELIVERY_RETENTION,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_validation_rejects_unsupported_values() {
        assert_eq!(Limits::default().validate(), Ok(()));
        let refused = |change: fn(&mut Limits)| {
            let mut limits = Limits::default();
            change(&mut limits);
            limits.validate().unwrap_err().name
        };
        assert_eq!(
            refused(|limits| limits.bulk_memories_max = 1_301),
            "bulk_memories_max"
        );
        assert_eq!(
            refused(|limits| limits.bulk_memories_max = 0),
            "bulk_memories_max"
        );
        assert_eq!(
            refused(|limits| limits.content_bytes_max = 32 * 1024 + 1),
            "content_bytes_max"
        );
        assert_eq!(
            refused(|limits| limits.body_bytes_max = 0),
            "body_bytes_max"
        );
        assert_eq!(
            refused(|limits| limits.name_chars_max = 129),
            "name_chars_max"
        );
        assert_eq!(
            refused(|limits| limits.url_chars_max = 2_049),
            "url_chars_max"
        );
        assert_eq!(
            refused(|limits| limits.idempotency_retention = Duration::ZERO),
            "idempotency_retention"
        );
        assert_eq!(
            refused(|limits| limits.audit_retention = limits.idempotency_retention / 2),
            "audit_retention"
        );
        assert_eq!(
            refused(|limits| limits.delivery_retention = DELIVERY_RETENTION_MIN / 2),
            "delivery_retention"
        );
    }
}
