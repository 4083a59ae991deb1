//! What the service answers when it does not do what was asked.

use std::time::Duration;

use serde::Serialize;

use crate::store::{InvalidCommit, StoreError, StoreErrorKind, TransactionError};

/// How long a caller should wait after [`Error::Unavailable`], in whole seconds.
const UNAVAILABLE_RETRY_AFTER: Duration = Duration::from_secs(1);

/// A refusal or a failure. Each variant tells its caller what to do; [`Error::code`] is its name on the wire.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Something that was sent is wrong. Sending it again will not help.
    #[error("the request is not valid: {}", describe(.fields))]
    InvalidRequest {
        /// Everything that is wrong, not only the first.
        fields: Vec<FieldProblem>,
    },
    /// The operation needs the header `Idempotency-Key`.
    #[error(
        "the header Idempotency-Key is required: 1 to 255 visible ASCII characters, chosen anew for each update"
    )]
    IdempotencyKeyRequired,
    /// No credential, an unknown, expired or revoked one, or one of the wrong kind for the operation.
    #[error("{reason}")]
    Unauthenticated {
        /// What is missing.
        reason: &'static str,
    },
    /// The caller is known and may not do this.
    #[error("{reason}")]
    Forbidden {
        /// What is missing.
        reason: String,
    },
    /// There is no such thing, as far as this caller may know.
    #[error("there is no such {what}")]
    NotFound {
        /// What was looked for.
        what: &'static str,
    },
    /// The path exists, for other methods.
    #[error("this path does not take that method; it takes {allow}")]
    MethodNotAllowed {
        /// The methods, as the header `Allow` lists them.
        allow: String,
    },
    /// Others kept changing the same things. Nothing was changed; the same request may succeed later.
    #[error("others are changing the same things; nothing was changed, try again")]
    Conflict,
    /// The role has holders and nobody said which role they get.
    #[error("the role is held by {holder_count} members: name a role for them in reassign_to")]
    RoleInUse {
        /// How many assignments name the role.
        holder_count: u64,
    },
    /// Another one has this slug.
    #[error("the slug is taken by another {what}")]
    SlugTaken {
        /// What has it.
        what: &'static str,
    },
    /// The endpoint is switched off: what is delivered to it would be given up at once.
    #[error("the endpoint is switched off; switch it on first")]
    EndpointOff,
    /// The thing changed since the version named in `If-Match`.
    #[error("it has changed since the version named in If-Match; read it again")]
    PreconditionFailed,
    /// The body is larger than is taken.
    #[error("the body has more than {bytes_max} bytes")]
    PayloadTooLarge {
        /// The limit in bytes.
        bytes_max: usize,
    },
    /// The body is of a type that is not taken.
    #[error(
        "the body must be JSON, sent as content type application/json without a content encoding"
    )]
    UnsupportedMediaType,
    /// The idempotency key stands for another request of the same caller.
    #[error("this Idempotency-Key was used for another request; choose a new one")]
    IdempotencyKeyReused,
    /// Too many requests.
    #[error("too many requests; try again in {} s", .retry_after.as_secs())]
    RateLimited {
        /// How long to wait.
        retry_after: Duration,
    },
    /// A defect of the service. Whatever its log says, the caller learns nothing of it.
    #[error("something went wrong on our side")]
    Internal {
        /// For the log.
        detail: String,
    },
    /// The service cannot work now. It may not be known whether the request was carried out: send it again with the
    /// same idempotency key.
    #[error("the service cannot answer now; try again in {} s", .retry_after.as_secs())]
    Unavailable {
        /// How long to wait.
        retry_after: Duration,
        /// For the log.
        detail: String,
    },
}

/// Something wrong with one field of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct FieldProblem {
    /// Where: `memoryIds[3]`, `actions.allow[0]`; `body`, a header's or a path parameter's name for the rest.
    pub path: String,
    /// What, for programs.
    pub code: ProblemCode,
    /// What would be right, for people.
    pub message: String,
}

crate::model::names::string_enum! {
    /// What is wrong with a field.
    #[non_exhaustive]
    ProblemCode {
        /// It is missing.
        Required = "required",
        /// It is not known here.
        UnknownField = "unknown_field",
        /// It is of another JSON type.
        InvalidType = "invalid_type",
        /// It has the right type and a wrong value.
        InvalidValue = "invalid_value",
        /// It stands there twice.
        Duplicate = "duplicate",
        /// It is too long, or there are too many.
        TooLarge = "too_large",
        /// It is too short, or there are too few.
        TooSmall = "too_small",
        /// It names something that does not exist.
        NotFound = "not_found",
        /// There are as many as there may be.
        LimitReached = "limit_reached",
    }
}

impl FieldProblem {
    /// A problem with the field at `path`.
    pub fn new(path: impl Into<String>, code: ProblemCode, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            code,
            message: message.into(),
        }
    }
}

/// A sentence: where, and what would be right.
impl std::fmt::Display for FieldProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.code {
            // What is full is not the field: the message says what is.
            ProblemCode::LimitReached => f.write_str(&self.message),
            _ => write!(f, "{} {}", self.path, self.message),
        }
    }
}

impl Error {
    /// A request with one thing wrong.
    pub fn invalid(path: impl Into<String>, code: ProblemCode, message: impl Into<String>) -> Self {
        Self::InvalidRequest {
            fields: vec![FieldProblem::new(path, code, message)],
        }
    }

    /// A refusal for this reason.
    pub fn forbidden(reason: impl Into<String>) -> Self {
        Self::Forbidden {
            reason: reason.into(),
        }
    }

    /// A defect of the service.
    pub fn internal(detail: impl Into<String>) -> Self {
        Self::Internal {
            detail: detail.into(),
        }
    }

    /// The service cannot work now.
    pub fn unavailable(detail: impl Into<String>) -> Self {
        Self::Unavailable {
            retry_after: UNAVAILABLE_RETRY_AFTER,
            detail: detail.into(),
        }
    }

    /// The name of the error on the wire.
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
            Self::EndpointOff => "endpoint_off",
            Self::PreconditionFailed => "precondition_failed",
            Self::PayloadTooLarge { .. } => "payload_too_large",
            Self::UnsupportedMediaType => "unsupported_media_type",
            Self::IdempotencyKeyReused => "idempotency_key_reused",
            Self::RateLimited { .. } => "rate_limited",
            Self::Internal { .. } => "internal",
            Self::Unavailable { .. } => "unavailable",
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

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error.kind() {
            StoreErrorKind::Unavailable | StoreErrorKind::Full | StoreErrorKind::Unknown => {
                Self::unavailable(error.to_string())
            }
            _ => Self::internal(error.to_string()),
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
