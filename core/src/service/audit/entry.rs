//! Entries of the audit log.

use std::net::IpAddr;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use uuid::Uuid;

use crate::model::{
    AuditAction, AuditLogId, CredentialId, InboundWebhookId, MemberId, OperationId, ResourceKind,
    Timestamp, WorkspaceId,
};
use crate::service::access::principal::{Denial, Principal};

/// Number of zero low bits in the first identifier of an operation.
///
/// The identifiers that follow it belong to the same operation.
pub(crate) const ENTRY_BITS: u32 = 16;

/// Returns the lowest identifier with this time.
pub(crate) fn least_id(at: Timestamp) -> AuditLogId {
    let millis = u128::try_from(at.as_millis()).unwrap_or(0);
    AuditLogId(Uuid::from_u128(millis << 80))
}

/// Returns the first identifier of the operation that an entry belongs to.
pub(crate) fn first_of_operation(entry: AuditLogId) -> AuditLogId {
    let first = entry.0.as_u128() >> ENTRY_BITS << ENTRY_BITS;
    AuditLogId(Uuid::from_u128(first))
}

/// The resource of an audit entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct AuditResource {
    /// Kind of the resource.
    pub kind: ResourceKind,
    /// Identifier of the resource.
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::Identifier"))]
    pub id: uuid::Uuid,
}

/// Facts about a request that audit entries record and no decision depends on.
///
/// A front end sets them: over HTTP as an extension of the request to
/// [`Api::handle`](crate::api::Api::handle), for direct calls with
/// [`Caller::with_client`](crate::service::Caller::with_client).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientInfo {
    /// Address of the client, if it is known for certain. Never take it from a header that a client
    /// could have sent.
    pub address: Option<IpAddr>,
    /// Identifier of the request; over HTTP, the `Request-Id` of its response.
    pub request_id: Option<uuid::Uuid>,
}

/// Outcome of an operation for one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditOutcome {
    /// Success.
    Ok,
    /// Rejected: the resource does not exist, or is one of a private workspace and does not exist
    /// for the caller.
    NotFound,
    /// Rejected: the caller lacks the permission, or the resource does not exist for it.
    Denied(Denial),
    /// Rejected as a whole: the caller lacks the permission for the operation.
    Rejected,
}

impl AuditOutcome {
    /// Returns true if the resource did not exist for the caller.
    pub(crate) fn is_hidden(self) -> bool {
        matches!(self, Self::NotFound | Self::Denied(Denial::Invisible))
    }

    /// Returns the name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::NotFound => "not_found",
            Self::Denied(_) | Self::Rejected => "forbidden",
        }
    }
}

fn outcome_name<S: Serializer>(outcome: &AuditOutcome, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(outcome.as_str())
}

/// An entry of the audit log.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct AuditEntry {
    /// Identifier of the entry.
    pub id: AuditLogId,
    /// Operation that the entry belongs to.
    pub operation_id: OperationId,
    /// Time of the operation.
    pub at: Timestamp,
    /// Member that acted; `null` for the operator of the service and for the service itself.
    pub actor_id: Option<MemberId>,
    /// Token or session of the actor, or of the service account that acted for it.
    pub credential_id: Option<CredentialId>,
    /// Service account that acted for the actor; `null` if the actor acted itself.
    pub via_id: Option<MemberId>,
    /// Inbound webhook whose signed post made the change on behalf of the actor; `null` otherwise.
    pub inbound_webhook_id: Option<InboundWebhookId>,
    /// Address of the client, as text; `null` if it is unknown.
    #[cfg_attr(feature = "openapi", schemars(with = "Option<String>"))]
    pub client_address: Option<IpAddr>,
    /// Identifier of the request, which is the `Request-Id` of its response; `null` if it is unknown.
    #[cfg_attr(
        feature = "openapi",
        schemars(with = "Option<crate::schema::Identifier>")
    )]
    pub request_id: Option<uuid::Uuid>,
    /// Action of the operation.
    pub action: AuditAction,
    /// Resource that the entry concerns.
    pub resource: AuditResource,
    /// Outcome: `ok`, `not_found` or `forbidden`.
    #[serde(serialize_with = "outcome_name")]
    #[cfg_attr(feature = "openapi", schemars(with = "crate::schema::OutcomeName"))]
    pub outcome: AuditOutcome,
    /// Reason for the outcome `forbidden`; `null` for the others.
    pub reason: Option<String>,
    /// True if the actor approved or rejected what it had added or last changed itself.
    pub own: bool,
    /// State before; `null` for a new resource.
    #[cfg_attr(
        feature = "openapi",
        schemars(with = "Option<serde_json::Map<String, Value>>")
    )]
    pub before: Option<Value>,
    /// State after; `null` for a deleted resource and for a rejected change.
    #[cfg_attr(
        feature = "openapi",
        schemars(with = "Option<serde_json::Map<String, Value>>")
    )]
    pub after: Option<Value>,
}

impl AuditEntry {
    /// Returns true if the entry names a workspace that does not exist for the caller.
    pub(crate) fn is_hidden_from(&self, caller: &Principal) -> bool {
        let mut states = self.before.iter().chain(&self.after);
        let is_place = self.resource.kind == ResourceKind::Workspace;
        let is_hidden = is_place && !caller.knows(WorkspaceId(self.resource.id));
        is_hidden || (caller.is_shut_out() && states.any(|state| names(state, caller)))
    }
}

/// Returns true if a state has the identifier of a workspace that does not exist for the caller.
fn names(state: &Value, caller: &Principal) -> bool {
    match state {
        Value::String(text) => text.parse().is_ok_and(|id: WorkspaceId| !caller.knows(id)),
        Value::Array(items) => items.iter().any(|item| names(item, caller)),
        Value::Object(fields) => fields.values().any(|field| names(field, caller)),
        _ => false,
    }
}
