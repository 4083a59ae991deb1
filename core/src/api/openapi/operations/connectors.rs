//! Connectors and their sync reports.

use schemars::JsonSchema;
use serde_json::json;

use crate::api::openapi::description::Descriptions;
use crate::api::route::Operation;
use crate::model::Timestamp;
use crate::service::{ConnectorDetails, ConnectorUpdate, NewConnector, SyncOutcomeKind};

/// Result of a sync.
#[derive(JsonSchema)]
#[schemars(extend("oneOf" = [
    {
        "properties": { "outcome": { "const": "failure" } },
        "required": ["error"],
    },
    {
        "properties": { "outcome": { "const": "success" }, "error": false, "is_authentication": false },
    },
]))]
#[allow(dead_code, reason = "only used as a schema")]
struct SyncReportRequest {
    /// Success or failure.
    outcome: SyncOutcomeKind,
    /// Reason for a failure, for people; truncated to 500 characters.
    ///
    /// Required for a failure; must be omitted for a success.
    error: Option<String>,
    /// True if the connected account was rejected; only for a failure.
    is_authentication: Option<bool>,
    /// Time of the next sync; by default one interval from now.
    next_sync_at: Option<Timestamp>,
}

/// Parameters of the operations on one connector, from the response to its creation.
const MADE: &[(&str, &str)] = &[
    ("id", "$request.path.id"),
    ("connectorId", "$response.body#/id"),
];

pub(super) fn describe(all: &mut Descriptions) {
    all.describe(Operation::CreateConnector, "")
        .needs("create_connector")
        .body::<NewConnector>()
        .answers::<ConnectorDetails>()
        .leads_to(Operation::GetConnector, MADE)
        .leads_to(Operation::UpdateConnector, MADE)
        .leads_to(Operation::DeleteConnector, MADE)
        .leads_to(Operation::ReportSync, MADE);
    all.describe(Operation::ListConnectors, "In order of creation.")
        .needs("list_connectors")
        .answers_page::<ConnectorDetails>();
    all.describe(Operation::GetConnector, "")
        .needs("connector")
        .answers::<ConnectorDetails>();
    all.describe(Operation::UpdateConnector, "Omitted fields are unchanged.")
        .needs("update_connector")
        .optional_body::<ConnectorUpdate>()
        .answers::<ConnectorDetails>();
    all.describe(
        Operation::DeleteConnector,
        "Memories that it imported remain.",
    )
    .needs("delete_connector");
    all.describe(
        Operation::ReportSync,
        "A change of the connector's status is published as an event. If the response is lost, send the report again.",
    )
    .needs("report_sync")
    .body::<SyncReportRequest>()
    .example(
        json!({ "outcome": "failure", "error": "the token expired", "is_authentication": true }),
    );
}
