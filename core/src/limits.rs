//! Limits of the service: named, with their units, and configurable.
//!
//! [`all`] describes every limit of the reference. Each is declared once, as a row of `limits!`.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Passes the declaration of every limit to the macro `$then`.
///
/// A row has the description, the constant with its default, the unit and its name in the
/// reference. The unit is `bytes` (held in memory), `stored_bytes`, `characters`, `time`, or the
/// counted items in quotation marks. Then follow:
///
/// - `field name "property" in range`: the field of [`Limits`] that configures it, its property in
///   JavaScript (a time is in seconds there), and the supported values.
/// - `setting "description"`: the server has it as a setting of the section `[limits]`.
#[doc(hidden)]
#[macro_export]
macro_rules! limits {
    ($then:ident) => { $then! {
        /// Maximum number of memories in one bulk update.
        BULK_MEMORIES_MAX: usize = 1_000, "memories", "memories of one bulk update",
            /// At most [`BULK_MEMORIES_CEILING`].
            field bulk_memories_max "bulkMemoriesMax"
            in 1..=$crate::limits::BULK_MEMORIES_CEILING as u64,
            setting "Memories of one bulk update";

        /// Maximum size of a memory's content, in bytes.
        CONTENT_BYTES_MAX: usize = 32 * 1024, bytes, "content of a memory",
            /// At most that, so that a memory fits into one value.
            ///
            /// Content that exceeds 60 KiB once JSON escapes it is rejected too.
            field content_bytes_max "contentBytesMax"
            in 1..=$crate::limits::CONTENT_BYTES_MAX as u64,
            setting "The content of a memory";

        /// Maximum number of memories in one ingest.
        INGEST_MEMORIES_MAX: usize = 100, "memories", "memories of one ingest";

        /// Maximum size of a request body, in bytes.
        BODY_BYTES_MAX: usize = 1024 * 1024, bytes, "request body",
            field body_bytes_max "bodyBytesMax" in 1..=u64::MAX,
            setting "The body of a request; a longer one is rejected with 413";

        /// Maximum length of a name or title, in characters.
        NAME_CHARS_MAX: usize = 128, characters, "name or title",
            /// At most that, so that a title fits into one value with its content.
            field name_chars_max "nameCharsMax" in 1..=$crate::limits::NAME_CHARS_MAX as u64,
            setting "A name or a title";

        /// Maximum length of a description, in characters.
        DESCRIPTION_CHARS_MAX: usize = 1_024, characters, "description";

        /// Maximum length of the URL of a webhook or a citation subscription, in characters.
        URL_CHARS_MAX: usize = $crate::model::URL_CHARS_MAX, characters, "URL",
            /// At most that, the maximum of the type.
            field url_chars_max "urlCharsMax" in 1..=$crate::limits::URL_CHARS_MAX as u64,
            setting "The address of a webhook or a citation subscription";

        /// Maximum number of outbound webhooks of a workspace.
        WEBHOOKS_PER_WORKSPACE_MAX: u64 = 50, "webhooks", "outbound webhooks of a workspace",
            field webhooks_per_workspace_max "webhooksPerWorkspaceMax" in 0..=u64::MAX,
            setting "Outbound webhooks of a workspace";

        /// Maximum number of pings in an hour to the unconfirmed URLs of one host, over all
        /// organisations.
        PINGS_PER_HOST_MAX: u64 = 20, "pings",
            "pings to unconfirmed URLs of one host in an hour",
            /// At most [`PINGS_PER_HOST_CEILING`].
            field pings_per_host_max "pingsPerHostMax"
            in 1..=$crate::limits::PINGS_PER_HOST_CEILING,
            setting "Pings in an hour to the unconfirmed URLs of one host, over all \
                     organisations, of which each has at most half; further ones wait";

        /// Maximum number of inbound webhooks of a workspace.
        INBOUND_WEBHOOKS_PER_WORKSPACE_MAX: u64 = 50, "webhooks", "inbound webhooks of a workspace",
            field inbound_webhooks_per_workspace_max "inboundWebhooksPerWorkspaceMax"
            in 0..=u64::MAX,
            setting "Inbound webhooks of a workspace";

        /// Maximum number of connectors of a workspace; the dashboard shows all of them.
        CONNECTORS_PER_WORKSPACE_MAX: u64 = 100, "connectors", "connectors of a workspace",
            field connectors_per_workspace_max "connectorsPerWorkspaceMax" in 0..=u64::MAX,
            setting "Connectors of a workspace; the dashboard shows all of them";

        /// Maximum number of MCP keys of a workspace; the dashboard shows all of them.
        MCP_KEYS_PER_WORKSPACE_MAX: u64 = 100, "keys", "MCP keys of a workspace",
            field mcp_keys_per_workspace_max "mcpKeysPerWorkspaceMax" in 0..=u64::MAX,
            setting "MCP keys of a workspace; the dashboard shows all of them";

        /// Maximum number of custom roles of an organisation.
        CUSTOM_ROLES_PER_ORG_MAX: u64 = 100, "roles", "custom roles of an organisation",
            field custom_roles_per_org_max "customRolesPerOrgMax" in 0..=u64::MAX,
            setting "Custom roles of an organisation";

        /// Maximum number of memories of an organisation.
        MEMORIES_PER_ORG_MAX: u64 = 1_000_000, "memories", "memories of an organisation",
            field memories_per_org_max "memoriesPerOrgMax" in 0..=u64::MAX,
            setting "Memories of an organisation";

        /// Maximum number of recalls of an organisation.
        RECALLS_PER_ORG_MAX: u64 = 1_000_000, "recalls", "recalls of an organisation",
            field recalls_per_org_max "recallsPerOrgMax" in 0..=u64::MAX,
            setting "Recalls of an organisation";

        /// Maximum number of chats of an organisation.
        CHATS_PER_ORG_MAX: u64 = 1_000_000, "chats", "chats of an organisation",
            field chats_per_org_max "chatsPerOrgMax" in 0..=u64::MAX,
            setting "Chats of an organisation";

        /// Maximum number of messages in all chats of an organisation.
        CHAT_MESSAGES_PER_ORG_MAX: u64 = 10_000_000, "messages", "chat messages of an organisation",
            field chat_messages_per_org_max "chatMessagesPerOrgMax" in 0..=u64::MAX,
            setting "Messages in all chats of an organisation";

        /// Maximum number of sources of an organisation.
        SOURCES_PER_ORG_MAX: u64 = 10_000, "sources", "sources of an organisation",
            field sources_per_org_max "sourcesPerOrgMax" in 0..=u64::MAX,
            setting "Sources of an organisation, with those of inbound webhooks";

        /// Maximum number of members of an organisation.
        MEMBERS_PER_ORG_MAX: u64 = 100_000, "members", "members of an organisation",
            field members_per_org_max "membersPerOrgMax" in 1..=u64::MAX,
            setting "Members of an organisation, service accounts included";

        /// Maximum number of API tokens of a member.
        TOKENS_PER_MEMBER_MAX: u64 = 100, "tokens", "API tokens of a member",
            field tokens_per_member_max "tokensPerMemberMax" in 0..=u64::MAX,
            setting "API tokens of a member, those of the operator included, who may issue more";

        /// Maximum lifetime of an API token that a member creates.
        TOKEN_LIFETIME_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60), time,
            "lifetime of a token that a member creates",
            /// At most [`TOKEN_LIFETIME_CEILING`].
            field token_lifetime_max "tokenLifetimeMaxSeconds"
            in std::time::Duration::from_secs(1)..=$crate::limits::TOKEN_LIFETIME_CEILING,
            setting "Lifetime of an API token that a member creates";

        /// Maximum number of endpoints of an organisation.
        ENDPOINTS_PER_ORG_MAX: u64 = 10_000, "endpoints", "endpoints of an organisation",
            field endpoints_per_org_max "endpointsPerOrgMax" in 0..=u64::MAX,
            setting "Webhooks, inbound webhooks and citation subscriptions of an organisation";

        /// Maximum size of what an organisation adds to its audit log on one day (UTC), in bytes.
        AUDIT_BYTES_PER_DAY_MAX: u64 = 1024 * 1024 * 1024, stored_bytes,
            "additions to the audit log of an organisation on one day",
            field audit_bytes_per_day_max "auditBytesPerDayMax" in 0..=u64::MAX,
            setting "Additions to the audit log of an organisation on one day (UTC)";

        /// Maximum number of memories in one access check.
        ACCESS_CHECK_MEMORIES_MAX: usize = 1_000, "memories", "memories of one access check";

        /// Maximum size of the texts in the result of one access check, in bytes.
        ACCESS_CHECK_CONTENT_BYTES_MAX: usize = 4 * 1024 * 1024, bytes, "texts of one access check";

        /// Maximum number of labels in use, and of teams, in the labels of a workspace.
        WORKSPACE_LABELS_MAX: usize = 1_000, "labels", "labels in use, and teams, in one list";

        /// Maximum number of memories that one recall cites.
        RECALL_MEMORIES_MAX: usize = 500, "memories", "memories cited by a recall";

        /// Maximum number of memories that one search returns.
        SEARCH_RESULTS_MAX: u64 = 50, "memories", "memories returned by a search";

        /// Maximum number of memories of a workspace that is searched by words.
        SEARCHED_MEMORIES_MAX: u64 = 1_000_000, "memories",
            "memories of a workspace that is searched by words",
            field searched_memories_max "searchedMemoriesMax" in 0..=u64::MAX,
            setting "Memories of a workspace that is searched by words";

        /// Maximum size of the indexes of words in the memory of a process, in bytes.
        ///
        /// The one of a workspace that exceeds it alone is not kept.
        SEARCH_INDEX_BYTES_MAX: usize = 1024 * 1024 * 1024, bytes, "indexes of words",
            field search_index_bytes_max "searchIndexBytesMax" in 0..=u64::MAX,
            setting "Indexes of words in memory; those used least recently go first";

        /// Maximum number of memories that one erasure names.
        ERASURE_MEMORIES_MAX: usize = 400, "memories", "memories named by an erasure";

        /// Maximum number of erasures of an organisation that run at a time.
        ERASURES_RUNNING_MAX: usize = 16, "erasures",
            "erasures of an organisation that run at a time";

        /// Maximum number of workspaces of an organisation whose removal is in progress.
        REMOVALS_RUNNING_MAX: usize = 100, "workspaces",
            "workspaces of an organisation that are being removed at a time";

        /// Maximum number of private workspaces of an organisation.
        PRIVATE_WORKSPACES_MAX: usize = 100, "workspaces",
            "private workspaces of an organisation";

        /// Maximum number of subscriptions to a recall.
        SUBSCRIPTIONS_PER_RECALL_MAX: u64 = 50, "subscriptions", "subscriptions of a recall",
            /// At most [`SUBSCRIPTIONS_PER_RECALL_CEILING`].
            field subscriptions_per_recall_max "subscriptionsPerRecallMax"
            in 0..=$crate::limits::SUBSCRIPTIONS_PER_RECALL_CEILING,
            setting "Citation subscriptions of a recall";

        /// Maximum number of members that a new chat names as its participants.
        CHAT_PARTICIPANTS_MAX: usize = 100, "members", "participants named by a new chat";

        /// Retention of the results of requests with an idempotency key, for replays.
        IDEMPOTENCY_RETENTION: Duration = Duration::from_secs(24 * 60 * 60), time,
            "retention of results for replays",
            field idempotency_retention "idempotencyRetentionSeconds"
            in $crate::limits::RETENTION_MIN..=std::time::Duration::MAX,
            setting "Time for which the result of a request is kept for replays under its \
                     Idempotency-Key";

        /// Retention of an entry of the audit log: a year, and time for a yearly review.
        AUDIT_RETENTION: Duration = Duration::from_secs(400 * 24 * 60 * 60), time,
            "retention of the audit log",
            /// At least [`Limits::idempotency_retention`], because a replay is rebuilt from the
            /// audit log.
            field audit_retention "auditRetentionSeconds"
            in $crate::limits::RETENTION_MIN..=std::time::Duration::MAX,
            setting "Time for which an entry of the audit log is kept; at least \
                     limits.idempotency_retention";

        /// Retention of the activity of a workspace by day.
        ACTIVITY_RETENTION: Duration = Duration::from_secs(400 * 24 * 60 * 60), time,
            "retention of the activity by day",
            field activity_retention "activityRetentionSeconds"
            in $crate::limits::RETENTION_MIN..=std::time::Duration::MAX,
            setting "Time for which what happened to the memories of a workspace is counted by day";

        /// Retention of an event and its deliveries.
        DELIVERY_RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60), time,
            "retention of events and deliveries",
            /// At least [`DELIVERY_RETENTION_MIN`].
            field delivery_retention "deliveryRetentionSeconds"
            in $crate::limits::DELIVERY_RETENTION_MIN..=std::time::Duration::MAX;
    } };
}

/// Defines the constants, [`Limits`] and the descriptions.
macro_rules! define_limits {
    ($(
        $(#[doc = $about:literal])+
        $name:ident: $type:ty = $default:expr, $unit:tt, $of:literal
        $(,
            $(#[doc = $more:literal])*
            field $field:ident $property:tt in $range:expr $(, setting $setting:literal)?
        )?;
    )+) => {
        $(
            $(#[doc = $about])+
            pub const $name: $type = $default;
        )+

        /// The limits in force. [`Limits::default`] has the values of the constants in this module.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Limits {
            $($(
                #[doc = concat!("See [`", stringify!($name), "`].")]
                $(#[doc = $more])*
                pub $field: $type,
            )?)+
        }

        impl Default for Limits {
            fn default() -> Self {
                Self {
                    $($($field: $name,)?)+
                }
            }
        }

        impl Limits {
            fn check_ranges(&self) -> Result<(), InvalidLimit> {
                $($(check_range(stringify!($field), self.$field, $range)?;)?)+
                Ok(())
            }
        }

        /// Returns the descriptions of all limits in the order of the reference.
        #[must_use]
        pub fn all() -> Vec<Limit> {
            vec![$(Limit {
                of: $of,
                unit: unit!($unit),
                default: $name.measure(),
                field: None$(.or(Some(LimitField {
                    name: stringify!($field),
                    property: $property,
                    min: ($range).start().measure(),
                    max: ($range).end().measure(),
                    setting: None$(.or(Some($setting)))?,
                })))?,
            }),+]
        }
    };
}

macro_rules! unit {
    (stored_bytes) => {
        "bytes"
    };
    ($unit:ident) => {
        stringify!($unit)
    };
    ($unit:literal) => {
        $unit
    };
}

limits!(define_limits);

/// Description of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Name of the limited thing, in lower case.
    pub of: &'static str,
    /// Unit: `bytes`, `characters`, `time` or the counted items.
    pub unit: &'static str,
    /// Default; a time is in milliseconds.
    pub default: u64,
    /// Field that configures it, unless it is fixed.
    pub field: Option<LimitField>,
}

/// Description of the field of a configurable limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitField {
    /// Name of the field of [`Limits`].
    pub name: &'static str,
    /// Name of the property in JavaScript.
    pub property: &'static str,
    /// Minimum, in the unit of [`Limit::default`].
    pub min: u64,
    /// Maximum, in the unit of [`Limit::default`].
    pub max: u64,
    /// Description of the server's setting, if it is in the section `[limits]`.
    pub setting: Option<&'static str>,
}

/// Value of a limit as a number.
trait Measure {
    fn measure(&self) -> u64;
}

impl Measure for u64 {
    fn measure(&self) -> u64 {
        *self
    }
}

impl Measure for usize {
    fn measure(&self) -> u64 {
        u64::try_from(*self).unwrap_or(u64::MAX)
    }
}

/// Milliseconds.
impl Measure for Duration {
    fn measure(&self) -> u64 {
        u64::try_from(self.as_millis()).unwrap_or(u64::MAX)
    }
}

fn check_range(
    name: &'static str,
    value: impl Measure,
    range: RangeInclusive<impl Measure>,
) -> Result<(), InvalidLimit> {
    let (min, max) = (range.start().measure(), range.end().measure());
    if (min..=max).contains(&value.measure()) {
        return Ok(());
    }
    let number = |of: u64| usize::try_from(of).unwrap_or(usize::MAX);
    let (min, max) = (number(min), number(max));
    Err(InvalidLimit { name, min, max })
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

impl Limits {
    /// Checks that every limit is within its range.
    ///
    /// Outside it, requests would fail with an internal error instead of being rejected, or no
    /// request could succeed.
    ///
    /// # Errors
    /// [`InvalidLimit`] names the first one out of range.
    pub fn validate(&self) -> Result<(), InvalidLimit> {
        self.check_ranges()?;
        let least = self.idempotency_retention..=Duration::MAX;
        check_range("audit_retention", self.audit_retention, least)
    }
}

/// Maximum of [`Limits::bulk_memories_max`].
///
/// A bulk update of that size fits into one commit, however many workspaces it reaches.
pub const BULK_MEMORIES_CEILING: usize = 1_100;
/// Maximum time for which a search waits for the index of its workspace.
pub const SEARCH_WAIT_MAX: Duration = Duration::from_secs(2);
/// Maximum of [`Limits::subscriptions_per_recall_max`].
///
/// A recall of [`RECALL_MEMORIES_MAX`] memories with that many is deleted in one commit.
pub const SUBSCRIPTIONS_PER_RECALL_CEILING: u64 = 400;
/// Maximum of [`Limits::pings_per_host_max`].
///
/// The pings to a host in an hour fit into one value.
pub const PINGS_PER_HOST_CEILING: u64 = 900;
/// Minimum of every retention.
pub const RETENTION_MIN: Duration = Duration::from_millis(1);
/// Minimum of [`Limits::delivery_retention`].
///
/// It is longer than the whole retry schedule, so that no pending delivery is purged.
pub const DELIVERY_RETENTION_MIN: Duration = Duration::from_secs(8 * 24 * 60 * 60);

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
/// Default lifetime of an API token that a member creates, unless less is allowed.
pub const TOKEN_LIFETIME_DEFAULT: Duration = Duration::from_secs(90 * 24 * 60 * 60);
/// Maximum of [`Limits::token_lifetime_max`], and lifetime of a token of the operator unless it is
/// long-lived.
pub const TOKEN_LIFETIME_CEILING: Duration = Duration::from_secs(400 * 24 * 60 * 60);
/// Lifetime of the login link of a new member.
pub const INVITATION_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum of the days after which a workspace erases something.
pub const RETENTION_DAYS_MAX: u64 = 36_500;
/// Maximum number of teams of a member.
pub const TEAMS_PER_MEMBER_MAX: usize = 100;
/// Maximum number of workspaces, and of audience labels, in the scope of a token.
pub const SCOPE_ITEMS_MAX: usize = 100;
/// Default number of items on a page of a list.
pub const PAGE_ITEMS_DEFAULT: usize = 50;
/// Maximum number of items on a page of a list.
pub const PAGE_ITEMS_MAX: usize = 200;
/// Number of records of a filtered list after which a page ends that has an item.
///
/// A page without one goes on, so that none is empty before the end of the list, but for
/// [`PAGE_SEARCH_TIME_MAX`] at most. Records that do not exist for the caller are not counted.
pub const PAGE_RECORDS_MAX: usize = 2_000;
/// Time for which a page of a filtered list searches for its first item.
///
/// It leaves a request time to be answered: by default, a server gives it 30 s.
pub const PAGE_SEARCH_TIME_MAX: Duration = Duration::from_secs(15);
/// Time for which an access filter may be used before it is asked for again.
pub const ACCESS_FILTER_MAX_AGE: Duration = Duration::from_secs(60);
/// Default number of days of a workspace's activity.
pub const ACTIVITY_DAYS_DEFAULT: u64 = 28;
/// Maximum number of days of a workspace's activity in one response.
pub const ACTIVITY_DAYS_MAX: u64 = 400;
/// Time for which the confirmation of a URL counts for further endpoints of the organisation.
///
/// An endpoint that is confirmed stays so until its URL changes.
pub const URL_CONFIRMATION_LIFETIME: Duration = Duration::from_secs(90 * 24 * 60 * 60);
/// Time for which a replaced signing secret remains valid.
pub const SIGNING_SECRET_OVERLAP: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum difference, either way, between the time of a signed message and its arrival.
pub const SIGNED_MESSAGE_TOLERANCE: Duration = Duration::from_secs(5 * 60);
/// Retention of the deduplication record of an inbound message.
///
/// It is longer than senders retry (Standard Webhooks 1.0.0 proposes about 75 hours).
pub const INBOUND_MESSAGE_RETENTION: Duration = Duration::from_secs(7 * 24 * 60 * 60);

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
            refused(|limits| limits.subscriptions_per_recall_max = 401),
            "subscriptions_per_recall_max"
        );
        assert_eq!(
            refused(|limits| limits.pings_per_host_max = 901),
            "pings_per_host_max"
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
