//! Contents of a workspace besides memories: connectors, MCP keys, chats and webhooks.

use serde_json::{Value, json};

use super::{Expectations, Parts, Problem, deliveries, value};
use crate::keys;
use crate::model::{
    ChatId, CitationSubscription, ConnectorId, CredentialId, InboundWebhook, InboundWebhookId,
    RecallId, SubscriptionId, Timestamp, Webhook,
};
use crate::service::connectors::types::Connector;
use crate::service::inbound::post::ProcessedMessage;
use crate::service::kit::sealing::SealedRecord;
use crate::service::maintain::ScheduledTask;
use crate::service::verify::expectation::Expectation;
use crate::service::verify::{DifferenceCode, Verifier};
use crate::service::workspace::chats::{Chat, ChatMessage};
use crate::service::workspace::mcp_keys::McpKey;
use crate::store::KeyEntry;

pub(super) fn connector(
    verifier: &mut Verifier,
    entry: &KeyEntry,
    parts: &Parts<'_>,
) -> Expectations {
    let (org, connector) = (parts.org()?, value::<Connector>(entry)?);
    parts.agree(&[(2, connector.workspace_id.0), (3, connector.id.0)])?;
    let (workspace, id) = (connector.workspace_id, connector.id);
    verifier.count(keys::connector_count(org, workspace), 1);
    Ok(vec![
        Expectation::Exists(keys::workspace(org, workspace)),
        Expectation::Exists(keys::connector_state(org, workspace, id)),
    ])
}

pub(super) fn connector_state(
    _: &mut Verifier,
    entry: &KeyEntry,
    parts: &Parts<'_>,
) -> Expectations {
    let (org, workspace) = (parts.org()?, parts.workspace()?);
    let connector = ConnectorId(parts.id(3)?);
    let state: Value = value(entry)?;
    let look_at: Option<Timestamp> = serde_json::from_value(state["look_at"].clone())
        .map_err(|_| Problem::unreadable("a look_at that is not a time"))?;
    let due = |at| {
        let task = ScheduledTask::Connector {
            org,
            workspace,
            connector,
        };
        Expectation::Scheduled(at, task)
    };
    let mut expectations = vec![Expectation::Exists(keys::connector(
        org, workspace, connector,
    ))];
    expectations.extend(look_at.map(due));
    Ok(expectations)
}

pub(super) fn mcp_key(
    verifier: &mut Verifier,
    entry: &KeyEntry,
    parts: &Parts<'_>,
) -> Expectations {
    let (org, workspace) = (parts.org()?, parts.workspace()?);
    let counter = keys::mcp_key_count(org, workspace);
    verifier.count(counter.clone(), 1);
    let key: McpKey = value(entry)?;
    parts.agree(&[(3, key.id.0)])?;
    let task = ScheduledTask::record(entry.key.clone())
        .and(keys::mcp_key_use(org, workspace, key.id))
        .counted_by(counter);
    Ok(vec![
        Expectation::Exists(keys::workspace(org, workspace)),
        Expectation::Scheduled(key.expires_at, task),
    ])
}

pub(super) fn mcp_key_use(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Expectations {
    value::<Timestamp>(entry)?;
    let id = CredentialId(parts.id(3)?);
    let key = keys::mcp_key(parts.org()?, parts.workspace()?, id);
    Ok(vec![Expectation::Exists(key)])
}

pub(super) fn chat(verifier: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Expectations {
    let (org, chat) = (parts.org()?, value::<Chat>(entry)?);
    parts.agree(&[(2, chat.workspace_id.0), (3, chat.id.0)])?;
    verifier.chats.insert((org, chat.id));
    let workspace = chat.workspace_id;
    let recent = keys::chat_recent(org, workspace, chat.last_message_at, chat.id);
    Ok(vec![
        Expectation::Exists(keys::workspace(org, workspace)),
        Expectation::Exists(recent),
    ])
}

/// Reads a message. Messages sort after all chats.
pub(super) fn chat_message(
    verifier: &mut Verifier,
    entry: &KeyEntry,
    parts: &Parts<'_>,
) -> Expectations {
    let message: ChatMessage = value(entry)?;
    parts.agree(&[(2, message.chat_id.0), (3, message.id.0)])?;
    if !verifier.chats.contains(&(parts.org()?, message.chat_id)) {
        let expected = format!("the chat {}", message.chat_id);
        return Err(Problem::new(DifferenceCode::Missing, expected, "nothing"));
    }
    Ok(Vec::new())
}

pub(super) fn chat_recent(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Expectations {
    let summary: Value = value(entry)?;
    let chat = keys::chat(parts.org()?, parts.workspace()?, ChatId(parts.id(4)?));
    let at = json!({ "last_message_at": summary["last_message_at"] });
    Ok(vec![Expectation::Contains(chat, at)])
}

pub(super) fn subscription(
    verifier: &mut Verifier,
    entry: &KeyEntry,
    parts: &Parts<'_>,
) -> Expectations {
    let (org, recall) = (parts.org()?, RecallId(parts.id(2)?));
    let stored: SealedRecord<CitationSubscription> = value(entry)?;
    let id = stored.record.id.0;
    parts.agree(&[
        (1, stored.record.org_id.0),
        (2, stored.record.recall_id.0),
        (3, id),
    ])?;
    verifier.count(keys::subscription_count(org, recall), 1);
    let mut expectations = deliveries::subscription(verifier, &stored);
    verifier.open(&stored, id)?;
    let by_id = keys::subscription_id(org, stored.record.id);
    expectations.push(Expectation::Exists(keys::recall(org, recall)));
    expectations.push(Expectation::Contains(by_id, json!(recall)));
    Ok(expectations)
}

pub(super) fn subscription_id(
    _: &mut Verifier,
    entry: &KeyEntry,
    parts: &Parts<'_>,
) -> Expectations {
    let (id, recall) = (SubscriptionId(parts.id(2)?), value(entry)?);
    let subscription = keys::subscription(parts.org()?, recall, id);
    Ok(vec![Expectation::Exists(subscription)])
}

pub(super) fn webhook(
    verifier: &mut Verifier,
    entry: &KeyEntry,
    parts: &Parts<'_>,
) -> Expectations {
    let (org, workspace) = (parts.org()?, parts.workspace()?);
    let stored: SealedRecord<Webhook> = value(entry)?;
    let id = stored.record.id.0;
    parts.agree(&[
        (1, stored.record.org_id.0),
        (2, stored.record.workspace_id.0),
        (3, id),
    ])?;
    verifier.count(keys::webhook_count(org, workspace), 1);
    let mut expectations = deliveries::webhook(verifier, &stored)?;
    verifier.open(&stored, id)?;
    expectations.push(Expectation::Exists(keys::workspace(org, workspace)));
    Ok(expectations)
}

pub(super) fn inbound_webhook(
    verifier: &mut Verifier,
    entry: &KeyEntry,
    parts: &Parts<'_>,
) -> Expectations {
    let (org, workspace) = (parts.org()?, parts.workspace()?);
    let stored: SealedRecord<InboundWebhook> = value(entry)?;
    let id = stored.record.id.0;
    parts.agree(&[
        (1, stored.record.org_id.0),
        (2, stored.record.workspace_id.0),
        (3, id),
    ])?;
    verifier.count(keys::inbound_webhook_count(org, workspace), 1);
    verifier.open(&stored, id)?;
    let by_id = keys::inbound_webhook_id(org, stored.record.id);
    Ok(vec![
        Expectation::Exists(keys::workspace(org, workspace)),
        Expectation::Exists(keys::source(org, stored.record.source_id)),
        Expectation::Contains(by_id, json!(workspace)),
    ])
}

pub(super) fn inbound_webhook_id(
    _: &mut Verifier,
    entry: &KeyEntry,
    parts: &Parts<'_>,
) -> Expectations {
    let (id, workspace) = (InboundWebhookId(parts.id(2)?), value(entry)?);
    let webhook = keys::inbound_webhook(parts.org()?, workspace, id);
    Ok(vec![Expectation::Exists(webhook)])
}

/// Reads a processed message. It outlives its webhook, so nothing else has to exist.
pub(super) fn inbound_message(
    _: &mut Verifier,
    entry: &KeyEntry,
    parts: &Parts<'_>,
) -> Expectations {
    parts.org()?;
    parts.id(2)?;
    let message: ProcessedMessage = value(entry)?;
    let task = ScheduledTask::record(entry.key.clone());
    Ok(vec![Expectation::Scheduled(message.expires_at, task)])
}
