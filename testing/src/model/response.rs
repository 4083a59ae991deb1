//! Callers, and responses that are expected or received.

use std::fmt;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use uuid::Uuid;

use knowledge_core::access::{Credential, MemberRef};
use knowledge_core::api::{ErrorStyle, OperationSpec};
use knowledge_core::model::{OrgId, Quota, Timestamp};
use knowledge_core::service::{self, WithEtag};
use knowledge_core::{Error, ProblemCode};

use crate::client::CLIENT;

/// Credential with the name that reports show.
#[derive(Clone, PartialEq, Eq)]
pub struct Caller {
    /// Name for people: `acme/olga/session`.
    pub name: String,
    /// Credential of the request.
    pub credential: Credential,
    /// Member that the service account of the credential acts for.
    pub acting_for: Option<MemberRef>,
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Caller {
    /// Returns the caller as the service takes it, with the client of the simulation.
    #[must_use]
    pub fn of_service(&self) -> service::Caller {
        let caller = service::Caller::new(self.credential.clone()).with_client(CLIENT);
        match &self.acting_for {
            None => caller,
            Some(member) => caller.act_for(member.clone()),
        }
    }

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
    /// True if the response repeats that to an earlier request.
    pub is_replayed: bool,
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
            ..Self::default()
        }
    }

    /// Creates a response that is a page of a list.
    pub(crate) fn page(data: Vec<Value>, next_cursor: &impl Serialize) -> Self {
        let mut body = json!({ "next_cursor": next_cursor });
        body["data"] = Value::Array(data);
        Self {
            body,
            ..Self::default()
        }
    }

    /// Creates a response with an entity tag.
    pub fn tagged<T: Serialize>(tagged: &WithEtag<T>) -> Self {
        Self {
            etag: Some(tagged.etag.clone()),
            ..Self::of(&tagged.value)
        }
    }

    /// Marks the response as that to an earlier request.
    pub(crate) fn replayed(self, is_replayed: bool) -> Self {
        Self {
            is_replayed,
            ..self
        }
    }

    /// Reads the response of an operation over HTTP, with the single record of an envelope.
    ///
    /// Anything that the table of operations does not declare is a defect.
    pub(crate) fn read(spec: &OperationSpec, response: &http::Response<Bytes>) -> Outcome {
        let (status, headers) = (response.status().as_u16(), response.headers());
        let defect = |what: &str| {
            let body = String::from_utf8_lossy(response.body());
            ErrorResponse::Defect(format!("{what}: {status} {headers:?} {body}"))
        };
        if !spec.succeeds_with(status) {
            return match ErrorResponse::read(spec.error_style, response) {
                Some(error) if error.statuses().contains(&status) => Err(error),
                _ => Err(defect("an unexpected error")),
            };
        }
        let mut body = match response.body() {
            body if body.is_empty() => Value::Null,
            body => serde_json::from_slice(body).map_err(|_| defect("no JSON"))?,
        };
        let is_page = body.get("next_cursor").is_some();
        if spec.path.starts_with("/v1/orgs/") && !body.is_null() && !is_page {
            body = match body.as_object_mut().map(|fields| fields.remove("data")) {
                Some(Some(data)) if body == json!({}) => data,
                _ => return Err(defect("no envelope")),
            };
        }
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        Ok(Self {
            body,
            etag: text("etag").map(str::to_owned),
            is_replayed: text("idempotent-replayed") == Some("true"),
        })
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
    /// Error whose response has headers only: its code and message, without details.
    Summary(String, String),
    /// Any other error, with its text: always a defect.
    Defect(String),
}

impl ErrorResponse {
    /// Creates an error with one problem of the request.
    pub(crate) fn invalid(path: &str, code: ProblemCode) -> Self {
        Self::Invalid(vec![(path.to_owned(), code)])
    }

    /// Returns the name of the error on the wire.
    fn code(&self) -> &str {
        match self {
            Self::Invalid(_) => "invalid_request",
            Self::Unauthenticated => "unauthenticated",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::RoleInUse(_) => "role_in_use",
            Self::SlugTaken => "slug_taken",
            Self::EndpointInactive => "endpoint_off",
            Self::QuotaExceeded(_) => "quota_exceeded",
            Self::PreconditionFailed => "precondition_failed",
            Self::IdempotencyKeyReused => "idempotency_key_reused",
            Self::Conflict => "conflict",
            Self::Unavailable => "unavailable",
            Self::Summary(code, _) => code,
            Self::Defect(_) => "internal",
        }
    }

    /// Returns the statuses that responses with the error may have.
    fn statuses(&self) -> &'static [u16] {
        match self.code() {
            "invalid_request" => &[400],
            "unauthenticated" => &[401],
            "forbidden" => &[403],
            "not_found" => &[404],
            "role_in_use" | "slug_taken" | "endpoint_off" | "conflict" => &[409],
            "precondition_failed" => &[412],
            "idempotency_key_reused" => &[422],
            // The second one is for quotas that are renewed.
            "quota_exceeded" => &[403, 429],
            "unavailable" => &[503],
            _ => &[],
        }
    }

    /// Reads the error of a response; `None` if it is not one of these.
    fn read(style: ErrorStyle, response: &http::Response<Bytes>) -> Option<Self> {
        let without_details = [
            Self::Unauthenticated,
            Self::Forbidden,
            Self::NotFound,
            Self::SlugTaken,
            Self::EndpointInactive,
            Self::PreconditionFailed,
            Self::IdempotencyKeyReused,
            Self::Conflict,
            Self::Unavailable,
        ];
        let simple = |code: &str| {
            let mut errors = without_details.iter();
            errors.find(|error| error.code() == code).cloned()
        };
        if style == ErrorStyle::Headers {
            let header = |name| response.headers().get(name)?.to_str().ok();
            let (code, message) = (header("error-code")?, header("error-message")?);
            let summary = || Self::Summary(code.to_owned(), message.to_owned());
            return response
                .body()
                .is_empty()
                .then(|| simple(code).unwrap_or_else(summary));
        }
        let body: Value = serde_json::from_slice(response.body()).ok()?;
        let details = &body["details"];
        Some(match body["error"].as_str()? {
            "invalid_request" => {
                let problem = |field: &Value| {
                    let path = field["path"].as_str()?.to_owned();
                    Some((path, field["code"].as_str()?.parse().ok()?))
                };
                let fields = details["fields"].as_array()?.iter().map(problem);
                let mut fields = fields.collect::<Option<Vec<_>>>()?;
                fields.sort();
                Self::Invalid(fields)
            }
            "role_in_use" => Self::RoleInUse(details["holder_count"].as_u64()?),
            "quota_exceeded" => Self::QuotaExceeded(details["limit"].as_str()?.parse().ok()?),
            code => simple(code)?,
        })
    }

    /// Returns true if this error of the model is the one in a response.
    fn is(&self, response: &Self) -> bool {
        let Self::Summary(code, message) = response else {
            return self == response;
        };
        let is_told = match self {
            Self::Invalid(fields) => fields.iter().all(|(path, code)| {
                // The message of an exhausted limit is about no field.
                *code == ProblemCode::LimitReached || message.contains(path)
            }),
            Self::QuotaExceeded(quota) => message.contains(&quota.as_str().replace('_', " ")),
            _ => true,
        };
        self.code() == code && is_told
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
            Error::IndexIncomplete { .. } | Error::Unavailable { .. } => Self::Unavailable,
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
        (Err(allowed), Err(error)) => allowed.iter().any(|allowed| allowed.is(error)),
        _ => false,
    }
}
