//! Connectors and the reports of their syncs.

use schemars::JsonSchema;
use serde_json::json;

use crate::api::openapi::description::Descriptions;
use crate::api::route::Operation;
use crate::model::Timestamp;
use crate::service::{ConnectorDetails, ConnectorUpdate, NewConnector, SyncOutcomeKind};

/// What a sync came to.
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
#[allow(dead_code, reason = "nothing but its schema")]
struct SyncReportRequest {
    /// Success or failure.
    outcome: SyncOutcomeKind,
    /// Why it failed, for people: required for a failure and refused for a success; cut at 500 characters.
    error: Option<String>,
    /// Whether the account at the other end was refused; for a failure alone.
    is_authentication: Option<bool>,
    /// When the next one is planned; without it, one interval from now.
    next_sync_at: Option<Timestamp>,
}

/// The parameters of the operations on one connector, from the answer to its creation.
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
    all.describe(
        Operation::ListConnectors,
        "In the order in which they were made.",
    )
    .needs("list_connectors")
    .answers_page::<ConnectorDetails>();
    all.describe(Operation::GetConnector, "")
        .needs("connector")
        .answers::<ConnectorDetails>();
    all.describe(
        Operation::UpdateConnector,
        "What is left out stays as it is.",
    )
    .needs("update_connector")
    .optional_body::<ConnectorUpdate>()
    .answers::<ConnectorDetails>();
    all.describe(Operation::DeleteConnector, "What came in by it stays.")
        .needs("delete_connector");
    all.describe(
        Operation::ReportSync,
        "A status that it changes is announced. Where the answer is lost, report again.",
    )
    .needs("report_sync")
    .body::<SyncReportRequest>()
    .example(
        json!({ "outcome": "failure", "error": "the token expired", "is_authentication": true }),
    );
}
