//! Execution of a [`Call`] by the service.

use crate::model::{Answer, Call, Outcome, Refusal};
use knowledge_core::Error;
use knowledge_core::service::{DeleteRole, KnowledgeService};

/// Makes a call to the service and returns its result.
pub async fn execute(service: &KnowledgeService, call: &Call) -> Outcome {
    match call {
        Call::ListRoles(..)
        | Call::ReadRole(..)
        | Call::CreateRole(..)
        | Call::UpdateRole(..)
        | Call::DeleteRole(..)
        | Call::AssignRole(..)
        | Call::Revoke(..) => govern(service, call).await,
        Call::CreateWebhook(..)
        | Call::CreateInboundWebhook(..)
        | Call::CreateRecall(..)
        | Call::Subscribe(..) => announce(service, call).await,
        _ => work(service, call).await,
    }
    .map_err(|error| Refusal::from(&error))
}

/// Roles and credentials.
async fn govern(service: &KnowledgeService, call: &Call) -> Result<Answer, Error> {
    match call {
        Call::ListRoles(by, org) => {
            let roles = service.list_custom_roles(&by.credential, org).await?;
            Ok(Answer::Roles(roles))
        }
        Call::ReadRole(by, org, role) => {
            let found = service.custom_role(&by.credential, org, *role).await?;
            Ok(Answer::TaggedRole(found.value, found.etag))
        }
        Call::CreateRole(by, org, new) => {
            let made = service.create_custom_role(&by.credential, org, new).await?;
            Ok(Answer::Role(made))
        }
        Call::UpdateRole(by, org, role, update, if_match) => {
            let after = service
                .update_custom_role(&by.credential, org, *role, update, if_match.as_ref())
                .await?;
            Ok(Answer::TaggedRole(after.value, after.etag))
        }
        Call::DeleteRole(by, org, role, reassign_to) => {
            let request = DeleteRole {
                reassign_to: *reassign_to,
            };
            service
                .delete_custom_role(&by.credential, org, *role, &request)
                .await?;
            Ok(Answer::Done)
        }
        Call::AssignRole(by, org, member, assignment) => {
            service
                .assign_role(&by.credential, org, *member, *assignment)
                .await?;
            Ok(Answer::Done)
        }
        Call::Revoke(org, credential) => {
            service.provisioning().revoke(*org, *credential).await?;
            Ok(Answer::Done)
        }
        _ => unreachable!("the caller sorts the calls"),
    }
}

/// Webhooks, recalls and subscriptions.
async fn announce(service: &KnowledgeService, call: &Call) -> Result<Answer, Error> {
    Ok(match call {
        Call::CreateWebhook(by, place, new) => {
            Answer::Webhook(service.create_webhook(&by.credential, *place, new).await?)
        }
        Call::CreateInboundWebhook(by, place, new) => {
            let made = service.create_inbound_webhook(&by.credential, *place, new);
            Answer::InboundWebhook(made.await?)
        }
        Call::CreateRecall(by, place, new) => {
            Answer::Recall(service.create_recall(&by.credential, *place, new).await?)
        }
        Call::Subscribe(by, new) => {
            let made = service.create_citation_subscription(&by.credential, new);
            Answer::Subscription(made.await?)
        }
        _ => unreachable!("the caller sorts the calls"),
    })
}

/// Everything else that happens in a workspace.
async fn work(service: &KnowledgeService, call: &Call) -> Result<Answer, Error> {
    Ok(match call {
        Call::BulkUpdate(by, key, request) => {
            let result = service.bulk_update(&by.credential, key, request).await?;
            Answer::of_bulk(result)
        }
        Call::Ingest(by, workspace, source, memories) => {
            let ingested = service
                .ingest(&by.credential, *workspace, *source, memories)
                .await?;
            Answer::Ingested(ingested)
        }
        Call::CreateSource(by, new) => {
            Answer::Source(service.create_source(&by.credential, new).await?)
        }
        Call::CreateConnector(by, place, new) => Answer::Connector(
            service
                .create_connector(&by.credential, *place, new)
                .await?,
        ),
        Call::ReportSync(by, place, connector, report) => {
            let taken = service.report_sync(&by.credential, *place, *connector, report);
            taken.await?;
            Answer::Done
        }
        Call::PauseConnector(by, place, connector, is_paused) => {
            let after = service.pause_connector(&by.credential, *place, *connector, *is_paused);
            Answer::Connector(after.await?)
        }
        Call::CreateChat(by, place, title) => {
            Answer::Chat(service.create_chat(&by.credential, *place, title).await?)
        }
        Call::PostMessage(by, place, chat, content) => {
            let made = service.post_chat_message(&by.credential, *place, *chat, content);
            Answer::Message(made.await?)
        }
        Call::CreateMcpKey(by, place, new) => {
            let issued = service.create_mcp_key(&by.credential, *place, new).await?;
            Answer::McpKey(issued.summary, Some(issued.secret))
        }
        Call::NoteMcpKeyUse(by, place) => {
            service.note_mcp_key_use(&by.credential, *place).await?;
            Answer::Done
        }
        Call::Dashboard(by, place) => {
            let summary = service.dashboard_summary(&by.credential, *place).await?;
            Answer::of_dashboard(summary.value, summary.etag)
        }
        Call::ReadAudit(by, id) => {
            Answer::of_audit(&service.audit_entry(&by.credential, *id).await?)
        }
        Call::Maintain => {
            service.maintain(service.env().now()).await?;
            Answer::Done
        }
        _ => unreachable!("the caller sorts the calls"),
    })
}
