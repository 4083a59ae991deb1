//! Stored records of endpoints, and how the service disables and enables them.

use serde_json::json;

use crate::access::{Action, ActionSet};
use crate::error::{EntityKind, Error};
use crate::keys;
use crate::model::{AuditAction, ResourceKind};
use crate::model::{
    CitationSubscription, DisabledReason, EndpointId, OrgId, RecallId, SubscriptionId, Timestamp,
    Webhook, WebhookId, WebhookUrl, WorkspaceId,
};
use crate::service::access::principal::{Delegator, Principal, Resource};
use crate::service::audit::write::{Actor, AuditedOperation, state};
use crate::service::deliveries::{EndpointParent, EndpointQueue};
use crate::service::memories::recalls::{find_existing, require_kept};
use crate::service::operation::{Authorized, Prefetch};
use crate::service::secrets::sealing::{Sealed, SealedRecord};
use crate::service::{KnowledgeService, SigningSecret};
use crate::store::{Entry, Key, StoreError, Transaction, decode};

/// Record of an endpoint: a webhook or a citation subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::service) enum EndpointRecord {
    Webhook(SealedRecord<Webhook>),
    Subscription(SealedRecord<CitationSubscription>),
}

impl EndpointRecord {
    /// Returns the key of an endpoint's record.
    pub(in crate::service) fn key(org: OrgId, endpoint: EndpointId, parent: EndpointParent) -> Key {
        match parent {
            EndpointParent::Webhook(workspace) => {
                keys::webhook(org, workspace, WebhookId(endpoint.0))
            }
            EndpointParent::Subscription(recall) => {
                keys::subscription(org, recall, SubscriptionId(endpoint.0))
            }
        }
    }

    /// Decodes the record of an endpoint.
    pub(in crate::service) fn decode(
        parent: EndpointParent,
        key: &Key,
        entry: &Entry,
    ) -> Result<Self, StoreError> {
        match parent {
            EndpointParent::Webhook(_) => {
                decode(key, entry).map(|found| Self::Webhook(found.value))
            }
            EndpointParent::Subscription(_) => {
                decode(key, entry).map(|found| Self::Subscription(found.value))
            }
        }
    }

    /// Reads the record of an endpoint whose state exists.
    pub(in crate::service) async fn read(
        transaction: &mut Transaction,
        org: OrgId,
        endpoint: EndpointId,
        parent: EndpointParent,
    ) -> Result<Self, Error> {
        let key = Self::key(org, endpoint, parent);
        let found = transaction
            .get_many::<Entry>(std::slice::from_ref(&key))
            .await?;
        let entry = found.first().and_then(Option::as_ref);
        let entry = entry.ok_or_else(|| Error::internal(format!("{key} is missing")))?;
        Ok(Self::decode(parent, &key, entry)?)
    }

    /// Finds an endpoint of either kind, without checking permissions.
    ///
    /// # Errors
    /// [`Error::NotFound`]; those of the store.
    pub(in crate::service) async fn find(
        transaction: &mut Transaction,
        org: OrgId,
        endpoint: EndpointId,
    ) -> Result<Self, Error> {
        let queue = EndpointQueue::read(transaction, org, endpoint).await?;
        let queue = queue.ok_or(Error::not_found(EntityKind::Endpoint))?;
        Self::read(transaction, org, endpoint, queue.state.parent).await
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

    /// Returns the secrets that are valid at `now`, newest first.
    pub(in crate::service) fn secrets_at(&self, now: Timestamp) -> Vec<&Sealed> {
        match self {
            Self::Webhook(stored) => stored.secrets_at(now).collect(),
            Self::Subscription(stored) => stored.secrets_at(now).collect(),
        }
    }

    /// Returns true if the record knows that the URL has answered a ping, so that events may be
    /// sent to it.
    pub(in crate::service) fn is_confirmed(&self) -> bool {
        match self {
            Self::Webhook(stored) => stored.record.is_confirmed,
            Self::Subscription(stored) => stored.record.is_confirmed,
        }
    }

    /// Returns the reason for which the service disabled the endpoint, if it did.
    pub(in crate::service) fn disabled(&self) -> Option<DisabledReason> {
        match self {
            Self::Webhook(stored) => stored.disabled,
            Self::Subscription(stored) => stored.disabled,
        }
    }

    /// Returns true if the owner deactivated the endpoint.
    pub(in crate::service) fn is_disabled_by_owner(&self) -> bool {
        match self {
            Self::Webhook(stored) => !stored.record.is_active && stored.disabled.is_none(),
            Self::Subscription(_) => false,
        }
    }

    /// Returns true if the endpoint is active.
    pub(in crate::service) fn is_active(&self) -> bool {
        self.disabled().is_none() && !self.is_disabled_by_owner()
    }

    /// Returns on whose behalf the endpoint receives events, and the action that this requires.
    pub(in crate::service) fn requirement(&self) -> (Delegator, Action) {
        match self {
            Self::Webhook(stored) => (stored.delegator, Action::WebhookManage),
            Self::Subscription(stored) => (stored.delegator, Action::CitationSubscriptionManage),
        }
    }

    /// Returns the audit action for this kind of endpoint.
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

    /// Returns the audit action of a redelivery.
    pub(in crate::service) fn redelivery_action(&self) -> AuditAction {
        self.action(
            AuditAction::WebhookRedeliver,
            AuditAction::SubscriptionRedeliver,
        )
    }

    /// Returns the audit action of a test event.
    pub(in crate::service) fn ping_action(&self) -> AuditAction {
        self.action(AuditAction::WebhookPing, AuditAction::SubscriptionPing)
    }

    /// Returns the resource that entries of the audit log name.
    pub(in crate::service) fn resource(&self) -> (ResourceKind, uuid::Uuid) {
        match self {
            Self::Webhook(stored) => (ResourceKind::Webhook, stored.record.id.0),
            Self::Subscription(stored) => (ResourceKind::Subscription, stored.record.id.0),
        }
    }

    fn apply_disabled(&mut self, disabled: Option<DisabledReason>) {
        match self {
            Self::Webhook(stored) => {
                stored.disabled = disabled;
                stored.record.is_active = disabled.is_none();
                stored.record.disabled_reason = disabled;
            }
            Self::Subscription(stored) => stored.disabled = disabled,
        }
    }

    fn apply_confirmed(&mut self) {
        match self {
            Self::Webhook(stored) => stored.record.is_confirmed = true,
            Self::Subscription(stored) => stored.record.is_confirmed = true,
        }
    }

    fn apply_time(&mut self, now: Timestamp) {
        if let Self::Webhook(stored) = self {
            stored.record.updated_at = now;
        }
    }

    fn state(&self) -> serde_json::Value {
        match self {
            Self::Webhook(stored) => state(&stored.record),
            Self::Subscription(stored) => json!({
                "disabled_reason": stored.disabled,
                "is_confirmed": stored.record.is_confirmed,
            }),
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

/// Finds a citation subscription that exists for the caller, and authorises the caller in its
/// workspace; for one of another member also for the permission `of_another`.
///
/// It exists for its subscriber, and for those for whom its recall exists. With a credential that
/// has a list of audience labels, the subscriber is one of the others.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Forbidden`] without the permissions of the operation; those of the
/// store.
pub(in crate::service) async fn find_subscription(
    op: &mut Authorized<'_>,
    id: SubscriptionId,
    of_another: Option<Action>,
) -> Result<SealedRecord<CitationSubscription>, Error> {
    let (org, kind) = (op.org(), EntityKind::Subscription);
    let recall: RecallId = op.find(&keys::subscription_id(org, id), kind).await?;
    let key = keys::subscription(org, recall, id);
    let found: SealedRecord<CitationSubscription> = op.find(&key, kind).await?;
    let is_subscriber = found.record.subscriber_user_id == op.principal.member_id();
    if !is_subscriber || op.principal.has_audience_list() {
        find_existing(op, recall, kind).await?;
    } else if !op.principal.org.erasing.is_empty() {
        require_kept(op, recall, kind).await?;
    }
    let further = of_another.filter(|_| !is_subscriber);
    op.authorize_also_for(found.record.workspace_id, kind, further)
        .await?;
    Ok(found)
}

impl KnowledgeService {
    /// Opens the valid signing secrets of an endpoint.
    ///
    /// A secret that cannot be opened is omitted if another one can be.
    pub(in crate::service) fn secrets(
        &self,
        record: &EndpointRecord,
        now: Timestamp,
    ) -> Result<Vec<SigningSecret>, Error> {
        let (mut secrets, mut unreadable) = (Vec::new(), None);
        for sealed in record.secrets_at(now) {
            match self
                .inner
                .sealer
                .signing_secret(sealed, record.endpoint().0)
            {
                Ok(secret) => secrets.push(secret),
                Err(error) => {
                    tracing::error!(
                        endpoint = %record.endpoint(),
                        %error,
                        "unreadable signing secret"
                    );
                    unreadable = Some(error);
                }
            }
        }
        match unreadable {
            Some(error) if secrets.is_empty() => Err(error),
            _ => Ok(secrets),
        }
    }

    /// Returns true if the endpoint may receive events now, as [`Self::receiver`] decides.
    pub(in crate::service) async fn is_authorized(
        &self,
        transaction: &mut Transaction,
        record: &EndpointRecord,
        prefetch: Prefetch,
        now: Timestamp,
    ) -> Result<bool, Error> {
        let receiver = self.receiver(transaction, record, prefetch, now).await?;
        Ok(receiver.is_some())
    }

    /// Returns on whose behalf the endpoint receives events now, with the actions held in its
    /// workspace, if it may receive any.
    ///
    /// The member and the credential that it depends on must still permit to create it. What the
    /// caller `wants` to read next is read with them.
    pub(in crate::service) async fn receiver(
        &self,
        transaction: &mut Transaction,
        record: &EndpointRecord,
        prefetch: Prefetch,
        now: Timestamp,
    ) -> Result<Option<(Principal, ActionSet)>, Error> {
        let (delegator, action) = record.requirement();
        let (org, id) = (record.org(), record.workspace());
        let login = (org, delegator, now);
        let following = |_: &Transaction| Prefetch::none();
        let member = Principal::prefetch_for(transaction, login, id, prefetch, &following).await?;
        let found = Principal::acting_for(transaction, org, (delegator, member), now).await;
        let principal = match found {
            Ok(principal) => principal,
            Err(Error::Unauthenticated { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let held = principal.actions_in(transaction, &[id]).await?[&id];
        let workspace = Resource::Workspace { id, held };
        let is_authorized = principal.authorize(action, workspace).is_ok();
        Ok(is_authorized.then_some((principal, held)))
    }

    /// Disables an endpoint for a reason, on behalf of the service, and returns its record.
    ///
    /// `None` enables and confirms it, because its URL has answered a ping.
    pub(in crate::service) fn set_disabled(
        &self,
        transaction: &mut Transaction,
        mut record: EndpointRecord,
        disabled: Option<DisabledReason>,
        now: Timestamp,
    ) -> EndpointRecord {
        let was_disabled = record.disabled();
        let is_confirmation = disabled.is_none() && !record.is_confirmed();
        if was_disabled == disabled && !is_confirmation {
            return record;
        }
        let before = record.state();
        if was_disabled != disabled {
            record.apply_disabled(disabled);
        }
        if is_confirmation {
            record.apply_confirmed();
        }
        record.apply_time(now);
        record.put(transaction);
        let change = i64::from(disabled.is_some()) - i64::from(was_disabled.is_some());
        if change != 0 {
            transaction.add(keys::disabled_endpoint_count(record.org()), change);
        }
        let action = match disabled {
            Some(_) => record.action(
                AuditAction::WebhookDisable,
                AuditAction::SubscriptionDisable,
            ),
            None => record.action(AuditAction::WebhookEnable, AuditAction::SubscriptionEnable),
        };
        AuditedOperation::begin(transaction, self.env(), now).changed(
            transaction,
            Actor::service(record.org(), record.workspace()),
            action,
            record.resource(),
            &before,
            &record.state(),
        );
        record
    }
}
