//! Citation subscriptions: who hears when a memory changes that a recall cites.

use super::KnowledgeService;
use super::audit::{Actor, AuditAction, Operation, ResourceKind};
use super::sealing::SealedRecord;
use super::validate::take_place;
use crate::access::{Credential, CredentialKind, Principal, needs};
use crate::error::Error;
use crate::model::{CitationSubscription, NewCitationSubscription, Recall, SubscriptionId};
use crate::store::keys;

impl KnowledgeService {
    /// Subscribes the caller to the citations of a recall. The answer has the signing secret, this once.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an address that deliveries may not go to or a recall with as many subscriptions
    /// as it may have; [`Error::Unauthenticated`]; [`Error::NotFound`] for an unknown recall; [`Error::Forbidden`]
    /// without `citation_subscription:manage` in its workspace.
    pub async fn create_citation_subscription(
        &self,
        credential: &Credential,
        request: &NewCitationSubscription,
    ) -> Result<CitationSubscription, Error> {
        self.check_webhook_url("webhook_url", &request.webhook_url)?;
        self.transact(|mut transaction| async move {
            let now = self.env().now();
            let caller =
                Principal::recognise(&mut transaction, credential, CredentialKind::Bearer, now)
                    .await?;
            let org = caller.org_id();
            let recall = transaction
                .read::<Recall>(&keys::recall(org, request.recall_id))
                .await?;
            let recall = recall.ok_or(Error::NotFound { what: "recall" })?;
            caller
                .enter(&mut transaction, recall.workspace_id, needs::SUBSCRIBE)
                .await?;
            let limit = self.limits().subscriptions_per_recall_max;
            let counter = keys::subscription_count(org, recall.id);
            let what = ("recall", "subscriptions");
            take_place(&mut transaction, counter, limit, "recall_id", what).await?;
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
            Operation::begin(&transaction, self.env(), now).created(
                &mut transaction,
                Actor::from(&caller),
                action,
                (ResourceKind::Subscription, id.0),
                &subscription,
            );
            let stored = SealedRecord {
                record: &subscription,
                secret: sealed,
            };
            transaction.create(keys::subscription(org, recall.id, id), &stored);
            subscription.signing_secret = Some(secret);
            transaction.done(subscription)
        })
        .await
    }
}
