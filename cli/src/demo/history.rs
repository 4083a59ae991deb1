//! History besides memories: connectors in every status, MCP keys, chats, a webhook, a recall.

use std::collections::BTreeSet;
use std::time::Duration;

use knowledge_core::Error;
use knowledge_core::model::{ConnectorId, MemberId, MemoryId, RecallId, WebhookUpdate};
use knowledge_core::service::{
    Caller, ConnectorUpdate, NewChat, NewRecall, SyncOutcome, SyncReport,
};

use super::data::{Chat, DEGRADED, HEALTHY, HISTORY, Report, cast};
use super::stage::{CITED, Stage};

/// Time between two messages of a chat.
const MESSAGE_INTERVAL: Duration = Duration::from_secs(2 * 60);

/// The created records.
pub(super) struct HistoryRecords {
    pub(super) recall: RecallId,
    pub(super) healthy_connector: ConnectorId,
    pub(super) degraded_connector: ConnectorId,
}

/// Creates the records. The first of `memories`, those of the first workspace, are readable by all.
pub(super) async fn create(stage: &Stage, memories: &[MemoryId]) -> Result<HistoryRecords, Error> {
    let connectors = create_connectors(stage).await?;
    create_mcp_keys(stage).await?;
    for chat in &HISTORY.chats {
        create_chat(stage, chat).await?;
    }
    create_webhook(stage).await?;
    Ok(HistoryRecords {
        recall: create_recall(stage, memories).await?,
        healthy_connector: connectors[HEALTHY],
        degraded_connector: connectors[DEGRADED],
    })
}

async fn create_connectors(stage: &Stage) -> Result<Vec<ConnectorId>, Error> {
    let admin = stage.act_as(&cast().admin);
    let (service, workspace) = (&stage.service, stage.main().id);
    let mut created = Vec::with_capacity(HISTORY.connectors.len());
    for connector in &HISTORY.connectors {
        stage.ago(connector.created.0);
        let connectors = service.connectors();
        let new = connectors.create(&admin, workspace, &connector.new).await?;
        let id = new.connector.id;
        for report in &connector.reports {
            report_sync(stage, id, report).await?;
        }
        if let Some(ago) = connector.paused {
            stage.ago(ago.0);
            service
                .connectors()
                .update(&admin, workspace, id, &ConnectorUpdate::paused(true))
                .await?;
        }
        created.push(id);
    }
    Ok(created)
}

async fn report_sync(stage: &Stage, connector: ConnectorId, report: &Report) -> Result<(), Error> {
    stage.ago(report.ago.0);
    let outcome = match &report.error {
        Some(error) => SyncOutcome::Failure {
            error: error.clone(),
            is_authentication: report.is_authentication,
        },
        None => SyncOutcome::Success,
    };
    let report = SyncReport::new(outcome);
    let bot = stage.act_as(&cast().bot);
    let (service, workspace) = (&stage.service, stage.main().id);
    service
        .connectors()
        .report_sync(&bot, workspace, connector, &report)
        .await
}

async fn create_mcp_keys(stage: &Stage) -> Result<(), Error> {
    let admin = stage.act_as(&cast().admin);
    let service = &stage.service;
    for key in &HISTORY.mcp_keys {
        let workspace = stage.workspace(&key.workspace).id;
        stage.ago(key.created.0);
        let issued = service
            .mcp_keys()
            .create(&admin, workspace, &key.new)
            .await?;
        if let Some(ago) = key.used {
            stage.ago(ago.0);
            let presented = Caller::from(issued.secret.expect("a new key has a secret"));
            service.note_use(&presented).await;
        }
    }
    Ok(())
}

async fn create_chat(stage: &Stage, chat: &Chat) -> Result<(), Error> {
    let workspace = stage.workspace(&chat.workspace).id;
    let (first, _) = &chat.messages[0];
    stage.ago(chat.ago.0);
    let service = &stage.service;
    // The demo prints credentials of the owner and the administrator, who follow every chat.
    let followers = [&cast().owner, &cast().admin];
    let authors = chat.messages.iter().map(|(author, _)| author);
    let participants = authors.chain(followers).map(|handle| stage.member(handle));
    let participants: BTreeSet<MemberId> = participants.collect();
    let new = NewChat::builder().title(chat.title.as_str());
    let new = new.participants(participants.into_iter().collect()).build();
    let creator = stage.act_as(first);
    let opened = service.chats().create(&creator, workspace, &new).await?;
    let last = u32::try_from(chat.messages.len() - 1).unwrap_or(u32::MAX);
    for (left, (author, text)) in (0..=last).rev().zip(&chat.messages) {
        stage.ago(chat.ago.0 + left * MESSAGE_INTERVAL);
        let author = stage.act_as(author);
        service
            .chats()
            .post_message(&author, workspace, opened.id, text)
            .await?;
    }
    Ok(())
}

async fn create_webhook(stage: &Stage) -> Result<(), Error> {
    let webhook = &HISTORY.webhook;
    stage.ago(webhook.ago.0);
    let admin = stage.act_as(&cast().admin);
    let (service, workspace) = (&stage.service, stage.workspace(&webhook.workspace).id);
    let webhooks = service.webhooks();
    let webhook = webhooks.create(&admin, workspace, &webhook.new).await?;
    let off = WebhookUpdate::builder().is_active(false).build();
    webhooks
        .update(&admin, workspace, webhook.id, &off, None)
        .await?;
    Ok(())
}

async fn create_recall(stage: &Stage, memories: &[MemoryId]) -> Result<RecallId, Error> {
    let recall = &HISTORY.recall;
    stage.ago(recall.ago.0);
    let new = NewRecall::builder()
        .query(recall.query.clone())
        .memory_ids(memories.iter().copied().take(CITED).collect())
        .build();
    let admin = stage.act_as(&cast().admin);
    let (service, workspace) = (&stage.service, stage.workspace(&recall.workspace).id);
    let recall = service.recalls().create(&admin, workspace, &new).await?;
    Ok(recall.id)
}
