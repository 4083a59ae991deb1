//! Operations on deliveries: queries, redelivery and test events.

use super::endpoint::Endpoint;
use super::redelivery::{RedeliveryReport, first_dead_letters};
use crate::access::Action;
use crate::env::Env;
use crate::error::{EntityKind, Error};
use crate::keys;
use crate::model::{Delivery, DeliveryId, DeliveryStatus, EndpointId, OrgId, RecallId};
use crate::operation::Operation;
use crate::service::deliveries::queue::{
    DeliveryRef, EndpointQueue, StoredDelivery, delivery_keys, find_delivery,
};
use crate::service::endpoints::{EndpointRecord, find_subscription};
use crate::service::operation::{Authenticated, Authorized, Prefetch, Unauthenticated};
use crate::service::page::{Listing, Page, PageRecord, PageRequest, PageScan};
use crate::service::{Caller, Deliveries};
use crate::store::{Direction, Entry, Key, RangeRead, Transaction, decode, decode_value};

impl Endpoint {
    /// Returns the operation for this kind of endpoint.
    fn operation(self, webhook: Operation, subscription: Operation) -> Operation {
        match self {
            Self::Webhook(..) => webhook,
            Self::Subscription(_) => subscription,
        }
    }

    /// Returns the keys of [`Self::authorize`] that are known at first.
    fn keys(self, org: OrgId) -> Vec<Key> {
        match self {
            Self::Webhook(workspace, id) => vec![
                keys::workspace(org, workspace),
                keys::webhook(org, workspace, id),
            ],
            Self::Subscription(id) => vec![keys::subscription_id(org, id)],
        }
    }

    /// Authorises the caller in the workspace of the endpoint, and reads its record.
    ///
    /// `more` are further keys that the operation reads.
    async fn authorize<'c>(
        self,
        mut caller: Authenticated<'c>,
        more: Vec<Key>,
    ) -> Result<(Authorized<'c>, EndpointRecord), Error> {
        let (org, mut more) = (caller.org(), Prefetch::keys(more));
        if let Self::Subscription(id) = self {
            let recall: Option<RecallId> = caller.prefetched(&keys::subscription_id(org, id))?;
            more = more.and_keys(recall.map(|recall| keys::subscription(org, recall, id)));
        }
        caller.prefetch(more).await?;
        let mut op = caller.authorize_per_resource().await?;
        match self {
            Self::Webhook(workspace, id) => {
                op.authorize_in_named(workspace).await?;
                let found = op
                    .find(&keys::webhook(org, workspace, id), EntityKind::Webhook)
                    .await?;
                Ok((op, EndpointRecord::Webhook(found)))
            }
            Self::Subscription(id) => {
                let others = Some(Action::WebhookManage);
                let found = find_subscription(&mut op, id, others).await?;
                Ok((op, EndpointRecord::Subscription(found)))
            }
        }
    }

    /// Returns the keys of dead letters whose index entries were prefetched.
    ///
    /// There are none if no other read is left that they could join.
    fn prefetched_dead_letters(
        self,
        caller: &mut Authenticated<'_>,
        entries: Option<&RangeRead>,
    ) -> Vec<Key> {
        let org = caller.org();
        if !caller.has_missing() && matches!(self, Self::Webhook(..)) {
            return Vec::new();
        }
        let transaction = caller.transaction();
        let entries = entries.and_then(|entries| transaction.prefetched().scan(entries));
        delivery_keys(org, self.id(), entries.unwrap_or_default())
    }

    /// Authorises the caller, and prefetches a delivery with another key.
    async fn authorize_for_delivery<'c>(
        self,
        caller: Unauthenticated<'c>,
        id: DeliveryId,
        other: Option<Key>,
    ) -> Result<(Authorized<'c>, EndpointRecord), Error> {
        let org = caller.org();
        let id_key = keys::delivery_id(org, id);
        let prefetch = Prefetch::keys(self.keys(org))
            .and_keys(other)
            .and_keys([id_key.clone()]);
        let caller = caller.authenticate(prefetch).await?;
        let reference: Option<DeliveryRef> = caller.prefetched(&id_key)?;
        let delivery = reference.map(|found| keys::delivery(org, self.id(), found.event));
        self.authorize(caller, delivery.into_iter().collect()).await
    }
}

impl Deliveries<'_> {
    /// Lists the retained deliveries to an endpoint, newest event first.
    ///
    /// # Errors
    /// Those of [`Operation::ListWebhookDeliveries`] and
    /// [`Operation::ListCitationSubscriptionDeliveries`].
    pub async fn list(
        self,
        caller: &Caller,
        endpoint: Endpoint,
        status: Option<DeliveryStatus>,
        page: &PageRequest,
    ) -> Result<Page<Delivery>, Error> {
        let operation = endpoint.operation(
            Operation::ListWebhookDeliveries,
            Operation::ListCitationSubscriptionDeliveries,
        );
        self.service
            .perform(operation, caller, |caller| async move {
                let org = caller.org();
                let listing = listing(org, endpoint.id(), status);
                let prefetch = Prefetch::page(&listing, page).and_keys(endpoint.keys(org));
                let mut caller = caller.authenticate(prefetch).await?;
                let first = listing
                    .first_read(page)
                    .filter(|_| status == Some(DeliveryStatus::Dead));
                let deliveries = endpoint.prefetched_dead_letters(&mut caller, first.as_ref());
                let (mut op, _) = endpoint.authorize(caller, deliveries).await?;
                let transaction = &mut op.transaction;
                let deliveries = DeliveriesOf {
                    env: self.service.env(),
                    org,
                    endpoint: endpoint.id(),
                    status,
                };
                let found = page_of_deliveries(transaction, deliveries, page).await?;
                op.done(found)
            })
            .await
    }

    /// Reads one delivery to an endpoint.
    ///
    /// # Errors
    /// Those of [`Operation::GetWebhookDelivery`] and
    /// [`Operation::GetCitationSubscriptionDelivery`].
    pub async fn get(
        self,
        caller: &Caller,
        endpoint: Endpoint,
        id: DeliveryId,
    ) -> Result<Delivery, Error> {
        let operation = endpoint.operation(
            Operation::GetWebhookDelivery,
            Operation::GetCitationSubscriptionDelivery,
        );
        self.service
            .perform(operation, caller, |caller| async move {
                let (mut op, _) = endpoint.authorize_for_delivery(caller, id, None).await?;
                let org = op.org();
                let found = find_delivery(&mut op.transaction, org, endpoint.id(), id).await?;
                op.done(found.delivery)
            })
            .await
    }

    /// Redelivers an event now, with a new retry schedule and the same identifier.
    ///
    /// A pending delivery is attempted now; an attempt in flight continues.
    ///
    /// # Errors
    /// Those of [`Operation::RedeliverToWebhook`] and
    /// [`Operation::RedeliverToCitationSubscription`].
    pub async fn redeliver(
        self,
        caller: &Caller,
        endpoint: Endpoint,
        id: DeliveryId,
    ) -> Result<Delivery, Error> {
        let operation = endpoint.operation(
            Operation::RedeliverToWebhook,
            Operation::RedeliverToCitationSubscription,
        );
        self.service
            .perform(operation, caller, |caller| async move {
                let state = Some(keys::endpoint(caller.org(), endpoint.id()));
                let (mut op, record) = endpoint.authorize_for_delivery(caller, id, state).await?;
                let (operation, actor) = op.audit(record.redelivery_action());
                let delivery = self
                    .service
                    .redeliver_one(&mut op.transaction, operation, actor, &record, id)
                    .await?;
                op.done(delivery)
            })
            .await
    }

    /// Redelivers the dead letters of an endpoint, oldest first, up to 500 per call.
    ///
    /// # Errors
    /// Those of [`Operation::RedeliverDeadToWebhook`] and
    /// [`Operation::RedeliverDeadToCitationSubscription`].
    pub async fn redeliver_dead(
        self,
        caller: &Caller,
        endpoint: Endpoint,
    ) -> Result<RedeliveryReport, Error> {
        let operation = endpoint.operation(
            Operation::RedeliverDeadToWebhook,
            Operation::RedeliverDeadToCitationSubscription,
        );
        self.service
            .perform(operation, caller, |caller| async move {
                let org = caller.org();
                let entries = first_dead_letters(org, endpoint.id());
                let prefetch = Prefetch::keys(endpoint.keys(org))
                    .and_keys([keys::endpoint(org, endpoint.id())])
                    .and_range(entries.clone());
                let mut caller = caller.authenticate(prefetch).await?;
                let deliveries = endpoint.prefetched_dead_letters(&mut caller, Some(&entries));
                let (mut op, record) = endpoint.authorize(caller, deliveries).await?;
                let (operation, actor) = op.audit(record.redelivery_action());
                let redelivered = self
                    .service
                    .redeliver_dead_letters(&mut op.transaction, operation, actor, &record)
                    .await?;
                op.done(redelivered)
            })
            .await
    }

    /// Sends a test event: one `webhook.ping` with a single attempt.
    ///
    /// It is sent even if the service disabled the endpoint; a 2xx response then enables the
    /// endpoint again.
    ///
    /// # Errors
    /// Those of [`Operation::PingWebhook`] and [`Operation::PingCitationSubscription`];
    /// [`Error::EndpointInactive`] if its owner deactivated it.
    pub async fn ping(self, caller: &Caller, endpoint: Endpoint) -> Result<Delivery, Error> {
        let operation =
            endpoint.operation(Operation::PingWebhook, Operation::PingCitationSubscription);
        self.service
            .once(
                operation,
                caller,
                &endpoint.named(),
                |caller| async move {
                    let org = caller.org();
                    let prefetch = Prefetch::keys(endpoint.keys(org))
                        .and_keys([keys::endpoint(org, endpoint.id())])
                        .and_range(EndpointQueue::front(org, endpoint.id(), 1));
                    let caller = caller.authenticate(prefetch).await?;
                    let (mut op, record) = endpoint.authorize(caller, Vec::new()).await?;
                    let (operation, actor) = op.audit(record.ping_action());
                    let delivery = self
                        .service
                        .send_ping(&mut op.transaction, operation, actor, &record)
                        .await?;
                    op.set_created_id(delivery.id.0);
                    op.done(delivery)
                },
                |caller, replay| async move {
                    let id = DeliveryId(replay.created);
                    self.get(&caller, endpoint, id).await
                },
            )
            .await
    }
}

/// Returns the list of the deliveries to an endpoint, newest event first.
fn listing(org: OrgId, endpoint: EndpointId, status: Option<DeliveryStatus>) -> Listing {
    let range = match status {
        Some(DeliveryStatus::Dead) => keys::dead_letters(org, endpoint),
        _ => keys::deliveries(org, endpoint),
    };
    Listing::new("deliveries", &status, range, Direction::Reverse)
}

/// The deliveries to an endpoint, those of one state only if it is given.
#[derive(Clone, Copy)]
pub(in crate::service) struct DeliveriesOf<'e> {
    pub(in crate::service) env: &'e Env,
    pub(in crate::service) org: OrgId,
    pub(in crate::service) endpoint: EndpointId,
    pub(in crate::service) status: Option<DeliveryStatus>,
}

/// Lists a page of the deliveries to an endpoint, without checking permissions.
///
/// # Errors
/// [`Error::InvalidRequest`] for an invalid page; those of the store.
pub(in crate::service) async fn page_of_deliveries(
    transaction: &mut Transaction,
    DeliveriesOf {
        env,
        org,
        endpoint,
        status,
    }: DeliveriesOf<'_>,
    page: &PageRequest,
) -> Result<Page<Delivery>, Error> {
    let listing = listing(org, endpoint, status);
    let matching = |stored: StoredDelivery| {
        let is_wanted = status.is_none_or(|status| stored.delivery.status == status);
        PageRecord::matching(stored.delivery, is_wanted)
    };
    let mut scan = PageScan::begin(&listing, page)?.searching(env);
    let mut data = Vec::new();
    while let Some(entries) = scan.next(transaction).await? {
        if status != Some(DeliveryStatus::Dead) {
            let shown = entries
                .iter()
                .map(|found| Ok(matching(decode_value(found)?)));
            scan.add(&mut data, &entries, shown)?;
            continue;
        }
        let records = delivery_keys(org, endpoint, &entries);
        let found = transaction.unchecked().get_many::<Entry>(&records).await?;
        let shown = records.iter().zip(&found).map(|(key, record)| {
            Ok(match record {
                Some(record) => matching(decode(key, record)?.value),
                None => PageRecord::Hidden,
            })
        });
        scan.add(&mut data, &entries, shown)?;
    }
    Ok(scan.end(data))
}
