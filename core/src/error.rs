//! Errors of the service: rejected requests and failures.

use std::time::Duration;

use serde::Serialize;

use crate::access::Action;
use crate::model::Quota;
use crate::store::{InvalidCommit, StoreError, StoreErrorKind, TransactionError};

/// Waiting time that [`Error::Unavailable`] suggests, in whole seconds.
const UNAVAILABLE_RETRY_AFTER: Duration = Duration::from_secs(1);

/// A rejected request or a failure.
///
/// Each variant tells the caller what to do; [`Error::code`] is its name on the wire.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Invalid request. Repeating it does not help.
    #[error("the request is not valid: {}", describe(.fields))]
    InvalidRequest {
        /// Every problem, not only the first.
        fields: Vec<FieldProblem>,
    },
    /// Missing header `Idempotency-Key`, which the operation requires.
    #[error(
        "the header Idempotency-Key is required; send 1 to 255 visible ASCII characters, different \
         for each new request"
    )]
    IdempotencyKeyRequired,
    /// Missing, unknown, expired or revoked credential, or one of the wrong kind for the operation.
    #[error("{reason}")]
    Unauthenticated {
        /// Reason for the caller.
        reason: &'static str,
    },
    /// Authenticated caller without the permission for this.
    #[error("{reason}")]
    Forbidden {
        /// Reason for the caller.
        reason: String,
        /// Permission that the caller lacks for the operation; none if something else forbids it.
        permission: Option<Action>,
    },
    /// Missing resource, or one that the caller may not know of.
    #[error("there is no such {}", .kind.noun())]
    NotFound {
        /// Kind of the resource.
        kind: EntityKind,
    },
    /// Path that exists only for other methods.
    #[error("method not allowed; allowed: {allow}")]
    MethodNotAllowed {
        /// Allowed methods, as the header `Allow` lists them.
        allow: String,
    },
    /// Repeated concurrent modification. Nothing was changed; the same request may succeed later.
    #[error("concurrent modification; nothing was changed, try again")]
    Conflict,
    /// Deletion of a role that is still assigned, without a new role for its holders.
    #[error(
        "the role is held by {holder_count} member{}; name their new role in reassign_to",
        if *.holder_count == 1 { "" } else { "s" }
    )]
    RoleInUse {
        /// Number of assignments of the role.
        holder_count: u64,
    },
    /// Slug of another resource, or the handle of another member.
    #[error("{} used by another {}; choose another", describe_taken(*.kind), .kind.noun())]
    SlugTaken {
        /// Kind of that resource.
        kind: EntityKind,
    },
    /// Inactive endpoint: a delivery to it would be dead-lettered immediately.
    #[error(
        "the endpoint is inactive; activate the webhook, or send a ping if the service disabled \
         the endpoint"
    )]
    EndpointInactive,
    /// Resource that has changed since the version in `If-Match`.
    #[error("the resource has changed since the version in If-Match; read it again")]
    PreconditionFailed,
    /// Body above the size limit.
    #[error("the body must be at most {bytes_max} bytes")]
    PayloadTooLarge {
        /// Limit in bytes.
        bytes_max: usize,
    },
    /// Body of an unsupported type.
    #[error("the body must be JSON with content type application/json and no content encoding")]
    UnsupportedMediaType,
    /// Idempotency key that the same caller used for a different request.
    #[error("this Idempotency-Key was used for a different request; choose a new one")]
    IdempotencyKeyReused,
    /// Repetition of a request that was carried out, whose result does not exist for the caller: it
    /// has been deleted, or the caller may not see it. Nothing was created again.
    #[error(
        "the request with this Idempotency-Key was carried out before; what it created has been \
         deleted, or the caller may not read it"
    )]
    CreatedResourceGone,
    /// Exhausted quota of the organisation. Nothing was changed.
    #[error("{}", describe_quota(*quota, *maximum, *retry_after))]
    QuotaExceeded {
        /// Quota that is exhausted.
        quota: Quota,
        /// Maximum of the quota.
        maximum: u64,
        /// Waiting time until the quota is renewed; `None` if only a deletion makes room.
        retry_after: Option<Duration>,
    },
    /// Too many requests.
    #[error("too many requests; try again in {} s", whole_seconds(*.retry_after))]
    RateLimited {
        /// Waiting time until the next request.
        retry_after: Duration,
    },
    /// Search by words in a workspace whose index is being built. The same request may succeed later.
    #[error(
        "the index of the workspace is being built; try again in {} s, or send candidates",
        whole_seconds(*.retry_after)
    )]
    IndexIncomplete {
        /// Waiting time until the next request.
        retry_after: Duration,
    },
    /// Defect of the service. The detail is logged and never sent to the caller.
    #[error("internal error")]
    Internal {
        /// Detail for the log.
        detail: String,
    },
    /// Temporary failure. The request may have been carried out; repeat it with the same
    /// idempotency key.
    #[error("the service is unavailable; try again in {} s", whole_seconds(*.retry_after))]
    Unavailable {
        /// Waiting time until the next request.
        retry_after: Duration,
        /// Detail for the log.
        detail: String,
    },
}

/// A problem with one field of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct FieldProblem {
    /// Location: `memoryIds[3]`, `actions.allow[0]`, `body`, or the name of a header or path
    /// parameter.
    pub path: String,
    /// Kind of the problem, for programs.
    pub code: ProblemCode,
    /// Requirement that the field does not meet, for people. It completes the path: "must be …".
    pub message: String,
}

crate::model::names::string_enum! {
    /// Kind of a problem with a field.
    #[non_exhaustive]
    ProblemCode {
        /// Missing field.
        Required = "required",
        /// Unknown field.
        UnknownField = "unknown_field",
        /// Value of another JSON type.
        InvalidType = "invalid_type",
        /// Invalid value of the right type.
        InvalidValue = "invalid_value",
        /// Duplicate value or field.
        Duplicate = "duplicate",
        /// Value that is too long, or too many items.
        TooLarge = "too_large",
        /// Value that is too short, or too few items.
        TooSmall = "too_small",
        /// Reference to something that does not exist.
        NotFound = "not_found",
        /// Exhausted quota.
        LimitReached = "limit_reached",
        /// Key of a memory that was erased.
        Erased = "erased",
    }
}

crate::model::names::string_enum! {
    /// Kind of something that a request names and that may not exist.
    ///
    /// It tells no more than the path or the field of the request: for the caller, a hidden
    /// resource is an unknown one. [`ResourceKind`](crate::model::ResourceKind) has the fewer kinds
    /// that entries of the audit log are about.
    #[non_exhaustive]
    EntityKind {
        /// A memory.
        Memory = "memory",
        /// A source.
        Source = "source",
        /// A custom role.
        Role = "role",
        /// A member.
        Member = "member",
        /// The role of a member in a workspace.
        WorkspaceRole = "workspace_role",
        /// A citation subscription.
        Subscription = "citation_subscription",
        /// An outbound webhook.
        Webhook = "webhook",
        /// An outbound webhook or a citation subscription, named without its kind.
        Endpoint = "endpoint",
        /// A delivery to an endpoint.
        Delivery = "delivery",
        /// An inbound webhook.
        InboundWebhook = "inbound_webhook",
        /// A connector.
        Connector = "connector",
        /// An MCP key.
        McpKey = "mcp_key",
        /// A token or a session, named without its kind.
        Credential = "credential",
        /// A token.
        Token = "token",
        /// A session.
        Session = "session",
        /// A login link.
        LoginLink = "login_link",
        /// A chat.
        Chat = "chat",
        /// A message of a chat.
        Message = "message",
        /// A recall.
        Recall = "recall",
        /// An erasure.
        Erasure = "erasure",
        /// An entry of the audit log.
        AuditEntry = "audit_entry",
        /// An organisation.
        Organization = "organization",
        /// A workspace.
        Workspace = "workspace",
        /// A path of the interface.
        Path = "path",
    }
}

impl EntityKind {
    /// Returns the noun for messages.
    fn noun(self) -> String {
        match self {
            Self::Role => "custom role".to_owned(),
            Self::WorkspaceRole => "role in the workspace".to_owned(),
            Self::McpKey => "MCP key".to_owned(),
            Self::Credential => "token or session".to_owned(),
            Self::Organization => "organisation".to_owned(),
            other => other.as_str().replace('_', " "),
        }
    }
}

impl FieldProblem {
    /// Creates a problem with the field at `path`.
    pub fn new(path: impl Into<String>, code: ProblemCode, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            code,
            message: message.into(),
        }
    }
}

/// Writes one sentence: the path and its requirement.
impl std::fmt::Display for FieldProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.code {
            // The quota is exhausted, not the field invalid, so the message stands without the
            // path.
            ProblemCode::LimitReached => f.write_str(&self.message),
            _ => write!(f, "{} {}", self.path, self.message),
        }
    }
}

impl Error {
    /// Creates the error for a request with one problem.
    pub fn invalid(path: impl Into<String>, code: ProblemCode, message: impl Into<String>) -> Self {
        Self::InvalidRequest {
            fields: vec![FieldProblem::new(path, code, message)],
        }
    }

    /// Creates the error for a body that cannot be read to its end.
    #[must_use]
    pub fn unreadable_body() -> Self {
        let message = "must be complete; it ends early or has a broken chunk";
        Self::invalid("body", ProblemCode::InvalidValue, message)
    }

    /// Creates [`Error::NotFound`] for a resource that is missing, or that the caller may not know of.
    pub(crate) const fn not_found(kind: EntityKind) -> Self {
        Self::NotFound { kind }
    }

    /// Creates [`Error::Forbidden`] with this reason, which is no missing permission.
    pub fn forbidden(reason: impl Into<String>) -> Self {
        Self::Forbidden {
            reason: reason.into(),
            permission: None,
        }
    }

    /// Creates [`Error::Internal`] with this detail.
    pub fn internal(detail: impl Into<String>) -> Self {
        Self::Internal {
            detail: detail.into(),
        }
    }

    /// Creates [`Error::IndexIncomplete`].
    pub(crate) const fn index_incomplete() -> Self {
        Self::IndexIncomplete {
            retry_after: UNAVAILABLE_RETRY_AFTER,
        }
    }

    /// Creates [`Error::Unavailable`] with this detail.
    pub fn unavailable(detail: impl Into<String>) -> Self {
        Self::Unavailable {
            retry_after: UNAVAILABLE_RETRY_AFTER,
            detail: detail.into(),
        }
    }

    /// Returns the name of the error on the wire.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidRequest { .. } => "invalid_request",
            Self::IdempotencyKeyRequired => "idempotency_key_required",
            Self::Unauthenticated { .. } => "unauthenticated",
            Self::Forbidden { .. } => "forbidden",
            Self::NotFound { .. } => "not_found",
            Self::MethodNotAllowed { .. } => "method_not_allowed",
            Self::Conflict => "conflict",
            Self::RoleInUse { .. } => "role_in_use",
            Self::SlugTaken { .. } => "slug_taken",
            Self::EndpointInactive => "endpoint_off",
            Self::PreconditionFailed => "precondition_failed",
            Self::PayloadTooLarge { .. } => "payload_too_large",
            Self::UnsupportedMediaType => "unsupported_media_type",
            Self::IdempotencyKeyReused => "idempotency_key_reused",
            Self::CreatedResourceGone => "created_resource_gone",
            Self::QuotaExceeded { .. } => "quota_exceeded",
            Self::RateLimited { .. } => "rate_limited",
            Self::Internal { .. } => "internal",
            Self::IndexIncomplete { .. } | Self::Unavailable { .. } => "unavailable",
        }
    }
}

fn describe(fields: &[FieldProblem]) -> String {
    match fields {
        [] => "no details".to_owned(),
        [only] => only.to_string(),
        [first, rest @ ..] => format!("{first} (and {} more)", rest.len()),
    }
}

/// Returns a waiting time as clients get it: rounded up to whole seconds, at least one.
pub(crate) fn whole_seconds(wait: Duration) -> u64 {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    seconds.max(1)
}

/// Returns the subject and the verb of the message about a name that is taken.
fn describe_taken(kind: EntityKind) -> &'static str {
    match kind {
        // The handles of former members and the slugs of deleted workspaces stay taken.
        EntityKind::Member => "the handle is or was",
        EntityKind::Workspace => "the slug is or was",
        _ => "the slug is",
    }
}

fn describe_quota(quota: Quota, maximum: u64, retry_after: Option<Duration>) -> String {
    let what = quota.as_str().replace('_', " ");
    let then = match retry_after {
        Some(after) => format!("try again in {} s", whole_seconds(after)),
        None => "delete some, or ask the operator".to_owned(),
    };
    format!("the organisation may have at most {maximum} {what}; {then}")
}

/// Returns the message of an error with those of its sources, for the log.
fn with_sources(error: &dyn std::error::Error) -> String {
    let sources = std::iter::successors(error.source(), |source| source.source());
    sources.fold(error.to_string(), |text, source| {
        format!("{text}: {source}")
    })
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        let detail = with_sources(&error);
        match error.kind() {
            StoreErrorKind::Unavailable | StoreErrorKind::Full | StoreErrorKind::Unknown => {
                Self::unavailable(detail)
            }
            _ => Self::internal(detail),
        }
    }
}

impl From<InvalidCommit> for Error {
    fn from(error: InvalidCommit) -> Self {
        Self::internal(error.to_string())
    }
}

impl From<TransactionError> for Error {
    fn from(error: TransactionError) -> Self {
        match error {
            TransactionError::Store(error) => error.into(),
            TransactionError::Invalid(error) => error.into(),
            TransactionError::Contended => Self::Conflict,
            other => Self::internal(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_times_are_rounded_up_to_whole_seconds() {
        let whole = |millis| whole_seconds(Duration::from_millis(millis));
        assert_eq!([0, 1, 999, 1_000, 1_001].map(whole), [1, 1, 1, 1, 2]);
        let retry_after = Duration::from_millis(1_500);
        let message = Error::RateLimited { retry_after }.to_string();
        assert_eq!(message, "too many requests; try again in 2 s");
    }

    #[test]
    fn message_names_the_kind_of_what_is_missing() {
        let message = |kind| Error::NotFound { kind }.to_string();
        let nouns: Vec<String> = EntityKind::ALL.iter().copied().map(message).collect();
        let nouns: Vec<&str> = nouns
            .iter()
            .filter_map(|message| message.strip_prefix("there is no such "))
            .collect();
        assert_eq!(
            nouns.join(", "),
            "memory, source, custom role, member, role in the workspace, citation subscription, \
             webhook, endpoint, delivery, inbound webhook, connector, MCP key, token or session, \
             token, session, login link, chat, message, recall, erasure, audit entry, \
             organisation, workspace, path"
        );
    }

    #[test]
    fn message_names_what_is_taken() {
        let message = |kind| Error::SlugTaken { kind }.to_string();
        let expected = [
            "the handle is or was used by another member; choose another",
            "the slug is or was used by another workspace; choose another",
            "the slug is used by another custom role; choose another",
            "the slug is used by another organisation; choose another",
        ];
        let kinds = [
            EntityKind::Member,
            EntityKind::Workspace,
            EntityKind::Role,
            EntityKind::Organization,
        ];
        assert_eq!(kinds.map(message), expected);
    }

    #[test]
    fn detail_for_the_log_has_the_error_of_the_engine() {
        let full = std::io::Error::new(std::io::ErrorKind::StorageFull, "no space left");
        let failed = |kind| StoreError::new(kind, "the log could not be written");
        for kind in [StoreErrorKind::Unknown, StoreErrorKind::Corrupt] {
            let error =
                failed(kind).with_source(std::io::Error::new(full.kind(), full.to_string()));
            let (Error::Unavailable { detail, .. } | Error::Internal { detail }) = error.into()
            else {
                panic!("another error");
            };
            assert_eq!(detail, "the log could not be written: no space left");
        }
    }
}
