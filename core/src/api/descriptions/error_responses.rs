//! Descriptions of error responses.

use std::time::Duration;

use http::StatusCode;
use serde_json::{Map, Value, json};

use super::description::Row;
use super::schemas::{Schemas, reference};
use crate::access::Action;
use crate::api::response::status;
use crate::error::{EntityKind, Error, FieldProblem};
use crate::model::Quota;
use crate::operation::{ErrorStyle, OperationSpec};

/// Headers that every response of the public interface may have.
pub(super) const ALWAYS: &[&str] = &["Request-Id", "RateLimit", "RateLimit-Policy"];

/// Returns the headers that every response of an operation may have.
pub(super) fn headers_of(row: &Row) -> &'static [&'static str] {
    // Rate limits apply to the public address only.
    row.public.map_or(&["Request-Id"], |_| ALWAYS)
}

fn style(row: &Row) -> ErrorStyle {
    row.public.map_or(ErrorStyle::Body, |spec| spec.error_style)
}

/// Returns one error of each kind that an operation can respond with.
pub(super) fn errors() -> [Error; 19] {
    let retry_after = Duration::from_secs(1);
    [
        Error::InvalidRequest { fields: Vec::new() },
        Error::IdempotencyKeyRequired,
        Error::Unauthenticated {
            reason: "the credential is unknown, expired or revoked",
        },
        Error::forbidden("missing permission"),
        Error::not_found(EntityKind::Memory),
        Error::Conflict,
        Error::RoleInUse { holder_count: 3 },
        Error::SlugTaken {
            kind: EntityKind::Role,
        },
        Error::EndpointInactive,
        Error::CreatedResourceGone,
        Error::PreconditionFailed,
        Error::PayloadTooLarge {
            bytes_max: 1_048_576,
        },
        Error::UnsupportedMediaType,
        Error::IdempotencyKeyReused,
        Error::QuotaExceeded {
            quota: Quota::Memories,
            maximum: 1_000_000,
            retry_after: None,
        },
        Error::QuotaExceeded {
            quota: Quota::AuditBytes,
            maximum: 1_073_741_824,
            retry_after: Some(retry_after),
        },
        Error::RateLimited { retry_after },
        Error::internal(""),
        Error::unavailable(""),
    ]
}

/// Returns true for errors that only some operations with their status have.
fn is_particular(error: &Error) -> bool {
    matches!(
        error,
        Error::IdempotencyKeyRequired
            | Error::RoleInUse { .. }
            | Error::SlugTaken { .. }
            | Error::EndpointInactive
            | Error::QuotaExceeded { .. }
    )
}

/// Returns the meaning of a status.
fn meaning(status: StatusCode) -> &'static str {
    match status.as_u16() {
        400 => "Invalid request.",
        401 => "Missing, unknown, expired or revoked credential, or one of the wrong kind.",
        403 => "The caller does not have the required permission, or a quota is exhausted.",
        404 => "The resource does not exist, or the caller may not know of it.",
        409 => "Conflicts with the current state.",
        410 => "What an earlier request with the `Idempotency-Key` created is gone for the caller.",
        412 => "The resource has changed since the version in `If-Match`.",
        413 => "The body is too large.",
        415 => "The body is not JSON.",
        422 => "The `Idempotency-Key` was used for a different request.",
        429 => "Too many requests.",
        503 => "The service is unavailable. The request may have been carried out.",
        _ => "Internal error.",
    }
}

/// Error responses by status, and the components that they refer to.
pub(super) struct ErrorResponses {
    errors: Vec<Error>,
    pub(super) responses: Map<String, Value>,
}

impl ErrorResponses {
    pub(super) fn new(schemas: &mut Schemas) -> Self {
        let errors = errors();
        for error in &errors {
            let details = details(error, schemas);
            schemas.add(&schema_name(error.code()), schema(error.code(), details));
        }
        Self {
            errors: errors.into(),
            responses: Map::new(),
        }
    }

    /// Returns the error responses of an operation.
    ///
    /// `particular` are its codes besides those of every operation.
    pub(super) fn of(&mut self, row: &Row, particular: &[&str]) -> Vec<(u16, Value)> {
        let response = |status: &u16| {
            let status = StatusCode::from_u16(*status).expect("a status of the table");
            let codes = self.codes(status, particular, row);
            (status.as_u16(), self.response(status, &codes, row))
        };
        row.error_statuses.iter().map(response).collect()
    }

    fn codes(&self, wanted: StatusCode, particular: &[&str], row: &Row) -> Vec<&'static str> {
        let has = |error: &&Error| {
            let is_found = match error {
                Error::QuotaExceeded { .. } if row.public.is_some_and(OperationSpec::has_quota) => {
                    true
                }
                Error::Forbidden { .. } if row.public.is_some() => true,
                Error::Forbidden { .. } => particular.contains(&error.code()),
                error => !is_particular(error) || particular.contains(&error.code()),
            };
            status(error) == wanted && is_found
        };
        self.errors.iter().filter(has).map(Error::code).collect()
    }

    fn response(&mut self, status: StatusCode, codes: &[&str], row: &Row) -> Value {
        let mut name: Vec<String> = codes.iter().map(|code| pascal_case(code)).collect();
        if style(row) == ErrorStyle::Headers {
            name.push("InHeaders".to_owned());
        }
        let name = name.concat();
        if !self.responses.contains_key(&name) {
            let response = response(status, codes, row);
            self.responses.insert(name.clone(), response);
        }
        json!({ "$ref": format!("#/components/responses/{name}") })
    }
}

fn response(status: StatusCode, codes: &[&str], row: &Row) -> Value {
    let mut headers = Map::new();
    let mut add = |name: &str| {
        let header = json!({ "$ref": format!("#/components/headers/{name}") });
        headers.insert(name.to_owned(), header);
    };
    add("Cache-Control");
    headers_of(row).iter().for_each(|name| add(name));
    match status {
        _ if row.public.is_none() => {}
        StatusCode::UNAUTHORIZED => add("WWW-Authenticate"),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => add("Retry-After"),
        _ => {}
    }
    let codes_shown: Vec<_> = codes.iter().map(|code| format!("`{code}`")).collect();
    let mut response = json!({
        "description": format!("{} {}", codes_shown.join(", "), meaning(status)),
    });
    match style(row) {
        ErrorStyle::Body => {
            let mut schemas: Vec<_> = codes
                .iter()
                .map(|code| reference(&schema_name(code)))
                .collect();
            let schema = if schemas.len() == 1 {
                schemas.remove(0)
            } else {
                json!({ "oneOf": schemas })
            };
            response["content"] = json!({ "application/json": { "schema": schema } });
        }
        ErrorStyle::Headers => {
            add("Error-Message");
            headers.insert(
                "Error-Code".to_owned(),
                json!({
                    "description": "Error code, for programs.",
                    "required": true,
                    "schema": { "type": "string", "enum": codes },
                }),
            );
        }
    }
    response["headers"] = Value::Object(headers);
    response
}

/// Returns the names of all permissions, and `null` for none.
fn permissions() -> Vec<Value> {
    let names = Action::ALL.iter().map(|action| json!(action));
    names.chain([Value::Null]).collect()
}

/// Returns the schema of an error's details.
fn details(error: &Error, schemas: &mut Schemas) -> Value {
    let object = |name: &str, schema: Value| {
        json!({
            "type": "object",
            "properties": { name: schema },
            "required": [name],
        })
    };
    let count =
        |description: &str| json!({ "type": "integer", "minimum": 0, "description": description });
    match error {
        Error::InvalidRequest { .. } => {
            let problem = schemas.answer::<FieldProblem>();
            let description = "All problems, at most the first 100.";
            object(
                "fields",
                json!({ "type": "array", "items": problem, "description": description }),
            )
        }
        Error::Forbidden { .. } => object(
            "permission",
            json!({
                "type": ["string", "null"],
                "enum": permissions(),
                "description": "Missing permission; `null` if something else forbids it.",
            }),
        ),
        Error::NotFound { .. } => object(
            "kind",
            json!({
                "type": "string",
                "enum": EntityKind::ALL,
                "description": "Kind of the missing resource.",
            }),
        ),
        Error::RoleInUse { .. } => {
            object("holder_count", count("Number of assignments of the role."))
        }
        Error::PayloadTooLarge { .. } => object("bytes_max", count("Limit in bytes.")),
        Error::QuotaExceeded { .. } => json!({
            "type": "object",
            "properties": {
                "limit": {
                    "type": "string",
                    "enum": Quota::ALL,
                    "description": "Quota that is exhausted.",
                },
                "maximum": count("Maximum of the quota."),
            },
            "required": ["limit", "maximum"],
        }),
        Error::RateLimited { .. } | Error::IndexIncomplete { .. } | Error::Unavailable { .. } => {
            object(
                "retry_after_seconds",
                count("Waiting time before the next attempt, in seconds."),
            )
        }
        _ => json!({ "type": "object", "description": "No further details." }),
    }
}

fn schema(code: &str, details: Value) -> Value {
    json!({
        "type": "object",
        "description": format!("The error `{code}`."),
        "properties": {
            "error": {
                "const": code, "type": "string", "description": "Error code, for programs.",
            },
            "message": { "type": "string", "description": "Error message, for people." },
            "details": details,
        },
        "required": ["error", "message", "details"],
    })
}

fn schema_name(code: &str) -> String {
    pascal_case(code) + "Error"
}

fn pascal_case(code: &str) -> String {
    let capital = |word: &str| word[..1].to_ascii_uppercase() + &word[1..];
    code.split('_').map(capital).collect()
}
