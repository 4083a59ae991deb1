//! Deliveries as callers see them: what became of them, and what can be done about it.

use serde::Serialize;

use crate::access::Credential;
use crate::error::Error;
use crate::model::{
    Delivery, DeliveryId, DeliveryStatus, SubscriptionId, Timestamp, WebhookId, WorkspaceId,
};
use crate::service::KnowledgeService;
use crate::service::page::{Page, PageRequest};

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
    /// Events that are not expanded to their endpoints yet, counted up to 1,000.
    pub unexpanded: u64,
    /// Deliveries that wait for an attempt.
    pub undelivered: u64,
    /// When the oldest event of these two happened.
    pub oldest: Option<Timestamp>,
    /// Endpoints that the service switched off.
    pub disabled_endpoints: u64,
}

impl KnowledgeService {
    /// The deliveries to an endpoint that are still kept, the newest event first.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a wrong page; [`Error::Unauthenticated`]; [`Error::NotFound`] for an unknown endpoint;
    /// [`Error::Forbidden`] without `webhook:manage` or, for a subscription, `citation_subscription:manage` in its
    /// workspace.
    pub async fn list_deliveries(
        &self,
        credential: &Credential,
        endpoint: Endpoint,
        status: Option<DeliveryStatus>,
        page: &PageRequest,
    ) -> Result<Page<Delivery>, Error> {
        let _ = (credential, endpoint, status, page);
        Err(Error::internal("not written yet"))
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
        let _ = (credential, endpoint, id);
        Err(Error::internal("not written yet"))
    }

    /// Has a delivery made again, now and with a whole new schedule, under the same identifier. One that is pending is
    /// attempted now.
    ///
    /// # Errors
    /// As [`KnowledgeService::delivery`], and [`Error::EndpointOff`] where it is switched off.
    pub async fn redeliver(
        &self,
        credential: &Credential,
        endpoint: Endpoint,
        id: DeliveryId,
    ) -> Result<Delivery, Error> {
        let _ = (credential, endpoint, id);
        Err(Error::internal("not written yet"))
    }

    /// Has the dead letters of an endpoint made again, the oldest first, a bounded number in one call.
    ///
    /// # Errors
    /// As [`KnowledgeService::redeliver`].
    pub async fn redeliver_dead(
        &self,
        credential: &Credential,
        endpoint: Endpoint,
    ) -> Result<Redelivered, Error> {
        let _ = (credential, endpoint);
        Err(Error::internal("not written yet"))
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
        let _ = (credential, endpoint);
        Err(Error::internal("not written yet"))
    }

    /// What is on its way at present: for metrics. A few reads, whatever there is.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn outbox_status(&self) -> Result<OutboxStatus, Error> {
        Err(Error::internal("not written yet"))
    }
}
