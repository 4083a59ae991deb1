//! Outbound webhooks of a workspace.

use crate::access::{Credential, CredentialKind, permissions};
use crate::error::{Error, ProblemCode};
use crate::keys;
use crate::model::{NewWebhook, Webhook, WebhookId, WebhookUpdate, WebhookUrl, WorkspaceId};
use crate::service::deliveries::{EndpointParent, EndpointQueue};
use crate::service::kit::audit::{Actor, AuditedOperation, state};
use crate::service::kit::audit_entry::{AuditAction, ResourceKind};
use crate::service::kit::page::{Listing, Page, PageRequest};
use crate::service::kit::principal::Principal;
use crate::service::kit::sealing::{RotatedSecret, SealedRecord};
use crate::service::kit::validate::reserve_quota;
use crate::service::{IfMatch, KnowledgeService, WithEtag};
use crate::store::{Direction, Key, Transaction};

type Stored = SealedRecord<Webhook>;

impl KnowledgeService {
    /// Registers an outbound webhook.
    ///
    /// The signing secret is returned only here.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an address that deliveries may not go to, or a workspace with
    /// the maximum number of webhooks; [`Error::Unauthenticated`]; [`Error::NotFound`] for an
    /// unknown workspace; [`Error::Forbidden`] without `webhook:manage` there.
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
                Principal::authenticate(&mut transaction, credential, CredentialKind::Bearer, now)
                    .await?;
            let org = caller.org_id();
            caller
                .authorize_in(&mut transaction, workspace, permissions::CREATE_WEBHOOK)
                .await?;
            let limit = self.limits().webhooks_per_workspace_max;
            let counter = keys::webhook_count(org, workspace);
            let what = ("workspace", "webhooks");
            reserve_quota(&mut transaction, counter, limit, "body", what).await?;
            let id = WebhookId(self.env().uuid());
            let (secret, sealed) = self.inner.sealer.new_secret(id.0, self.env());
            let mut webhook = Webhook {
                id,
                org_id: org,
                workspace_id: workspace,
                event_type: request.event_type,
                url: request.url.clone(),
                is_active: true,
                disabled_reason: None,
                signing_secret: None,
                created_by: caller.member_id(),
                created_at: now,
                updated_at: now,
            };
            AuditedOperation::begin(&transaction, self.env(), now).created(
                &mut transaction,
                Actor::from(&caller),
                AuditAction::WebhookCreate,
                (ResourceKind::Webhook, id.0),
                &webhook,
            );
            let stored = SealedRecord::new(&webhook, sealed);
            transaction.create(keys::webhook(org, workspace, id), &stored);
            let parent = EndpointParent::Webhook(workspace);
            EndpointQueue::create(&mut transaction, org, workspace, id.into(), parent).await?;
            webhook.signing_secret = Some(secret);
            transaction.done(webhook)
        })
        .await
    }

    /// Checks that a URL is not too long and that deliveries may go to it.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] otherwise.
    pub(crate) fn check_webhook_url(&self, path: &str, url: &WebhookUrl) -> Result<(), Error> {
        let chars_max = self.limits().url_chars_max;
        if url.as_str().len() > chars_max {
            let message = format!("must have at most {chars_max} characters");
            return Err(Error::invalid(path, ProblemCode::TooLarge, message));
        }
        self.webhook_addresses()
            .check_url(url)
            .map_err(|refused| Error::invalid(path, ProblemCode::InvalidValue, refused.to_string()))
    }

    /// Lists the outbound webhooks of a workspace, in order of creation, without their secrets.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an invalid page request; [`Error::Unauthenticated`];
    /// [`Error::NotFound`] for an unknown workspace; [`Error::Forbidden`] without `webhook:manage`
    /// there.
    pub async fn list_webhooks(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        page: &PageRequest,
    ) -> Result<Page<Webhook>, Error> {
        self.transact(|mut reading| async move {
            let (caller, _) = self
                .authorize_in(
                    &mut reading,
                    credential,
                    workspace,
                    permissions::LIST_WEBHOOKS,
                )
                .await?;
            let range = keys::webhooks(caller.org_id(), workspace);
            let listing = Listing::new("webhooks", &(), range, Direction::Forward);
            let show = |_: &Key, stored: Stored| Ok(Some(stored.record));
            reading.done(listing.page(self.store(), page, show).await?)
        })
        .await
    }

    /// Returns an outbound webhook with its entity tag, without its secret.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::NotFound`] for an unknown workspace or outbound
    /// webhook; [`Error::Forbidden`] without `webhook:manage` there.
    pub async fn webhook(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        id: WebhookId,
    ) -> Result<WithEtag<Webhook>, Error> {
        self.transact(|mut reading| async move {
            let (caller, _) = self
                .authorize_in(
                    &mut reading,
                    credential,
                    workspace,
                    permissions::READ_WEBHOOK,
                )
                .await?;
            let key = keys::webhook(caller.org_id(), workspace, id);
            let stored = read_webhook(&mut reading, &key).await?;
            reading.done(WithEtag::strong(stored.record))
        })
        .await
    }

    /// Changes an outbound webhook. An update that changes nothing returns it as it is.
    ///
    /// An update of `is_active` overrides the service, if it has disabled the webhook.
    ///
    /// # Errors
    /// As [`KnowledgeService::webhook`], and [`Error::InvalidRequest`] for invalid values;
    /// [`Error::PreconditionFailed`] if it is at none of the versions of `if_match`.
    pub async fn update_webhook(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        id: WebhookId,
        update: &WebhookUpdate,
        if_match: Option<&IfMatch>,
    ) -> Result<WithEtag<Webhook>, Error> {
        if let Some(url) = &update.url {
            self.check_webhook_url("url", url)?;
        }
        self.transact(|mut transaction| async move {
            let now = self.env().now();
            let (caller, _) = self
                .authorize_in(
                    &mut transaction,
                    credential,
                    workspace,
                    permissions::UPDATE_WEBHOOK,
                )
                .await?;
            let key = keys::webhook(caller.org_id(), workspace, id);
            let mut stored = read_webhook(&mut transaction, &key).await?;
            let before = stored.record;
            IfMatch::require(if_match, &before)?;
            let mut after = before.clone();
            after.event_type = update.event_type.unwrap_or(after.event_type);
            after.url = update.url.clone().unwrap_or(after.url);
            after.is_active = update.is_active.unwrap_or(after.is_active);
            // An update of `is_active` overrides the service, and so clears its reason.
            after.disabled_reason = before
                .disabled_reason
                .filter(|_| update.is_active.is_none());
            if after == before {
                return transaction.done(WithEtag::strong(before));
            }
            after.updated_at = now;
            let switches = |webhook: &Webhook| (webhook.is_active, webhook.disabled_reason);
            let is_switched = switches(&after) != switches(&before);
            if is_switched || after.url != before.url {
                // Pending deliveries are dead-lettered at once, or continue; failures of the old
                // address no longer count.
                let was_disabled = stored.disabled.take_if(|_| is_switched);
                let org = caller.org_id();
                self.endpoint_switched(&mut transaction, org, id.into(), was_disabled, now)
                    .await?;
            }
            stored.record = after.clone();
            transaction.put(key, &stored);
            AuditedOperation::begin(&transaction, self.env(), now).changed(
                &mut transaction,
                Actor::from(&caller),
                AuditAction::WebhookUpdate,
                (ResourceKind::Webhook, id.0),
                &before,
                &after,
            );
            transaction.done(WithEtag::strong(after))
        })
        .await
    }

    /// Deletes an outbound webhook.
    ///
    /// # Errors
    /// As [`KnowledgeService::webhook`].
    pub async fn delete_webhook(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        id: WebhookId,
    ) -> Result<(), Error> {
        self.transact(|mut transaction| async move {
            let now = self.env().now();
            let (caller, _) = self
                .authorize_in(
                    &mut transaction,
                    credential,
                    workspace,
                    permissions::DELETE_WEBHOOK,
                )
                .await?;
            let org = caller.org_id();
            let key = keys::webhook(org, workspace, id);
            let stored = read_webhook(&mut transaction, &key).await?;
            transaction.delete(key);
            transaction.add(keys::webhook_count(org, workspace), -1);
            self.endpoint_deleted(&mut transaction, org, id.into(), stored.disabled, now)
                .await?;
            AuditedOperation::begin(&transaction, self.env(), now).record(
                &mut transaction,
                Actor::from(&caller),
                AuditAction::WebhookDelete,
                (ResourceKind::Webhook, id.0),
                Some(state(&stored.record)),
                None,
            );
            transaction.done(())
        })
        .await
    }

    /// Replaces the signing secret of an outbound webhook.
    ///
    /// The new one is returned only here. The old one remains valid for 24 hours; the one before it
    /// becomes invalid.
    ///
    /// # Errors
    /// As [`KnowledgeService::webhook`].
    pub async fn rotate_webhook_secret(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        id: WebhookId,
    ) -> Result<RotatedSecret, Error> {
        self.transact(|mut transaction| async move {
            let now = self.env().now();
            let (caller, _) = self
                .authorize_in(
                    &mut transaction,
                    credential,
                    workspace,
                    permissions::ROTATE_WEBHOOK_SECRET,
                )
                .await?;
            let key = keys::webhook(caller.org_id(), workspace, id);
            let mut stored = read_webhook(&mut transaction, &key).await?;
            let rotated = stored.rotate(&self.inner.sealer, id.0, now, self.env());
            transaction.put(key, &stored);
            AuditedOperation::begin(&transaction, self.env(), now).rotated(
                &mut transaction,
                Actor::from(&caller),
                AuditAction::WebhookRotateSecret,
                (ResourceKind::Webhook, id.0),
                &rotated,
            );
            transaction.done(rotated)
        })
        .await
    }
}

async fn read_webhook(transaction: &mut Transaction, key: &Key) -> Result<Stored, Error> {
    let found = transaction.read::<Stored>(key).await?;
    found.ok_or(Error::NotFound { what: "webhook" })
}
