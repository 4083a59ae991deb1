//! MCP keys.

use schemars::JsonSchema;

use crate::api::openapi::description::Descriptions;
use crate::api::route::Operation;
use crate::model::McpKeySummary;
use crate::schema::RotationSeconds;
use crate::service::{IssuedMcpKey, NewMcpKey};

/// How a key is rotated.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "nothing but its schema")]
struct RotateMcpKeyRequest {
    /// In what time it has to be replaced again; without it, as long as before.
    rotation_seconds: Option<RotationSeconds>,
}

/// The parameters of the operations on one key, from the answer to its creation.
const MADE: &[(&str, &str)] = &[("id", "$request.path.id"), ("keyId", "$response.body#/id")];

pub(super) fn describe(all: &mut Descriptions) {
    all.describe(
        Operation::CreateMcpKey,
        "`secret` is the key itself, shown this once. A client that is not known counts as `other`.",
    )
    .needs("create_mcp_key")
    .body::<NewMcpKey>()
    .answers::<IssuedMcpKey>()
    .leads_to(Operation::GetMcpKey, MADE)
    .leads_to(Operation::RotateMcpKey, MADE)
    .leads_to(Operation::RevokeMcpKey, MADE);
    all.describe(
        Operation::ListMcpKeys,
        "In the order in which they were made, never with the keys themselves.",
    )
    .needs("list_mcp_keys")
    .answers_page::<McpKeySummary>();
    all.describe(Operation::GetMcpKey, "")
        .needs("mcp_key")
        .answers::<McpKeySummary>();
    all.describe(
        Operation::RotateMcpKey,
        "The old secret is taken no more from that moment on; the identifier stays. Whoever rotates a key answers for \
         it: it acts as that member from now on, and its audience has to cover that member.",
    )
    .needs("rotate_mcp_key")
    .optional_body::<RotateMcpKeyRequest>()
    .answers::<IssuedMcpKey>();
    all.describe(
        Operation::RevokeMcpKey,
        "It is taken no more from that moment on.",
    )
    .needs("revoke_mcp_key");
    all.describe(
        Operation::NoteMcpKeyUse,
        "The key is the one that is presented as the bearer token.",
    )
    .empty_body();
}
