//! Handlers: each maps a request to a typed call, and its result to a response.

mod audit;
mod chats;
mod citations;
mod connectors;
mod dashboard;
mod deliveries;
mod mcp_keys;
mod members;
mod memories;
mod recalls;
mod roles;
mod sources;
mod webhooks;
mod workspaces;

use std::str::FromStr;

use bytes::Bytes;
use http::Request;
use serde::Serialize;
use uuid::Uuid;

use super::HandlerResult;
use super::body::Body;
use super::headers;
use super::route::{Operation, OperationSpec, Parameters};
use crate::access::{Credential, CredentialKind};
use crate::error::Error;
use crate::model::{RoleId, WebhookUrl, WorkspaceId};
use crate::service::KnowledgeService;

/// Envelope of single resources under `/v1/orgs`, and of the list of custom roles.
#[derive(Serialize)]
struct Data<T> {
    data: T,
}

/// Returns true for an error that can be detected before the caller is authenticated.
fn is_of_the_request(error: &Error) -> bool {
    matches!(
        error,
        Error::InvalidRequest { .. } | Error::IdempotencyKeyRequired | Error::UnsupportedMediaType
    )
}

/// A request in progress.
pub(super) struct Call<'c> {
    pub(super) service: &'c KnowledgeService,
    pub(super) trusted_origins: &'c [String],
    pub(super) spec: &'static OperationSpec,
    pub(super) parameters: &'c Parameters,
    pub(super) request: &'c Request<Bytes>,
}

impl Call<'_> {
    pub(super) async fn respond(&self) -> HandlerResult {
        let bytes_max = self.service.limits().body_bytes_max;
        if self.request.body().len() > bytes_max {
            return Err(Error::PayloadTooLarge { bytes_max });
        }
        let Some(kind) = self.spec.authentication.credential() else {
            return match self.carry_out_signed().await {
                Err(Error::Conflict) => Err(Error::unavailable("contention")),
                handled => handled,
            };
        };
        let credential = headers::credential(self.request.headers(), kind)?;
        if kind == CredentialKind::Session {
            let (headers, method) = (self.request.headers(), self.request.method());
            headers::refuse_cross_site(headers, method, self.trusted_origins)?;
        }
        match self.carry_out(&credential).await {
            Err(error) if is_of_the_request(&error) => {
                // Authentication takes precedence over problems with the request.
                self.service.authenticate(&credential, kind).await?;
                Err(error)
            }
            Err(Error::Conflict) if !self.spec.documents(409) => {
                Err(Error::unavailable("contention"))
            }
            handled => handled,
        }
    }

    /// Handles operations that are authenticated by a signature.
    async fn carry_out_signed(&self) -> HandlerResult {
        match self.spec.operation {
            Operation::PostToInboundWebhook => self.post_to_inbound_webhook().await,
            other => Err(Error::internal(format!(
                "{other:?} is not authenticated by a signature"
            ))),
        }
    }

    async fn carry_out(&self, credential: &Credential) -> HandlerResult {
        headers::require_json(self.request.headers(), !self.request.body().is_empty())?;
        match self.spec.operation {
            Operation::BulkUpdateMemories => self.bulk_update(credential).await,
            Operation::ListMemories => self.list_memories(credential).await,
            Operation::CreateMemory => self.create_memory(credential).await,
            Operation::IngestMemories => self.ingest(credential).await,
            Operation::UpdateMemory => self.update_memory(credential).await,
            Operation::DeleteMemory => self.delete_memory(credential).await,
            Operation::GetMemory => self.memory(credential).await,
            Operation::ListWorkspaces => self.list_workspaces(credential).await,
            Operation::GetWorkspace => self.read_workspace(credential).await,
            Operation::ListCitationSubscriptions => {
                self.list_citation_subscriptions(credential).await
            }
            Operation::GetCitationSubscription => self.citation_subscription(credential).await,
            Operation::DeleteCitationSubscription => {
                self.delete_citation_subscription(credential).await
            }
            Operation::RotateCitationSubscriptionSecret => {
                self.rotate_citation_subscription_secret(credential).await
            }
            Operation::CreateRecall => self.create_recall(credential).await,
            Operation::ListRecalls => self.list_recalls(credential).await,
            Operation::GetRecall => self.recall(credential).await,
            Operation::ListAuditEntries => self.list_audit_entries(credential).await,
            Operation::GetAuditEntry => self.audit_entry(credential).await,
            Operation::GetDashboardSummary => self.dashboard_summary(credential).await,
            Operation::DeleteCustomRole => self.delete_custom_role(credential).await,
            Operation::UpdateCustomRole => self.update_custom_role(credential).await,
            Operation::ListCustomRoles => self.list_custom_roles(credential).await,
            Operation::CreateCitationSubscription => {
                self.create_citation_subscription(credential).await
            }
            Operation::CreateWebhook => self.create_webhook(credential).await,
            Operation::CreateSource => self.create_source(credential).await,
            Operation::ListSources => self.list_sources(credential).await,
            Operation::GetSource => self.source(credential).await,
            Operation::CreateInboundWebhook => self.create_inbound_webhook(credential).await,
            Operation::CreateCustomRole => self.create_custom_role(credential).await,
            Operation::GetCustomRole => self.custom_role(credential).await,
            Operation::CreateConnector => self.create_connector(credential).await,
            Operation::ListConnectors => self.list_connectors(credential).await,
            Operation::GetConnector => self.connector(credential).await,
            Operation::UpdateConnector => self.update_connector(credential).await,
            Operation::DeleteConnector => self.delete_connector(credential).await,
            Operation::ReportSync => self.report_sync(credential).await,
            Operation::CreateMcpKey => self.create_mcp_key(credential).await,
            Operation::ListMcpKeys => self.list_mcp_keys(credential).await,
            Operation::GetMcpKey => self.mcp_key(credential).await,
            Operation::RotateMcpKey => self.rotate_mcp_key(credential).await,
            Operation::RevokeMcpKey => self.revoke_mcp_key(credential).await,
            Operation::NoteMcpKeyUse => self.note_mcp_key_use(credential).await,
            Operation::ListMembers => self.list_members(credential).await,
            Operation::AddMember => self.add_member(credential).await,
            Operation::GetMember => self.member(credential).await,
            Operation::UpdateMember => self.update_member(credential).await,
            Operation::RemoveMember => self.remove_member(credential).await,
            Operation::AssignWorkspaceRole => self.assign_workspace_role(credential).await,
            Operation::EndWorkspaceRole => self.end_workspace_role(credential).await,
            Operation::ListWebhooks => self.list_webhooks(credential).await,
            Operation::GetWebhook => self.webhook(credential).await,
            Operation::UpdateWebhook => self.update_webhook(credential).await,
            Operation::DeleteWebhook => self.delete_webhook(credential).await,
            Operation::RotateWebhookSecret => self.rotate_webhook_secret(credential).await,
            Operation::ListWebhookDeliveries => {
                self.list_deliveries(credential, self.webhook_endpoint())
                    .await
            }
            Operation::GetWebhookDelivery => {
                self.delivery(credential, self.webhook_endpoint()).await
            }
            Operation::RedeliverToWebhook => {
                self.redeliver(credential, self.webhook_endpoint()).await
            }
            Operation::RedeliverDeadToWebhook => {
                self.redeliver_dead(credential, self.webhook_endpoint())
                    .await
            }
            Operation::PingWebhook => self.ping(credential, self.webhook_endpoint()).await,
            Operation::ListCitationSubscriptionDeliveries => {
                self.list_deliveries(credential, self.subscription_endpoint())
                    .await
            }
            Operation::GetCitationSubscriptionDelivery => {
                self.delivery(credential, self.subscription_endpoint())
                    .await
            }
            Operation::RedeliverToCitationSubscription => {
                self.redeliver(credential, self.subscription_endpoint())
                    .await
            }
            Operation::RedeliverDeadToCitationSubscription => {
                self.redeliver_dead(credential, self.subscription_endpoint())
                    .await
            }
            Operation::PingCitationSubscription => {
                self.ping(credential, self.subscription_endpoint()).await
            }
            Operation::ListInboundWebhooks => self.list_inbound_webhooks(credential).await,
            Operation::GetInboundWebhook => self.inbound_webhook(credential).await,
            Operation::UpdateInboundWebhook => self.update_inbound_webhook(credential).await,
            Operation::DeleteInboundWebhook => self.delete_inbound_webhook(credential).await,
            Operation::RotateInboundWebhookSecret => {
                self.rotate_inbound_webhook_secret(credential).await
            }
            Operation::CreateChat => self.create_chat(credential).await,
            Operation::ListChats => self.list_chats(credential).await,
            Operation::GetChat => self.chat(credential).await,
            Operation::PostChatMessage => self.post_chat_message(credential).await,
            Operation::ListChatMessages => self.list_chat_messages(credential).await,
            signed @ Operation::PostToInboundWebhook => Err(Error::internal(format!(
                "{signed:?} is not authenticated by a credential"
            ))),
        }
    }

    fn check_url(
        &self,
        body: &mut Body,
        name: &'static str,
        url: Option<&WebhookUrl>,
    ) -> Result<(), Error> {
        match url {
            Some(url) => body
                .problems()
                .note(self.service.check_webhook_url(name, url)),
            None => Ok(()),
        }
    }

    /// Parses an identifier of the path.
    ///
    /// One that is not a UUID becomes the nil UUID, which nothing has, so that it fails where an
    /// unknown identifier does and no earlier.
    fn id<T: FromStr + From<Uuid>>(&self, name: &str) -> T {
        self.parameter(name)
            .parse()
            .unwrap_or_else(|_| Uuid::nil().into())
    }

    fn workspace(&self) -> WorkspaceId {
        self.id("id")
    }

    fn role(&self) -> RoleId {
        self.id("roleId")
    }

    fn org_slug(&self) -> &str {
        self.parameter("orgSlug")
    }

    fn parameter(&self, name: &str) -> &str {
        self.parameters.get(name).map_or("", String::as_str)
    }
}
