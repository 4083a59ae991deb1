//! Description of the interface as an OpenAPI 3.1 document.
//!
//! It is generated from the table of operations, the types of their inputs and outputs, the events
//! and the limits in force.

use serde_json::Value;

use super::descriptions::{self, Descriptions};
use super::{admin, operations};
use crate::limits::Limits;

/// Generates the document for a service with these limits. Equal limits give equal documents.
///
/// ```
/// # use knowledge_core::{api::openapi, limits::Limits};
/// let document = openapi::document(&Limits::default());
/// let schema = &document["components"]["schemas"]["BulkAudienceUpdate"];
/// assert_eq!(schema["properties"]["memoryIds"]["maxItems"], 1_000);
/// ```
#[must_use]
pub fn document(limits: &Limits) -> Value {
    descriptions::document(Descriptions::of(operations::describe), limits)
}

/// Generates the document of the operator's interface.
///
/// ```
/// # use knowledge_core::{api::openapi, limits::Limits};
/// let document = openapi::operator_document(&Limits::default());
/// let operation = &document["paths"]["/admin/v1/orgs"]["post"];
/// assert_eq!(operation["operationId"], "createOrganization");
/// ```
#[must_use]
pub fn operator_document(limits: &Limits) -> Value {
    descriptions::operator_document(Descriptions::of(admin::describe), limits)
}
