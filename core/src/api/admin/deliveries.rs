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
}

of_organization! {
    get_endpoint(endpoint: EndpointId) -> EndpointSummary = endpoint;
    list_deliveries(
        endpoint: EndpointId, status: Option<DeliveryStatus>, page: &PageRequest
    ) -> Page<Delivery> = list_deliveries;
    get_delivery(endpoint: EndpointId, id: DeliveryId) -> Delivery = delivery;
    redeliver(endpoint: EndpointId, id: DeliveryId) -> Delivery = redeliver;
    redeliver_dead(endpoint: EndpointId) -> RedeliveryReport = redeliver_dead;
    ping(endpoint: EndpointId) -> Delivery = ping;
}
