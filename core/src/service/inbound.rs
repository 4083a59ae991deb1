//! Inbound webhooks of a workspace.

use super::KnowledgeService;
use super::audit::{Actor, AuditAction, Operation, ResourceKind};
use super::sealing::SealedRecord;
use super::validate::{Problems, take_place};
use crate::access::{Credential, CredentialKind, Principal, needs};
use crate::error::Error;
use crate::model::{InboundWebhook, InboundWebhookId, NewInboundWebhook, WorkspaceId};
use crate::store::keys;

impl KnowledgeService {
    /// Registers an inbound webhook. The answer has its URL and the secret that senders sign with, this once.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a bad name or a workspace with as many inbound webhooks as it may have;
    /// [`Error::Unauthenticated`]; [`Error::NotFound`] for an unknown workspace; [`Error::Forbidden`] without
    /// `inbound_webhook:manage` there.
    pub async fn create_inbound_webhook(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        request: &NewInboundWebhook,
    ) -> Result<InboundWebhook, Error> {
        let mut problems = Problems::default();
        problems.name("name", &request.name, self.limits());
        problems.into_result()?;
        self.transact(|mut transaction| async move {
            let now = self.env().now();
            let caller =
                Principal::recognise(&mut transaction, credential, CredentialKind::Bearer, now)
                    .await?;
            let org = caller.org_id();
            caller
                .enter(&mut transaction, workspace, needs::CREATE_INBOUND_WEBHOOK)
                .await?;
            let limit = self.limits().inbound_webhooks_per_workspace_max;
            let counter = keys::inbound_webhook_count(org, workspace);
            let what = ("workspace", "inbound webhooks");
            take_place(&mut transaction, counter, limit, "body", what).await?;
            let id = InboundWebhookId(self.env().uuid());
            let (secret, sealed) = self.inner.sealer.new_secret(id.0, self.env());
            let mut webhook = InboundWebhook {
                id,
                org_id: org,
                workspace_id: workspace,
                name: request.name.clone(),
                url: format!("{}/v1/inbound/{org}/{id}", self.inner.public_url),
                signing_secret: None,
                created_by: caller.member_id(),
                created_at: now,
            };
            Operation::begin(&transaction, self.env(), now).created(
                &mut transaction,
                Actor::from(&caller),
                AuditAction::InboundWebhookCreate,
                (ResourceKind::InboundWebhook, id.0),
                &webhook,
            );
            let stored = SealedRecord::new(&webhook, sealed);
            transaction.create(keys::inbound_webhook(org, workspace, id), &stored);
            webhook.signing_secret = Some(secret);
            transaction.done(webhook)
        })
        .await
    }
}
