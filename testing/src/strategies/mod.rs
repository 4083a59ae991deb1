//! Proptest strategies for the wire types and for sequences of operations.
//!
//! Values come from small pools, so that collisions occur: a repeated key, a slug that is in use, a
//! label that includes a member. Most values are valid; the others are wrong in one respect.
//!
//! ```
//! use knowledge_core::limits::Limits;
//! use knowledge_testing::strategies;
//! use proptest::prelude::*;
//!
//! proptest!(|(update in strategies::bulk_update(), key in strategies::idempotency_key())| {
//!     // A valid update sets something.
//!     if update.validate(&Limits::default()).is_ok() {
//!         prop_assert!(!update.change.is_empty());
//!     }
//!     prop_assert!(!key.as_str().is_empty());
//! });
//! ```

mod refs;

use std::time::Duration;

use proptest::collection::vec;
use proptest::option::{of, weighted};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use uuid::Uuid;

pub use self::refs::{
    Actor, CastMember, CredentialUse, CursorRef, EntityRef, EtagRef, PageRef, RoleEntityRef,
};
pub(crate) use self::refs::{
    actor, elsewhere, entity, etag, governor, memory_entity, page, role_pick,
};
pub use crate::simulation::operations::{Op, concurrent_operations, operation, operations};
use knowledge_core::access::{Action, ActionSet, BaseRole};
use knowledge_core::model::{
    AudienceLabel, BulkUpdate, ConnectorScope, CustomRoleUpdate, EventType, McpClient,
    MemoryChange, MemoryId, NewCitationSubscription, NewCustomRole, NewInboundWebhook, NewWebhook,
    RecallId, ReviewStatus, RoleActions, RoleActionsUpdate, SensitivityLabel, SourceId, WebhookUrl,
};
use knowledge_core::service::{
    IdempotencyKey, NewConnector, NewMcpKey, NewMemory, NewRecall, NewSource, SyncOutcome,
    SyncReport,
};

/// Number of different identifiers that [`id`] yields.
const IDS: u128 = 6;
/// Number of characters that is one too many for a name.
const NAME_CHARS_TOO_MANY: usize = knowledge_core::limits::NAME_CHARS_MAX + 1;

/// Identifiers of any type from a pool of six: `id(MemoryId)`.
pub fn id<T: std::fmt::Debug>(make: fn(Uuid) -> T) -> impl Strategy<Value = T> {
    (1..=IDS).prop_map(move |number| make(Uuid::from_u128(number)))
}

/// Sensitivity labels.
pub fn sensitivity_label() -> impl Strategy<Value = SensitivityLabel> {
    select(SensitivityLabel::ALL)
}

/// Review statuses.
pub fn review_status() -> impl Strategy<Value = ReviewStatus> {
    select(ReviewStatus::ALL)
}

/// Audience labels of a small organisation.
///
/// They name the organisation, its workspaces, a team and members; a few are unused.
pub fn audience_label() -> impl Strategy<Value = AudienceLabel> {
    const LABELS: &[&str] = &[
        "workspace:alpha",
        "workspace:beta",
        "org:acme",
        "org:globex",
        "team:platform",
        "team:sales",
        "user:clara",
        "user:mia",
    ];
    select(LABELS).prop_map(|label| label.parse().expect("a label"))
}

/// Idempotency keys from a pool of four.
pub fn idempotency_key() -> impl Strategy<Value = IdempotencyKey> {
    select(&["k1", "k2", "k3", "k4"][..]).prop_map(|key| key.parse().expect("a key"))
}

/// Changes of memories, a few of them empty.
pub fn memory_change() -> impl Strategy<Value = MemoryChange> {
    (
        weighted(0.4, audience_label()),
        weighted(0.4, sensitivity_label()),
        weighted(0.15, id(SourceId)),
        weighted(0.4, review_status()),
    )
        .prop_map(
            |(audience_tag, sensitivity_label, source_id, review_status)| {
                MemoryChange::builder()
                    .maybe_audience_tag(audience_tag)
                    .maybe_sensitivity_label(sensitivity_label)
                    .maybe_source_id(source_id)
                    .maybe_review_status(review_status)
                    .build()
            },
        )
}

/// Bulk updates of memories from a pool, a few of them empty, with a duplicate or without a change.
pub fn bulk_update() -> impl Strategy<Value = BulkUpdate> {
    (vec(id(MemoryId), 0..6), memory_change()).prop_map(|(memory_ids, change)| {
        BulkUpdate::builder()
            .memory_ids(memory_ids)
            .change(change)
            .build()
    })
}

/// Names and titles, a few of them too long, blank or with a control character.
pub fn name() -> impl Strategy<Value = String> {
    let invalid = ["", " \t", "\u{200b}", "a\0b", "a\u{7}b", "a\u{202e}b"];
    prop_oneof![
        80 => "[a-zA-Zäß中🦀]{1,8}( [a-z]{1,5})?",
        1 => Just("n".repeat(NAME_CHARS_TOO_MANY)),
        1 => select(invalid.to_vec()).prop_map(str::to_owned),
    ]
}

/// Slugs from a small pool, a few of them invalid.
pub fn slug() -> impl Strategy<Value = String> {
    prop_oneof![
        40 => select(&["ops", "audit-1", "x.y_z", "desk", "night"][..]),
        1 => select(&["", "Not A Slug", "ä"][..]),
    ]
    .prop_map(str::to_owned)
}

/// Sets of up to four actions.
pub fn action_set() -> impl Strategy<Value = ActionSet> {
    subsequence(Action::ALL, 0..4).prop_map(ActionSet::from_iter)
}

/// Actions that a custom role allows and denies, a few with an action in both lists.
pub fn role_actions() -> impl Strategy<Value = RoleActions> {
    const GOVERNS: ActionSet = ActionSet::of(&[Action::RoleManage, Action::MemberManage]);
    let flags = (prop::bool::weighted(0.3), prop::bool::weighted(0.95));
    (action_set(), action_set(), flags).prop_map(|(allow, deny, (governs, is_right))| {
        let allow = if governs { allow | GOVERNS } else { allow };
        let deny = if is_right { deny - allow } else { deny };
        RoleActions { allow, deny }
    })
}

fn base_role() -> impl Strategy<Value = BaseRole> {
    select(BaseRole::ALL)
}

/// Descriptions, a few of them too long.
pub fn description() -> impl Strategy<Value = String> {
    prop_oneof![60 => "[a-z ]{0,12}", 1 => Just("d".repeat(1_025))]
}

/// New custom roles of the whole organisation.
pub fn new_custom_role() -> impl Strategy<Value = NewCustomRole> {
    (name(), slug(), base_role(), description(), role_actions()).prop_map(
        |(name, slug, base_role, description, actions)| {
            NewCustomRole::builder()
                .name(name)
                .slug(slug)
                .base_role(base_role)
                .description(description)
                .actions(actions)
                .build()
        },
    )
}

/// Updates of the lists of actions, often only of one.
pub fn role_actions_update() -> impl Strategy<Value = RoleActionsUpdate> {
    let is_there = || prop::bool::weighted(0.7);
    (role_actions(), is_there(), is_there()).prop_map(|(actions, allow, deny)| {
        RoleActionsUpdate::builder()
            .maybe_allow(allow.then_some(actions.allow))
            .maybe_deny(deny.then_some(actions.deny))
            .build()
    })
}

/// Updates of custom roles; many set nothing or one field.
pub fn custom_role_update() -> impl Strategy<Value = CustomRoleUpdate> {
    (
        weighted(0.2, name()),
        weighted(0.3, slug()),
        weighted(0.1, description()),
        weighted(0.2, base_role()),
        weighted(0.3, any::<bool>()),
        weighted(0.3, role_actions_update()),
    )
        .prop_map(|(name, slug, description, base_role, is_active, actions)| {
            CustomRoleUpdate::builder()
                .maybe_name(name)
                .maybe_slug(slug)
                .maybe_description(description)
                .maybe_base_role(base_role)
                .maybe_is_active(is_active)
                .maybe_actions(actions)
                .build()
        })
}

/// URLs of webhooks, a few of them not allowed for deliveries.
pub fn webhook_url() -> impl Strategy<Value = WebhookUrl> {
    const URLS: &[&str] = &[
        "https://example.com/hooks",
        "https://example.com:8443/a?b=c",
        "https://hooks.example.org/",
        "https://example.com/hooks/2",
        "http://example.com/plain",
        "https://169.254.169.254/latest",
        "https://[::ffff:10.0.0.1]/",
    ];
    select(URLS).prop_map(|url| url.parse().expect("a URL"))
}

/// New outbound webhooks.
pub fn new_webhook() -> impl Strategy<Value = NewWebhook> {
    (select(EventType::ALL), webhook_url()).prop_map(|(event_type, url)| {
        NewWebhook::builder()
            .event_type(event_type)
            .url(url)
            .build()
    })
}

/// New inbound webhooks.
pub fn new_inbound_webhook() -> impl Strategy<Value = NewInboundWebhook> {
    name().prop_map(|name| NewInboundWebhook::builder().name(name).build())
}

/// New subscriptions to recalls from a pool.
pub fn new_citation_subscription() -> impl Strategy<Value = NewCitationSubscription> {
    (id(RecallId), webhook_url()).prop_map(|(recall_id, webhook_url)| {
        NewCitationSubscription::builder()
            .recall_id(recall_id)
            .webhook_url(webhook_url)
            .build()
    })
}

/// New recalls of memories from a pool.
pub fn new_recall() -> impl Strategy<Value = NewRecall> {
    ("[a-z ]{0,12}", vec(id(MemoryId), 0..5)).prop_map(|(query, memory_ids)| {
        NewRecall::builder()
            .query(query)
            .memory_ids(memory_ids)
            .build()
    })
}

/// Texts of a few words, which many of them share.
pub(crate) fn common_words() -> impl Strategy<Value = String> {
    "(Red|blue|GREEN|gold|über)([ .](red|blue|green|gold|red)){0,5}"
}

/// Texts, mostly short.
///
/// Some have characters that JSON escapes, some have the maximum size, and a few are invalid.
pub fn text() -> impl Strategy<Value = String> {
    let bytes_max = knowledge_core::limits::CONTENT_BYTES_MAX;
    prop_oneof![
        30 => "[a-zA-Z0-9 .ü🦀]{1,24}",
        30 => common_words(),
        4 => "[a-z\n\t\"\\\\]{150,170}",
        1 => Just("x".repeat(bytes_max)),
        1 => select(&["\n", "\u{1}", "\"", "🦀"][..])
            .prop_map(move |piece| piece.repeat(bytes_max / piece.len())),
        1 => Just("x".repeat(bytes_max + 1)),
        1 => select(&["", "a\0b"][..]).prop_map(str::to_owned),
    ]
}

/// Memories to ingest, with names at their source from a small pool.
pub fn new_memory() -> impl Strategy<Value = NewMemory> {
    let source_key = prop_oneof![
        60 => select(&["page-1", "page-2", "page-3", "page-4"][..]).prop_map(str::to_owned),
        1 => select(&["", "a\0b"][..]).prop_map(str::to_owned),
        1 => Just("k".repeat(513)),
    ];
    (
        name(),
        text(),
        weighted(0.8, source_key),
        of(audience_label()),
        of(sensitivity_label()),
    )
        .prop_map(
            |(title, content, source_key, audience_tag, sensitivity_label)| {
                NewMemory::builder()
                    .title(title)
                    .content(content)
                    .maybe_source_key(source_key)
                    .maybe_audience_tag(audience_tag)
                    .maybe_sensitivity_label(sensitivity_label)
                    .build()
            },
        )
}

/// New sources.
pub fn new_source() -> impl Strategy<Value = NewSource> {
    (name(), name()).prop_map(|(name, kind)| NewSource::builder().name(name).kind(kind).build())
}

/// New connectors with intervals from a minute to a month, a few of them too short.
pub fn new_connector() -> impl Strategy<Value = NewConnector> {
    let seconds = select(&[60_u64, 3_600, 3_600, 86_400, 31 * 86_400, 59][..]);
    (name(), name(), select(ConnectorScope::ALL), seconds).prop_map(
        |(kind, account_label, scope, seconds)| {
            NewConnector::builder()
                .kind(kind)
                .account_label(account_label)
                .scope(scope)
                .sync_interval(Duration::from_secs(seconds))
                .build()
        },
    )
}

/// Sync reports: successes, failures and rejected accounts.
pub fn sync_report() -> impl Strategy<Value = SyncReport> {
    let failure = |weight| prop::bool::weighted(weight);
    let failed = ("[a-zä ]{1,12}", failure(0.2), failure(0.1)).prop_map(
        |(error, is_authentication, is_long)| SyncOutcome::Failure {
            error: if is_long { error.repeat(90) } else { error },
            is_authentication,
        },
    );
    prop_oneof![Just(SyncOutcome::Success), failed].prop_map(SyncReport::new)
}

/// New MCP keys, a few with an invalid rotation period or an unusual audience.
pub fn new_mcp_key() -> impl Strategy<Value = NewMcpKey> {
    let day = Duration::from_secs(24 * 60 * 60);
    let rotation = prop_oneof![
        20 => select(vec![day, 90 * day]),
        1 => select(vec![Duration::ZERO, 400 * day]),
    ];
    let label = prop_oneof![
        8 => select(&["workspace:alpha", "workspace:beta"][..])
            .prop_map(|label| label.parse().expect("a label")),
        1 => audience_label(),
    ];
    let audience = prop_oneof![20 => vec(label, 1..3), 1 => Just(Vec::new())];
    (name(), select(McpClient::ALL), audience, rotation).prop_map(
        |(name, client, audience, rotation)| {
            NewMcpKey::builder()
                .name(name)
                .client(client)
                .audience(audience)
                .rotation(rotation)
                .build()
        },
    )
}
