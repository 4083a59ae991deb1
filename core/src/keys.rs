//! The key layout. Every key that core writes is built and parsed here.
//!
//! A key is ASCII: the name of its family and its parts, separated by `/`. UUIDs are written as 32
//! hexadecimal digits, times as 16 (milliseconds since the Unix epoch), so that byte order is the
//! order of creation or of time. No part can contain the separator. Values are JSON; the value of a
//! counter is its number.
//!
//! | family | parts | value |
//! | --- | --- | --- |
//! | `meta` | | schema number and fingerprint of the sealing key |
//! | `org` | org | organisation |
//! | `org_slug` | slug | identifier of the organisation with this slug |
//! | `workspace` | org, workspace | workspace |
//! | `workspace_slug` | org, slug | identifier of the workspace with this slug |
//! | `member` | org, member | member with its role in the organisation |
//! | `member_handle` | org, handle | identifier of the member with this handle |
//! | `member_count` | org | counter of users |
//! | `former_member` | org, member | time of the removal of a member |
//! | `workspace_role` | org, member, workspace | role in the workspace, which replaces the role in the organisation there |
//! | `role` | org, role | custom role |
//! | `role_slug` | org, slug | identifier of the custom role with this slug |
//! | `role_count` | org | counter, guards the limit |
//! | `role_redirect` | org, role | role that replaces a deleted role |
//! | `holder` | org, role, member, workspace or `-` | marks a holder of a custom role |
//! | `holder_count` | org, role | counter of holders, also of built-in roles; guards deletion and the last owner |
//! | `credential` | SHA-256 of the secret | token, session or MCP key |
//! | `credential_id` | org, credential | SHA-256 in the key of the credential |
//! | `source` | org, source | source |
//! | `memory` | org, memory | labels of a memory |
//! | `content` | org, memory | title, content and origin of a memory |
//! | `workspace_memory` | org, workspace, memory | marks a memory of a workspace |
//! | `source_key` | org, workspace, source, SHA-256 of the key | identifier of the memory with this key at its source |
//! | `memory_count` | org, workspace | counter of memories |
//! | `pending_count` | org, workspace | counter of memories that await review |
//! | `last_ingest` | org, workspace | time of the last ingest |
//! | `connector` | org, workspace, connector | configuration of a connector |
//! | `connector_state` | org, workspace, connector | state of a connector, from its sync reports |
//! | `connector_count` | org, workspace | counter, guards the limit |
//! | `mcp_key` | org, workspace, credential | MCP key |
//! | `mcp_key_use` | org, workspace, credential | time of its last use |
//! | `mcp_key_count` | org, workspace | counter, guards the limit |
//! | `chat` | org, workspace, chat | chat session |
//! | `chat_message` | org, chat, message | message |
//! | `chat_recent` | org, workspace, time, chat | summary of a chat for the dashboard, ordered by its newest message |
//! | `workspace_recall` | org, workspace, recall | marks a recall of a workspace |
//! | `recall` | org, recall | recall with the memories that it cites |
//! | `cited_by` | org, memory, recall | marks a recall that cites a memory |
//! | `subscription` | org, recall, subscription | citation subscription with its sealed secret |
//! | `subscription_id` | org, subscription | identifier of its recall |
//! | `subscription_count` | org, recall | counter, guards the limit |
//! | `webhook` | org, workspace, webhook | outbound webhook with its sealed secret |
//! | `webhook_count` | org, workspace | counter, guards the limit |
//! | `inbound_webhook` | org, workspace, inbound webhook | inbound webhook with its sealed secret |
//! | `inbound_webhook_id` | org, inbound webhook | identifier of its workspace |
//! | `inbound_webhook_count` | org, workspace | counter, guards the limit |
//! | `inbound_message` | org, inbound webhook, SHA-256 of the message's identifier | deduplication record of an inbound message |
//! | `audit` | org, first audit id | page of audit entries with consecutive identifiers |
//! | `audit_actor` | org, member, first audit id | marks the audit pages of an operation by its actor |
//! | `idempotency` | org, member, operation, SHA-256 of the key | idempotency record, from which a replay is rebuilt |
//! | `outbox` | event | event that has not been fanned out |
//! | `expansion` | event | fan-out cursor of an event |
//! | `event` | org, event | event with deliveries, and its endpoints |
//! | `endpoint` | org, endpoint | delivery state of a webhook or citation subscription |
//! | `endpoint_due` | time, org, endpoint | marks an endpoint in the ready queue |
//! | `endpoint_sequence` | org, workspace | counter of endpoints ever created in the workspace, guards the selection of an event's endpoints |
//! | `delivery` | org, endpoint, event | delivery with its attempts |
//! | `delivery_id` | org, delivery | endpoint and event of the delivery |
//! | `delivery_due` | org, endpoint, time, event | marks a pending delivery in the queue of its endpoint |
//! | `undelivered` | event, endpoint | organisation of a pending delivery, ordered by event, oldest first |
//! | `undelivered_count` | org | counter of pending deliveries |
//! | `dead_letter` | org, endpoint, event | marks a dead letter |
//! | `disabled_endpoint_count` | org | counter of endpoints that the service disabled |
//! | `due` | time, id | scheduled task, such as the expiry of a record, the status check of a connector or the settlement of deleted roles |

use std::fmt::{Display, Write};

use uuid::Uuid;

use crate::access::{RoleRef, SecretHash};
use crate::digest::sha256;
use crate::model::{
    AuditLogId, ChatId, ChatMessageId, ConnectorId, CredentialId, DeliveryId, EndpointId, EventId,
    InboundWebhookId, MemberId, MemoryId, OrgId, RecallId, RoleId, SourceId, SubscriptionId,
    Timestamp, WebhookId, WorkspaceId,
};
use crate::store::{Key, KeyRange};

const DIVIDER: char = '/';
/// Last part of a `holder` key for the whole organisation. It sorts before every identifier.
const WHOLE_ORG: &str = "-";

/// A builder of a key from its parts.
struct Builder(String);

impl Builder {
    fn new(family: &str) -> Self {
        let mut text = String::with_capacity(128);
        text.push_str(family);
        Self(text)
    }

    fn part(mut self, part: impl Display) -> Self {
        write!(self.0, "{DIVIDER}{part}").expect("writing to a String never fails");
        self
    }

    fn id(self, id: Uuid) -> Self {
        self.part(id.simple())
    }

    fn time(self, time: Timestamp) -> Self {
        // Times before 1970 sort as 1970. No time in a key is that early.
        self.part(format_args!("{:016x}", time.as_millis().max(0)))
    }

    fn digest(self, of: &[u8]) -> Self {
        self.part(sha256(of))
    }

    fn key(self) -> Key {
        Key::new(self.0).expect("no key of the layout exceeds 512 bytes")
    }

    /// Returns the range of the keys with further parts.
    fn range(mut self) -> KeyRange {
        self.0.push(DIVIDER);
        KeyRange::prefix(&self.key())
    }
}

/// Parses the last part of a key, an identifier.
#[must_use]
pub fn last_id(key: &Key) -> Option<Uuid> {
    part_from_end(key, 0)?.parse().ok()
}

/// Parses the second last part of a key, an identifier.
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

/// Builds a key of the family `meta`.
#[must_use]
pub fn meta() -> Key {
    Builder::new("meta").key()
}

/// Builds a key of the family `org`.
#[must_use]
pub fn org(org: OrgId) -> Key {
    Builder::new("org").id(org.0).key()
}

/// Builds the range of all organisations.
#[must_use]
pub fn orgs() -> KeyRange {
    Builder::new("org").range()
}

/// Builds a key of the family `org_slug`.
#[must_use]
pub fn org_slug(slug: &str) -> Key {
    Builder::new("org_slug").part(slug).key()
}

/// Defines keys that consist of the organisation and further identifiers.
macro_rules! families {
    ($($name:ident($($part:ident: $kind:ty),*);)+) => {$(
        #[doc = concat!("Builds a key of the family `", stringify!($name), "`.")]
        #[must_use]
        pub fn $name(org: OrgId $(, $part: $kind)*) -> Key {
            Builder::new(stringify!($name)).id(org.0)$(.id($part.0))*.key()
        }
    )+};
}

/// Defines ranges of such families by the first parts of their keys.
macro_rules! ranges {
    ($($name:ident = $family:ident($($part:ident: $kind:ty),*);)+) => {$(
        #[doc = concat!("Builds the range of `", stringify!($family), "` keys with these parts.")]
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

/// Builds the range of the `role` keys of all organisations.
#[must_use]
pub fn all_roles() -> KeyRange {
    Builder::new("role").range()
}

/// Builds the range of the `webhook` keys of all organisations.
pub(crate) fn all_webhooks() -> KeyRange {
    Builder::new("webhook").range()
}

/// Builds the range of the `subscription` keys of all organisations.
pub(crate) fn all_subscriptions() -> KeyRange {
    Builder::new("subscription").range()
}

/// Builds the range of the `role_redirect` keys of all organisations.
#[must_use]
pub fn all_role_redirects() -> KeyRange {
    Builder::new("role_redirect").range()
}

/// Builds a key of the family `workspace_slug`.
#[must_use]
pub fn workspace_slug(org: OrgId, slug: &str) -> Key {
    Builder::new("workspace_slug").id(org.0).part(slug).key()
}

/// Builds a key of the family `member_handle`.
#[must_use]
pub fn member_handle(org: OrgId, handle: &str) -> Key {
    Builder::new("member_handle").id(org.0).part(handle).key()
}

/// Builds a key of the family `role_slug`.
#[must_use]
pub fn role_slug(org: OrgId, slug: &str) -> Key {
    Builder::new("role_slug").id(org.0).part(slug).key()
}

/// Builds a key of the family `holder`, for one workspace or for the whole organisation.
#[must_use]
pub fn holder(org: OrgId, role: RoleId, member: MemberId, workspace: Option<WorkspaceId>) -> Key {
    let builder = Builder::new("holder").id(org.0).id(role.0).id(member.0);
    match workspace {
        Some(workspace) => builder.id(workspace.0).key(),
        None => builder.part(WHOLE_ORG).key(),
    }
}

/// Builds the range of the holders of a custom role.
#[must_use]
pub fn holders(org: OrgId, role: RoleId) -> KeyRange {
    Builder::new("holder").id(org.0).id(role.0).range()
}

/// Parses the member from a `holder` key, and the workspace if it is for only one.
#[must_use]
pub fn parse_holder(key: &Key) -> Option<(MemberId, Option<WorkspaceId>)> {
    let member = MemberId(second_last_id(key)?);
    match part_from_end(key, 0)? {
        WHOLE_ORG => Some((member, None)),
        _ => Some((member, Some(WorkspaceId(last_id(key)?)))),
    }
}

/// Builds a key of the family `holder_count`.
#[must_use]
pub fn holder_count(org: OrgId, role: RoleRef) -> Key {
    let builder = Builder::new("holder_count").id(org.0);
    match role {
        RoleRef::BuiltIn(role) => builder.part(role).key(),
        RoleRef::Custom(role) => builder.id(role.0).key(),
    }
}

/// Builds a key of the family `credential`.
#[must_use]
pub fn credential(hash: SecretHash) -> Key {
    Builder::new("credential").part(hash).key()
}

/// Builds a key of the family `source_key`.
#[must_use]
pub fn source_key(org: OrgId, workspace: WorkspaceId, source: SourceId, name: &str) -> Key {
    Builder::new("source_key")
        .id(org.0)
        .id(workspace.0)
        .id(source.0)
        .digest(name.as_bytes())
        .key()
}

/// Builds a key of the family `chat_recent`.
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

/// Builds the range of the chats of a workspace, ordered by newest message, oldest first.
#[must_use]
pub fn recent_chats(org: OrgId, workspace: WorkspaceId) -> KeyRange {
    Builder::new("chat_recent")
        .id(org.0)
        .id(workspace.0)
        .range()
}

/// Builds a key of the family `idempotency`.
#[must_use]
pub fn idempotency(org: OrgId, member: MemberId, operation: &str, key: &str) -> Key {
    Builder::new("idempotency")
        .id(org.0)
        .id(member.0)
        .part(operation)
        .digest(key.as_bytes())
        .key()
}

/// Builds a key of the family `inbound_message`.
#[must_use]
pub fn inbound_message(org: OrgId, webhook: InboundWebhookId, message: &str) -> Key {
    Builder::new("inbound_message")
        .id(org.0)
        .id(webhook.0)
        .digest(message.as_bytes())
        .key()
}

/// Builds a key of the family `outbox`.
#[must_use]
pub fn outbox(event: EventId) -> Key {
    Builder::new("outbox").id(event.0).key()
}

/// Builds the range of the events that have not been fanned out, oldest first.
#[must_use]
pub fn outbox_events() -> KeyRange {
    Builder::new("outbox").range()
}

/// Builds a key of the family `expansion`.
#[must_use]
pub fn expansion(event: EventId) -> Key {
    Builder::new("expansion").id(event.0).key()
}

/// Builds a key of the family `endpoint_due`.
#[must_use]
pub fn endpoint_due(at: Timestamp, org: OrgId, endpoint: EndpointId) -> Key {
    Builder::new("endpoint_due")
        .time(at)
        .id(org.0)
        .id(endpoint.0)
        .key()
}

/// Builds the range of the ready queue, in order of time.
#[must_use]
pub fn endpoints_due() -> KeyRange {
    Builder::new("endpoint_due").range()
}

/// Parses the time, the organisation and the endpoint from an `endpoint_due` key.
#[must_use]
pub fn parse_endpoint_due(key: &Key) -> Option<(Timestamp, OrgId, EndpointId)> {
    let at = time_from_end(key, 2)?;
    Some((at, OrgId(second_last_id(key)?), EndpointId(last_id(key)?)))
}

/// Builds a key of the family `delivery_due`.
#[must_use]
pub fn delivery_due(org: OrgId, endpoint: EndpointId, at: Timestamp, event: EventId) -> Key {
    Builder::new("delivery_due")
        .id(org.0)
        .id(endpoint.0)
        .time(at)
        .id(event.0)
        .key()
}

/// Parses the time and the event from a `delivery_due` key.
#[must_use]
pub fn parse_delivery_due(key: &Key) -> Option<(Timestamp, EventId)> {
    Some((time_from_end(key, 1)?, EventId(last_id(key)?)))
}

/// Builds a key of the family `undelivered`.
#[must_use]
pub fn undelivered(event: EventId, endpoint: EndpointId) -> Key {
    Builder::new("undelivered").id(event.0).id(endpoint.0).key()
}

/// Builds the range of all pending deliveries, oldest event first.
#[must_use]
pub fn all_undelivered() -> KeyRange {
    Builder::new("undelivered").range()
}

/// Builds the range of the `undelivered_count` keys of all organisations.
#[must_use]
pub fn undelivered_counts() -> KeyRange {
    Builder::new("undelivered_count").range()
}

/// Builds the range of the `disabled_endpoint_count` keys of all organisations.
#[must_use]
pub fn disabled_endpoint_counts() -> KeyRange {
    Builder::new("disabled_endpoint_count").range()
}

/// Builds the `undelivered_count` key of schema 1, one for the whole store.
pub(crate) fn global_undelivered_count() -> Key {
    Builder::new("undelivered_count").key()
}

/// Builds the `disabled_endpoint_count` key of schema 1, one for the whole store.
pub(crate) fn global_disabled_endpoint_count() -> Key {
    Builder::new("disabled_endpoint_count").key()
}

/// Builds a key of the family `due`.
#[must_use]
pub fn due(at: Timestamp, id: Uuid) -> Key {
    Builder::new("due").time(at).id(id).key()
}

/// Parses the due time from a `due` key.
#[must_use]
pub fn due_at(key: &Key) -> Option<Timestamp> {
    time_from_end(key, 1)
}

/// Builds the range of the tasks that are due at `now` or earlier, in order of time.
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
    fn range_contains_only_its_own_family() {
        let (acme, other) = (id(OrgId, 1), id(OrgId, 2));
        let range = roles(acme);
        assert!(range.contains(&role(acme, id(RoleId, 0))));
        assert!(range.contains(&role(acme, id(RoleId, u128::MAX))));
        assert!(!range.contains(&role(other, id(RoleId, 0))));
        assert!(!range.contains(&role_count(acme)));
        assert!(!range.contains(&role_slug(acme, "a")));
    }

    #[test]
    fn role_holder_key_round_trips() {
        let (org, role, member) = (id(OrgId, 1), id(RoleId, 2), id(MemberId, 3));
        for workspace in [None, Some(id(WorkspaceId, 4))] {
            let key = holder(org, role, member, workspace);
            assert!(holders(org, role).contains(&key));
            assert_eq!(parse_holder(&key), Some((member, workspace)));
        }
    }

    #[test]
    fn due_keys_are_ordered_by_time() {
        let now = Timestamp::from_millis(1_000);
        let range = due_until(now);
        assert!(range.contains(&due(now, Uuid::max())));
        assert!(range.contains(&due(Timestamp::UNIX_EPOCH, Uuid::nil())));
        assert!(!range.contains(&due(Timestamp::from_millis(1_001), Uuid::nil())));
        assert_eq!(due_at(&due(now, Uuid::max())), Some(now));
    }

    #[test]
    fn ready_and_delivery_queue_keys_round_trip_ordered_by_time() {
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
    fn longest_key_fits_the_limit() {
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
