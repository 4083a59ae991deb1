//! The key layout: every key that core writes is built and read here.
//!
//! A key is ASCII: the name of its family and its parts, divided by `/`. UUIDs stand as 32 hexadecimal digits, times as
//! 16 (milliseconds since the Unix epoch), so that byte order is the order of creation or of time. No part can
//! contain the divider. Values are JSON; a counter's value is its number.
//!
//! | family | parts | value |
//! | --- | --- | --- |
//! | `meta` | | the schema number and the fingerprint of the sealing key |
//! | `org` | org | organisation |
//! | `org_slug` | slug | org |
//! | `workspace` | org, workspace | workspace |
//! | `workspace_slug` | org, slug | workspace |
//! | `member` | org, member | member with its role in the organisation |
//! | `member_handle` | org, handle | member |
//! | `member_count` | org | counter of the users |
//! | `former_member` | org, member | when a member was removed |
//! | `workspace_role` | org, member, workspace | the role that replaces the member's there |
//! | `role` | org, role | custom role |
//! | `role_slug` | org, slug | role |
//! | `role_count` | org | counter, guards the limit |
//! | `role_redirect` | org, role | where the holders of a deleted role went |
//! | `holder` | org, role, member, workspace or `-` | marks who holds a custom role |
//! | `holder_count` | org, role | counter of holders, built-in roles too; guards deletion and the last owner |
//! | `credential` | SHA-256 of the secret | token, session or MCP key |
//! | `credential_id` | org, credential | the SHA-256 it stands under |
//! | `source` | org, source | source |
//! | `memory` | org, memory | the labels of a memory |
//! | `content` | org, memory | what it says |
//! | `workspace_memory` | org, workspace, memory | marks the memories of a workspace |
//! | `source_key` | org, workspace, source, SHA-256 of the key | the memory of this name at its source |
//! | `memory_count` | org, workspace | counter of memories |
//! | `pending_count` | org, workspace | counter of memories that wait for review |
//! | `last_ingest` | org, workspace | when memories last came in |
//! | `connector` | org, workspace, connector | configuration of a connector |
//! | `connector_state` | org, workspace, connector | what its syncs reported |
//! | `connector_count` | org, workspace | counter, guards the limit |
//! | `mcp_key` | org, workspace, credential | MCP key |
//! | `mcp_key_use` | org, workspace, credential | when it was last used |
//! | `mcp_key_count` | org, workspace | counter, guards the limit |
//! | `chat` | org, workspace, chat | chat session |
//! | `chat_message` | org, chat, message | message |
//! | `chat_recent` | org, workspace, time, chat | what the dashboard shows of a chat, by its newest message |
//! | `workspace_recall` | org, workspace, recall | marks the recalls of a workspace |
//! | `recall` | org, recall | recall with the memories that it cites |
//! | `cited_by` | org, memory, recall | marks the recalls that cite a memory |
//! | `subscription` | org, recall, subscription | citation subscription, its secret sealed |
//! | `subscription_id` | org, subscription | the recall it stands under |
//! | `subscription_count` | org, recall | counter, guards the limit |
//! | `webhook` | org, workspace, webhook | outbound webhook, its secret sealed |
//! | `webhook_count` | org, workspace | counter, guards the limit |
//! | `inbound_webhook` | org, workspace, inbound webhook | inbound webhook, its secret sealed |
//! | `inbound_webhook_id` | org, inbound webhook | the workspace it stands under |
//! | `inbound_webhook_count` | org, workspace | counter, guards the limit |
//! | `inbound_message` | org, inbound webhook, SHA-256 of the message's identifier | marks a message that was taken in |
//! | `audit` | org, first audit id | a page of audit entries with consecutive ids |
//! | `audit_actor` | org, member, first audit id | marks the pages of an operation by who acted |
//! | `idempotency` | org, member, operation, SHA-256 of the key | what a replay is rebuilt from |
//! | `outbox` | event | an event that is not expanded to its endpoints yet |
//! | `expansion` | event | how far its expansion has come |
//! | `event` | org, event | an event with deliveries, and its endpoints |
//! | `endpoint` | org, endpoint | what the dispatcher knows of a webhook or a subscription |
//! | `endpoint_due` | time, org, endpoint | marks whose turn it is |
//! | `endpoint_sequence` | org, workspace | counter of the endpoints ever made there, guards which of them an event concerns |
//! | `delivery` | org, endpoint, event | delivery with its attempts |
//! | `delivery_id` | org, delivery | the endpoint and the event it stands under |
//! | `delivery_due` | org, endpoint, time, event | marks what an endpoint waits for |
//! | `undelivered` | event, endpoint | the organisation of a delivery that waits, the oldest event first |
//! | `undelivered_count` | org | counter of deliveries that wait |
//! | `dead_letter` | org, endpoint, event | marks the deliveries that were given up |
//! | `disabled_endpoint_count` | org | counter of endpoints that the service switched off |
//! | `due` | time, id | what is to be done then: a record that expires, a connector to look at, deleted roles to settle |

use std::fmt::{Display, Write};

use uuid::Uuid;

use crate::store::{Key, KeyRange};
use crate::access::{RoleRef, SecretHash};
use crate::digest::sha256;
use crate::model::{
    AuditLogId, ChatId, ChatMessageId, ConnectorId, CredentialId, DeliveryId, EndpointId, EventId,
    InboundWebhookId, MemberId, MemoryId, OrgId, RecallId, RoleId, SourceId, SubscriptionId,
    Timestamp, WebhookId, WorkspaceId,
};

const DIVIDER: char = '/';
/// Stands in a `holder` key for "in the whole organisation". Sorts before every identifier.
const WHOLE_ORG: &str = "-";

/// Builds one key, part by part.
struct Builder(String);

impl Builder {
    fn new(family: &str) -> Self {
        let mut text = String::with_capacity(128);
        text.push_str(family);
        Self(text)
    }

    fn part(mut self, part: impl Display) -> Self {
        write!(self.0, "{DIVIDER}{part}").expect("a String takes everything");
        self
    }

    fn id(self, id: Uuid) -> Self {
        self.part(id.simple())
    }

    fn time(self, time: Timestamp) -> Self {
        // A time before 1970 sorts as 1970: nothing that is ordered by time is that old.
        self.part(format_args!("{:016x}", time.as_millis().max(0)))
    }

    fn digest(self, of: &[u8]) -> Self {
        self.part(sha256(of))
    }

    fn key(self) -> Key {
        Key::new(self.0).expect("the layout has no key over 512 bytes")
    }

    /// The keys that have further parts.
    fn range(mut self) -> KeyRange {
        self.0.push(DIVIDER);
        KeyRange::prefix(&self.key())
    }
}

/// The last part of a key that ends with an identifier.
#[must_use]
pub fn last_id(key: &Key) -> Option<Uuid> {
    part_from_end(key, 0)?.parse().ok()
}

/// The part before the last one, an identifier too.
#[must_use]
pub fn second_last_id(key: &Key) -> Option<Uuid> {
    part_from_end(key, 1)?.parse().ok()
}

fn part_from_end(key: &Key, index: usize) -> Option<&str> {
    std::str::from_utf8(key.as_bytes())
        .ok()?
        .rsplit(DIVIDER)
        .nth(index)
}

fn time_from_end(key: &Key, index: usize) -> Option<Timestamp> {
    let millis = i64::from_str_radix(part_from_end(key, index)?, 16).ok()?;
    Some(Timestamp::from_millis(millis))
}

/// `meta`
#[must_use]
pub fn meta() -> Key {
    Builder::new("meta").key()
}

/// `org`
#[must_use]
pub fn org(org: OrgId) -> Key {
    Builder::new("org").id(org.0).key()
}

/// Every organisation.
#[must_use]
pub fn orgs() -> KeyRange {
    Builder::new("org").range()
}

/// `org_slug`
#[must_use]
pub fn org_slug(slug: &str) -> Key {
    Builder::new("org_slug").part(slug).key()
}

/// Defines the keys of families that begin with the organisation and go on with identifiers.
macro_rules! families {
    ($($name:ident($($part:ident: $kind:ty),*);)+) => {$(
        #[doc = concat!("`", stringify!($name), "`")]
        #[must_use]
        pub fn $name(org: OrgId $(, $part: $kind)*) -> Key {
            Builder::new(stringify!($name)).id(org.0)$(.id($part.0))*.key()
        }
    )+};
}

/// Defines ranges of such families: every key that goes on from the parts given.
macro_rules! ranges {
    ($($name:ident = $family:ident($($part:ident: $kind:ty),*);)+) => {$(
        #[doc = concat!("Every `", stringify!($family), "` with these first parts.")]
        #[must_use]
        pub fn $name(org: OrgId $(, $part: $kind)*) -> KeyRange {
            Builder::new(stringify!($family)).id(org.0)$(.id($part.0))*.range()
        }
    )+};
}

families! {
    workspace(workspace: WorkspaceId);
    member(member: MemberId);
    member_count();
    former_member(member: MemberId);
    workspace_role(member: MemberId, workspace: WorkspaceId);
    role(role: RoleId);
    role_count();
    role_redirect(role: RoleId);
    credential_id(credential: CredentialId);
    source(source: SourceId);
    memory(memory: MemoryId);
    content(memory: MemoryId);
    workspace_memory(workspace: WorkspaceId, memory: MemoryId);
    memory_count(workspace: WorkspaceId);
    pending_count(workspace: WorkspaceId);
    last_ingest(workspace: WorkspaceId);
    connector(workspace: WorkspaceId, connector: ConnectorId);
    connector_state(workspace: WorkspaceId, connector: ConnectorId);
    connector_count(workspace: WorkspaceId);
    mcp_key(workspace: WorkspaceId, credential: CredentialId);
    mcp_key_use(workspace: WorkspaceId, credential: CredentialId);
    mcp_key_count(workspace: WorkspaceId);
    chat(workspace: WorkspaceId, chat: ChatId);
    chat_message(chat: ChatId, message: ChatMessageId);
    workspace_recall(workspace: WorkspaceId, recall: RecallId);
    recall(recall: RecallId);
    cited_by(memory: MemoryId, recall: RecallId);
    subscription(recall: RecallId, subscription: SubscriptionId);
    subscription_id(subscription: SubscriptionId);
    subscription_count(recall: RecallId);
    webhook(workspace: WorkspaceId, webhook: WebhookId);
    webhook_count(workspace: WorkspaceId);
    inbound_webhook(workspace: WorkspaceId, webhook: InboundWebhookId);
    inbound_webhook_id(webhook: InboundWebhookId);
    inbound_webhook_count(workspace: WorkspaceId);
    audit(first: AuditLogId);
    audit_actor(actor: MemberId, first: AuditLogId);
    event(event: EventId);
    endpoint(endpoint: EndpointId);
    endpoint_sequence(workspace: WorkspaceId);
    delivery(endpoint: EndpointId, event: EventId);
    delivery_id(delivery: DeliveryId);
    undelivered_count();
    dead_letter(endpoint: EndpointId, event: EventId);
    disabled_endpoint_count();
}

ranges! {
    workspaces = workspace();
    members = member();
    workspace_roles = workspace_role(member: MemberId);
    roles = role();
    role_redirects = role_redirect();
    credential_ids = credential_id();
    sources = source();
    memories = memory();
    workspace_memories = workspace_memory(workspace: WorkspaceId);
    connectors = connector(workspace: WorkspaceId);
    connector_states = connector_state(workspace: WorkspaceId);
    mcp_keys = mcp_key(workspace: WorkspaceId);
    mcp_key_uses = mcp_key_use(workspace: WorkspaceId);
    chats = chat(workspace: WorkspaceId);
    chat_messages = chat_message(chat: ChatId);
    workspace_recalls = workspace_recall(workspace: WorkspaceId);
    recalls = recall();
    citing_recalls = cited_by(memory: MemoryId);
    subscriptions = subscription(recall: RecallId);
    webhooks = webhook(workspace: WorkspaceId);
    inbound_webhooks = inbound_webhook(workspace: WorkspaceId);
    audits = audit();
    audits_of = audit_actor(actor: MemberId);
    endpoints = endpoint();
    deliveries = delivery(endpoint: EndpointId);
    deliveries_due = delivery_due(endpoint: EndpointId);
    dead_letters = dead_letter(endpoint: EndpointId);
}

/// Every `role` of every organisation.
#[must_use]
pub fn all_roles() -> KeyRange {
    Builder::new("role").range()
}

/// Every `webhook` of every organisation.
pub(crate) fn all_webhooks() -> KeyRange {
    Builder::new("webhook").range()
}

/// Every `subscription` of every organisation.
pub(crate) fn all_subscriptions() -> KeyRange {
    Builder::new("subscription").range()
}

/// Every `role_redirect` of every organisation.
#[must_use]
pub fn all_role_redirects() -> KeyRange {
    Builder::new("role_redirect").range()
}

/// `workspace_slug`
#[must_use]
pub fn workspace_slug(org: OrgId, slug: &str) -> Key {
    Builder::new("workspace_slug").id(org.0).part(slug).key()
}

/// `member_handle`
#[must_use]
pub fn member_handle(org: OrgId, handle: &str) -> Key {
    Builder::new("member_handle").id(org.0).part(handle).key()
}

/// `role_slug`
#[must_use]
pub fn role_slug(org: OrgId, slug: &str) -> Key {
    Builder::new("role_slug").id(org.0).part(slug).key()
}

/// `holder`: where a custom role is held, in one workspace or in the whole organisation.
#[must_use]
pub fn holder(org: OrgId, role: RoleId, member: MemberId, workspace: Option<WorkspaceId>) -> Key {
    let builder = Builder::new("holder").id(org.0).id(role.0).id(member.0);
    match workspace {
        Some(workspace) => builder.id(workspace.0).key(),
        None => builder.part(WHOLE_ORG).key(),
    }
}

/// The holders of a custom role.
#[must_use]
pub fn holders(org: OrgId, role: RoleId) -> KeyRange {
    Builder::new("holder").id(org.0).id(role.0).range()
}

/// Who holds and where, from a `holder` key.
#[must_use]
pub fn parse_holder(key: &Key) -> Option<(MemberId, Option<WorkspaceId>)> {
    let member = MemberId(second_last_id(key)?);
    match part_from_end(key, 0)? {
        WHOLE_ORG => Some((member, None)),
        _ => Some((member, Some(WorkspaceId(last_id(key)?)))),
    }
}

/// `holder_count`
#[must_use]
pub fn holder_count(org: OrgId, role: RoleRef) -> Key {
    let builder = Builder::new("holder_count").id(org.0);
    match role {
        RoleRef::BuiltIn(role) => builder.part(role).key(),
        RoleRef::Custom(role) => builder.id(role.0).key(),
    }
}

/// `credential`
#[must_use]
pub fn credential(hash: SecretHash) -> Key {
    Builder::new("credential").part(hash).key()
}

/// `source_key`
#[must_use]
pub fn source_key(org: OrgId, workspace: WorkspaceId, source: SourceId, name: &str) -> Key {
    Builder::new("source_key")
        .id(org.0)
        .id(workspace.0)
        .id(source.0)
        .digest(name.as_bytes())
        .key()
}

/// `chat_recent`
#[must_use]
pub fn chat_recent(
    org: OrgId,
    workspace: WorkspaceId,
    last_message_at: Timestamp,
    chat: ChatId,
) -> Key {
    Builder::new("chat_recent")
        .id(org.0)
        .id(workspace.0)
        .time(last_message_at)
        .id(chat.0)
        .key()
}

/// The chats of a workspace by their newest message, oldest first.
#[must_use]
pub fn recent_chats(org: OrgId, workspace: WorkspaceId) -> KeyRange {
    Builder::new("chat_recent")
        .id(org.0)
        .id(workspace.0)
        .range()
}

/// `idempotency`
#[must_use]
pub fn idempotency(org: OrgId, member: MemberId, operation: &str, key: &str) -> Key {
    Builder::new("idempotency")
        .id(org.0)
        .id(member.0)
        .part(operation)
        .digest(key.as_bytes())
        .key()
}

/// `inbound_message`
#[must_use]
pub fn inbound_message(org: OrgId, webhook: InboundWebhookId, message: &str) -> Key {
    Builder::new("inbound_message")
        .id(org.0)
        .id(webhook.0)
        .digest(message.as_bytes())
        .key()
}

/// `outbox`
#[must_use]
pub fn outbox(event: EventId) -> Key {
    Builder::new("outbox").id(event.0).key()
}

/// The events that are not expanded yet, by the time of their identifiers.
#[must_use]
pub fn outbox_events() -> KeyRange {
    Builder::new("outbox").range()
}

/// `expansion`
#[must_use]
pub fn expansion(event: EventId) -> Key {
    Builder::new("expansion").id(event.0).key()
}

/// `endpoint_due`
#[must_use]
pub fn endpoint_due(at: Timestamp, org: OrgId, endpoint: EndpointId) -> Key {
    Builder::new("endpoint_due")
        .time(at)
        .id(org.0)
        .id(endpoint.0)
        .key()
}

/// Every turn of every endpoint, in the order of time.
#[must_use]
pub fn endpoints_due() -> KeyRange {
    Builder::new("endpoint_due").range()
}

/// Whose turn it is and when, from an `endpoint_due` key.
#[must_use]
pub fn parse_endpoint_due(key: &Key) -> Option<(Timestamp, OrgId, EndpointId)> {
    let at = time_from_end(key, 2)?;
    Some((at, OrgId(second_last_id(key)?), EndpointId(last_id(key)?)))
}

/// `delivery_due`
#[must_use]
pub fn delivery_due(org: OrgId, endpoint: EndpointId, at: Timestamp, event: EventId) -> Key {
    Builder::new("delivery_due")
        .id(org.0)
        .id(endpoint.0)
        .time(at)
        .id(event.0)
        .key()
}

/// When which event is due, from a `delivery_due` key.
#[must_use]
pub fn parse_delivery_due(key: &Key) -> Option<(Timestamp, EventId)> {
    Some((time_from_end(key, 1)?, EventId(last_id(key)?)))
}

/// `undelivered`
#[must_use]
pub fn undelivered(event: EventId, endpoint: EndpointId) -> Key {
    Builder::new("undelivered").id(event.0).id(endpoint.0).key()
}

/// Every delivery that waits, the oldest event first.
#[must_use]
pub fn all_undelivered() -> KeyRange {
    Builder::new("undelivered").range()
}

/// Every `undelivered_count` of every organisation.
#[must_use]
pub fn undelivered_counts() -> KeyRange {
    Builder::new("undelivered_count").range()
}

/// Every `disabled_endpoint_count` of every organisation.
#[must_use]
pub fn disabled_endpoint_counts() -> KeyRange {
    Builder::new("disabled_endpoint_count").range()
}

/// The `undelivered_count` of schema 1, one for the whole store.
pub(crate) fn global_undelivered_count() -> Key {
    Builder::new("undelivered_count").key()
}

/// The `disabled_endpoint_count` of schema 1, one for the whole store.
pub(crate) fn global_disabled_endpoint_count() -> Key {
    Builder::new("disabled_endpoint_count").key()
}

/// `due`
#[must_use]
pub fn due(at: Timestamp, id: Uuid) -> Key {
    Builder::new("due").time(at).id(id).key()
}

/// When what a `due` key names is due.
#[must_use]
pub fn due_at(key: &Key) -> Option<Timestamp> {
    time_from_end(key, 1)
}

/// What is due at `now` or was before, in the order of time.
#[must_use]
pub fn due_until(now: Timestamp) -> KeyRange {
    let behind = Builder::new("due")
        .time(Timestamp::from_millis(now.as_millis().saturating_add(1)))
        .key();
    KeyRange::new(Builder::new("due").range().start, behind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id<T>(make: fn(Uuid) -> T, number: u128) -> T {
        make(Uuid::from_u128(number))
    }

    #[test]
    fn keys_are_readable() {
        let key = memory(id(OrgId, 1), id(MemoryId, 0xAB));
        assert_eq!(
            key.to_string(),
            "memory/00000000000000000000000000000001/000000000000000000000000000000ab"
        );
        assert_eq!(meta().to_string(), "meta");
    }

    #[test]
    fn ranges_hold_their_own_family_alone() {
        let (acme, other) = (id(OrgId, 1), id(OrgId, 2));
        let range = roles(acme);
        assert!(range.contains(&role(acme, id(RoleId, 0))));
        assert!(range.contains(&role(acme, id(RoleId, u128::MAX))));
        assert!(!range.contains(&role(other, id(RoleId, 0))));
        assert!(!range.contains(&role_count(acme)));
        assert!(!range.contains(&role_slug(acme, "a")));
    }

    #[test]
    fn a_holder_reads_back() {
        let (org, role, member) = (id(OrgId, 1), id(RoleId, 2), id(MemberId, 3));
        for workspace in [None, Some(id(WorkspaceId, 4))] {
            let key = holder(org, role, member, workspace);
            assert!(holders(org, role).contains(&key));
            assert_eq!(parse_holder(&key), Some((member, workspace)));
        }
    }

    #[test]
    fn what_is_due_is_ordered_by_time() {
        let now = Timestamp::from_millis(1_000);
        let range = due_until(now);
        assert!(range.contains(&due(now, Uuid::max())));
        assert!(range.contains(&due(Timestamp::UNIX_EPOCH, Uuid::nil())));
        assert!(!range.contains(&due(Timestamp::from_millis(1_001), Uuid::nil())));
        assert_eq!(due_at(&due(now, Uuid::max())), Some(now));
    }

    #[test]
    fn turns_and_queues_read_back_in_the_order_of_time() {
        let (org, endpoint, event) = (id(OrgId, 1), id(EndpointId, 2), id(EventId, 3));
        let at = Timestamp::from_millis(1_700_000_000_000);
        let turn = endpoint_due(at, org, endpoint);
        assert!(endpoints_due().contains(&turn));
        assert_eq!(parse_endpoint_due(&turn), Some((at, org, endpoint)));
        let queued = delivery_due(org, endpoint, at, event);
        assert!(deliveries_due(org, endpoint).contains(&queued));
        assert_eq!(parse_delivery_due(&queued), Some((at, event)));
        assert!(
            queued
                < delivery_due(
                    org,
                    endpoint,
                    at.plus(std::time::Duration::from_millis(1)),
                    id(EventId, 0)
                )
        );
    }

    #[test]
    fn the_longest_key_is_within_the_limit() {
        let longest = "x".repeat(crate::model::AUDIENCE_NAME_CHARS_MAX);
        assert!(
            member_handle(id(OrgId, 1), &longest).as_bytes().len() < crate::store::KEY_BYTES_MAX
        );
        let key = idempotency(
            id(OrgId, 1),
            id(MemberId, 1),
            "bulk_update",
            &"k".repeat(255),
        );
        assert!(key.as_bytes().len() < crate::store::KEY_BYTES_MAX);
    }
}
