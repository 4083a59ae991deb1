//! Deliveries: what became of them, and what the operator can do about it.

use super::Provisioning;
use crate::error::Error;
use crate::model::{Delivery, DeliveryId, DeliveryStatus, EndpointId, OrgId};
use crate::service::Redelivered;
use crate::service::audit::Actor;
use crate::service::deliveries::{Recipient, find_delivery};
use crate::service::page::{Page, PageRequest};

impl Provisioning<'_> {
    /// The deliveries to an endpoint that are still kept, the newest event first.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a wrong page; [`Error::NotFound`] for an unknown endpoint.
    pub async fn list_deliveries(
        &self,
        org: OrgId,
        endpoint: EndpointId,
        status: Option<DeliveryStatus>,
        page: &PageRequest,
    ) -> Result<Page<Delivery>, Error> {
        let mut reading = self.service.reading();
        Recipient::find(&mut reading, org, endpoint).await?;
        self.service
            .page_of_deliveries(org, endpoint, status, page)
            .await
    }

    /// One delivery to an endpoint.
    ///
    /// # Errors
    /// [`Error::NotFound`] for an unknown endpoint or delivery.
    pub async fn delivery(
        &self,
        org: OrgId,
        endpoint: EndpointId,
        id: DeliveryId,
    ) -> Result<Delivery, Error> {
        let mut reading = self.service.reading();
        Recipient::find(&mut reading, org, endpoint).await?;
        let found = find_delivery(&mut reading, org, endpoint, id).await?;
        Ok(found.delivery)
    }

    /// Has a delivery made again, see [`crate::service::KnowledgeService::redeliver`].
    ///
    /// # Errors
    /// As [`Provisioning::delivery`], and [`Error::EndpointOff`] where the endpoint is switched off.
    pub async fn redeliver(
        &self,
        org: OrgId,
        endpoint: EndpointId,
        id: DeliveryId,
    ) -> Result<Delivery, Error> {
        let service = self.service;
        service
            .transact(|mut transaction| async move {
                let recipient = Recipient::find(&mut transaction, org, endpoint).await?;
                let actor = Actor::operator(org);
                let delivery = service
                    .put_back(&mut transaction, actor, &recipient, id)
                    .await?;
                transaction.done(delivery)
            })
            .await
    }

    /// Has the dead letters of an endpoint made again, see [`crate::service::KnowledgeService::redeliver_dead`].
    ///
    /// # Errors
    /// As [`Provisioning::redeliver`].
    pub async fn redeliver_dead(
        &self,
        org: OrgId,
        endpoint: EndpointId,
    ) -> Result<Redelivered, Error> {
        let service = self.service;
        service
            .transact(|mut transaction| async move {
                let recipient = Recipient::find(&mut transaction, org, endpoint).await?;
                let actor = Actor::operator(org);
                let redelivered = service
                    .put_back_dead(&mut transaction, actor, &recipient)
                    .await?;
                transaction.done(redelivered)
            })
            .await
    }

    /// Tries an endpoint out, see [`crate::service::KnowledgeService::ping`].
    ///
    /// # Errors
    /// [`Error::NotFound`] for an unknown endpoint; [`Error::EndpointOff`] where its owner switched it off.
    pub async fn ping(&self, org: OrgId, endpoint: EndpointId) -> Result<Delivery, Error> {
        let service = self.service;
        service
            .transact(|mut transaction| async move {
                let recipient = Recipient::find(&mut transaction, org, endpoint).await?;
                let actor = Actor::operator(org);
                let delivery = service.try_out(&mut transaction, actor, &recipient).await?;
                transaction.done(delivery)
            })
            .await
    }
}
