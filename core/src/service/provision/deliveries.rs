//! Inspection and redelivery of deliveries by the operator.

use super::Provisioning;
use crate::error::Error;
use crate::model::{Delivery, DeliveryId, DeliveryStatus, EndpointId, OrgId};
use crate::service::RedeliveryReport;
use crate::service::deliveries::{EndpointRecord, find_delivery};
use crate::service::kit::audit::Actor;
use crate::service::kit::page::{Page, PageRequest};

impl Provisioning<'_> {
    /// Lists the retained deliveries to an endpoint, newest event first.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an invalid page; [`Error::NotFound`] for an unknown endpoint.
    pub async fn list_deliveries(
        &self,
        org: OrgId,
        endpoint: EndpointId,
        status: Option<DeliveryStatus>,
        page: &PageRequest,
    ) -> Result<Page<Delivery>, Error> {
        let mut reading = self.service.reading();
        EndpointRecord::find(&mut reading, org, endpoint).await?;
        self.service
            .page_of_deliveries(org, endpoint, status, page)
            .await
    }

    /// Reads one delivery to an endpoint.
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
        EndpointRecord::find(&mut reading, org, endpoint).await?;
        let found = find_delivery(&mut reading, org, endpoint, id).await?;
        Ok(found.delivery)
    }

    /// Redelivers an event, see [`crate::service::KnowledgeService::redeliver`].
    ///
    /// # Errors
    /// As [`Provisioning::delivery`], and [`Error::EndpointInactive`] if the endpoint is inactive.
    pub async fn redeliver(
        &self,
        org: OrgId,
        endpoint: EndpointId,
        id: DeliveryId,
    ) -> Result<Delivery, Error> {
        let service = self.service;
        service
            .transact(|mut transaction| async move {
                let record = EndpointRecord::find(&mut transaction, org, endpoint).await?;
                let actor = Actor::operator(org);
                let delivery = service
                    .redeliver_one(&mut transaction, actor, &record, id)
                    .await?;
                transaction.done(delivery)
            })
            .await
    }

    /// Redelivers the dead letters of an endpoint.
    ///
    /// See [`crate::service::KnowledgeService::redeliver_dead`].
    ///
    /// # Errors
    /// As [`Provisioning::redeliver`].
    pub async fn redeliver_dead(
        &self,
        org: OrgId,
        endpoint: EndpointId,
    ) -> Result<RedeliveryReport, Error> {
        let service = self.service;
        service
            .transact(|mut transaction| async move {
                let record = EndpointRecord::find(&mut transaction, org, endpoint).await?;
                let actor = Actor::operator(org);
                let redelivered = service
                    .redeliver_dead_letters(&mut transaction, actor, &record)
                    .await?;
                transaction.done(redelivered)
            })
            .await
    }

    /// Sends a test event to an endpoint, see [`crate::service::KnowledgeService::ping`].
    ///
    /// # Errors
    /// [`Error::NotFound`] for an unknown endpoint; [`Error::EndpointInactive`] if its owner
    /// deactivated it.
    pub async fn ping(&self, org: OrgId, endpoint: EndpointId) -> Result<Delivery, Error> {
        let service = self.service;
        service
            .transact(|mut transaction| async move {
                let record = EndpointRecord::find(&mut transaction, org, endpoint).await?;
                let actor = Actor::operator(org);
                let delivery = service.send_ping(&mut transaction, actor, &record).await?;
                transaction.done(delivery)
            })
            .await
    }
}
