//! Responses: the only place that maps errors to statuses.

use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, ETAG, RETRY_AFTER, WWW_AUTHENTICATE,
};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use serde::Serialize;
use uuid::Uuid;

use crate::access::Action;
use crate::error::{EntityKind, Error, FieldProblem, ProblemCode, whole_seconds};
use crate::model::Quota;
use crate::operation::{Authentication, ErrorStyle};

const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");
const ERROR_CODE: HeaderName = HeaderName::from_static("error-code");
const ERROR_MESSAGE: HeaderName = HeaderName::from_static("error-message");
const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
/// Maximum number of problems in `Error-Message`.
const HEADER_PROBLEMS_MAX: usize = 8;

/// Result of a handler.
pub(super) type HandlerResult = Result<ApiResponse, Error>;

/// A successful response.
#[derive(Debug)]
pub(super) struct ApiResponse {
    response: Response<Bytes>,
}

impl ApiResponse {
    pub(super) fn json<T: Serialize>(status: StatusCode, body: &T) -> Self {
        let body = serde_json::to_vec(body);
        Self::of_json(
            status,
            body.expect("responses serialise: string keys, no fallible implementations"),
        )
    }

    /// Returns a response whose body is this JSON.
    pub(super) fn of_json(status: StatusCode, json: impl Into<Bytes>) -> Self {
        let mut response = Response::new(json.into());
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, JSON);
        // Responses contain secrets and data for their caller only.
        response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
        Self { response }
    }

    pub(super) fn empty(status: StatusCode) -> Self {
        let mut response = Response::new(Bytes::new());
        *response.status_mut() = status;
        Self { response }
    }

    pub(super) fn etag(self, etag: &str) -> Self {
        self.header(
            ETAG,
            HeaderValue::from_str(etag).expect("entity tags are made of visible ASCII"),
        )
    }

    /// Allows the caller to store the response and revalidate it each time.
    pub(super) fn revalidated(self) -> Self {
        self.header(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"))
    }

    /// Marks the response as that to an earlier request, which nobody may store.
    pub(super) fn replayed(self) -> Self {
        let response = self.header(CACHE_CONTROL, NO_STORE);
        response.header(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"))
    }

    pub(super) fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    /// Returns true if the response is `304`, which no operation lists as its own status.
    pub(super) fn is_not_modified(&self) -> bool {
        self.response.status() == StatusCode::NOT_MODIFIED
    }

    fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.response.headers_mut().insert(name, value);
        self
    }

    pub(super) fn into_response(self) -> Response<Bytes> {
        self.response
    }
}

/// Returns the status of an error.
#[must_use]
pub fn status(error: &Error) -> StatusCode {
    match error {
        Error::InvalidRequest { .. } | Error::IdempotencyKeyRequired => StatusCode::BAD_REQUEST,
        Error::Unauthenticated { .. } => StatusCode::UNAUTHORIZED,
        Error::Forbidden { .. }
        | Error::QuotaExceeded {
            retry_after: None, ..
        } => StatusCode::FORBIDDEN,
        Error::NotFound { .. } => StatusCode::NOT_FOUND,
        Error::MethodNotAllowed { .. } => StatusCode::METHOD_NOT_ALLOWED,
        Error::Conflict
        | Error::RoleInUse { .. }
        | Error::SlugTaken { .. }
        | Error::EndpointInactive => StatusCode::CONFLICT,
        Error::PreconditionFailed => StatusCode::PRECONDITION_FAILED,
        Error::PayloadTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        Error::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        Error::IdempotencyKeyReused => StatusCode::UNPROCESSABLE_ENTITY,
        Error::CreatedResourceGone => StatusCode::GONE,
        Error::RateLimited { .. } | Error::QuotaExceeded { .. } => StatusCode::TOO_MANY_REQUESTS,
        Error::Internal { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        Error::IndexIncomplete { .. } | Error::Unavailable { .. } => {
            StatusCode::SERVICE_UNAVAILABLE
        }
    }
}

/// Body of an error response.
#[derive(Serialize)]
struct ErrorBody<'e> {
    error: &'static str,
    message: String,
    details: Details<'e>,
}

/// Details of an error, for programs.
#[derive(Serialize)]
#[serde(untagged)]
enum Details<'e> {
    Invalid { fields: &'e [FieldProblem] },
    Forbidden { permission: Option<Action> },
    Missing { kind: EntityKind },
    InUse { holder_count: u64 },
    TooLarge { bytes_max: usize },
    Quota { limit: Quota, maximum: u64 },
    Later { retry_after_seconds: u64 },
    None {},
}

fn details(error: &Error) -> Details<'_> {
    match error {
        Error::InvalidRequest { fields } => Details::Invalid { fields },
        Error::Forbidden { permission, .. } => Details::Forbidden {
            permission: *permission,
        },
        Error::NotFound { kind } => Details::Missing { kind: *kind },
        Error::RoleInUse { holder_count } => Details::InUse {
            holder_count: *holder_count,
        },
        Error::PayloadTooLarge { bytes_max } => Details::TooLarge {
            bytes_max: *bytes_max,
        },
        Error::QuotaExceeded { quota, maximum, .. } => Details::Quota {
            limit: *quota,
            maximum: *maximum,
        },
        Error::RateLimited { retry_after }
        | Error::IndexIncomplete { retry_after }
        | Error::Unavailable { retry_after, .. } => Details::Later {
            retry_after_seconds: whole_seconds(*retry_after),
        },
        _ => Details::None {},
    }
}

/// Creates the error response.
pub(super) fn error_response(
    error: &Error,
    style: ErrorStyle,
    challenge: Challenge,
) -> Response<Bytes> {
    log(error);
    let status = status(error);
    let mut response = match style {
        ErrorStyle::Body => {
            let body = ErrorBody {
                error: error.code(),
                message: error.to_string(),
                details: details(error),
            };
            ApiResponse::json(status, &body)
        }
        ErrorStyle::Headers => ApiResponse::empty(status)
            .header(CACHE_CONTROL, NO_STORE)
            .header(ERROR_CODE, HeaderValue::from_static(error.code()))
            .header(ERROR_MESSAGE, header_text(&header_message(error))),
    };
    match error {
        Error::Unauthenticated { .. } => {
            response = response.header(WWW_AUTHENTICATE, challenge.header());
        }
        Error::MethodNotAllowed { allow } => response = response.header(ALLOW, header_text(allow)),
        Error::RateLimited { retry_after }
        | Error::IndexIncomplete { retry_after }
        | Error::Unavailable { retry_after, .. }
        | Error::QuotaExceeded {
            retry_after: Some(retry_after),
            ..
        } => {
            response = response.header(RETRY_AFTER, HeaderValue::from(whole_seconds(*retry_after)));
        }
        _ => {}
    }
    response.into_response()
}

/// Creates the error response for the operator, with details that clients do not get.
pub(super) fn operator_error_response(error: &Error) -> Response<Bytes> {
    log(error);
    let message = match error {
        Error::Internal { detail } | Error::Unavailable { detail, .. } => {
            format!("{error} ({detail})")
        }
        other => other.to_string(),
    };
    let body = ErrorBody {
        error: error.code(),
        message,
        details: details(error),
    };
    ApiResponse::json(status(error), &body).into_response()
}

/// Challenge for an unauthenticated caller (RFC 6750, 3 for tokens).
#[derive(Clone, Copy, Debug)]
pub(super) struct Challenge {
    pub(super) wanted: Authentication,
    /// True if the request had a token, which then is invalid.
    pub(super) has_token: bool,
}

impl Challenge {
    fn header(self) -> HeaderValue {
        HeaderValue::from_static(match (self.wanted, self.has_token) {
            (Authentication::Bearer, false) => "Bearer realm=\"knowledge\"",
            (Authentication::Bearer, true) => "Bearer realm=\"knowledge\", error=\"invalid_token\"",
            (Authentication::Session, _) => {
                "Cookie realm=\"knowledge\", cookie-name=\"service_session\""
            }
            (Authentication::Signature, _) => "StandardWebhooks realm=\"knowledge\"",
        })
    }
}

/// Formats an error for a header, without anything that the client sent.
fn header_message(error: &Error) -> String {
    let Error::InvalidRequest { fields } = error else {
        return error.to_string();
    };
    let describe = |problem: &FieldProblem| match problem.code {
        // The client chose their paths.
        ProblemCode::UnknownField | ProblemCode::Duplicate => {
            format!("a field of the body {}", problem.message)
        }
        _ => problem.to_string(),
    };
    let shown: Vec<_> = fields
        .iter()
        .take(HEADER_PROBLEMS_MAX)
        .map(describe)
        .collect();
    shown.join("; ")
}

/// Replaces everything except visible ASCII and spaces by question marks.
fn header_text(text: &str) -> HeaderValue {
    let plain = |char: char| {
        if char == ' ' || char.is_ascii_graphic() {
            char
        } else {
            '?'
        }
    };
    let plain: String = text.chars().map(plain).collect();
    HeaderValue::from_str(&plain).expect("visible ASCII and spaces make a header")
}

/// Logs the details that the caller does not get.
fn log(error: &Error) {
    match error {
        Error::Internal { detail } => tracing::error!(%detail, "internal error"),
        Error::Unavailable { detail, .. } => tracing::warn!(%detail, "unavailable"),
        _ => {}
    }
}

/// Removes the body of the response to a HEAD but keeps its length (RFC 9110, 9.3.2).
pub(super) fn without_body(response: Response<Bytes>) -> Response<Bytes> {
    let (mut parts, body) = response.into_parts();
    if !body.is_empty() {
        parts.headers.insert(CONTENT_LENGTH, body.len().into());
    }
    Response::from_parts(parts, Bytes::new())
}

pub(super) fn add_request_id(response: &mut Response<Bytes>, id: Uuid) {
    response
        .headers_mut()
        .insert(REQUEST_ID, header_text(&id.to_string()));
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Returns examples of the next variant, in their order, starting without a previous one.
    ///
    /// A variant that is not in this chain does not compile.
    fn examples_after(previous: Option<&Error>) -> Vec<Error> {
        let retry_after = Duration::from_millis(1_500);
        let Some(previous) = previous else {
            let required = FieldProblem::new("name", ProblemCode::Required, "is required");
            let limit = "the workspace already has 50 webhooks, the maximum";
            let limit = FieldProblem::new("url", ProblemCode::LimitReached, limit);
            let examples = [
                vec![],
                vec![required.clone()],
                vec![limit],
                vec![required.clone(), required.clone(), required],
            ];
            return examples
                .map(|fields| Error::InvalidRequest { fields })
                .into();
        };
        let quota = |quota, maximum, retry_after| Error::QuotaExceeded {
            quota,
            maximum,
            retry_after,
        };
        let taken = |kind| Error::SlugTaken { kind };
        match previous {
            Error::InvalidRequest { .. } => vec![Error::IdempotencyKeyRequired],
            Error::IdempotencyKeyRequired => vec![Error::Unauthenticated {
                reason: "the reason",
            }],
            Error::Unauthenticated { .. } => vec![Error::forbidden("the reason")],
            Error::Forbidden { .. } => vec![Error::not_found(EntityKind::Memory)],
            Error::NotFound { .. } => {
                let allow = "GET, HEAD".to_owned();
                vec![Error::MethodNotAllowed { allow }]
            }
            Error::MethodNotAllowed { .. } => vec![Error::Conflict],
            Error::Conflict => [1, 2]
                .map(|holder_count| Error::RoleInUse { holder_count })
                .into(),
            Error::RoleInUse { .. } => {
                [EntityKind::Role, EntityKind::Member, EntityKind::Workspace]
                    .map(taken)
                    .into()
            }
            Error::SlugTaken { .. } => vec![Error::EndpointInactive],
            Error::EndpointInactive => vec![Error::PreconditionFailed],
            Error::PreconditionFailed => vec![Error::PayloadTooLarge { bytes_max: 1_024 }],
            Error::PayloadTooLarge { .. } => vec![Error::UnsupportedMediaType],
            Error::UnsupportedMediaType => vec![Error::IdempotencyKeyReused],
            Error::IdempotencyKeyReused => vec![Error::CreatedResourceGone],
            Error::CreatedResourceGone => vec![
                quota(Quota::Memories, 10, None),
                quota(Quota::AuditBytes, 1_024, Some(retry_after)),
            ],
            Error::QuotaExceeded { .. } => vec![Error::RateLimited { retry_after }],
            Error::RateLimited { .. } => vec![Error::internal("the detail")],
            Error::Internal { .. } => vec![Error::unavailable("the detail")],
            Error::Unavailable { .. } => vec![Error::index_incomplete()],
            Error::IndexIncomplete { .. } => vec![],
        }
    }

    #[test]
    fn error_has_status_code_message_and_details() {
        let mut lines = Vec::new();
        let mut examples = examples_after(None);
        while let Some(last) = examples.last() {
            let next = examples_after(Some(last));
            for error in &examples {
                let status = status(error).as_u16();
                let details = serde_json::to_string(&details(error)).expect("details serialise");
                lines.push(format!("{status} {}: {error} {details}", error.code()));
            }
            examples = next;
        }
        insta::assert_snapshot!(lines.join("\n"), @r#"
        400 invalid_request: the request is not valid: no details {"fields":[]}
        400 invalid_request: the request is not valid: name is required {"fields":[{"path":"name","code":"required","message":"is required"}]}
        400 invalid_request: the request is not valid: the workspace already has 50 webhooks, the maximum {"fields":[{"path":"url","code":"limit_reached","message":"the workspace already has 50 webhooks, the maximum"}]}
        400 invalid_request: the request is not valid: name is required (and 2 more) {"fields":[{"path":"name","code":"required","message":"is required"},{"path":"name","code":"required","message":"is required"},{"path":"name","code":"required","message":"is required"}]}
        400 idempotency_key_required: the header Idempotency-Key is required; send 1 to 255 visible ASCII characters, different for each new request {}
        401 unauthenticated: the reason {}
        403 forbidden: the reason {"permission":null}
        404 not_found: there is no such memory {"kind":"memory"}
        405 method_not_allowed: method not allowed; allowed: GET, HEAD {}
        409 conflict: concurrent modification; nothing was changed, try again {}
        409 role_in_use: the role is held by 1 member; name their new role in reassign_to {"holder_count":1}
        409 role_in_use: the role is held by 2 members; name their new role in reassign_to {"holder_count":2}
        409 slug_taken: the slug is used by another custom role; choose another {}
        409 slug_taken: the handle is or was used by another member; choose another {}
        409 slug_taken: the slug is or was used by another workspace; choose another {}
        409 endpoint_off: the endpoint is inactive; activate the webhook, or send a ping if the service disabled the endpoint {}
        412 precondition_failed: the resource has changed since the version in If-Match; read it again {}
        413 payload_too_large: the body must be at most 1024 bytes {"bytes_max":1024}
        415 unsupported_media_type: the body must be JSON with content type application/json and no content encoding {}
        422 idempotency_key_reused: this Idempotency-Key was used for a different request; choose a new one {}
        410 created_resource_gone: the request with this Idempotency-Key was carried out before; what it created has been deleted, or the caller may not read it {}
        403 quota_exceeded: the organisation may have at most 10 memories; delete some, or ask the operator {"limit":"memories","maximum":10}
        429 quota_exceeded: the organisation may have at most 1024 audit bytes per day; try again in 2 s {"limit":"audit_bytes_per_day","maximum":1024}
        429 rate_limited: too many requests; try again in 2 s {"retry_after_seconds":2}
        500 internal: internal error {}
        503 unavailable: the service is unavailable; try again in 1 s {"retry_after_seconds":1}
        503 unavailable: the index of the workspace is being built; try again in 1 s, or send candidates {"retry_after_seconds":1}
        "#);
    }
}
