//! Contents of a workspace besides memories: connectors, MCP keys, chats and webhooks.

use serde_json::{Value, json};

use super::deliveries;
use super::tenants::indexed_by_credential;
use crate::keys;
use crate::model::{
    ChatId, CitationSubscription, ConnectorId, InboundWebhook, InboundWebhookId, OrgId, RecallId,
    SourceId, SubscriptionId, Timestamp, Webhook, WorkspaceId,
};
use crate::service::access::created::CreatedRecord;
use crate::service::inbound::post::ProcessedMessage;
use crate::service::secrets::sealing::SealedRecord;
use crate::service::tasks::ScheduledTask;
use crate::service::verify::expectation::Expectation;
use crate::service::verify::problem::{Expectations, Problem};
use crate::service::verify::verifier::Verifier;
use crate::service::workspace::chats::{Chat, ChatMessage};
use crate::service::workspace::mcp_key_types::McpKey;
use crate::service::workspace::retention::{RetentionSweep, StoredRetention};
use crate::store::KeyEntry;

pub(super) fn connector_state(
    _: &mut Verifier,
    _: &KeyEntry,
    state: Value,
    org: OrgId,
    workspace: WorkspaceId,
    connector: ConnectorId,
) -> Expectations {
    let look_at: Option<Timestamp> = serde_json::from_value(state["look_at"].clone())
        .map_err(|_| Problem::unreadable("a look_at that is not a time"))?;
    let task = ScheduledTask::Connector {
        org,
        workspace,
        connector,
    };
    let scheduled = look_at.map(|at| Expectation::Scheduled(at, task));
    Ok(scheduled.into_iter().collect())
}

pub(super) fn mcp_key(
    _: &mut Verifier,
    entry: &KeyEntry,
    key: McpKey,
    org: OrgId,
    workspace: WorkspaceId,
) -> Expectations {
    let task = ScheduledTask::record(entry.key.clone())
        .and(keys::mcp_key_use(org, workspace, key.id))
        .counted_by(keys::mcp_key_count(org, workspace));
    let scheduled = Expectation::Scheduled(key.expires_at, task);
    let place = (key.id.0, CreatedRecord::McpKey(workspace));
    let indexed = indexed_by_credential(org, key.delegator(), place);
    Ok([scheduled].into_iter().chain(indexed).collect())
}

pub(super) fn chat(verifier: &mut Verifier, _: &KeyEntry, chat: Chat, org: OrgId) -> Expectations {
    verifier.chats.insert((org, chat.id));
    let recent = keys::chat_recent(org, chat.workspace_id, chat.last_message_at, chat.id);
    Ok(vec![Expectation::Exists(recent)])
}

/// Reads a message. Messages sort after all chats.
pub(super) fn chat_message(
    verifier: &mut Verifier,
    entry: &KeyEntry,
    message: ChatMessage,
    org: OrgId,
) -> Expectations {
    if !verifier.chats.contains(&(org, message.chat_id)) {
        let chat = (org, message.chat_id);
        verifier.former_chats.insert(chat, entry.key.clone());
    }
    Ok(Vec::new())
}

pub(super) fn chat_recent(
    _: &mut Verifier,
    _: &KeyEntry,
    summary: Value,
    org: OrgId,
    workspace: WorkspaceId,
    chat: ChatId,
) -> Expectations {
    let same = json!({
        "last_message_at": summary["last_message_at"],
        "participants": summary["participants"],
    });
    let chat = keys::chat(org, workspace, chat);
    Ok(vec![Expectation::Contains(chat, same)])
}

pub(super) fn retention(
    _: &mut Verifier,
    _: &KeyEntry,
    _: StoredRetention,
    org: OrgId,
    workspace: WorkspaceId,
) -> Expectations {
    let sweep = keys::retention_sweep(org, workspace);
    let swept = json!({ "has_retention": true });
    Ok(vec![Expectation::Contains(sweep, swept)])
}

pub(super) fn retention_sweep(
    _: &mut Verifier,
    _: &KeyEntry,
    sweep: RetentionSweep,
    org: OrgId,
    workspace: WorkspaceId,
) -> Expectations {
    let next = sweep.next.map(|at| keys::due(at, workspace.0));
    let retention = sweep.has_retention.then(|| keys::retention(org, workspace));
    let expected = next.into_iter().chain(retention);
    Ok(expected.map(Expectation::Exists).collect())
}

pub(super) fn subscription(
    verifier: &mut Verifier,
    _: &KeyEntry,
    stored: SealedRecord<CitationSubscription>,
) -> Expectations {
    let subscription = &stored.record;
    let mut expectations = deliveries::subscription(verifier, &stored);
    verifier.open(&stored, subscription.id.0)?;
    let by_id = keys::subscription_id(subscription.org_id, subscription.id);
    let recall = json!(subscription.recall_id);
    expectations.push(Expectation::Contains(by_id, recall));
    let place = CreatedRecord::CitationSubscription(subscription.recall_id);
    let place = (subscription.id.0, place);
    let indexed = indexed_by_credential(subscription.org_id, stored.delegator, place);
    expectations.extend(indexed);
    Ok(expectations)
}

pub(super) fn subscription_id(
    _: &mut Verifier,
    _: &KeyEntry,
    recall: RecallId,
    org: OrgId,
    id: SubscriptionId,
) -> Expectations {
    let subscription = keys::subscription(org, recall, id);
    Ok(vec![Expectation::Exists(subscription)])
}

pub(super) fn webhook(
    verifier: &mut Verifier,
    _: &KeyEntry,
    stored: SealedRecord<Webhook>,
) -> Expectations {
    let webhook = &stored.record;
    let mut expectations = deliveries::webhook(verifier, &stored)?;
    verifier.open(&stored, webhook.id.0)?;
    let place = (webhook.id.0, CreatedRecord::Webhook(webhook.workspace_id));
    let indexed = indexed_by_credential(webhook.org_id, stored.delegator, place);
    expectations.extend(indexed);
    Ok(expectations)
}

pub(super) fn inbound_webhook(
    verifier: &mut Verifier,
    _: &KeyEntry,
    stored: SealedRecord<InboundWebhook>,
) -> Expectations {
    let webhook = &stored.record;
    verifier.open(&stored, webhook.id.0)?;
    let by_id = keys::inbound_webhook_id(webhook.org_id, webhook.id);
    let place = CreatedRecord::InboundWebhook(webhook.workspace_id);
    let place = (webhook.id.0, place);
    let indexed = indexed_by_credential(webhook.org_id, stored.delegator, place);
    let expectations = [
        Expectation::Exists(keys::source(webhook.org_id, webhook.source_id)),
        Expectation::Contains(by_id, json!(webhook.workspace_id)),
    ];
    Ok(expectations.into_iter().chain(indexed).collect())
}

pub(super) fn inbound_webhook_id(
    _: &mut Verifier,
    _: &KeyEntry,
    workspace: WorkspaceId,
    org: OrgId,
    id: InboundWebhookId,
) -> Expectations {
    // The identifier of a deleted webhook keeps its source closed.
    let webhook = keys::inbound_webhook(org, workspace, id);
    let source = keys::source(org, SourceId(id.0));
    Ok(vec![Expectation::EitherExists(webhook, source)])
}

/// Reads a processed message. It outlives its webhook, so nothing else has to exist.
pub(super) fn inbound_message(
    _: &mut Verifier,
    entry: &KeyEntry,
    message: ProcessedMessage,
) -> Expectations {
    let task = ScheduledTask::record(entry.key.clone());
    Ok(vec![Expectation::Scheduled(message.expires_at, task)])
}
