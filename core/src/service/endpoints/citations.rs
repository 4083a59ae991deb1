//! Citation subscriptions.
//!
//! The endpoint of a subscription is notified if a memory that its recall cites is changed or
//! deleted.

use crate::access::{Credential, CredentialKind, RequiredPermission, permissions};
use crate::error::Error;
use crate::keys;
use crate::model::{
    CitationSubscription, NewCitationSubscription, Recall, RecallId, SubscriptionId, Timestamp,
};
use crate::service::KnowledgeService;
use crate::service::deliveries::{EndpointParent, EndpointQueue};
use crate::service::kit::audit::{Actor, AuditedOperation, state};
use crate::service::kit::audit_entry::{AuditAction, ResourceKind};
use crate::service::kit::page::{Listing, Page, PageRequest};
use crate::service::kit::principal::Principal;
use crate::service::kit::sealing::{RotatedSecret, SealedRecord};
use crate::service::kit::validate::reserve_quota;
use crate::store::{Direction, Key, Transaction};

type Stored = SealedRecord<CitationSubscription>;

impl KnowledgeService {
    /// Subscribes the caller to the citations of a recall.
    ///
    /// The signing secret is returned only here.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an address that deliveries may not go to, or a recall with the
    /// maximum number of subscriptions; [`Error::Unauthenticated`]; [`Error::NotFound`] for an
    /// unknown recall; [`Error::Forbidden`] without `citation_subscription:manage` in its
    /// workspace.
    pub async fn create_citation_subscription(
        &self,
        credential: &Credential,
        request: &NewCitationSubscription,
    ) -> Result<CitationSubscription, Error> {
        self.check_webhook_url("webhook_url", &request.webhook_url)?;
        self.transact(|mut transaction| async move {
            let now = self.env().now();
            let caller =
                Principal::authenticate(&mut transaction, credential, CredentialKind::Bearer, now)
                    .await?;
            let org = caller.org_id();
            let recall = transaction
                .read::<Recall>(&keys::recall(org, request.recall_id))
                .await?;
            let recall = recall.ok_or(Error::NotFound { what: "recall" })?;
            caller
                .authorize_in(
                    &mut transaction,
                    recall.workspace_id,
                    permissions::SUBSCRIBE,
                )
                .await?;
            let limit = self.limits().subscriptions_per_recall_max;
            let counter = keys::subscription_count(org, recall.id);
            let what = ("recall", "subscriptions");
            reserve_quota(&mut transaction, counter, limit, "recall_id", what).await?;
            let id = SubscriptionId(self.env().uuid());
            let (secret, sealed) = self.inner.sealer.new_secret(id.0, self.env());
            let mut subscription = CitationSubscription {
                id,
                org_id: org,
                workspace_id: recall.workspace_id,
                recall_id: recall.id,
                subscriber_user_id: caller.member_id(),
                webhook_url: request.webhook_url.clone(),
                signing_secret: None,
                created_at: now,
            };
            let action = AuditAction::SubscriptionCreate;
            AuditedOperation::begin(&transaction, self.env(), now).created(
                &mut transaction,
                Actor::from(&caller),
                action,
                (ResourceKind::Subscription, id.0),
                &subscription,
            );
            let stored = SealedRecord::new(&subscription, sealed);
            transaction.create(keys::subscription(org, recall.id, id), &stored);
            transaction.create(keys::subscription_id(org, id), &recall.id);
            let parent = EndpointParent::Subscription(recall.id);
            EndpointQueue::create(
                &mut transaction,
                org,
                recall.workspace_id,
                id.into(),
                parent,
            )
            .await?;
            subscription.signing_secret = Some(secret);
            transaction.done(subscription)
        })
        .await
    }

    /// Lists the subscriptions to a recall, in no particular order, without their secrets.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an invalid page request; [`Error::Unauthenticated`];
    /// [`Error::NotFound`] for an unknown recall; [`Error::Forbidden`] without
    /// `citation_subscription:manage` in its workspace.
    pub async fn list_citation_subscriptions(
        &self,
        credential: &Credential,
        recall: RecallId,
        page: &PageRequest,
    ) -> Result<Page<CitationSubscription>, Error> {
        self.transact(|mut reading| async move {
            let now = self.env().now();
            let caller =
                Principal::authenticate(&mut reading, credential, CredentialKind::Bearer, now)
                    .await?;
            let org = caller.org_id();
            let found = reading.read::<Recall>(&keys::recall(org, recall)).await?;
            let found = found.ok_or(Error::NotFound { what: "recall" })?;
            let permission = permissions::LIST_SUBSCRIPTIONS;
            caller
                .authorize_in(&mut reading, found.workspace_id, permission)
                .await?;
            let range = keys::subscriptions(org, recall);
            let listing = Listing::new("citation_subscriptions", &(), range, Direction::Forward);
            let show = |_: &Key, stored: Stored| Ok(Some(stored.record));
            reading.done(listing.page(self.store(), page, show).await?)
        })
        .await
    }

    /// Returns a citation subscription, without its secret.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`]; [`Error::NotFound`]; [`Error::Forbidden`] without
    /// `citation_subscription:manage` in its workspace.
    pub async fn citation_subscription(
        &self,
        credential: &Credential,
        id: SubscriptionId,
    ) -> Result<CitationSubscription, Error> {
        self.transact(|mut reading| async move {
            let now = self.env().now();
            let permission = permissions::READ_SUBSCRIPTION;
            let (_, found) = find(&mut reading, credential, id, permission, now).await?;
            reading.done(found.record)
        })
        .await
    }

    /// Deletes a citation subscription.
    ///
    /// # Errors
    /// As [`KnowledgeService::citation_subscription`], and [`Error::Forbidden`] without
    /// `webhook:manage` in its workspace if it belongs to another member.
    pub async fn delete_citation_subscription(
        &self,
        credential: &Credential,
        id: SubscriptionId,
    ) -> Result<(), Error> {
        self.transact(|mut transaction| async move {
            let now = self.env().now();
            let permissions = (
                permissions::DELETE_SUBSCRIPTION,
                permissions::DELETE_OTHERS_SUBSCRIPTION,
            );
            let (caller, found) =
                find_to_change(&mut transaction, credential, id, permissions, now).await?;
            let (org, subscription) = (caller.org_id(), found.record);
            self.endpoint_deleted(&mut transaction, org, id.into(), found.disabled, now)
                .await?;
            transaction.delete(keys::subscription(org, subscription.recall_id, id));
            transaction.delete(keys::subscription_id(org, id));
            let counter = keys::subscription_count(org, subscription.recall_id);
            transaction.add(counter, -1);
            AuditedOperation::begin(&transaction, self.env(), now).record(
                &mut transaction,
                Actor::from(&caller),
                AuditAction::SubscriptionDelete,
                (ResourceKind::Subscription, id.0),
                Some(state(&subscription)),
                None,
            );
            transaction.done(())
        })
        .await
    }

    /// Replaces the signing secret of a citation subscription.
    ///
    /// The new one is returned only here. For 24 hours, deliveries are signed with the old one too;
    /// the one before it becomes invalid.
    ///
    /// # Errors
    /// As [`KnowledgeService::delete_citation_subscription`].
    pub async fn rotate_citation_subscription_secret(
        &self,
        credential: &Credential,
        id: SubscriptionId,
    ) -> Result<RotatedSecret, Error> {
        self.transact(|mut transaction| async move {
            let now = self.env().now();
            let permissions = (
                permissions::ROTATE_SUBSCRIPTION_SECRET,
                permissions::ROTATE_OTHERS_SUBSCRIPTION_SECRET,
            );
            let (caller, mut stored) =
                find_to_change(&mut transaction, credential, id, permissions, now).await?;
            let rotated = stored.rotate(&self.inner.sealer, id.0, now, self.env());
            let key = keys::subscription(caller.org_id(), stored.record.recall_id, id);
            transaction.put(key, &stored);
            AuditedOperation::begin(&transaction, self.env(), now).rotated(
                &mut transaction,
                Actor::from(&caller),
                AuditAction::SubscriptionRotateSecret,
                (ResourceKind::Subscription, id.0),
                &rotated,
            );
            transaction.done(rotated)
        })
        .await
    }
}

/// Returns a subscription, with the caller, for an operation that changes it.
///
/// The first permission is required always, the second also if it belongs to another member.
async fn find_to_change(
    transaction: &mut Transaction,
    credential: &Credential,
    id: SubscriptionId,
    (own, of_others): (RequiredPermission, RequiredPermission),
    now: Timestamp,
) -> Result<(Principal, Stored), Error> {
    let (caller, found) = find(transaction, credential, id, own, now).await?;
    let subscription = &found.record;
    if subscription.subscriber_user_id != caller.member_id() {
        let workspace = subscription.workspace_id;
        caller
            .authorize_in(transaction, workspace, of_others)
            .await?;
    }
    Ok((caller, found))
}

/// Returns a subscription, with the caller, if the caller has the permission in its workspace.
async fn find(
    transaction: &mut Transaction,
    credential: &Credential,
    id: SubscriptionId,
    permission: RequiredPermission,
    now: Timestamp,
) -> Result<(Principal, Stored), Error> {
    let caller =
        Principal::authenticate(transaction, credential, CredentialKind::Bearer, now).await?;
    let org = caller.org_id();
    let missing = Error::NotFound {
        what: "citation subscription",
    };
    let recall = transaction.read(&keys::subscription_id(org, id)).await?;
    let Some(recall) = recall else {
        return Err(missing);
    };
    let key = keys::subscription(org, recall, id);
    let found = transaction.read::<Stored>(&key).await?.ok_or(missing)?;
    let workspace = found.record.workspace_id;
    caller
        .authorize_in(transaction, workspace, permission)
        .await?;
    Ok((caller, found))
}
