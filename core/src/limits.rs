//! The limits of the service: named, with their units, all configurable.

use std::time::Duration;

use crate::model::URL_CHARS_MAX;

/// How many memories one bulk update may name.
pub const BULK_MEMORIES_MAX: usize = 1_000;
/// The largest content of a memory, in bytes.
pub const CONTENT_BYTES_MAX: usize = 32 * 1024;
/// The largest request body, in bytes.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;
/// The longest name or title, in characters.
pub const NAME_CHARS_MAX: usize = 128;
/// The longest description, in characters.
pub const DESCRIPTION_CHARS_MAX: usize = 1_024;
/// How many outbound webhooks a workspace may have.
pub const WEBHOOKS_PER_WORKSPACE_MAX: u64 = 50;
/// How many inbound webhooks a workspace may have.
pub const INBOUND_WEBHOOKS_PER_WORKSPACE_MAX: u64 = 50;
/// How many connectors a workspace may have: the dashboard shows all of them.
pub const CONNECTORS_PER_WORKSPACE_MAX: u64 = 100;
/// How many MCP keys a workspace may have: the dashboard shows all of them.
pub const MCP_KEYS_PER_WORKSPACE_MAX: u64 = 100;
/// How many custom roles an organisation may have.
pub const CUSTOM_ROLES_PER_ORG_MAX: u64 = 100;
/// How many memories one recall may cite.
pub const RECALL_MEMORIES_MAX: usize = 500;
/// How many memories one ingest may bring.
pub const INGEST_MEMORIES_MAX: usize = 100;
/// How many subscriptions a recall may have.
pub const SUBSCRIPTIONS_PER_RECALL_MAX: u64 = 50;
/// How many teams a member may be in.
pub const TEAMS_PER_MEMBER_MAX: usize = 100;
/// To how many workspaces, and to how many audience labels, a token may be narrowed.
pub const NARROWING_MAX: usize = 100;
/// How many items a page of a list has where its caller does not say.
pub const PAGE_ITEMS_DEFAULT: usize = 50;
/// How many items a page of a list may have.
pub const PAGE_ITEMS_MAX: usize = 200;
/// How many records one page of a filtered list looks through: so that a filter that nothing passes costs little too.
pub const PAGE_RECORDS_MAX: usize = 2_000;
/// How long a signing secret counts beside the one that replaced it.
pub const SIGNING_SECRET_OVERLAP: Duration = Duration::from_secs(24 * 60 * 60);
/// How far the time of a signed message may be from the time at which it comes in, either way.
pub const SIGNED_MESSAGE_TOLERANCE: Duration = Duration::from_secs(5 * 60);
/// How long it is known that a message was taken in: longer than a sender repeats it (Standard Webhooks 1.0.0 proposes
/// about 75 hours).
pub const INBOUND_MESSAGE_RETENTION: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// How long the result of a bulk update is kept for replays.
pub const IDEMPOTENCY_RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

/// How long an event and what became of its deliveries is kept.
pub const DELIVERY_RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// The shortest that may be: longer than the whole schedule of a delivery takes at most, so that nothing is swept that is
/// still to be attempted.
pub const DELIVERY_RETENTION_MIN: Duration = Duration::from_secs(8 * 24 * 60 * 60);

/// How long an entry of the audit log is kept: a year and what a yearly review takes.
pub const AUDIT_RETENTION: Duration = Duration::from_secs(400 * 24 * 60 * 60);

/// The limits in force. [`Limits::default`] has the values of the constants in this module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// See [`BULK_MEMORIES_MAX`]. At most 1,300, so that a bulk update fits into one commit however many
    /// workspaces it reaches.
    pub bulk_memories_max: usize,
    /// See [`CONTENT_BYTES_MAX`]. At most 32 KiB, so that a memory fits into one value. Content that JSON escapes
    /// to more than 60 KiB is refused too.
    pub content_bytes_max: usize,
    /// See [`BODY_BYTES_MAX`].
    pub body_bytes_max: usize,
    /// See [`NAME_CHARS_MAX`]. At most that, so that a title fits into one value with its content.
    pub name_chars_max: usize,
    /// See [`URL_CHARS_MAX`]. At most that, which is what the type takes.
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
    /// See [`AUDIT_RETENTION`]. At least [`Limits::idempotency_retention`]: a replay is rebuilt from the audit log.
    pub audit_retention: Duration,
    /// See [`DELIVERY_RETENTION`]. At least [`DELIVERY_RETENTION_MIN`].
    pub delivery_retention: Duration,
}

/// A limit that cannot be in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the limit {name} must be between {min} and {max}")]
pub struct InvalidLimit {
    /// The field of [`Limits`].
    pub name: &'static str,
    /// The least it may be.
    pub min: usize,
    /// The most it may be.
    pub max: usize,
}

/// The most that [`Limits::bulk_memories_max`] may be.
pub const BULK_MEMORIES_CEILING: usize = 1_300;

impl Limits {
    /// Refuses limits under which requests would fail inside that should be refused, or nothing could be done at all.
    ///
    /// # Errors
    /// [`InvalidLimit`] names the first one.
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
    fn what_would_fail_inside_is_refused() {
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
