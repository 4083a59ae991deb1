//! Outbound webhooks of a workspace.

use super::KnowledgeService;
use super::audit::{Actor, AuditAction, Operation, ResourceKind};
use super::sealing::SealedRecord;
use super::validate::take_place;
use crate::access::{Credential, CredentialKind, Principal, needs};
use crate::error::{Error, ProblemCode};
use crate::model::{NewWebhook, Webhook, WebhookId, WebhookUrl, WorkspaceId};
use crate::store::keys;

impl KnowledgeService {
    /// Registers an outbound webhook. The answer has the signing secret, this once.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an address that deliveries may not go to or a workspace with as many webhooks as
    /// it may have; [`Error::Unauthenticated`]; [`Error::NotFound`] for an unknown workspace; [`Error::Forbidden`]
    /// without `webhook:manage` there.
    pub async fn create_webhook(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        request: &NewWebhook,
    ) -> Result<Webhook, Error> {
        self.check_webhook_url("url", &request.url)?;
        self.transact(|mut transaction| async move {
            let now = self.env().now();
            let caller =
                Principal::recognise(&mut transaction, credential, CredentialKind::Bearer, now)
                    .await?;
            let org = caller.org_id();
            caller
                .enter(&mut transaction, workspace, needs::CREATE_WEBHOOK)
                .await?;
            let limit = self.limits().webhooks_per_workspace_max;
            let counter = keys::webhook_count(org, workspace);
            let what = ("workspace", "webhooks");
            take_place(&mut transaction, counter, limit, "body", what).await?;
            let id = WebhookId(self.env().uuid());
            let (secret, sealed) = self.inner.sealer.new_secret(id.0, self.env());
            let mut webhook = Webhook {
                id,
                org_id: org,
                workspace_id: workspace,
                event_type: request.event_type,
                url: request.url.clone(),
                signing_secret: None,
                created_by: caller.member_id(),
                created_at: now,
            };
            Operation::begin(&transaction, self.env(), now).created(
                &mut transaction,
                Actor::from(&caller),
                AuditAction::WebhookCreate,
                (ResourceKind::Webhook, id.0),
                &webhook,
            );
            let stored = SealedRecord::new(&webhook, sealed);
            transaction.create(keys::webhook(org, workspace, id), &stored);
            webhook.signing_secret = Some(secret);
            transaction.done(webhook)
        })
        .await
    }

    /// Refuses an address that is too long, or that deliveries may not go to.
    pub(crate) fn check_webhook_url(&self, path: &str, url: &WebhookUrl) -> Result<(), Error> {
        let chars_max = self.limits().url_chars_max;
        if url.as_str().len() > chars_max {
            let message = format!("must have at most {chars_max} characters");
            return Err(Error::invalid(path, ProblemCode::TooLarge, message));
        }
        if url.as_url().scheme() == "https" || self.inner.allow_http_webhooks {
            return Ok(());
        }
        Err(Error::invalid(
            path,
            ProblemCode::InvalidValue,
            "must begin with https://",
        ))
    }
}
