//! Deliveries: what became of them, and what the operator can do about it.

use super::Provisioning;
use crate::error::Error;
use crate::model::{Delivery, DeliveryId, DeliveryStatus, EndpointId, OrgId};
use crate::service::Redelivered;
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
        let _ = (org, endpoint, status, page);
        Err(Error::internal("not written yet"))
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
        let _ = (org, endpoint, id);
        Err(Error::internal("not written yet"))
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
        let _ = (org, endpoint, id);
        Err(Error::internal("not written yet"))
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
        let _ = (org, endpoint);
        Err(Error::internal("not written yet"))
    }

    /// Tries an endpoint out, see [`crate::service::KnowledgeService::ping`].
    ///
    /// # Errors
    /// [`Error::NotFound`] for an unknown endpoint; [`Error::EndpointOff`] where its owner switched it off.
    pub async fn ping(&self, org: OrgId, endpoint: EndpointId) -> Result<Delivery, Error> {
        let _ = (org, endpoint);
        Err(Error::internal("not written yet"))
    }
}
