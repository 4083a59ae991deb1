//! Responses: the one place where errors become statuses.

use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, ETAG, RETRY_AFTER, WWW_AUTHENTICATE,
};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use serde::Serialize;
use uuid::Uuid;

use super::route::{Authentication, ErrorStyle};
use crate::error::{Error, FieldProblem, ProblemCode};

const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");
const ERROR_CODE: HeaderName = HeaderName::from_static("error-code");
const ERROR_MESSAGE: HeaderName = HeaderName::from_static("error-message");
const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
/// How many problems `Error-Message` names.
const HEADER_PROBLEMS_MAX: usize = 8;

/// A success.
#[derive(Debug)]
pub(super) struct Answer {
    response: Response<Bytes>,
}

impl Answer {
    pub(super) fn json<T: Serialize>(status: StatusCode, body: &T) -> Self {
        let body = serde_json::to_vec(body)
            .expect("answers serialise: string keys, no fallible implementations");
        let mut response = Response::new(Bytes::from(body));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, JSON);
        // Answers have secrets and what only their caller may see.
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

    /// May be kept by its caller, and is asked for again each time.
    pub(super) fn revalidated(self) -> Self {
        self.header(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"))
    }

    pub(super) fn replayed(self) -> Self {
        self.header(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"))
    }

    pub(super) fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    /// Whether it says that the caller has the present version, which is no status of its operation's own.
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

/// The status of an error.
#[must_use]
pub fn status(error: &Error) -> StatusCode {
    match error {
        Error::InvalidRequest { .. } | Error::IdempotencyKeyRequired => StatusCode::BAD_REQUEST,
        Error::Unauthenticated { .. } => StatusCode::UNAUTHORIZED,
        Error::Forbidden { .. } => StatusCode::FORBIDDEN,
        Error::NotFound { .. } => StatusCode::NOT_FOUND,
        Error::MethodNotAllowed { .. } => StatusCode::METHOD_NOT_ALLOWED,
        Error::Conflict
        | Error::RoleInUse { .. }
        | Error::SlugTaken { .. }
        | Error::EndpointOff => StatusCode::CONFLICT,
        Error::PreconditionFailed => StatusCode::PRECONDITION_FAILED,
        Error::PayloadTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        Error::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        Error::IdempotencyKeyReused => StatusCode::UNPROCESSABLE_ENTITY,
        Error::RateLimited { .. } => StatusCode::TOO_MANY_REQUESTS,
        Error::Internal { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        Error::Unavailable { .. } => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// The body of a refusal.
#[derive(Serialize)]
struct ErrorBody<'e> {
    error: &'static str,
    message: String,
    details: Details<'e>,
}

/// What a program may want to know of an error.
#[derive(Serialize)]
#[serde(untagged)]
enum Details<'e> {
    Invalid { fields: &'e [FieldProblem] },
    InUse { holder_count: u64 },
    TooLarge { bytes_max: usize },
    Later { retry_after_seconds: u64 },
    None {},
}

fn details(error: &Error) -> Details<'_> {
    match error {
        Error::InvalidRequest { fields } => Details::Invalid { fields },
        Error::RoleInUse { holder_count } => Details::InUse {
            holder_count: *holder_count,
        },
        Error::PayloadTooLarge { bytes_max } => Details::TooLarge {
            bytes_max: *bytes_max,
        },
        Error::RateLimited { retry_after } | Error::Unavailable { retry_after, .. } => {
            Details::Later {
                retry_after_seconds: retry_after.as_secs(),
            }
        }
        _ => Details::None {},
    }
}

/// The answer that says what was wrong.
pub(super) fn refusal(error: &Error, style: ErrorStyle, challenge: Challenge) -> Response<Bytes> {
    log(error);
    let status = status(error);
    let mut answer = match style {
        ErrorStyle::Body => {
            let body = ErrorBody {
                error: error.code(),
                message: error.to_string(),
                details: details(error),
            };
            Answer::json(status, &body)
        }
        ErrorStyle::Headers => Answer::empty(status)
            .header(CACHE_CONTROL, NO_STORE)
            .header(ERROR_CODE, HeaderValue::from_static(error.code()))
            .header(ERROR_MESSAGE, header_text(&header_message(error))),
    };
    match error {
        Error::Unauthenticated { .. } => {
            answer = answer.header(WWW_AUTHENTICATE, challenge.header());
        }
        Error::MethodNotAllowed { allow } => answer = answer.header(ALLOW, header_text(allow)),
        Error::RateLimited { retry_after } | Error::Unavailable { retry_after, .. } => {
            answer = answer.header(RETRY_AFTER, HeaderValue::from(retry_after.as_secs().max(1)));
        }
        _ => {}
    }
    answer.into_response()
}

/// The answer that says to the operator what was wrong, with what clients are not told.
pub(super) fn refusal_to_operator(error: &Error) -> Response<Bytes> {
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
    Answer::json(status(error), &body).into_response()
}

/// What a caller that was not recognised is asked for (RFC 6750, 3 for tokens).
#[derive(Clone, Copy, Debug)]
pub(super) struct Challenge {
    pub(super) wanted: Authentication,
    /// Whether there was a token, which was not taken then.
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

/// What a header may say of an error: nothing that was sent stands in it.
fn header_message(error: &Error) -> String {
    let Error::InvalidRequest { fields } = error else {
        return error.to_string();
    };
    let describe = |problem: &FieldProblem| match problem.code {
        // Their paths are what was sent.
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

/// Visible ASCII and spaces; what is neither becomes a question mark.
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

/// What the caller is not told.
fn log(error: &Error) {
    match error {
        Error::Internal { detail } => tracing::error!(%detail, "internal error"),
        Error::Unavailable { detail, .. } => tracing::warn!(%detail, "unavailable"),
        _ => {}
    }
}

/// The answer to a HEAD: the length stays, the body goes (RFC 9110, 9.3.2).
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
