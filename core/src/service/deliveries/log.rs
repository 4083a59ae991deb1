//! Deliveries as callers see them: what became of them, and what can be done about it.

use serde::Serialize;

use super::queue::EndpointPlace;
use super::recipient::Recipient;
use super::record::{DeliveryPlace, StoredDelivery};
use crate::access::{Credential, CredentialKind, Need, Principal, needs};
use crate::error::Error;
use crate::model::{
    Delivery, DeliveryId, DeliveryStatus, EndpointId, OrgId, RecallId, SubscriptionId, Timestamp,
    WebhookId, WorkspaceId,
};
use crate::service::KnowledgeService;
use crate::service::audit::Actor;
use crate::service::page::{Listing, Page, PageRequest};
use crate::keys;
use crate::store::{Direction, Key, KeyEntry, KeyRange, StoreExt, Transaction, decode_value};

/// How many events of the outbox are counted: counting reads them, and one may list thousands of memories.
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

/// How many deliveries were put back to be made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Redelivered {
    /// How many this call put back.
    pub redelivered: u64,
    /// Whether there are more dead letters: call again.
    pub has_more: bool,
}

/// What is on its way at present, over the whole store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutboxStatus {
    /// Events that are not expanded to their endpoints yet, counted up to 100.
    pub unexpanded: u64,
    /// Deliveries that wait for an attempt.
    pub undelivered: u64,
    /// When the oldest event of these two happened.
    pub oldest: Option<Timestamp>,
    /// Since when the endpoint that has waited longest has had a turn that nobody takes. One that waits for its next
    /// attempt, or for the end of one, has none.
    pub overdue_since: Option<Timestamp>,
    /// Endpoints that the service switched off.
    pub disabled_endpoints: u64,
}

/// What an operation needs: on a webhook, on a citation subscription, and besides on that of another member.
type Needs = (Need, Need, Need);

impl Endpoint {
    /// The identifier that both kinds have.
    pub(in crate::service) fn id(self) -> EndpointId {
        match self {
            Self::Webhook(_, id) => id.into(),
            Self::Subscription(id) => id.into(),
        }
    }

    /// Reads the record of an endpoint, whoever asks.
    ///
    /// # Errors
    /// [`Error::NotFound`]; those of the store.
    pub(in crate::service) async fn find(
        self,
        transaction: &mut Transaction,
        org: OrgId,
    ) -> Result<Recipient, Error> {
        let (place, what) = match self {
            Self::Webhook(workspace, _) => (Some(EndpointPlace::Webhook(workspace)), "webhook"),
            Self::Subscription(id) => {
                let key = keys::subscription_id(org, id);
                let recall = transaction.read::<RecallId>(&key).await?;
                (
                    recall.map(EndpointPlace::Subscription),
                    "citation subscription",
                )
            }
        };
        let missing = Error::NotFound { what };
        let Some(place) = place else {
            return Err(missing);
        };
        let key = Recipient::key(org, self.id(), place);
        let found = transaction.entries(std::slice::from_ref(&key)).await?;
        match found.first() {
            Some(Some(entry)) => Ok(Recipient::decode(place, &key, entry)?),
            _ => Err(missing),
        }
    }
}

impl KnowledgeService {
    /// The deliveries to an endpoint that are still kept, the newest event first.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a wrong page; [`Error::Unauthenticated`]; [`Error::NotFound`] for an unknown endpoint;
    /// [`Error::Forbidden`] without `webhook:manage` or, for a subscription, `citation_subscription:manage` in its
    /// workspace, and for a subscription of another member without both.
    pub async fn list_deliveries(
        &self,
        credential: &Credential,
        endpoint: Endpoint,
        status: Option<DeliveryStatus>,
        page: &PageRequest,
    ) -> Result<Page<Delivery>, Error> {
        self.transact(|mut reading| async move {
            let needs = (
                needs::LIST_WEBHOOK_DELIVERIES,
                needs::LIST_SUBSCRIPTION_DELIVERIES,
                needs::LIST_OTHERS_SUBSCRIPTION_DELIVERIES,
            );
            let (caller, _) = self
                .enter_endpoint(&mut reading, credential, endpoint, needs)
                .await?;
            let org = caller.org_id();
            reading.done(
                self.page_of_deliveries(org, endpoint.id(), status, page)
                    .await?,
            )
        })
        .await
    }

    /// One delivery to an endpoint.
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
            let needs = (
                needs::READ_WEBHOOK_DELIVERY,
                needs::READ_SUBSCRIPTION_DELIVERY,
                needs::READ_OTHERS_SUBSCRIPTION_DELIVERY,
            );
            let (caller, _) = self
                .enter_endpoint(&mut reading, credential, endpoint, needs)
                .await?;
            let found = find_delivery(&mut reading, caller.org_id(), endpoint.id(), id).await?;
            reading.done(found.delivery)
        })
        .await
    }

    /// Has a delivery made again, now and with a whole new schedule, under the same identifier. One that is pending is
    /// attempted now, and one that is under way goes on.
    ///
    /// # Errors
    /// As [`KnowledgeService::delivery`], and [`Error::EndpointOff`] where it is switched off.
    pub async fn redeliver(
        &self,
        credential: &Credential,
        endpoint: Endpoint,
        id: DeliveryId,
    ) -> Result<Delivery, Error> {
        self.transact(|mut transaction| async move {
            let needs = (
                needs::REDELIVER_TO_WEBHOOK,
                needs::REDELIVER_TO_SUBSCRIPTION,
                needs::REDELIVER_TO_OTHERS_SUBSCRIPTION,
            );
            let (caller, recipient) = self
                .enter_endpoint(&mut transaction, credential, endpoint, needs)
                .await?;
            let actor = Actor::from(&caller);
            let delivery = self
                .put_back(&mut transaction, actor, &recipient, id)
                .await?;
            transaction.done(delivery)
        })
        .await
    }

    /// Has the dead letters of an endpoint made again, the oldest first, up to 500 in one call.
    ///
    /// # Errors
    /// As [`KnowledgeService::redeliver`].
    pub async fn redeliver_dead(
        &self,
        credential: &Credential,
        endpoint: Endpoint,
    ) -> Result<Redelivered, Error> {
        self.transact(|mut transaction| async move {
            let needs = (
                needs::REDELIVER_DEAD_TO_WEBHOOK,
                needs::REDELIVER_DEAD_TO_SUBSCRIPTION,
                needs::REDELIVER_DEAD_TO_OTHERS_SUBSCRIPTION,
            );
            let (caller, recipient) = self
                .enter_endpoint(&mut transaction, credential, endpoint, needs)
                .await?;
            let actor = Actor::from(&caller);
            let redelivered = self
                .put_back_dead(&mut transaction, actor, &recipient)
                .await?;
            transaction.done(redelivered)
        })
        .await
    }

    /// Tries an endpoint out: one `webhook.ping`, with one attempt, also where the service switched it off. One that
    /// is answered with 2xx switches it on again.
    ///
    /// # Errors
    /// As [`KnowledgeService::list_deliveries`], and [`Error::EndpointOff`] where its owner switched it off.
    pub async fn ping(
        &self,
        credential: &Credential,
        endpoint: Endpoint,
    ) -> Result<Delivery, Error> {
        self.transact(|mut transaction| async move {
            let needs = (
                needs::PING_WEBHOOK,
                needs::PING_SUBSCRIPTION,
                needs::PING_OTHERS_SUBSCRIPTION,
            );
            let (caller, recipient) = self
                .enter_endpoint(&mut transaction, credential, endpoint, needs)
                .await?;
            let actor = Actor::from(&caller);
            let delivery = self.try_out(&mut transaction, actor, &recipient).await?;
            transaction.done(delivery)
        })
        .await
    }

    /// Returns what is on its way at present, for metrics: a few reads, and two counters of each
    /// organisation that ever had endpoints.
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
        let turns = keys::endpoints_due();
        let turns = self.store().scan(&turns, 1, Direction::Forward).await?;
        let turn = turns
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
            overdue_since: turn.map(|(at, ..)| at).filter(|at| *at <= now),
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

    /// Lets a caller in who may do what is needed where the endpoint is.
    async fn enter_endpoint(
        &self,
        transaction: &mut Transaction,
        credential: &Credential,
        endpoint: Endpoint,
        (webhook, subscription, of_others): Needs,
    ) -> Result<(Principal, Recipient), Error> {
        if let Endpoint::Webhook(workspace, _) = endpoint {
            let (caller, _) = self
                .enter_workspace(transaction, credential, workspace, webhook)
                .await?;
            let found = endpoint.find(transaction, caller.org_id()).await?;
            return Ok((caller, found));
        }
        let now = self.env().now();
        let kind = CredentialKind::Bearer;
        let caller = Principal::recognise(transaction, credential, kind, now).await?;
        let found = endpoint.find(transaction, caller.org_id()).await?;
        caller
            .enter(transaction, found.workspace(), subscription)
            .await?;
        if found.subscriber() != Some(caller.member_id()) {
            caller
                .enter(transaction, found.workspace(), of_others)
                .await?;
        }
        Ok((caller, found))
    }

    /// A page of the deliveries to an endpoint, whoever asks.
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
            let show = |marks: std::sync::Arc<[KeyEntry]>| self.dead_letters(org, endpoint, marks);
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
        marks: std::sync::Arc<[KeyEntry]>,
    ) -> Result<Vec<Option<Delivery>>, Error> {
        let key = |mark: &KeyEntry| {
            let event = keys::last_id(&mark.key);
            let event = event.ok_or_else(|| Error::internal(format!("{} marks nothing", mark.key)));
            Ok(keys::delivery(org, endpoint, crate::model::EventId(event?)))
        };
        let keys = marks.iter().map(key).collect::<Result<Vec<_>, Error>>()?;
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

/// A delivery to this endpoint, whoever asks.
///
/// # Errors
/// [`Error::NotFound`]; those of the store.
pub(in crate::service) async fn find_delivery(
    transaction: &mut Transaction,
    org: OrgId,
    endpoint: EndpointId,
    id: DeliveryId,
) -> Result<StoredDelivery, Error> {
    let place = transaction
        .read::<DeliveryPlace>(&keys::delivery_id(org, id))
        .await?;
    let place = place.filter(|place| place.endpoint == endpoint);
    let place = place.ok_or(NO_SUCH_DELIVERY)?;
    let found = transaction
        .read(&keys::delivery(org, endpoint, place.event))
        .await?;
    found.ok_or(NO_SUCH_DELIVERY)
}

/// When an event happened, from its identifier: the first 48 bits are milliseconds since the Unix epoch.
fn time_of(event: uuid::Uuid) -> Timestamp {
    let millis = event.as_u128() >> 80;
    Timestamp::from_millis(i64::try_from(millis).unwrap_or(i64::MAX))
}
