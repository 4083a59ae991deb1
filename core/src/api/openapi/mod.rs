//! Description of the interface as an OpenAPI 3.1 document.
//!
//! It is generated from the table of operations (paths and statuses), the types of requests and
//! responses (fields) and the limits in force. `operations` adds the rest, in one file for each
//! file of `handlers`.

mod description;
mod example;
mod operations;
mod refusals;
mod schemas;

use serde_json::{Map, Value, json};

use self::description::{Descriptions, Parts, RequestBody, shared_parameters};
use self::refusals::{ALWAYS, Refusals};
use super::route::{Authentication, OPERATIONS, OperationSpec, Origin};
use crate::access::PermissionScope;
use crate::limits::Limits;

/// Version of OpenAPI; its schemas are JSON Schema 2020-12.
const OPENAPI: &str = "3.1.0";

const ABOUT: &str = "\
Governed memory for AI assistants: audiences, sensitivity labels, review, and an audit log.

Operations marked **addition** are not part of the interface specification.

A field without a value is `null` in a response and omitted from a request: requests with `null` or with unknown fields \
are rejected. Lists are paginated: `next_cursor` is the `cursor` of the next page, and `null` on the last one.";

/// Note on an operation that is not in the specification.
const ADDITION: &str = "**Addition**: not part of the interface specification.";

/// Generates the document for a service with these limits. Equal limits give equal documents.
///
/// ```
/// # use knowledge_core::{api::openapi, limits::Limits};
/// let document = openapi::document(&Limits::default());
/// let schema = &document["components"]["schemas"]["BulkUpdate"];
/// assert_eq!(schema["properties"]["memoryIds"]["maxItems"], 1_000);
/// ```
#[must_use]
pub fn document(limits: &Limits) -> Value {
    let mut descriptions = Descriptions::new();
    operations::describe(&mut descriptions);
    let Descriptions { mut schemas, all } = descriptions;
    let mut refusals = Refusals::new(&mut schemas);
    let (schemas, renamed) = schemas.finish(limits);

    let mut paths = Map::new();
    let undescribed = Parts::default();
    for spec in OPERATIONS {
        let described = all
            .iter()
            .find(|(operation, _)| *operation == spec.operation);
        let parts = described.map_or(&undescribed, |(_, parts)| parts);
        let mut operation = operation(spec, parts, &schemas, &mut refusals);
        if let Some(body) = &parts.body {
            operation["requestBody"] = request_body(body, &schemas, &renamed);
        }
        let path = paths.entry(spec.path).or_insert_with(|| json!({}));
        path[spec.method.as_str().to_ascii_lowercase()] = operation;
    }
    json!({
        "openapi": OPENAPI,
        "info": {
            "title": "Workspace knowledge service",
            "version": env!("CARGO_PKG_VERSION"),
            "description": ABOUT,
            "license": { "name": "MIT", "identifier": "MIT" },
        },
        "servers": [{ "url": "/" }],
        "tags": tags(),
        "paths": paths,
        "components": {
            "schemas": schemas,
            "parameters": shared_parameters(),
            "headers": headers(),
            "responses": refusals.responses,
            "securitySchemes": security_schemes(),
        },
    })
}

fn tags() -> Value {
    let mut names: Vec<&str> = OPERATIONS.iter().map(|spec| spec.capability).collect();
    names.dedup();
    names
        .into_iter()
        .map(|name| json!({ "name": name }))
        .collect()
}

fn operation(
    spec: &OperationSpec,
    parts: &Parts,
    schemas: &Map<String, Value>,
    refusals: &mut Refusals,
) -> Value {
    let mut responses = Map::new();
    responses.insert(spec.success.to_string(), success(parts, schemas));
    if parts.has_not_modified {
        responses.insert("304".to_owned(), not_modified());
    }
    for (status, refusal) in refusals.of(spec, &parts.refusals) {
        responses.insert(status.to_string(), refusal);
    }
    let parameters: Vec<Value> = path_parameters(spec.path)
        .chain(parts.parameters.iter().cloned())
        .collect();
    let scheme = spec.authentication.to_string();
    let mut operation = json!({
        "operationId": spec.operation.id(),
        "summary": spec.summary.trim_end_matches('.'),
        "description": text(spec, parts),
        "tags": [spec.capability],
        "security": [{ scheme: [] }],
        "responses": responses,
    });
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    if spec.origin == Origin::Addition {
        operation["x-addition"] = true.into();
    }
    operation
}

fn text(spec: &OperationSpec, parts: &Parts) -> String {
    let mut paragraphs = Vec::new();
    if !parts.text.is_empty() {
        paragraphs.push(parts.text.clone());
    }
    let permissions = parts.permissions.iter().map(|permission| {
        let scope = match permission.scope {
            PermissionScope::Organization => "in the organisation",
            PermissionScope::Anywhere => "in the organisation or in any workspace",
            PermissionScope::Workspace => "in the workspace",
            PermissionScope::EachMemory => "in the workspace of each memory",
        };
        let when = if permission.when.is_empty() {
            String::new()
        } else {
            format!(" ({})", permission.when)
        };
        format!("`{}` {scope}{when}", permission.action)
    });
    let permissions: Vec<String> = permissions.collect();
    if !permissions.is_empty() {
        paragraphs.push(format!("Requires {}.", permissions.join("; ")));
    }
    if spec.origin == Origin::Addition {
        paragraphs.push(ADDITION.to_owned());
    }
    paragraphs.join("\n\n")
}

/// Generates the parameters of a path, each described by the preceding segment.
///
/// All are identifiers, except the slug of the organisation.
fn path_parameters(path: &str) -> impl Iterator<Item = Value> {
    let segments: Vec<&str> = path.split('/').collect();
    let parameters = segments.windows(2).filter_map(|pair| {
        let name = pair[1].strip_prefix('{')?.strip_suffix('}')?;
        let thing = match (pair[0], name) {
            (_, "org") => "organisation".to_owned(),
            ("{org}", _) => "inbound webhook".to_owned(),
            (things, _) => singular(&things.replace('-', " ")),
        };
        Some(if name == "orgSlug" {
            json!({
                "name": name,
                "in": "path",
                "required": true,
                "description": "Slug of the organisation.",
                "schema": { "type": "string", "pattern": "^[a-z0-9._-]+$", "minLength": 1, "maxLength": 64 },
                "example": "acme",
            })
        } else {
            json!({
                "name": name,
                "in": "path",
                "required": true,
                "description": format!("Identifier of the {thing}."),
                "schema": { "type": "string", "format": "uuid" },
                "example": "01890a5d-ac96-774b-bcce-b302099a8057",
            })
        })
    });
    parameters.collect::<Vec<_>>().into_iter()
}

/// Returns the singular of a plural.
fn singular(things: &str) -> String {
    let stem = things.strip_suffix("ies");
    stem.map_or_else(
        || things.trim_end_matches('s').to_owned(),
        |stem| format!("{stem}y"),
    )
}

fn request_body(
    body: &RequestBody,
    schemas: &Map<String, Value>,
    renamed: &schemas::Renamed,
) -> Value {
    let mut schema = body.schema.clone();
    renamed.apply(&mut schema);
    let example = body
        .example
        .clone()
        .unwrap_or_else(|| example::example(&schema, schemas));
    json!({
        "required": body.is_required,
        "content": { "application/json": { "schema": schema, "example": example } },
    })
}

fn header_references<'n>(names: impl IntoIterator<Item = &'n str>) -> Value {
    let references = names.into_iter().map(|name| {
        let reference = json!({ "$ref": format!("#/components/headers/{name}") });
        (name.to_owned(), reference)
    });
    Value::Object(references.collect())
}

fn success(parts: &Parts, schemas: &Map<String, Value>) -> Value {
    let mut names = ALWAYS.to_vec();
    names.extend(&parts.answer_headers);
    let mut response = json!({
        "description": "Success.",
    });
    if let Some(schema) = &parts.answer {
        names.push("Cache-Control");
        let example = example::example(schema, schemas);
        response["content"] =
            json!({ "application/json": { "schema": schema, "example": example } });
    }
    response["headers"] = header_references(names);
    if !parts.links.is_empty() {
        response["links"] = Value::Object(parts.links.clone());
    }
    response
}

fn not_modified() -> Value {
    json!({
        "description": "The caller already has the current version.",
        "headers": header_references([ALWAYS, &["ETag", "Cache-Control"]].concat()),
    })
}

/// Returns the headers of responses, by name.
fn headers() -> Value {
    let header = |is_required: bool, description: &str, schema: Value| json!({ "required": is_required, "description": description, "schema": schema });
    let text = || json!({ "type": "string" });
    json!({
        "Request-Id": header(true, "Identifier of the request in the log.", json!({ "type": "string", "format": "uuid" })),
        "RateLimit": header(
            false,
            "Remaining quota, if the server has one: `\"default\";r=50;t=30` means 50 requests, and the full quota again \
             in 30 seconds (draft-ietf-httpapi-ratelimit-headers).",
            text()
        ),
        "RateLimit-Policy": header(
            false,
            "Quota of the caller, if the server has one: `\"default\";q=100;w=60` means 100 requests in 60 seconds.",
            text()
        ),
        "Cache-Control": header(true, "Caching rules for the response.", text()),
        "ETag": header(true, "Entity tag of this version, for `If-Match` and `If-None-Match`.",
            json!({ "type": "string", "pattern": "^(W/)?\"[!#-~]+\"$" })),
        "Idempotent-Replayed": header(false, "`true` if the response is the stored one of an earlier identical request.",
            json!({ "type": "string", "const": "true" })),
        "WWW-Authenticate": header(true, "Authentication scheme of the operation (RFC 9110, 11.6.1).", text()),
        "Retry-After": header(true, "Waiting time before the next attempt, in seconds.", json!({ "type": "integer", "minimum": 1 })),
        "Error-Message": header(true, "Error message, for people.", text()),
    })
}

fn security_schemes() -> Value {
    let all = [
        Authentication::Bearer,
        Authentication::Session,
        Authentication::Signature,
    ];
    let schemes = all
        .into_iter()
        .filter(|scheme| OPERATIONS.iter().any(|spec| spec.authentication == *scheme));
    let schemes = schemes.map(|scheme| (scheme.to_string(), security_scheme(scheme)));
    Value::Object(schemes.collect())
}

fn security_scheme(authentication: Authentication) -> Value {
    match authentication {
        Authentication::Bearer => json!({
            "type": "http",
            "scheme": "bearer",
            "description": "Access token, `wkt_…`, created by `knowledge token create`.",
        }),
        Authentication::Session => json!({
            "type": "apiKey",
            "in": "cookie",
            "name": super::headers::SESSION_COOKIE,
            "description": "Session, `wks_…`. A cross-site write is rejected.",
        }),
        Authentication::Signature => json!({
            "type": "apiKey",
            "in": "header",
            "name": "webhook-signature",
            "description": "Signature over `webhook-id`, `webhook-timestamp` and the body, `v1,…` (Standard Webhooks 1.0.0).",
        }),
    }
}

#[cfg(test)]
mod tests;
