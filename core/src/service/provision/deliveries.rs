//! Inspection and redelivery of deliveries by the operator.

use super::Provisioning;
use crate::error::Error;
use crate::model::{Delivery, DeliveryId, DeliveryStatus, EndpointId, OrgId};
use crate::service::audit::write::{Actor, AuditedOperation};
use crate::service::deliveries::{DeliveriesOf, find_delivery, page_of_deliveries};
use crate::service::endpoints::EndpointRecord;
use crate::service::page::{Page, PageRequest};
use crate::service::{KnowledgeService, RedeliveryReport};
use crate::store::Transaction;

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
        let deliveries = DeliveriesOf {
            env: self.service.env(),
            org,
            endpoint,
            status,
        };
        page_of_deliveries(&mut reading, deliveries, page).await
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

    /// Redelivers an event, see [`Deliveries::redeliver`](crate::service::Deliveries::redeliver).
    ///
    /// # Errors
    /// As [`Provisioning::delivery`], and [`Error::EndpointInactive`] if the endpoint is inactive or
    /// suspended, or has ended.
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
                let (operation, actor) = audit(service, &transaction, &record);
                let delivery = service
                    .redeliver_one(&mut transaction, operation, actor, &record, id)
                    .await?;
                Ok(transaction.done(delivery))
            })
            .await
    }

    /// Redelivers the dead letters of an endpoint.
    ///
    /// See [`Deliveries::redeliver_dead`](crate::service::Deliveries::redeliver_dead).
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
                let (operation, actor) = audit(service, &transaction, &record);
                let redelivered = service
                    .redeliver_dead_letters(&mut transaction, operation, actor, &record)
                    .await?;
                Ok(transaction.done(redelivered))
            })
            .await
    }

    /// Sends a test event to an endpoint, see
    /// [`Deliveries::ping`](crate::service::Deliveries::ping).
    ///
    /// # Errors
    /// [`Error::NotFound`] for an unknown endpoint; [`Error::EndpointInactive`] if its owner
    /// deactivated it.
    pub async fn ping(&self, org: OrgId, endpoint: EndpointId) -> Result<Delivery, Error> {
        let service = self.service;
        service
            .transact(|mut transaction| async move {
                let record = EndpointRecord::find(&mut transaction, org, endpoint).await?;
                let (operation, actor) = audit(service, &transaction, &record);
                let delivery = service
                    .send_ping(&mut transaction, operation, actor, &record)
                    .await?;
                Ok(transaction.done(delivery))
            })
            .await
    }
}

/// Begins the audit entries of an operation of the operator.
fn audit(
    service: &KnowledgeService,
    transaction: &Transaction,
    record: &EndpointRecord,
) -> (AuditedOperation, Actor) {
    let env = service.env();
    let operation = AuditedOperation::begin(transaction, env, env.now());
    let actor = Actor {
        workspace: Some(record.workspace()),
        ..Actor::operator(record.org())
    };
    (operation, actor)
}
