//! Inbound webhooks of a workspace.

use super::audit::{Actor, AuditAction, Operation, ResourceKind, state};
use super::page::{Listing, Page, PageRequest};
use super::sealing::{RotatedSecret, SealedRecord};
use super::validate::{Problems, take_place};
use super::{IfMatch, KnowledgeService, Tagged};
use crate::access::{Credential, CredentialKind, Principal, needs};
use crate::error::Error;
use crate::model::{
    InboundWebhook, InboundWebhookId, InboundWebhookUpdate, NewInboundWebhook, Source, SourceId,
    WorkspaceId,
};
use crate::keys;
use crate::store::{Direction, Key, Transaction};

pub(super) type Stored = SealedRecord<InboundWebhook>;

/// The kind of the sources of inbound webhooks.
const SOURCE_KIND: &str = "inbound_webhook";

impl KnowledgeService {
    /// Registers an inbound webhook, with a source of its own for what comes in. The answer has its URL and the secret
    /// that senders sign with, this once. What they send is taken in by the actions that its caller has then.
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
                source_id: SourceId(id.0),
                acts_as: caller.member_id(),
                created_by: caller.member_id(),
                created_at: now,
                updated_at: now,
            };
            let source = Source {
                id: webhook.source_id,
                name: webhook.name.clone(),
                kind: SOURCE_KIND.to_owned(),
                created_at: now,
            };
            transaction.create(keys::source(org, source.id), &source);
            Operation::begin(&transaction, self.env(), now).created(
                &mut transaction,
                Actor::from(&caller),
                AuditAction::InboundWebhookCreate,
                (ResourceKind::InboundWebhook, id.0),
                &webhook,
            );
            let stored = SealedRecord::new(&webhook, sealed);
            transaction.create(keys::inbound_webhook(org, workspace, id), &stored);
            transaction.create(keys::inbound_webhook_id(org, id), &workspace);
            webhook.signing_secret = Some(secret);
            transaction.done(webhook)
        })
        .await
    }

    /// The inbound webhooks of a workspace, in the order they were made, without their secrets.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a wrong page; [`Error::Unauthenticated`]; [`Error::NotFound`] for an unknown
    /// workspace; [`Error::Forbidden`] without `inbound_webhook:manage` there.
    pub async fn list_inbound_webhooks(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        page: &PageRequest,
    ) -> Result<Page<InboundWebhook>, Error> {
        self.transact(|mut reading| async move {
            let (caller, _) = self
                .enter_workspace(
                    &mut reading,
                    credential,
                    workspace,
                    needs::LIST_INBOUND_WEBHOOKS,
                )
                .await?;
            let range = keys::inbound_webhooks(caller.org_id(), workspace);
            let listing = Listing::new("inbound_webhooks", &(), range, Direction::Forward);
            let show = |_: &Key, stored: Stored| Ok(Some(stored.record));
            reading.done(listing.page(self.store(), page, show).await?)
        })
        .await
    }

    /// One inbound webhook, without its secret, with its entity tag.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::NotFound`] for an unknown workspace or inbound webhook; [`Error::Forbidden`]
    /// without `inbound_webhook:manage` there.
    pub async fn inbound_webhook(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        id: InboundWebhookId,
    ) -> Result<Tagged<InboundWebhook>, Error> {
        self.transact(|mut reading| async move {
            let (caller, _) = self
                .enter_workspace(
                    &mut reading,
                    credential,
                    workspace,
                    needs::READ_INBOUND_WEBHOOK,
                )
                .await?;
            let key = keys::inbound_webhook(caller.org_id(), workspace, id);
            let stored = read_inbound_webhook(&mut reading, &key).await?;
            reading.done(Tagged::strong(stored.record))
        })
        .await
    }

    /// Changes an inbound webhook. An update that sets nothing returns it as it is.
    ///
    /// # Errors
    /// As [`KnowledgeService::inbound_webhook`], and [`Error::InvalidRequest`] for bad values; [`Error::PreconditionFailed`]
    /// where it is at none of the versions of `if_match`.
    pub async fn update_inbound_webhook(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        id: InboundWebhookId,
        update: &InboundWebhookUpdate,
        if_match: Option<&IfMatch>,
    ) -> Result<Tagged<InboundWebhook>, Error> {
        let mut problems = Problems::default();
        if let Some(name) = &update.name {
            problems.name("name", name, self.limits());
        }
        problems.into_result()?;
        self.transact(|mut transaction| async move {
            let now = self.env().now();
            let (caller, _) = self
                .enter_workspace(
                    &mut transaction,
                    credential,
                    workspace,
                    needs::UPDATE_INBOUND_WEBHOOK,
                )
                .await?;
            let key = keys::inbound_webhook(caller.org_id(), workspace, id);
            let mut stored = read_inbound_webhook(&mut transaction, &key).await?;
            let before = stored.record;
            IfMatch::require(if_match, &before)?;
            let mut after = before.clone();
            after.name = update.name.clone().unwrap_or(after.name);
            if after == before {
                return transaction.done(Tagged::strong(before));
            }
            after.updated_at = now;
            stored.record = after.clone();
            transaction.put(key, &stored);
            Operation::begin(&transaction, self.env(), now).changed(
                &mut transaction,
                Actor::from(&caller),
                AuditAction::InboundWebhookUpdate,
                (ResourceKind::InboundWebhook, id.0),
                &before,
                &after,
            );
            transaction.done(Tagged::strong(after))
        })
        .await
    }

    /// Deletes an inbound webhook. Its source stays, with the memories that came in.
    ///
    /// # Errors
    /// As [`KnowledgeService::inbound_webhook`].
    pub async fn delete_inbound_webhook(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        id: InboundWebhookId,
    ) -> Result<(), Error> {
        self.transact(|mut transaction| async move {
            let now = self.env().now();
            let (caller, _) = self
                .enter_workspace(
                    &mut transaction,
                    credential,
                    workspace,
                    needs::DELETE_INBOUND_WEBHOOK,
                )
                .await?;
            let org = caller.org_id();
            let key = keys::inbound_webhook(org, workspace, id);
            let stored = read_inbound_webhook(&mut transaction, &key).await?;
            transaction.delete(key);
            transaction.delete(keys::inbound_webhook_id(org, id));
            transaction.add(keys::inbound_webhook_count(org, workspace), -1);
            Operation::begin(&transaction, self.env(), now).record(
                &mut transaction,
                Actor::from(&caller),
                AuditAction::InboundWebhookDelete,
                (ResourceKind::InboundWebhook, id.0),
                Some(state(&stored.record)),
                None,
            );
            transaction.done(())
        })
        .await
    }

    /// Replaces the signing secret of an inbound webhook. The answer has the new one, this once; the old one counts too
    /// for 24 hours. The one before that counts no longer. From now on the webhook acts as the caller.
    ///
    /// # Errors
    /// As [`KnowledgeService::inbound_webhook`].
    pub async fn rotate_inbound_webhook_secret(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        id: InboundWebhookId,
    ) -> Result<RotatedSecret, Error> {
        self.transact(|mut transaction| async move {
            let now = self.env().now();
            let (caller, _) = self
                .enter_workspace(
                    &mut transaction,
                    credential,
                    workspace,
                    needs::ROTATE_INBOUND_WEBHOOK_SECRET,
                )
                .await?;
            let key = keys::inbound_webhook(caller.org_id(), workspace, id);
            let mut stored = read_inbound_webhook(&mut transaction, &key).await?;
            let rotated = stored.rotate(&self.inner.sealer, id.0, now, self.env());
            if stored.record.acts_as != caller.member_id() {
                stored.record.acts_as = caller.member_id();
                stored.record.updated_at = now;
            }
            transaction.put(key, &stored);
            Operation::begin(&transaction, self.env(), now).rotated(
                &mut transaction,
                Actor::from(&caller),
                AuditAction::InboundWebhookRotateSecret,
                (ResourceKind::InboundWebhook, id.0),
                &rotated,
            );
            transaction.done(rotated)
        })
        .await
    }
}

async fn read_inbound_webhook(transaction: &mut Transaction, key: &Key) -> Result<Stored, Error> {
    let found = transaction.read::<Stored>(key).await?;
    found.ok_or(Error::NotFound {
        what: "inbound webhook",
    })
}
