//! Inbound webhooks of a workspace.

use crate::access::{Credential, CredentialKind, permissions};
use crate::error::Error;
use crate::keys;
use crate::model::{
    InboundWebhook, InboundWebhookId, InboundWebhookUpdate, NewInboundWebhook, Source, SourceId,
    WorkspaceId,
};
use crate::service::kit::audit::{Actor, AuditedOperation, state};
use crate::service::kit::audit_entry::{AuditAction, ResourceKind};
use crate::service::kit::page::{Listing, Page, PageRequest};
use crate::service::kit::principal::Principal;
use crate::service::kit::sealing::{RotatedSecret, SealedRecord};
use crate::service::kit::validate::{Problems, reserve_quota};
use crate::service::{IfMatch, KnowledgeService, WithEtag};
use crate::store::{Direction, Key, Transaction};

pub(crate) type Stored = SealedRecord<InboundWebhook>;

/// Kind of the sources of inbound webhooks.
const SOURCE_KIND: &str = "inbound_webhook";

impl KnowledgeService {
    /// Registers an inbound webhook, with a source for the memories that arrive through it.
    ///
    /// Senders post to its URL and sign with its secret, which is returned only here. Messages are
    /// processed with the permissions that the caller of this operation has at that time.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an invalid name or a workspace with the maximum number of
    /// inbound webhooks; [`Error::Unauthenticated`]; [`Error::NotFound`] for an unknown workspace;
    /// [`Error::Forbidden`] without `inbound_webhook:manage` there.
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
                Principal::authenticate(&mut transaction, credential, CredentialKind::Bearer, now)
                    .await?;
            let org = caller.org_id();
            caller
                .authorize_in(
                    &mut transaction,
                    workspace,
                    permissions::CREATE_INBOUND_WEBHOOK,
                )
                .await?;
            let limit = self.limits().inbound_webhooks_per_workspace_max;
            let counter = keys::inbound_webhook_count(org, workspace);
            let what = ("workspace", "inbound webhooks");
            reserve_quota(&mut transaction, counter, limit, "body", what).await?;
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
            AuditedOperation::begin(&transaction, self.env(), now).created(
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

    /// Lists the inbound webhooks of a workspace, in order of creation, without their secrets.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an invalid page request; [`Error::Unauthenticated`];
    /// [`Error::NotFound`] for an unknown workspace; [`Error::Forbidden`] without
    /// `inbound_webhook:manage` there.
    pub async fn list_inbound_webhooks(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        page: &PageRequest,
    ) -> Result<Page<InboundWebhook>, Error> {
        self.transact(|mut reading| async move {
            let (caller, _) = self
                .authorize_in(
                    &mut reading,
                    credential,
                    workspace,
                    permissions::LIST_INBOUND_WEBHOOKS,
                )
                .await?;
            let range = keys::inbound_webhooks(caller.org_id(), workspace);
            let listing = Listing::new("inbound_webhooks", &(), range, Direction::Forward);
            let show = |_: &Key, stored: Stored| Ok(Some(stored.record));
            reading.done(listing.page(self.store(), page, show).await?)
        })
        .await
    }

    /// Returns an inbound webhook with its entity tag, without its secret.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::NotFound`] for an unknown workspace or inbound webhook;
    /// [`Error::Forbidden`] without `inbound_webhook:manage` there.
    pub async fn inbound_webhook(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        id: InboundWebhookId,
    ) -> Result<WithEtag<InboundWebhook>, Error> {
        self.transact(|mut reading| async move {
            let (caller, _) = self
                .authorize_in(
                    &mut reading,
                    credential,
                    workspace,
                    permissions::READ_INBOUND_WEBHOOK,
                )
                .await?;
            let key = keys::inbound_webhook(caller.org_id(), workspace, id);
            let stored = read_inbound_webhook(&mut reading, &key).await?;
            reading.done(WithEtag::strong(stored.record))
        })
        .await
    }

    /// Changes an inbound webhook. An update that changes nothing returns it as it is.
    ///
    /// # Errors
    /// As [`KnowledgeService::inbound_webhook`], and [`Error::InvalidRequest`] for invalid values;
    /// [`Error::PreconditionFailed`] if it is at none of the versions of `if_match`.
    pub async fn update_inbound_webhook(
        &self,
        credential: &Credential,
        workspace: WorkspaceId,
        id: InboundWebhookId,
        update: &InboundWebhookUpdate,
        if_match: Option<&IfMatch>,
    ) -> Result<WithEtag<InboundWebhook>, Error> {
        let mut problems = Problems::default();
        if let Some(name) = &update.name {
            problems.name("name", name, self.limits());
        }
        problems.into_result()?;
        self.transact(|mut transaction| async move {
            let now = self.env().now();
            let (caller, _) = self
                .authorize_in(
                    &mut transaction,
                    credential,
                    workspace,
                    permissions::UPDATE_INBOUND_WEBHOOK,
                )
                .await?;
            let key = keys::inbound_webhook(caller.org_id(), workspace, id);
            let mut stored = read_inbound_webhook(&mut transaction, &key).await?;
            let before = stored.record;
            IfMatch::require(if_match, &before)?;
            let mut after = before.clone();
            after.name = update.name.clone().unwrap_or(after.name);
            if after == before {
                return transaction.done(WithEtag::strong(before));
            }
            after.updated_at = now;
            stored.record = after.clone();
            transaction.put(key, &stored);
            AuditedOperation::begin(&transaction, self.env(), now).changed(
                &mut transaction,
                Actor::from(&caller),
                AuditAction::InboundWebhookUpdate,
                (ResourceKind::InboundWebhook, id.0),
                &before,
                &after,
            );
            transaction.done(WithEtag::strong(after))
        })
        .await
    }

    /// Deletes an inbound webhook. Its source and the memories that arrived through it remain.
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
                .authorize_in(
                    &mut transaction,
                    credential,
                    workspace,
                    permissions::DELETE_INBOUND_WEBHOOK,
                )
                .await?;
            let org = caller.org_id();
            let key = keys::inbound_webhook(org, workspace, id);
            let stored = read_inbound_webhook(&mut transaction, &key).await?;
            transaction.delete(key);
            transaction.delete(keys::inbound_webhook_id(org, id));
            transaction.add(keys::inbound_webhook_count(org, workspace), -1);
            AuditedOperation::begin(&transaction, self.env(), now).record(
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

    /// Replaces the signing secret of an inbound webhook, which then acts as the caller.
    ///
    /// The new one is returned only here. The old one remains valid for 24 hours; the one before it
    /// becomes invalid.
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
                .authorize_in(
                    &mut transaction,
                    credential,
                    workspace,
                    permissions::ROTATE_INBOUND_WEBHOOK_SECRET,
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
            AuditedOperation::begin(&transaction, self.env(), now).rotated(
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
