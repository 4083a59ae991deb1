//! Handling of a request, and functions of operations that differ from those of the service.

use std::sync::Arc;

use super::call::Call;
use super::headers;
use super::identity::Identity;
use super::input::Input;
use super::operations::dispatch;
use super::output::ErasureResponse;
use super::requests::{
    AssignWorkspaceRoleRequest, NewChatMessage, RotateMcpKeyRequest, SyncReportRequest,
};
use super::response::{ApiResponse, HandlerResult};
use super::verified_bearer;
use crate::access::CredentialKind;
use crate::error::Error;
use crate::model::{
    ChatId, ConnectorId, CredentialId, InboundWebhookId, MemberId, MemoryId, NewErasure, OrgId,
    ResourceKind, WorkspaceId,
};
use crate::operation::{Operation, OperationSpec};
use crate::service::{
    AuditResource, Caller, ChatMessage, Dashboard, IdempotencyKey, InboundBatch, IngestBatch,
    IngestResult, IssuedMcpKey, MemberAssignment, Refusal, VerifiedMessage,
};

/// Maximum length of a body that is parsed before the credential is known, in bytes.
const UNRECOGNIZED_BODY_BYTES_MAX: usize = 4 * 1_024;

/// Returns true for an error that can be detected before the caller is authenticated.
fn is_of_the_request(error: &Error) -> bool {
    matches!(
        error,
        Error::InvalidRequest { .. }
            | Error::IdempotencyKeyRequired
            | Error::PayloadTooLarge { .. }
            | Error::UnsupportedMediaType
    )
}

impl Call<'_> {
    pub(super) async fn respond(
        &self,
        spec: &OperationSpec,
        trusted_origins: &[String],
    ) -> HandlerResult {
        let Some(kind) = spec.authentication.credential() else {
            return match self.post_to_inbound_webhook().await {
                Err(Error::Conflict) => Err(Error::unavailable("contention")),
                handled => handled,
            };
        };
        let credential = verified_bearer::credential(self.request, kind)?;
        let mut caller = Caller::new(credential).with_client(self.client);
        if let Some(Identity::Unknown(reason)) = self.identity() {
            return Err(Error::Unauthenticated { reason });
        }
        let mut misused = None;
        match headers::act_for(self.request.headers(), kind) {
            Ok(Some(member)) => caller = caller.act_for(member),
            Ok(None) => {}
            Err(error) => misused = Some(error),
        }
        if kind == CredentialKind::Session {
            let (headers, method) = (self.request.headers(), self.request.method());
            let scheme = self.request.extensions().get().copied().unwrap_or_default();
            let checked = headers::reject_cross_site(headers, method, scheme, trusted_origins);
            misused = misused.or(checked.err());
        }
        let is_misused = misused.is_some();
        let handled = match misused {
            None => self.carry_out(spec.operation, &caller, kind).await,
            Some(refused) => Err(refused),
        };
        match handled {
            Err(error) if is_misused || is_of_the_request(&error) => {
                // Authentication takes precedence over problems with the request.
                self.service.authenticate(&caller, kind).await?;
                Err(error)
            }
            Err(Error::Conflict) if !spec.documents(409) => Err(Error::unavailable("contention")),
            Err(Error::Forbidden { reason, permission }) => {
                let refusal = self.refusal(spec, reason);
                self.service
                    .audit_log()
                    .record_refusal(&caller, &refusal)
                    .await;
                let reason = refusal.reason;
                Err(Error::Forbidden { reason, permission })
            }
            Ok(handled) => {
                self.service.note_use(&caller).await;
                Ok(handled)
            }
            failed => failed,
        }
    }

    /// Returns the refusal of an operation, with the workspace and the resource in its path.
    fn refusal(&self, spec: &OperationSpec, reason: String) -> Refusal {
        let (mut workspace, mut resource) = (None, None);
        for ((_, value), kind) in self.parameters.iter().zip(spec.identifies) {
            match (kind, value.parse::<MemoryId>()) {
                (ResourceKind::Organization, _) | (_, Err(_)) => {}
                (ResourceKind::Workspace, Ok(id)) => workspace = Some(WorkspaceId(id.0)),
                (&kind, Ok(MemoryId(id))) => resource = Some(AuditResource { kind, id }),
            }
        }
        Refusal {
            operation: spec.operation,
            workspace,
            resource,
            reason,
        }
    }

    fn identity(&self) -> Option<&Identity> {
        self.request.extensions().get()
    }

    /// Carries out an operation of a caller.
    ///
    /// A stranger costs one read and the bytes of its body. The operation itself authenticates the
    /// caller after it has parsed the body, so a long one is parsed only for a known credential.
    async fn carry_out(
        &self,
        operation: Operation,
        caller: &Caller,
        kind: CredentialKind,
    ) -> HandlerResult {
        let is_long = self.request.body().len() > UNRECOGNIZED_BODY_BYTES_MAX;
        if is_long && self.identity().is_none() {
            self.service.recognize(caller.credential(), kind).await?;
        }
        self.check_length()?;
        self.require_json()?;
        match self.keyed_request(operation)? {
            None => dispatch(self, operation, caller).await,
            Some(request) => self.dispatch_once(request, operation, caller).await,
        }
    }
}

/// Functions of operations whose arguments are not those of the service.
impl Call<'_> {
    pub(super) async fn get_dashboard_summary(
        &self,
        caller: &Caller,
        workspace: WorkspaceId,
    ) -> Result<Arc<Dashboard>, Error> {
        self.service.workspaces().dashboard(caller, workspace).await
    }

    pub(super) async fn ingest_memories(
        &self,
        caller: &Caller,
        workspace: WorkspaceId,
        batch: &IngestBatch,
    ) -> Result<IngestResult, Error> {
        let memories = self.service.memories();
        let memories = memories.ingest_batch(caller, workspace, batch).await?;
        Ok(IngestResult { memories })
    }

    pub(super) async fn create_erasure(
        &self,
        caller: &Caller,
        key: &IdempotencyKey,
        request: &NewErasure,
    ) -> Result<ErasureResponse, Error> {
        let erasures = self.service.erasures();
        if request.dry_run {
            let preview = erasures.preview(caller, request).await?;
            return Ok(ErasureResponse::Preview(preview));
        }
        let result = erasures.create(caller, key, request).await?;
        Ok(ErasureResponse::Receipt(result))
    }

    pub(super) async fn report_sync(
        &self,
        caller: &Caller,
        workspace: WorkspaceId,
        connector: ConnectorId,
        report: &SyncReportRequest,
    ) -> Result<(), Error> {
        self.service.checks().check(report)?;
        let report = report.into();
        self.service
            .connectors()
            .report_sync(caller, workspace, connector, &report)
            .await
    }

    pub(super) async fn rotate_mcp_key(
        &self,
        caller: &Caller,
        workspace: WorkspaceId,
        key: CredentialId,
        request: &RotateMcpKeyRequest,
    ) -> Result<IssuedMcpKey, Error> {
        self.service
            .mcp_keys()
            .rotate(caller, workspace, key, request.rotation)
            .await
    }

    pub(super) async fn post_chat_message(
        &self,
        caller: &Caller,
        workspace: WorkspaceId,
        chat: ChatId,
        new: &NewChatMessage,
    ) -> Result<ChatMessage, Error> {
        self.service
            .chats()
            .post_message(caller, workspace, chat, &new.content)
            .await
    }

    pub(super) async fn assign_workspace_role(
        &self,
        caller: &Caller,
        org_slug: &str,
        member: MemberId,
        workspace: WorkspaceId,
        request: &AssignWorkspaceRoleRequest,
    ) -> Result<(), Error> {
        let assignment = MemberAssignment::Workspace(workspace, Some(request.role));
        self.service
            .members()
            .assign_role(caller, org_slug, member, assignment)
            .await
    }

    fn checked(&self, batch: InboundBatch) -> Result<InboundBatch, Error> {
        self.service.checks().check(&batch)?;
        Ok(batch)
    }

    /// Verifies the signature of a post to an inbound webhook.
    pub(super) async fn verify_post(&self) -> Result<VerifiedMessage, Error> {
        let (headers, body) = (self.request.headers(), self.request.body());
        let message = headers::signed_message(headers, body)?;
        let mut reader = self.reader();
        let org = OrgId::read(&mut reader, "org")?;
        let webhook = InboundWebhookId::read(&mut reader, "id")?;
        self.service
            .inbound_webhooks()
            .verify_message(org, webhook, &message)
            .await
    }

    /// Handles the operation that is authenticated by a signature.
    ///
    /// The signature precedes the problems of the body, which are published.
    async fn post_to_inbound_webhook(&self) -> HandlerResult {
        let message = match self.identity() {
            Some(Identity::Sender(message)) => VerifiedMessage::clone(message),
            _ => self.verify_post().await?,
        };
        let message = message.with_client(self.client);
        self.check_length()?;
        self.require_json()?;
        let mut reader = self.reader();
        let read = <InboundBatch as Input>::read(&mut reader, "body");
        let batch = match read.and_then(|batch| self.checked(batch)) {
            Ok(batch) => batch,
            Err(error) => {
                self.service
                    .inbound_webhooks()
                    .reject_message(&message, &error)
                    .await?;
                return Err(error);
            }
        };
        self.service
            .inbound_webhooks()
            .ingest_message(&message, &batch.memories)
            .await?;
        Ok(ApiResponse::empty(self.success()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::{Authentication, OPERATIONS};

    #[test]
    fn inbound_post_is_the_only_signed_operation() {
        let signed = OPERATIONS
            .iter()
            .filter(|spec| spec.authentication == Authentication::Signature);
        let signed: Vec<Operation> = signed.map(|spec| spec.operation).collect();
        assert_eq!(signed, [Operation::PostToInboundWebhook]);
    }
}
