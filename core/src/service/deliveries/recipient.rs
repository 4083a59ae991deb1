//! Whom deliveries go to: a webhook or a citation subscription, as it is stored, and how the service switches it off and
//! on.

use serde_json::json;

use super::queue::{EndpointPlace, EndpointQueue};
use crate::access::{Credential, CredentialKind, Principal, needs};
use crate::error::Error;
use crate::model::{
    CitationSubscription, DisabledReason, EndpointId, MemberId, OrgId, SubscriptionId, Timestamp,
    Webhook, WebhookId, WebhookUrl, WorkspaceId,
};
use crate::service::KnowledgeService;
use crate::service::audit::{Actor, AuditAction, Operation, ResourceKind, state};
use crate::service::sealing::{Sealed, SealedRecord};
use crate::keys;
use crate::store::{Entry, Key, StoreError, Transaction, decode};

/// The record of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::service) enum Recipient {
    Webhook(SealedRecord<Webhook>),
    Subscription(SealedRecord<CitationSubscription>),
}

impl Recipient {
    /// Where the record of an endpoint stands.
    pub(in crate::service) fn key(org: OrgId, endpoint: EndpointId, place: EndpointPlace) -> Key {
        match place {
            EndpointPlace::Webhook(workspace) => {
                keys::webhook(org, workspace, WebhookId(endpoint.0))
            }
            EndpointPlace::Subscription(recall) => {
                keys::subscription(org, recall, SubscriptionId(endpoint.0))
            }
        }
    }

    /// The record that stands there.
    pub(in crate::service) fn decode(
        place: EndpointPlace,
        key: &Key,
        entry: &Entry,
    ) -> Result<Self, StoreError> {
        match place {
            EndpointPlace::Webhook(_) => decode(key, entry).map(|found| Self::Webhook(found.value)),
            EndpointPlace::Subscription(_) => {
                decode(key, entry).map(|found| Self::Subscription(found.value))
            }
        }
    }

    /// Reads the record of an endpoint whose state is there.
    pub(in crate::service) async fn read(
        transaction: &mut Transaction,
        org: OrgId,
        endpoint: EndpointId,
        place: EndpointPlace,
    ) -> Result<Self, Error> {
        let key = Self::key(org, endpoint, place);
        let found = transaction.entries(std::slice::from_ref(&key)).await?;
        let entry = found.first().and_then(Option::as_ref);
        let entry = entry.ok_or_else(|| Error::internal(format!("{key} is missing")))?;
        Ok(Self::decode(place, &key, entry)?)
    }

    /// Finds an endpoint of either kind, whoever asks.
    ///
    /// # Errors
    /// [`Error::NotFound`]; those of the store.
    pub(in crate::service) async fn find(
        transaction: &mut Transaction,
        org: OrgId,
        endpoint: EndpointId,
    ) -> Result<Self, Error> {
        let queue = EndpointQueue::read(transaction, org, endpoint).await?;
        let queue = queue.ok_or(Error::NotFound { what: "endpoint" })?;
        Self::read(transaction, org, endpoint, queue.state.place).await
    }

    pub(in crate::service) fn org(&self) -> OrgId {
        match self {
            Self::Webhook(stored) => stored.record.org_id,
            Self::Subscription(stored) => stored.record.org_id,
        }
    }

    pub(in crate::service) fn workspace(&self) -> WorkspaceId {
        match self {
            Self::Webhook(stored) => stored.record.workspace_id,
            Self::Subscription(stored) => stored.record.workspace_id,
        }
    }

    pub(in crate::service) fn endpoint(&self) -> EndpointId {
        match self {
            Self::Webhook(stored) => stored.record.id.into(),
            Self::Subscription(stored) => stored.record.id.into(),
        }
    }

    pub(in crate::service) fn url(&self) -> &WebhookUrl {
        match self {
            Self::Webhook(stored) => &stored.record.url,
            Self::Subscription(stored) => &stored.record.webhook_url,
        }
    }

    /// The secrets that count at `now`, the newest first.
    pub(in crate::service) fn secrets_at(&self, now: Timestamp) -> Vec<&Sealed> {
        match self {
            Self::Webhook(stored) => stored.secrets_at(now).collect(),
            Self::Subscription(stored) => stored.secrets_at(now).collect(),
        }
    }

    /// Why the service switched it off, where it did.
    pub(in crate::service) fn disabled(&self) -> Option<DisabledReason> {
        match self {
            Self::Webhook(stored) => stored.disabled,
            Self::Subscription(stored) => stored.disabled,
        }
    }

    /// Whether its owner switched it off.
    pub(in crate::service) fn is_paused(&self) -> bool {
        match self {
            Self::Webhook(stored) => !stored.record.is_active && stored.disabled.is_none(),
            Self::Subscription(_) => false,
        }
    }

    /// Whether it is told what happens.
    pub(in crate::service) fn is_on(&self) -> bool {
        self.disabled().is_none() && !self.is_paused()
    }

    /// Who hears through it, where that has to be allowed at each time.
    pub(in crate::service) fn subscriber(&self) -> Option<MemberId> {
        match self {
            Self::Webhook(_) => None,
            Self::Subscription(stored) => Some(stored.record.subscriber_user_id),
        }
    }

    /// Of two actions of the audit log the one that is about this kind.
    pub(in crate::service) fn action(
        &self,
        webhook: AuditAction,
        subscription: AuditAction,
    ) -> AuditAction {
        match self {
            Self::Webhook(_) => webhook,
            Self::Subscription(_) => subscription,
        }
    }

    /// What entries of the audit log name it as.
    pub(in crate::service) fn resource(&self) -> (ResourceKind, uuid::Uuid) {
        match self {
            Self::Webhook(stored) => (ResourceKind::Webhook, stored.record.id.0),
            Self::Subscription(stored) => (ResourceKind::Subscription, stored.record.id.0),
        }
    }

    fn switch(&mut self, disabled: Option<DisabledReason>, now: Timestamp) {
        match self {
            Self::Webhook(stored) => {
                stored.disabled = disabled;
                stored.record.is_active = disabled.is_none();
                stored.record.disabled_reason = disabled;
                stored.record.updated_at = now;
            }
            Self::Subscription(stored) => stored.disabled = disabled,
        }
    }

    fn state(&self) -> serde_json::Value {
        match self {
            Self::Webhook(stored) => state(&stored.record),
            Self::Subscription(stored) => json!({ "disabled_reason": stored.disabled }),
        }
    }

    fn put(&self, transaction: &mut Transaction) {
        match self {
            Self::Webhook(stored) => {
                let webhook = &stored.record;
                let key = keys::webhook(webhook.org_id, webhook.workspace_id, webhook.id);
                transaction.put(key, stored);
            }
            Self::Subscription(stored) => {
                let subscription = &stored.record;
                let (org, recall) = (subscription.org_id, subscription.recall_id);
                transaction.put(keys::subscription(org, recall, subscription.id), stored);
            }
        }
    }
}

impl KnowledgeService {
    /// Whether the endpoint may be told at present: a subscriber has to be a member still who may subscribe there.
    pub(in crate::service) async fn may_hear(
        &self,
        transaction: &mut Transaction,
        recipient: &Recipient,
        now: Timestamp,
    ) -> Result<bool, Error> {
        let Some(member) = recipient.subscriber() else {
            return Ok(true);
        };
        let org = recipient.org();
        let trusted = Credential::Trusted { org, member };
        let kind = CredentialKind::Bearer;
        let entered = match Principal::recognise(transaction, &trusted, kind, now).await {
            Ok(subscriber) => {
                let workspace = recipient.workspace();
                let need = needs::SUBSCRIBE;
                subscriber.enter(transaction, workspace, need).await
            }
            Err(error) => Err(error),
        };
        match entered {
            Ok(_) => Ok(true),
            Err(
                Error::Unauthenticated { .. } | Error::Forbidden { .. } | Error::NotFound { .. },
            ) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Switches an endpoint off for a reason, or on again for none, in the name of the service.
    pub(in crate::service) fn switch_endpoint(
        &self,
        transaction: &mut Transaction,
        mut recipient: Recipient,
        disabled: Option<DisabledReason>,
        now: Timestamp,
    ) {
        let was_disabled = recipient.disabled();
        if was_disabled == disabled {
            return;
        }
        let before = recipient.state();
        recipient.switch(disabled, now);
        recipient.put(transaction);
        let change = i64::from(disabled.is_some()) - i64::from(was_disabled.is_some());
        transaction.add(keys::disabled_endpoint_count(recipient.org()), change);
        let action = match disabled {
            Some(_) => recipient.action(
                AuditAction::WebhookDisable,
                AuditAction::SubscriptionDisable,
            ),
            None => recipient.action(AuditAction::WebhookEnable, AuditAction::SubscriptionEnable),
        };
        Operation::begin(transaction, self.env(), now).changed(
            transaction,
            Actor::service(recipient.org()),
            action,
            recipient.resource(),
            &before,
            &recipient.state(),
        );
    }
}
