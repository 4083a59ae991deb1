//! Endpoints and their deliveries.

use super::Operator;
use crate::error::Error;
use crate::model::{Delivery, DeliveryId, DeliveryStatus, EndpointId};
use crate::service::{EndpointSummary, Page, PageRequest, RedeliveryReport};

impl Operator<'_> {
    pub(super) async fn list_endpoints(
        self,
        org: &str,
        workspace: Option<&String>,
        page: &PageRequest,
    ) -> Result<Page<EndpointSummary>, Error> {
        let org = self.org(org).await?;
        let workspace = match workspace {
            Some(name) => Some(self.require_workspace(&org, "workspace", name).await?.id),
            None => None,
        };
        self.provisioning()
            .list_endpoints(org.id, workspace, page)
            .await
    }

    pub(super) async fn get_endpoint(
        self,
        org: &str,
        endpoint: EndpointId,
    ) -> Result<EndpointSummary, Error> {
        let org = self.org(org).await?;
        self.provisioning().endpoint(org.id, endpoint).await
    }

    pub(super) async fn list_deliveries(
        self,
        org: &str,
        endpoint: EndpointId,
        status: Option<DeliveryStatus>,
        page: &PageRequest,
    ) -> Result<Page<Delivery>, Error> {
        let org = self.org(org).await?;
        self.provisioning()
            .list_deliveries(org.id, endpoint, status, page)
            .await
    }

    pub(super) async fn get_delivery(
        self,
        org: &str,
        endpoint: EndpointId,
        id: DeliveryId,
    ) -> Result<Delivery, Error> {
        let org = self.org(org).await?;
        self.provisioning().delivery(org.id, endpoint, id).await
    }

    pub(super) async fn redeliver(
        self,
        org: &str,
        endpoint: EndpointId,
        id: DeliveryId,
    ) -> Result<Delivery, Error> {
        let org = self.org(org).await?;
        self.provisioning().redeliver(org.id, endpoint, id).await
    }

    pub(super) async fn redeliver_dead(
        self,
        org: &str,
        endpoint: EndpointId,
    ) -> Result<RedeliveryReport, Error> {
        let org = self.org(org).await?;
        self.provisioning().redeliver_dead(org.id, endpoint).await
    }

    pub(super) async fn ping(self, org: &str, endpoint: EndpointId) -> Result<Delivery, Error> {
        let org = self.org(org).await?;
        self.provisioning().ping(org.id, endpoint).await
    }
}
