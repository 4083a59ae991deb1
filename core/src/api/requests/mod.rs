//! Filters of lists, and bodies of requests whose fields are arguments of the service.

mod access_filter;
mod activity;
mod audit;
mod citations;
mod credentials;
mod deliveries;
mod memories;
mod recalls;

use std::time::Duration;

pub(super) use self::citations::RecallFilter;
pub(super) use self::credentials::WithCreated;
pub(super) use self::deliveries::StatusFilter;
use crate::access::RoleRef;
use crate::error::ProblemCode;
use crate::model::Timestamp;
use crate::request::rules::{Content, Flag, Parsed, RotationSeconds, Text};
use crate::request::{Path, Problems, request};
use crate::service::{SyncOutcome, SyncOutcomeKind, SyncReport};

#[cfg(feature = "openapi")]
pub(super) use schemars::JsonSchema as Schema;

/// A type with a schema: any, unless the interface is described.
#[cfg(not(feature = "openapi"))]
pub(super) trait Schema {}

#[cfg(not(feature = "openapi"))]
impl<T> Schema for T {}

request! {
    /// A new message.
    pub struct NewChatMessage {
        /// Text, at most 32 KiB.
        content: String as Content,
    }
}

request! {
    /// Rotation of a key.
    pub struct RotateMcpKeyRequest {
        /// Time within which the key must be rotated again, in seconds; by default unchanged.
        rotation ("rotationSeconds"): Option<Duration> as Option<RotationSeconds>,
    }
}

request! {
    /// Assignment of a role in a workspace.
    pub struct AssignWorkspaceRoleRequest {
        /// Role to assign; not `owner`.
        #[schemars(with = "crate::schema::WorkspaceRole")]
        role: RoleRef as Parsed<RoleRef>,
    }
}

request! {
    /// Result of a sync.
    #[schemars(extend("oneOf" = [
        {
            "title": "SyncFailureReport",
            "description": "Report of a failed sync.",
            "properties": {
                "outcome": { "const": "failure" },
                "error": { "pattern": "^[^\\x00]*$" },
            },
            "required": ["error"],
        },
        {
            "title": "SyncSuccessReport",
            "description": "Report of a successful sync.",
            "properties": { "outcome": { "const": "success" }, "is_authentication": false },
        },
    ]))]
    pub struct SyncReportRequest {
        /// Success or failure.
        #[schemars(with = "String")]
        outcome: SyncOutcomeKind as Parsed<SyncOutcomeKind>,
        /// Reason for a failure, for people; truncated to 500 characters.
        ///
        /// Required for a failure; must be omitted for a success.
        error: Option<String> as Option<Text>,
        /// True if the connected account was rejected; only for a failure.
        is_authentication: Option<bool> as Option<Flag>,
        /// Time of the next sync; by default one interval from now.
        next_sync_at: Option<Timestamp> as Option<Parsed<Timestamp>>,
    }
    check SyncReportRequest::check_outcome;
}

impl SyncReportRequest {
    /// Adds the problems of fields that do not belong to the outcome.
    fn check_outcome(&self, path: &Path<'_>, problems: &mut Problems) {
        let mut note = |name, code, message: &str| {
            problems.push(&Path::Field(path, name), code, message);
        };
        match self.outcome {
            SyncOutcomeKind::Failure if self.error.is_none() => {
                note("error", ProblemCode::Required, "is required");
            }
            SyncOutcomeKind::Failure => {}
            SyncOutcomeKind::Success => {
                let message = "must be omitted for a success";
                if self.error.is_some() {
                    note("error", ProblemCode::InvalidValue, message);
                }
                if self.is_authentication.is_some() {
                    note("is_authentication", ProblemCode::InvalidValue, message);
                }
            }
        }
    }
}

impl From<&SyncReportRequest> for SyncReport {
    fn from(request: &SyncReportRequest) -> Self {
        Self {
            outcome: match request.outcome {
                SyncOutcomeKind::Success => SyncOutcome::Success,
                SyncOutcomeKind::Failure => SyncOutcome::Failure {
                    error: request.error.clone().unwrap_or_default(),
                    is_authentication: request.is_authentication.unwrap_or(false),
                },
            },
            next_sync_at: request.next_sync_at,
        }
    }
}
