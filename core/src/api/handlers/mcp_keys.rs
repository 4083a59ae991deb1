//! MCP keys.

use std::time::Duration;

use http::StatusCode;

use super::Call;
use crate::access::Credential;
use crate::api::HandlerResult;
use crate::api::body::Body;
use crate::api::query::Query;
use crate::api::response::ApiResponse;
use crate::limits::ROTATION_DEFAULT;
use crate::model::{CredentialId, McpClient};
use crate::service::{AUDIENCE_MAX, NewMcpKey, check_rotation};

/// Reads the rotation interval of a key, if the body has one.
fn rotation(body: &mut Body) -> Option<Duration> {
    let rotation = Duration::from_secs(body.number("rotationSeconds")?);
    check_rotation(body.problems(), rotation);
    Some(rotation)
}

impl Call<'_> {
    pub(super) async fn create_mcp_key(&self, credential: &Credential) -> HandlerResult {
        let mut body = Body::parse(self.request.body())?;
        body.require("client");
        body.require("audience");
        let name = body.name("name", self.service.limits());
        // Unknown clients are `other`.
        let client = body.text("client");
        let client = client.map(|client| client.parse().unwrap_or(McpClient::Other));
        let audience = body.parsed_list("audience");
        if let Some(audience) = &audience {
            body.problems()
                .count("audience", audience.len(), AUDIENCE_MAX);
        }
        let rotation = rotation(&mut body).unwrap_or(ROTATION_DEFAULT);
        let (name, (client, audience)) = body.finish(name.zip(client.zip(audience)))?;
        let new = NewMcpKey {
            name,
            client,
            audience,
            rotation,
        };
        let made = self
            .service
            .create_mcp_key(credential, self.workspace(), &new)
            .await?;
        Ok(ApiResponse::json(StatusCode::CREATED, &made))
    }

    pub(super) async fn list_mcp_keys(&self, credential: &Credential) -> HandlerResult {
        let mut query = Query::parse(self.request.uri());
        let page = query.page();
        let page = query.finish(page)?;
        let found = self
            .service
            .list_mcp_keys(credential, self.workspace(), &page)
            .await?;
        Ok(ApiResponse::json(StatusCode::OK, &found))
    }

    pub(super) async fn mcp_key(&self, credential: &Credential) -> HandlerResult {
        let found = self
            .service
            .mcp_key(credential, self.workspace(), self.mcp_key_id())
            .await?;
        Ok(ApiResponse::json(StatusCode::OK, &found))
    }

    pub(super) async fn rotate_mcp_key(&self, credential: &Credential) -> HandlerResult {
        let mut body = Body::parse_optional(self.request.body())?;
        let rotation = rotation(&mut body);
        let rotation = body.finish(Some(rotation))?;
        let rotated = self
            .service
            .rotate_mcp_key(credential, self.workspace(), self.mcp_key_id(), rotation)
            .await?;
        Ok(ApiResponse::json(StatusCode::OK, &rotated))
    }

    pub(super) async fn revoke_mcp_key(&self, credential: &Credential) -> HandlerResult {
        self.service
            .revoke_mcp_key(credential, self.workspace(), self.mcp_key_id())
            .await?;
        Ok(ApiResponse::empty(StatusCode::NO_CONTENT))
    }

    pub(super) async fn note_mcp_key_use(&self, credential: &Credential) -> HandlerResult {
        Body::parse_optional(self.request.body())?.finish(Some(()))?;
        self.service
            .note_mcp_key_use(credential, self.workspace())
            .await?;
        Ok(ApiResponse::empty(StatusCode::NO_CONTENT))
    }

    fn mcp_key_id(&self) -> CredentialId {
        self.id("keyId")
    }
}
