//! Outbound webhooks of a workspace.

use super::audit::{Actor, AuditAction, Operation, ResourceKind, state};
use super::deliveries::{EndpointPlace, EndpointQueue};
use super::page::{Listing, Page, PageRequest};
use super::sealing::{RotatedSecret, SealedRecord};
use super::validate::take_place;
use super::{IfMatch, KnowledgeService, Tagged};
use crate::access::{Credential, CredentialKind, Principal, needs};
use crate::error::{Error, ProblemCode};
use crate::model::{NewWebhook, Webhook, WebhookId, WebhookUpdate, WebhookUrl, WorkspaceId};
use crate::keys;
use crate::store::{Direction, Key, Transaction};

type Stored = SealedRecord<Webhook>;

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
                is_active: true,
                disabled_reason: None,
                signing_secret: None,
                created_by: caller.member_id(),
                created_at: now,
                updated_at: now,
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
            let place = EndpointPlace::Webhook(workspace);
            EndpointQueue::create(&mut transaction, org, workspace, id.into(), place).await?;
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
        self.webhook_addresses()
            .check_url(url)
            .map_err(|refused| Error::invalid(path, ProblemCode::InvalidValue, refused.to_string()))
    }

    /// The outbound webhooks of a workspace, in the order they were made, without their secrets.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a wrong page; [`Error::Unauthenticated`]; [`Error::NotFound`] for an unknown
    /// workspace; [`Error::Forbidden`] without `webhook:manage` there.
    pub async fn list_webhooks(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        page: &PageRequest,
    ) -> Result<Page<Webhook>, Error> {
        self.transact(|mut reading| async move {
            let (caller, _) = self
                .enter_workspace(&mut reading, credential, workspace, needs::LIST_WEBHOOKS)
                .await?;
            let range = keys::webhooks(caller.org_id(), workspace);
            let listing = Listing::new("webhooks", &(), range, Direction::Forward);
            let show = |_: &Key, stored: Stored| Ok(Some(stored.record));
            reading.done(listing.page(self.store(), page, show).await?)
        })
        .await
    }

    /// One outbound webhook, without its secret, with its entity tag.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::NotFound`] for an unknown workspace or outbound webhook; [`Error::Forbidden`]
    /// without `webhook:manage` there.
    pub async fn webhook(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        id: WebhookId,
    ) -> Result<Tagged<Webhook>, Error> {
        self.transact(|mut reading| async move {
            let (caller, _) = self
                .enter_workspace(&mut reading, credential, workspace, needs::READ_WEBHOOK)
                .await?;
            let key = keys::webhook(caller.org_id(), workspace, id);
            let stored = read_webhook(&mut reading, &key).await?;
            reading.done(Tagged::strong(stored.record))
        })
        .await
    }

    /// Changes an outbound webhook. An update that sets nothing returns it as it is; one that says whether it is active
    /// replaces what the service had decided about that.
    ///
    /// # Errors
    /// As [`KnowledgeService::webhook`], and [`Error::InvalidRequest`] for bad values; [`Error::PreconditionFailed`]
    /// where it is at none of the versions of `if_match`.
    pub async fn update_webhook(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        id: WebhookId,
        update: &WebhookUpdate,
        if_match: Option<&IfMatch>,
    ) -> Result<Tagged<Webhook>, Error> {
        if let Some(url) = &update.url {
            self.check_webhook_url("url", url)?;
        }
        self.transact(|mut transaction| async move {
            let now = self.env().now();
            let (caller, _) = self
                .enter_workspace(
                    &mut transaction,
                    credential,
                    workspace,
                    needs::UPDATE_WEBHOOK,
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
            // Who says whether it is on has the last word: off by its owner, it is no longer off by the service.
            after.disabled_reason = before
                .disabled_reason
                .filter(|_| update.is_active.is_none());
            if after == before {
                return transaction.done(Tagged::strong(before));
            }
            after.updated_at = now;
            let switches = |webhook: &Webhook| (webhook.is_active, webhook.disabled_reason);
            let is_switched = switches(&after) != switches(&before);
            if is_switched || after.url != before.url {
                // What waits is given up at once, or goes on; the failures of another address do not count.
                let was_disabled = stored.disabled.take_if(|_| is_switched);
                let org = caller.org_id();
                self.endpoint_switched(&mut transaction, org, id.into(), was_disabled, now)
                    .await?;
            }
            stored.record = after.clone();
            transaction.put(key, &stored);
            Operation::begin(&transaction, self.env(), now).changed(
                &mut transaction,
                Actor::from(&caller),
                AuditAction::WebhookUpdate,
                (ResourceKind::Webhook, id.0),
                &before,
                &after,
            );
            transaction.done(Tagged::strong(after))
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
                .enter_workspace(
                    &mut transaction,
                    credential,
                    workspace,
                    needs::DELETE_WEBHOOK,
                )
                .await?;
            let org = caller.org_id();
            let key = keys::webhook(org, workspace, id);
            let stored = read_webhook(&mut transaction, &key).await?;
            transaction.delete(key);
            transaction.add(keys::webhook_count(org, workspace), -1);
            self.endpoint_deleted(&mut transaction, org, id.into(), stored.disabled, now)
                .await?;
            Operation::begin(&transaction, self.env(), now).record(
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

    /// Replaces the signing secret of an outbound webhook. The answer has the new one, this once; the old one counts too
    /// for 24 hours. The one before that counts no longer.
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
                .enter_workspace(
                    &mut transaction,
                    credential,
                    workspace,
                    needs::ROTATE_WEBHOOK_SECRET,
                )
                .await?;
            let key = keys::webhook(caller.org_id(), workspace, id);
            let mut stored = read_webhook(&mut transaction, &key).await?;
            let rotated = stored.rotate(&self.inner.sealer, id.0, now, self.env());
            transaction.put(key, &stored);
            Operation::begin(&transaction, self.env(), now).rotated(
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
