//! History besides memories: connectors in every status, MCP keys, chats, a webhook, a recall.

use std::time::Duration;

use knowledge_core::Error;
use knowledge_core::access::Credential;
use knowledge_core::model::{
    AudienceLabel, ConnectorId, ConnectorScope, EventType, McpClient, MemoryId, NewWebhook,
    RecallId, WebhookUpdate, WorkspaceId,
};
use knowledge_core::service::{NewConnector, NewMcpKey, NewRecall, SyncOutcome, SyncReport};

use super::cast;
use super::chats::{CUSTOMER_CHATS, Chat, OPERATIONS_CHATS};
use super::stage::{CITED, Stage};

/// Error of the degraded connector.
pub(super) const DEGRADED_ERROR: &str =
    "429 Too Many Requests: 214 of 5,120 pages were left for the next sync";

const fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(minutes * 60)
}

const fn hours(hours: u64) -> Duration {
    minutes(hours * 60)
}

const fn days(days: u64) -> Duration {
    hours(days * 24)
}

/// The created records.
pub(super) struct HistoryRecords {
    pub(super) recall: RecallId,
    pub(super) healthy_connector: ConnectorId,
    pub(super) degraded_connector: ConnectorId,
    pub(super) connectors: u64,
    pub(super) mcp_keys: u64,
    pub(super) chats: u64,
}

/// Creates the records. The first of `memories`, those of the first workspace, are readable by all.
pub(super) async fn create(stage: &Stage, memories: &[MemoryId]) -> Result<HistoryRecords, Error> {
    let connectors = create_connectors(stage).await?;
    create_mcp_keys(stage).await?;
    let mut chats = 0;
    for (workspace, list) in [
        (stage.operations.id, OPERATIONS_CHATS),
        (stage.customers.id, CUSTOMER_CHATS),
    ] {
        for chat in list {
            create_chat(stage, workspace, chat).await?;
            chats += 1;
        }
    }
    create_webhook(stage).await?;
    Ok(HistoryRecords {
        recall: create_recall(stage, memories).await?,
        // Indexes into `CONNECTORS`.
        healthy_connector: connectors[0],
        degraded_connector: connectors[1],
        connectors: connectors.len() as u64,
        mcp_keys: MCP_KEYS.len() as u64,
        chats,
    })
}

/// Report of a connector and its age.
enum Report {
    Success(Duration),
    Failure(Duration, &'static str),
    Refusal(Duration, &'static str),
    Pause(Duration),
}

struct Connector {
    kind: &'static str,
    account: &'static str,
    scope: ConnectorScope,
    interval: Duration,
    created: Duration,
    reports: &'static [Report],
}

/// One connector in each status: healthy, degraded, stale, failing, auth_required, paused, pending.
const CONNECTORS: [Connector; 7] = [
    Connector {
        kind: "confluence",
        account: "wiki.lumen-freight.example",
        scope: ConnectorScope::Organization,
        interval: days(1),
        created: days(14),
        reports: &[
            Report::Success(days(2)),
            Report::Success(days(1)),
            Report::Success(minutes(18)),
        ],
    },
    Connector {
        kind: "zendesk",
        account: "support@lumen-freight.example",
        scope: ConnectorScope::Workspace,
        interval: days(1),
        created: days(13),
        reports: &[
            Report::Success(days(2)),
            Report::Failure(hours(5), DEGRADED_ERROR),
            Report::Success(minutes(42)),
        ],
    },
    Connector {
        kind: "google_drive",
        account: "finance-shared",
        scope: ConnectorScope::Workspace,
        interval: hours(6),
        created: days(12),
        reports: &[Report::Success(days(5)), Report::Success(days(3))],
    },
    Connector {
        kind: "github",
        account: "lumen-freight/dispatch",
        scope: ConnectorScope::Organization,
        interval: hours(1),
        created: days(11),
        reports: &[
            Report::Success(hours(7)),
            Report::Failure(hours(3), "502 Bad Gateway from api.github.example"),
            Report::Failure(hours(2), "502 Bad Gateway from api.github.example"),
            Report::Failure(hours(1), "connection timed out after 30 s"),
        ],
    },
    Connector {
        kind: "slack",
        account: "jonas.weber",
        scope: ConnectorScope::Personal,
        interval: hours(1),
        created: days(10),
        reports: &[
            Report::Success(days(2)),
            Report::Refusal(hours(6), "401 token_revoked: connect the account again"),
        ],
    },
    Connector {
        kind: "notion",
        account: "people-handbook",
        scope: ConnectorScope::Organization,
        interval: hours(12),
        created: days(9),
        reports: &[Report::Success(days(6)), Report::Pause(days(4))],
    },
    Connector {
        kind: "gmail",
        account: "maya.okafor@lumen-freight.example",
        scope: ConnectorScope::Personal,
        interval: hours(2),
        created: minutes(20),
        reports: &[],
    },
];

async fn create_connectors(stage: &Stage) -> Result<Vec<ConnectorId>, Error> {
    let admin = stage.act_as(cast::ADMIN.handle);
    let workspace = stage.operations.id;
    let mut created = Vec::with_capacity(CONNECTORS.len());
    for connector in &CONNECTORS {
        stage.ago(connector.created);
        let new = NewConnector {
            kind: connector.kind.to_owned(),
            account_label: connector.account.to_owned(),
            scope: connector.scope,
            sync_interval: connector.interval,
        };
        let id = stage
            .service
            .create_connector(&admin, workspace, &new)
            .await?
            .id;
        for report in connector.reports {
            apply(stage, &admin, id, report).await?;
        }
        created.push(id);
    }
    Ok(created)
}

async fn apply(
    stage: &Stage,
    admin: &Credential,
    connector: ConnectorId,
    report: &Report,
) -> Result<(), Error> {
    let workspace = stage.operations.id;
    let failure = |error: &str, is_authentication| SyncOutcome::Failure {
        error: error.to_owned(),
        is_authentication,
    };
    let (ago, outcome) = match *report {
        Report::Success(ago) => (ago, SyncOutcome::Success),
        Report::Failure(ago, error) => (ago, failure(error, false)),
        Report::Refusal(ago, error) => (ago, failure(error, true)),
        Report::Pause(ago) => {
            stage.ago(ago);
            let service = &stage.service;
            service
                .pause_connector(admin, workspace, connector, true)
                .await?;
            return Ok(());
        }
    };
    stage.ago(ago);
    let report = SyncReport {
        outcome,
        next_sync_at: None,
    };
    let bot = stage.act_as(cast::SYNC_BOT);
    stage
        .service
        .report_sync(&bot, workspace, connector, &report)
        .await
}

struct McpKey {
    name: &'static str,
    client: McpClient,
    audience: &'static [&'static str],
    created: Duration,
    used: Option<Duration>,
    is_of_operations: bool,
}

const MCP_KEYS: [McpKey; 6] = [
    McpKey {
        name: "Jonas's laptop",
        client: McpClient::ClaudeDesktop,
        audience: &["workspace:operations", "org:lumen-freight", "team:platform"],
        created: days(13),
        used: Some(minutes(9)),
        is_of_operations: true,
    },
    McpKey {
        name: "Platform team, in the terminal",
        client: McpClient::ClaudeCode,
        audience: &["workspace:operations", "team:platform"],
        created: days(12),
        used: Some(minutes(31)),
        is_of_operations: true,
    },
    McpKey {
        name: "Dispatch on-call",
        client: McpClient::Cursor,
        audience: &["workspace:operations"],
        created: days(8),
        used: Some(hours(20)),
        is_of_operations: true,
    },
    McpKey {
        name: "Trial for the sales floor",
        client: McpClient::Chatgpt,
        audience: &["org:lumen-freight"],
        created: days(2),
        used: None,
        is_of_operations: true,
    },
    McpKey {
        name: "Support desk assistant",
        client: McpClient::Other,
        audience: &["workspace:customer-success", "team:support"],
        created: days(11),
        used: Some(minutes(3)),
        is_of_operations: false,
    },
    McpKey {
        name: "Priya's editor",
        client: McpClient::Vscode,
        audience: &["workspace:customer-success"],
        created: days(5),
        used: None,
        is_of_operations: false,
    },
];

async fn create_mcp_keys(stage: &Stage) -> Result<(), Error> {
    let admin = stage.act_as(cast::ADMIN.handle);
    for key in &MCP_KEYS {
        let workspace = if key.is_of_operations {
            stage.operations.id
        } else {
            stage.customers.id
        };
        stage.ago(key.created);
        let audience = key
            .audience
            .iter()
            .map(|label| label.parse::<AudienceLabel>());
        let new = NewMcpKey {
            name: key.name.to_owned(),
            client: key.client,
            audience: audience
                .collect::<Result<_, _>>()
                .map_err(|error| Error::internal(format!("an audience label {error}")))?,
            rotation: days(90),
        };
        let issued = stage
            .service
            .create_mcp_key(&admin, workspace, &new)
            .await?;
        if let Some(ago) = key.used {
            stage.ago(ago);
            let presented = Credential::from(issued.secret);
            stage
                .service
                .note_mcp_key_use(&presented, workspace)
                .await?;
        }
    }
    Ok(())
}

/// Time between two messages of a chat.
const MESSAGE_INTERVAL: Duration = minutes(2);

async fn create_chat(stage: &Stage, workspace: WorkspaceId, chat: &Chat) -> Result<(), Error> {
    let (first, _) = chat.messages[0];
    stage.ago(minutes(chat.minutes_ago));
    let service = &stage.service;
    let opened = service
        .create_chat(&stage.act_as(first), workspace, chat.title)
        .await?;
    let last = u32::try_from(chat.messages.len() - 1).unwrap_or(u32::MAX);
    for (left, (author, text)) in (0..=last).rev().zip(chat.messages) {
        stage.ago(minutes(chat.minutes_ago) + left * MESSAGE_INTERVAL);
        let author = stage.act_as(author);
        service
            .post_chat_message(&author, workspace, opened.id, text)
            .await?;
    }
    Ok(())
}

/// Creates an inactive webhook in the second workspace, as it has no receiver.
///
/// The first workspace has none, so that users can add one.
async fn create_webhook(stage: &Stage) -> Result<(), Error> {
    stage.ago(days(6));
    let new = NewWebhook {
        event_type: EventType::MemoryUpdated,
        url: "https://hooks.example.com/lumen-freight/memories"
            .parse()
            .map_err(|error| Error::internal(format!("a webhook URL {error}")))?,
    };
    let admin = stage.act_as(cast::ADMIN.handle);
    let (service, workspace) = (&stage.service, stage.customers.id);
    let webhook = service.create_webhook(&admin, workspace, &new).await?;
    let off = WebhookUpdate {
        is_active: Some(false),
        ..WebhookUpdate::default()
    };
    service
        .update_webhook(&admin, workspace, webhook.id, &off, None)
        .await?;
    Ok(())
}

async fn create_recall(stage: &Stage, memories: &[MemoryId]) -> Result<RecallId, Error> {
    stage.ago(minutes(12));
    let new = NewRecall {
        query: "Why did label printing stop in the Rotterdam hub, and what did we change?"
            .to_owned(),
        memory_ids: memories.iter().copied().take(CITED).collect(),
    };
    let admin = stage.act_as(cast::ADMIN.handle);
    Ok(stage
        .service
        .create_recall(&admin, stage.operations.id, &new)
        .await?
        .id)
}
