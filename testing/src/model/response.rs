//! Callers, and responses that are expected or received.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use uuid::Uuid;

use knowledge_core::access::Credential;
use knowledge_core::model::{OrgId, Quota, Timestamp};
use knowledge_core::service::WithEtag;
use knowledge_core::{Error, ProblemCode};

/// Credential with the name that reports show.
#[derive(Clone, PartialEq, Eq)]
pub struct Caller {
    /// Name for people: `acme/olga/session`.
    pub name: String,
    /// Credential of the request.
    pub credential: Credential,
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Caller {
    /// Returns the organisation that the credential names.
    #[must_use]
    pub fn org(&self) -> Option<OrgId> {
        match &self.credential {
            Credential::Secret(secret) => secret.org_hint(),
            Credential::Trusted { org, .. } => Some(*org),
        }
    }
}

/// Time of a call, and its actual response.
///
/// From the response the model takes only the identifiers, secrets, tags and cursors that the
/// service created.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment<'r> {
    pub(crate) now: Timestamp,
    pub(crate) learned: Option<&'r Response>,
}

/// Successful response to a call, in its form on the wire.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Response {
    /// Body; `null` if there is none.
    pub body: Value,
    /// Entity tag, if the response has one.
    pub etag: Option<String>,
}

impl Response {
    /// Creates a response without content.
    #[must_use]
    pub fn done() -> Self {
        Self::default()
    }

    /// Creates a response with this body.
    pub fn of(body: &impl Serialize) -> Self {
        Self {
            body: serde_json::to_value(body).expect("a response is valid JSON"),
            etag: None,
        }
    }

    /// Creates a response that is a page of a list.
    pub(crate) fn page(data: Vec<Value>, next_cursor: &impl Serialize) -> Self {
        let mut body = json!({ "next_cursor": next_cursor });
        body["data"] = Value::Array(data);
        Self { body, etag: None }
    }

    /// Creates a response with an entity tag.
    pub fn tagged<T: Serialize>(tagged: &WithEtag<T>) -> Self {
        Self {
            etag: Some(tagged.etag.clone()),
            ..Self::of(&tagged.value)
        }
    }

    /// Reads the value at a JSON pointer; `None` if it is missing or of another type.
    #[must_use]
    pub fn get<T: DeserializeOwned>(&self, pointer: &str) -> Option<T> {
        T::deserialize(self.body.pointer(pointer)?).ok()
    }

    /// Returns the identifier of the resource in the response.
    #[must_use]
    pub fn id(&self) -> Option<Uuid> {
        self.get("/id")
    }
}

/// Error response to a call: its kind and the parts that programs evaluate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ErrorResponse {
    /// [`Error::InvalidRequest`], with path and code of each problem.
    Invalid(Vec<(String, ProblemCode)>),
    /// [`Error::Unauthenticated`]
    Unauthenticated,
    /// [`Error::Forbidden`]
    Forbidden,
    /// [`Error::NotFound`]
    NotFound,
    /// [`Error::RoleInUse`], with the number of holders.
    RoleInUse(u64),
    /// [`Error::SlugTaken`]
    SlugTaken,
    /// [`Error::EndpointInactive`]
    EndpointInactive,
    /// [`Error::QuotaExceeded`], with the quota.
    QuotaExceeded(Quota),
    /// [`Error::PreconditionFailed`]
    PreconditionFailed,
    /// [`Error::IdempotencyKeyReused`]
    IdempotencyKeyReused,
    /// [`Error::Conflict`], which the model never expects: only contention explains it.
    Conflict,
    /// [`Error::Unavailable`], which the model never expects: only a failing store explains it.
    Unavailable,
    /// Any other error, with its text: always a defect.
    Defect(String),
}

impl ErrorResponse {
    /// Creates an error with one problem of the request.
    pub(crate) fn invalid(path: &str, code: ProblemCode) -> Self {
        Self::Invalid(vec![(path.to_owned(), code)])
    }

    /// Returns true if the store explains the error, not the domain.
    #[must_use]
    pub fn is_of_the_store(&self) -> bool {
        matches!(self, Self::Conflict | Self::Unavailable)
    }
}

impl From<ErrorResponse> for Vec<ErrorResponse> {
    fn from(error: ErrorResponse) -> Self {
        vec![error]
    }
}

impl From<&Error> for ErrorResponse {
    fn from(error: &Error) -> Self {
        match error {
            Error::InvalidRequest { fields } => {
                let mut fields: Vec<_> = fields
                    .iter()
                    .map(|field| (field.path.clone(), field.code))
                    .collect();
                fields.sort();
                Self::Invalid(fields)
            }
            Error::Unauthenticated { .. } => Self::Unauthenticated,
            Error::Forbidden { .. } => Self::Forbidden,
            Error::NotFound { .. } => Self::NotFound,
            Error::RoleInUse { holder_count } => Self::RoleInUse(*holder_count),
            Error::SlugTaken { .. } => Self::SlugTaken,
            Error::EndpointInactive => Self::EndpointInactive,
            Error::QuotaExceeded { quota, .. } => Self::QuotaExceeded(*quota),
            Error::PreconditionFailed => Self::PreconditionFailed,
            Error::IdempotencyKeyReused => Self::IdempotencyKeyReused,
            Error::Conflict => Self::Conflict,
            Error::Unavailable { .. } => Self::Unavailable,
            Error::Internal { detail } => Self::Defect(detail.clone()),
            other => Self::Defect(other.to_string()),
        }
    }
}

/// Result of a call.
pub type Outcome = Result<Response, ErrorResponse>;

/// Expected result: one response, or any of several errors if more than one applies.
pub type Expected = Result<Response, Vec<ErrorResponse>>;

/// Returns true if the result is an expected one.
#[must_use]
pub fn agrees(expected: &Expected, outcome: &Outcome) -> bool {
    match (expected, outcome) {
        (Ok(expected), Ok(response)) => expected == response,
        (Err(allowed), Err(error)) => allowed.contains(error),
        _ => false,
    }
}
