//! Endpoints and their deliveries.

use http::StatusCode;
use serde::Serialize;

use super::Call;
use crate::api::HandlerResult;
use crate::api::body::Body;
use crate::api::query::Query;
use crate::api::response::ApiResponse;
use crate::error::Error;
use crate::model::{DeliveryId, EndpointId, OrgId};

impl Call<'_> {
    pub(super) async fn list_endpoints(&self) -> HandlerResult {
        let mut query = Query::parse(self.request.uri());
        let (workspace, page) = (query.text("workspace"), query.page());
        let (workspace, page) = query.finish((workspace, page))?;
        let org = self.org().await?;
        let workspace = match workspace {
            Some(name) => Some(self.require_workspace(&org, "workspace", &name).await?.id),
            None => None,
        };
        let found = self
            .provisioning()
            .list_endpoints(org.id, workspace, &page)
            .await?;
        Ok(self.ok(&found))
    }

    pub(super) async fn endpoint(&self) -> HandlerResult {
        let (org, endpoint) = self.endpoint_of_path().await?;
        Ok(self.ok(&self.provisioning().endpoint(org, endpoint).await?))
    }

    pub(super) async fn list_deliveries(&self) -> HandlerResult {
        let mut query = Query::parse(self.request.uri());
        let (status, page) = (query.parsed("status"), query.page());
        let (status, page) = query.finish((status, page))?;
        let (org, endpoint) = self.endpoint_of_path().await?;
        let found = self
            .provisioning()
            .list_deliveries(org, endpoint, status, &page)
            .await?;
        Ok(self.ok(&found))
    }

    pub(super) async fn delivery(&self) -> HandlerResult {
        let (org, endpoint) = self.endpoint_of_path().await?;
        let id = self.delivery_of_path()?;
        Ok(self.ok(&self.provisioning().delivery(org, endpoint, id).await?))
    }

    pub(super) async fn redeliver(&self) -> HandlerResult {
        Body::parse_optional(self.request.body())?.finish(Some(()))?;
        let (org, endpoint) = self.endpoint_of_path().await?;
        let id = self.delivery_of_path()?;
        Ok(accepted(
            &self.provisioning().redeliver(org, endpoint, id).await?,
        ))
    }

    pub(super) async fn redeliver_dead(&self) -> HandlerResult {
        Body::parse_optional(self.request.body())?.finish(Some(()))?;
        let (org, endpoint) = self.endpoint_of_path().await?;
        Ok(accepted(
            &self.provisioning().redeliver_dead(org, endpoint).await?,
        ))
    }

    pub(super) async fn ping(&self) -> HandlerResult {
        Body::parse_optional(self.request.body())?.finish(Some(()))?;
        let (org, endpoint) = self.endpoint_of_path().await?;
        Ok(accepted(&self.provisioning().ping(org, endpoint).await?))
    }

    async fn endpoint_of_path(&self) -> Result<(OrgId, EndpointId), Error> {
        let org = self.org().await?;
        let endpoint = self.parameter("endpoint").parse();
        let endpoint = endpoint.map_err(|_| Error::NotFound { what: "endpoint" })?;
        Ok((org.id, endpoint))
    }

    fn delivery_of_path(&self) -> Result<DeliveryId, Error> {
        let id = self.parameter("delivery").parse();
        id.map_err(|_| Error::NotFound { what: "delivery" })
    }
}

/// Creates the response to a request that is accepted and carried out later.
fn accepted<T: Serialize>(body: &T) -> ApiResponse {
    ApiResponse::json(StatusCode::ACCEPTED, body)
}
