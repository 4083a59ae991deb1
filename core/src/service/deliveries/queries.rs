//! Operations on deliveries: queries, redelivery and test events.

use serde::Serialize;

use super::endpoint_record::EndpointRecord;
use super::queue::EndpointParent;
use super::record::{DeliveryRef, StoredDelivery};
use crate::access::{Credential, CredentialKind, RequiredPermission, permissions};
use crate::error::Error;
use crate::keys;
use crate::model::{
    Delivery, DeliveryId, DeliveryStatus, EndpointId, OrgId, RecallId, SubscriptionId, Timestamp,
    WebhookId, WorkspaceId,
};
use crate::service::KnowledgeService;
use crate::service::kit::audit::Actor;
use crate::service::kit::page::{Listing, Page, PageRequest};
use crate::service::kit::principal::Principal;
use crate::store::{Direction, Key, KeyEntry, KeyRange, StoreExt, Transaction, decode_value};

/// Maximum to which events of the outbox are counted.
///
/// Counting reads them, and one may list thousands of memories.
const UNEXPANDED_COUNTED_MAX: usize = 100;
const NO_SUCH_DELIVERY: Error = Error::NotFound { what: "delivery" };

/// An endpoint as callers name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// An outbound webhook of a workspace.
    Webhook(WorkspaceId, WebhookId),
    /// A citation subscription.
    Subscription(SubscriptionId),
}

/// Result of redelivering dead letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "openapi",
    derive(schemars::JsonSchema),
    schemars(rename = "Redelivered")
)]
pub struct RedeliveryReport {
    /// Number of dead letters that this call redelivered.
    pub redelivered: u64,
    /// True if there are more dead letters: call again.
    pub has_more: bool,
}

/// Current backlog of events and deliveries in the whole store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutboxStatus {
    /// Number of events that are not yet fanned out, counted up to 100.
    pub unexpanded: u64,
    /// Number of pending deliveries.
    pub undelivered: u64,
    /// Time of the oldest event that is not yet fanned out or has a pending delivery.
    pub oldest: Option<Timestamp>,
    /// Earliest due time of an endpoint that is due but unclaimed.
    ///
    /// An endpoint that waits for its next attempt, or for the end of one, is not due.
    pub overdue_since: Option<Timestamp>,
    /// Number of endpoints that the service disabled.
    pub disabled_endpoints: u64,
}

/// Permissions that an operation requires.
///
/// They are for a webhook, for a citation subscription, and additionally for that of another
/// member.
type RequiredPermissions = (RequiredPermission, RequiredPermission, RequiredPermission);

impl Endpoint {
    /// Returns the identifier, which both kinds have.
    pub(in crate::service) fn id(self) -> EndpointId {
        match self {
            Self::Webhook(_, id) => id.into(),
            Self::Subscription(id) => id.into(),
        }
    }

    /// Reads the record of an endpoint, without checking permissions.
    ///
    /// # Errors
    /// [`Error::NotFound`]; those of the store.
    pub(in crate::service) async fn find(
        self,
        transaction: &mut Transaction,
        org: OrgId,
    ) -> Result<EndpointRecord, Error> {
        let (parent, what) = match self {
            Self::Webhook(workspace, _) => (Some(EndpointParent::Webhook(workspace)), "webhook"),
            Self::Subscription(id) => {
                let key = keys::subscription_id(org, id);
                let recall = transaction.read::<RecallId>(&key).await?;
                (
                    recall.map(EndpointParent::Subscription),
                    "citation subscription",
                )
            }
        };
        let missing = Error::NotFound { what };
        let Some(parent) = parent else {
            return Err(missing);
        };
        let key = EndpointRecord::key(org, self.id(), parent);
        let found = transaction.entries(std::slice::from_ref(&key)).await?;
        match found.first() {
            Some(Some(entry)) => Ok(EndpointRecord::decode(parent, &key, entry)?),
            _ => Err(missing),
        }
    }
}

impl KnowledgeService {
    /// Lists the retained deliveries to an endpoint, newest event first.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an invalid page; [`Error::Unauthenticated`];
    /// [`Error::NotFound`] for an unknown endpoint; [`Error::Forbidden`] without `webhook:manage`
    /// or, for a subscription, `citation_subscription:manage` in its workspace, and for a
    /// subscription of another member without both.
    pub async fn list_deliveries(
        &self,
        credential: &Credential,
        endpoint: Endpoint,
        status: Option<DeliveryStatus>,
        page: &PageRequest,
    ) -> Result<Page<Delivery>, Error> {
        self.transact(|mut reading| async move {
            let permissions = (
                permissions::LIST_WEBHOOK_DELIVERIES,
                permissions::LIST_SUBSCRIPTION_DELIVERIES,
                permissions::LIST_OTHERS_SUBSCRIPTION_DELIVERIES,
            );
            let (caller, _) = self
                .authorize_for_endpoint(&mut reading, credential, endpoint, permissions)
                .await?;
            let org = caller.org_id();
            reading.done(
                self.page_of_deliveries(org, endpoint.id(), status, page)
                    .await?,
            )
        })
        .await
    }

    /// Reads one delivery to an endpoint.
    ///
    /// # Errors
    /// As [`KnowledgeService::list_deliveries`], and [`Error::NotFound`] for an unknown delivery.
    pub async fn delivery(
        &self,
        credential: &Credential,
        endpoint: Endpoint,
        id: DeliveryId,
    ) -> Result<Delivery, Error> {
        self.transact(|mut reading| async move {
            let permissions = (
                permissions::READ_WEBHOOK_DELIVERY,
                permissions::READ_SUBSCRIPTION_DELIVERY,
                permissions::READ_OTHERS_SUBSCRIPTION_DELIVERY,
            );
            let (caller, _) = self
                .authorize_for_endpoint(&mut reading, credential, endpoint, permissions)
                .await?;
            let found = find_delivery(&mut reading, caller.org_id(), endpoint.id(), id).await?;
            reading.done(found.delivery)
        })
        .await
    }

    /// Redelivers an event now, with a new retry schedule and the same identifier.
    ///
    /// A pending delivery is attempted now; an attempt in flight continues.
    ///
    /// # Errors
    /// As [`KnowledgeService::delivery`], and [`Error::EndpointInactive`] if the endpoint is
    /// inactive.
    pub async fn redeliver(
        &self,
        credential: &Credential,
        endpoint: Endpoint,
        id: DeliveryId,
    ) -> Result<Delivery, Error> {
        self.transact(|mut transaction| async move {
            let permissions = (
                permissions::REDELIVER_TO_WEBHOOK,
                permissions::REDELIVER_TO_SUBSCRIPTION,
                permissions::REDELIVER_TO_OTHERS_SUBSCRIPTION,
            );
            let (caller, record) = self
                .authorize_for_endpoint(&mut transaction, credential, endpoint, permissions)
                .await?;
            let actor = Actor::from(&caller);
            let delivery = self
                .redeliver_one(&mut transaction, actor, &record, id)
                .await?;
            transaction.done(delivery)
        })
        .await
    }

    /// Redelivers the dead letters of an endpoint, oldest first, up to 500 per call.
    ///
    /// # Errors
    /// As [`KnowledgeService::redeliver`].
    pub async fn redeliver_dead(
        &self,
        credential: &Credential,
        endpoint: Endpoint,
    ) -> Result<RedeliveryReport, Error> {
        self.transact(|mut transaction| async move {
            let permissions = (
                permissions::REDELIVER_DEAD_TO_WEBHOOK,
                permissions::REDELIVER_DEAD_TO_SUBSCRIPTION,
                permissions::REDELIVER_DEAD_TO_OTHERS_SUBSCRIPTION,
            );
            let (caller, record) = self
                .authorize_for_endpoint(&mut transaction, credential, endpoint, permissions)
                .await?;
            let actor = Actor::from(&caller);
            let redelivered = self
                .redeliver_dead_letters(&mut transaction, actor, &record)
                .await?;
            transaction.done(redelivered)
        })
        .await
    }

    /// Sends a test event: one `webhook.ping` with a single attempt.
    ///
    /// It is sent even if the service disabled the endpoint; a 2xx response then enables the
    /// endpoint again.
    ///
    /// # Errors
    /// As [`KnowledgeService::list_deliveries`], and [`Error::EndpointInactive`] if its owner
    /// deactivated it.
    pub async fn ping(
        &self,
        credential: &Credential,
        endpoint: Endpoint,
    ) -> Result<Delivery, Error> {
        self.transact(|mut transaction| async move {
            let permissions = (
                permissions::PING_WEBHOOK,
                permissions::PING_SUBSCRIPTION,
                permissions::PING_OTHERS_SUBSCRIPTION,
            );
            let (caller, record) = self
                .authorize_for_endpoint(&mut transaction, credential, endpoint, permissions)
                .await?;
            let actor = Actor::from(&caller);
            let delivery = self.send_ping(&mut transaction, actor, &record).await?;
            transaction.done(delivery)
        })
        .await
    }

    /// Returns the current backlog, for metrics.
    ///
    /// It takes a few reads, and two counters of each organisation that ever had endpoints.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn outbox_status(&self) -> Result<OutboxStatus, Error> {
        let outbox = keys::outbox_events();
        let unexpanded = self
            .store()
            .scan(&outbox, UNEXPANDED_COUNTED_MAX, Direction::Forward)
            .await?;
        let undelivered = keys::all_undelivered();
        let undelivered = self
            .store()
            .scan(&undelivered, 1, Direction::Forward)
            .await?;
        let ready = keys::endpoints_due();
        let ready = self.store().scan(&ready, 1, Direction::Forward).await?;
        let ready = ready
            .first()
            .and_then(|found| keys::parse_endpoint_due(&found.key));
        let now = self.env().now();
        let unexpanded_since = unexpanded
            .first()
            .and_then(|found| keys::last_id(&found.key));
        let undelivered_since = undelivered
            .first()
            .and_then(|found| keys::second_last_id(&found.key));
        let oldest = unexpanded_since.into_iter().chain(undelivered_since);
        Ok(OutboxStatus {
            unexpanded: unexpanded.len() as u64,
            undelivered: self.sum(&keys::undelivered_counts()).await?,
            oldest: oldest.map(time_of).min(),
            overdue_since: ready.map(|(at, ..)| at).filter(|at| *at <= now),
            disabled_endpoints: self.sum(&keys::disabled_endpoint_counts()).await?,
        })
    }

    /// Returns the sum of the organisations' counters in a range.
    async fn sum(&self, counters: &KeyRange) -> Result<u64, Error> {
        let mut sum = 0_i64;
        for counter in self.store().scan_all(counters).await? {
            sum += decode_value::<i64>(&counter)?;
        }
        Ok(u64::try_from(sum).unwrap_or(0))
    }

    /// Authorises a caller that has the required permissions in the endpoint's workspace.
    async fn authorize_for_endpoint(
        &self,
        transaction: &mut Transaction,
        credential: &Credential,
        endpoint: Endpoint,
        (webhook, subscription, of_others): RequiredPermissions,
    ) -> Result<(Principal, EndpointRecord), Error> {
        if let Endpoint::Webhook(workspace, _) = endpoint {
            let (caller, _) = self
                .authorize_in(transaction, credential, workspace, webhook)
                .await?;
            let found = endpoint.find(transaction, caller.org_id()).await?;
            return Ok((caller, found));
        }
        let now = self.env().now();
        let kind = CredentialKind::Bearer;
        let caller = Principal::authenticate(transaction, credential, kind, now).await?;
        let found = endpoint.find(transaction, caller.org_id()).await?;
        caller
            .authorize_in(transaction, found.workspace(), subscription)
            .await?;
        if found.subscriber() != Some(caller.member_id()) {
            caller
                .authorize_in(transaction, found.workspace(), of_others)
                .await?;
        }
        Ok((caller, found))
    }

    /// Lists a page of the deliveries to an endpoint, without checking permissions.
    pub(in crate::service) async fn page_of_deliveries(
        &self,
        org: OrgId,
        endpoint: EndpointId,
        status: Option<DeliveryStatus>,
        page: &PageRequest,
    ) -> Result<Page<Delivery>, Error> {
        let (name, newest_first) = ("deliveries", Direction::Reverse);
        if status == Some(DeliveryStatus::Dead) {
            let range = keys::dead_letters(org, endpoint);
            let listing = Listing::new(name, &status, range, newest_first);
            let show =
                |entries: std::sync::Arc<[KeyEntry]>| self.dead_letters(org, endpoint, entries);
            return listing.page_of(self.store(), page, show).await;
        }
        let range = keys::deliveries(org, endpoint);
        let listing = Listing::new(name, &status, range, newest_first);
        let show = |_: &Key, stored: StoredDelivery| {
            let delivery = stored.delivery;
            let is_wanted = status.is_none_or(|status| delivery.status == status);
            Ok(is_wanted.then_some(delivery))
        };
        listing.page(self.store(), page, show).await
    }

    async fn dead_letters(
        &self,
        org: OrgId,
        endpoint: EndpointId,
        entries: std::sync::Arc<[KeyEntry]>,
    ) -> Result<Vec<Option<Delivery>>, Error> {
        let key = |entry: &KeyEntry| {
            let event = keys::last_id(&entry.key);
            let event =
                event.ok_or_else(|| Error::internal(format!("{} names no event", entry.key)));
            Ok(keys::delivery(org, endpoint, crate::model::EventId(event?)))
        };
        let keys = entries.iter().map(key).collect::<Result<Vec<_>, Error>>()?;
        let found = self.store().get_many_as::<StoredDelivery>(&keys).await?;
        let shown = |found: crate::store::Versioned<StoredDelivery>| {
            let delivery = found.value.delivery;
            (delivery.status == DeliveryStatus::Dead).then_some(delivery)
        };
        Ok(found
            .into_iter()
            .map(|found| found.and_then(shown))
            .collect())
    }
}

/// Finds a delivery to this endpoint, without checking permissions.
///
/// # Errors
/// [`Error::NotFound`]; those of the store.
pub(in crate::service) async fn find_delivery(
    transaction: &mut Transaction,
    org: OrgId,
    endpoint: EndpointId,
    id: DeliveryId,
) -> Result<StoredDelivery, Error> {
    let reference = transaction
        .read::<DeliveryRef>(&keys::delivery_id(org, id))
        .await?;
    let reference = reference.filter(|reference| reference.endpoint == endpoint);
    let reference = reference.ok_or(NO_SUCH_DELIVERY)?;
    let found = transaction
        .read(&keys::delivery(org, endpoint, reference.event))
        .await?;
    found.ok_or(NO_SUCH_DELIVERY)
}

/// Returns the time of an event, from its identifier.
///
/// The first 48 bits are milliseconds since the Unix epoch.
fn time_of(event: uuid::Uuid) -> Timestamp {
    let millis = event.as_u128() >> 80;
    Timestamp::from_millis(i64::try_from(millis).unwrap_or(i64::MAX))
}
