//! MCP keys.

use schemars::JsonSchema;

use crate::api::openapi::description::Descriptions;
use crate::api::route::Operation;
use crate::model::McpKeySummary;
use crate::schema::RotationSeconds;
use crate::service::{IssuedMcpKey, NewMcpKey};

/// Rotation of a key.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "only used as a schema")]
struct RotateMcpKeyRequest {
    /// Time within which the key must be rotated again, in seconds; by default unchanged.
    rotation_seconds: Option<RotationSeconds>,
}

/// Parameters of the operations on one key, from the response to its creation.
const MADE: &[(&str, &str)] = &[("id", "$request.path.id"), ("keyId", "$response.body#/id")];

pub(super) fn describe(all: &mut Descriptions) {
    all.describe(
        Operation::CreateMcpKey,
        "`secret` is the key itself, returned only in this response. An unknown client is stored as `other`.",
    )
    .needs("create_mcp_key")
    .body::<NewMcpKey>()
    .answers::<IssuedMcpKey>()
    .leads_to(Operation::GetMcpKey, MADE)
    .leads_to(Operation::RotateMcpKey, MADE)
    .leads_to(Operation::RevokeMcpKey, MADE);
    all.describe(
        Operation::ListMcpKeys,
        "In order of creation, without the keys themselves.",
    )
    .needs("list_mcp_keys")
    .answers_page::<McpKeySummary>();
    all.describe(Operation::GetMcpKey, "")
        .needs("mcp_key")
        .answers::<McpKeySummary>();
    all.describe(
        Operation::RotateMcpKey,
        "The old secret stops working immediately; the identifier is unchanged. From then on the key acts as the member \
         that rotates it, and its audience has to cover that member.",
    )
    .needs("rotate_mcp_key")
    .optional_body::<RotateMcpKeyRequest>()
    .answers::<IssuedMcpKey>();
    all.describe(
        Operation::RevokeMcpKey,
        "The key stops working immediately.",
    )
    .needs("revoke_mcp_key");
    all.describe(
        Operation::NoteMcpKeyUse,
        "The bearer token has to be an MCP key of the workspace.",
    )
    .empty_body();
}
