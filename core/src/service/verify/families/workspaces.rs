//! What is in a workspace besides memories: connectors, MCP keys, chats, endpoints of webhooks.

use serde_json::{Value, json};

use super::{Claims, Parts, Problem, deliveries, value};
use crate::model::{
    ChatId, CitationSubscription, ConnectorId, CredentialId, InboundWebhook, InboundWebhookId,
    RecallId, SubscriptionId, Timestamp, Webhook,
};
use crate::service::chats::{Chat, ChatMessage};
use crate::service::connectors::Connector;
use crate::service::inbound_posts::TakenMessage;
use crate::service::maintain::Due;
use crate::service::mcp_keys::McpKey;
use crate::service::sealing::SealedRecord;
use crate::service::verify::claim::Claim;
use crate::service::verify::{DifferenceCode, Verifier};
use crate::keys;
use crate::store::KeyEntry;

pub(super) fn connector(verifier: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
    let (org, connector) = (parts.org()?, value::<Connector>(entry)?);
    parts.agree(&[(2, connector.workspace_id.0), (3, connector.id.0)])?;
    let (workspace, id) = (connector.workspace_id, connector.id);
    verifier.count(keys::connector_count(org, workspace), 1);
    Ok(vec![
        Claim::Exists(keys::workspace(org, workspace)),
        Claim::Exists(keys::connector_state(org, workspace, id)),
    ])
}

pub(super) fn connector_state(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
    let (org, workspace) = (parts.org()?, parts.workspace()?);
    let connector = ConnectorId(parts.id(3)?);
    let state: Value = value(entry)?;
    let look_at: Option<Timestamp> = serde_json::from_value(state["look_at"].clone())
        .map_err(|_| Problem::unreadable("no time in look_at"))?;
    let due = |at| {
        let due = Due::Connector {
            org,
            workspace,
            connector,
        };
        Claim::Due(at, due)
    };
    let mut claims = vec![Claim::Exists(keys::connector(org, workspace, connector))];
    claims.extend(look_at.map(due));
    Ok(claims)
}

pub(super) fn mcp_key(verifier: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
    let (org, workspace) = (parts.org()?, parts.workspace()?);
    let counter = keys::mcp_key_count(org, workspace);
    verifier.count(counter.clone(), 1);
    let key: McpKey = value(entry)?;
    parts.agree(&[(3, key.id.0)])?;
    let due = Due::record(entry.key.clone())
        .and(keys::mcp_key_use(org, workspace, key.id))
        .counted_by(counter);
    Ok(vec![
        Claim::Exists(keys::workspace(org, workspace)),
        Claim::Due(key.expires_at, due),
    ])
}

pub(super) fn mcp_key_use(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
    value::<Timestamp>(entry)?;
    let id = CredentialId(parts.id(3)?);
    let key = keys::mcp_key(parts.org()?, parts.workspace()?, id);
    Ok(vec![Claim::Exists(key)])
}

pub(super) fn chat(verifier: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
    let (org, chat) = (parts.org()?, value::<Chat>(entry)?);
    parts.agree(&[(2, chat.workspace_id.0), (3, chat.id.0)])?;
    verifier.chats.insert((org, chat.id));
    let workspace = chat.workspace_id;
    let recent = keys::chat_recent(org, workspace, chat.last_message_at, chat.id);
    Ok(vec![
        Claim::Exists(keys::workspace(org, workspace)),
        Claim::Exists(recent),
    ])
}

/// Messages sort behind all chats.
pub(super) fn chat_message(verifier: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
    let message: ChatMessage = value(entry)?;
    parts.agree(&[(2, message.chat_id.0), (3, message.id.0)])?;
    if !verifier.chats.contains(&(parts.org()?, message.chat_id)) {
        let expected = format!("the chat {}", message.chat_id);
        return Err(Problem::new(DifferenceCode::Missing, expected, "nothing"));
    }
    Ok(Vec::new())
}

pub(super) fn chat_recent(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
    let summary: Value = value(entry)?;
    let chat = keys::chat(parts.org()?, parts.workspace()?, ChatId(parts.id(4)?));
    let at = json!({ "last_message_at": summary["last_message_at"] });
    Ok(vec![Claim::Says(chat, at)])
}

pub(super) fn subscription(verifier: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
    let (org, recall) = (parts.org()?, RecallId(parts.id(2)?));
    let stored: SealedRecord<CitationSubscription> = value(entry)?;
    let id = stored.record.id.0;
    parts.agree(&[
        (1, stored.record.org_id.0),
        (2, stored.record.recall_id.0),
        (3, id),
    ])?;
    verifier.count(keys::subscription_count(org, recall), 1);
    let mut claims = deliveries::subscription(verifier, &stored);
    verifier.open(&stored, id)?;
    let by_id = keys::subscription_id(org, stored.record.id);
    claims.push(Claim::Exists(keys::recall(org, recall)));
    claims.push(Claim::Says(by_id, json!(recall)));
    Ok(claims)
}

pub(super) fn subscription_id(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
    let (id, recall) = (SubscriptionId(parts.id(2)?), value(entry)?);
    let subscription = keys::subscription(parts.org()?, recall, id);
    Ok(vec![Claim::Exists(subscription)])
}

pub(super) fn webhook(verifier: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
    let (org, workspace) = (parts.org()?, parts.workspace()?);
    let stored: SealedRecord<Webhook> = value(entry)?;
    let id = stored.record.id.0;
    parts.agree(&[
        (1, stored.record.org_id.0),
        (2, stored.record.workspace_id.0),
        (3, id),
    ])?;
    verifier.count(keys::webhook_count(org, workspace), 1);
    let mut claims = deliveries::webhook(verifier, &stored)?;
    verifier.open(&stored, id)?;
    claims.push(Claim::Exists(keys::workspace(org, workspace)));
    Ok(claims)
}

pub(super) fn inbound_webhook(
    verifier: &mut Verifier,
    entry: &KeyEntry,
    parts: &Parts<'_>,
) -> Claims {
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
        Claim::Exists(keys::workspace(org, workspace)),
        Claim::Exists(keys::source(org, stored.record.source_id)),
        Claim::Says(by_id, json!(workspace)),
    ])
}

pub(super) fn inbound_webhook_id(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
    let (id, workspace) = (InboundWebhookId(parts.id(2)?), value(entry)?);
    let webhook = keys::inbound_webhook(parts.org()?, workspace, id);
    Ok(vec![Claim::Exists(webhook)])
}

/// A message outlives its webhook: nothing else need be there.
pub(super) fn inbound_message(_: &mut Verifier, entry: &KeyEntry, parts: &Parts<'_>) -> Claims {
    parts.org()?;
    parts.id(2)?;
    let message: TakenMessage = value(entry)?;
    let due = Due::record(entry.key.clone());
    Ok(vec![Claim::Due(message.expires_at, due)])
}
