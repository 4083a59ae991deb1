//! Descriptions of operations, and the OpenAPI documents made of them.
//!
//! The inputs and outputs of operations describe themselves to a [`Description`]. The module knows
//! no operation, so that both interfaces can use it; `openapi` passes their descriptions.

mod description;
mod error_responses;
mod example;
mod schemas;
mod variants;
mod webhooks;

use serde_json::{Map, Value, json};

pub(super) use self::description::{Description, Descriptions};
use self::description::{Parts, RequestBody, Row, parameters, shared_parameters};
use self::error_responses::{ALWAYS, ErrorResponses, headers_of};
use crate::access::PermissionScope;
use crate::limits::Limits;
use crate::operation::{Authentication, OPERATIONS, OperationSpec};

/// Version of OpenAPI; its schemas are JSON Schema 2020-12.
const OPENAPI: &str = "3.1.0";

const ABOUT: &str = "\
Governed memory for AI assistants: audiences, sensitivity labels, review, and an audit log.

A field without a value is `null` in a response and omitted from a request: requests with `null` \
or with unknown fields are rejected. Lists are paginated: `next_cursor` is the `cursor` of the \
next page, and `null` on the last one.";

const ABOUT_OPERATOR: &str = "\
The operator's interface: provisioning, and inspection of deliveries. It requires no credential \
and is only available on the admin socket, never on the public address.

A field without a value is `null` in a response and omitted from a request: requests with `null` \
or with unknown fields are rejected. Lists are paginated: `next_cursor` is the `cursor` of the \
next page, and `null` on the last one.";

/// Generates the document of the public interface, whose operations are described.
pub(super) fn document(mut descriptions: Descriptions, limits: &Limits) -> Value {
    let events = webhooks::declare(&mut descriptions.schemas);
    let mut document = generate(descriptions, limits);
    document["info"]["title"] = "Workspace knowledge service".into();
    document["info"]["description"] = ABOUT.into();
    let components = &mut document["components"];
    components["securitySchemes"] = security_schemes();
    let schemas = components["schemas"].as_object();
    document["webhooks"] = webhooks::describe(&events, schemas.expect("an object"));
    document
}

/// Generates the document of the operator's interface, whose operations are described.
pub(super) fn operator_document(descriptions: Descriptions, limits: &Limits) -> Value {
    let mut document = generate(descriptions, limits);
    document["info"]["title"] = "Workspace knowledge service: operator".into();
    document["info"]["description"] = ABOUT_OPERATOR.into();
    remove_unused(&mut document);
    document
}

/// Generates a document without the parts that are particular to one interface.
fn generate(descriptions: Descriptions, limits: &Limits) -> Value {
    let Descriptions { mut schemas, all } = descriptions;
    let mut error_responses = ErrorResponses::new(&mut schemas);
    let (mut schemas, renamed) = schemas.finish(limits);
    variants::complete(&mut schemas);

    let mut paths = Map::new();
    for (row, parts) in &all {
        let mut operation = operation(row, parts, &schemas, &mut error_responses);
        if let Some(body) = &parts.body {
            operation["requestBody"] = request_body(body, &schemas, &renamed);
        }
        let path = paths.entry(row.path).or_insert_with(|| json!({}));
        path[row.method.as_str().to_ascii_lowercase()] = operation;
    }
    json!({
        "openapi": OPENAPI,
        "info": {
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "MIT", "identifier": "MIT" },
        },
        "servers": [{ "url": "/" }],
        "tags": tags(&all),
        "paths": paths,
        "components": {
            "schemas": schemas,
            "parameters": shared_parameters(),
            "headers": headers(),
            "responses": error_responses.responses,
        },
    })
}

/// Removes the components that nothing refers to.
fn remove_unused(document: &mut Value) {
    loop {
        let text = document.to_string();
        let mut is_done = true;
        for (kind, components) in document["components"].as_object_mut().expect("an object") {
            components
                .as_object_mut()
                .expect("an object")
                .retain(|name, _| {
                    let is_used = text.contains(&format!("\"#/components/{kind}/{name}\""));
                    is_done &= is_used;
                    is_used
                });
        }
        if is_done {
            return;
        }
    }
}

fn tags(all: &[(Row, Parts)]) -> Value {
    let mut names: Vec<&str> = all.iter().map(|(row, _)| row.capability).collect();
    names.dedup();
    names
        .into_iter()
        .map(|name| json!({ "name": name }))
        .collect()
}

fn operation(
    row: &Row,
    parts: &Parts,
    schemas: &Map<String, Value>,
    error_responses: &mut ErrorResponses,
) -> Value {
    let mut responses = Map::new();
    responses.insert(row.success.to_string(), success(row, parts, schemas));
    if let Some(schema) = &parts.dry_run {
        responses.insert("200".to_owned(), dry_run(row, schema, schemas));
    }
    if parts.has_not_modified {
        responses.insert("304".to_owned(), not_modified());
    }
    for (status, response) in error_responses.of(row, &parts.error_codes) {
        responses.insert(status.to_string(), response);
    }
    let mut operation = json!({
        "operationId": row.id,
        "summary": row.summary.trim_end_matches('.'),
        "description": parts.text,
        "tags": [row.capability],
        "responses": responses,
    });
    let parameters = parameters(row, parts);
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    if let Some(spec) = row.public {
        operation["description"] = text(spec, parts).into();
        operation["security"] = json!([{ spec.authentication.to_string(): [] }]);
    }
    operation
}

fn text(spec: &OperationSpec, parts: &Parts) -> String {
    let mut paragraphs = Vec::new();
    if !parts.text.is_empty() {
        paragraphs.push(parts.text.clone());
    }
    let permissions = spec.permissions.iter().map(|permission| {
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
    paragraphs.join("\n\n")
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

fn success(row: &Row, parts: &Parts, schemas: &Map<String, Value>) -> Value {
    let mut names = headers_of(row).to_vec();
    names.extend(&parts.answer_headers);
    names.extend(row.takes_key().then_some("Idempotent-Replayed"));
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

fn dry_run(row: &Row, schema: &Value, schemas: &Map<String, Value>) -> Value {
    let mut names = headers_of(row).to_vec();
    names.push("Cache-Control");
    let example = example::example(schema, schemas);
    json!({
        "description": "Result of a dry run, which changed nothing.",
        "content": { "application/json": { "schema": schema, "example": example } },
        "headers": header_references(names),
    })
}

fn not_modified() -> Value {
    json!({
        "description": "The caller already has the current version.",
        "headers": header_references([ALWAYS, &["ETag", "Cache-Control"]].concat()),
    })
}

/// Returns the headers of responses, by name.
fn headers() -> Value {
    let header = |is_required: bool, description: &str, schema: Value| {
        json!({
            "required": is_required,
            "description": description,
            "schema": schema,
        })
    };
    let text = || json!({ "type": "string" });
    json!({
        "Request-Id": header(
            true,
            "Identifier of the request in the log.",
            json!({ "type": "string", "format": "uuid" })
        ),
        "RateLimit": header(
            false,
            "Remaining quota, if the server has one: `\"default\";r=50;t=30` means 50 requests, \
             and the full quota again in 30 seconds (draft-ietf-httpapi-ratelimit-headers).",
            text()
        ),
        "RateLimit-Policy": header(
            false,
            "Quota of the caller, if the server has one: `\"default\";q=100;w=60` means 100 \
             requests in 60 seconds.",
            text()
        ),
        "Cache-Control": header(true, "Caching rules for the response.", text()),
        "ETag": header(true, "Entity tag of this version, for `If-Match` and `If-None-Match`.",
            json!({ "type": "string", "pattern": "^(W/)?\"[!#-~]+\"$" })),
        "Idempotent-Replayed": header(
            false,
            "`true` if an earlier identical request was carried out, and this one only repeats its \
             response.",
            json!({ "type": "string", "const": "true" })
        ),
        "WWW-Authenticate": header(
            true,
            "Authentication scheme of the operation (RFC 9110, 11.6.1).",
            text()
        ),
        "Retry-After": header(
            true,
            "Waiting time before the next attempt, in seconds.",
            json!({ "type": "integer", "minimum": 1 })
        ),
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
            "description": "Session, `wks_…`. A write is rejected if `Sec-Fetch-Site` or `Origin`, \
                which browsers send themselves, says that a page of another origin sent it. \
                Programs need neither.",
        }),
        Authentication::Signature => json!({
            "type": "apiKey",
            "in": "header",
            "name": "webhook-signature",
            "description": "Signature over `webhook-id`, `webhook-timestamp` and the body, `v1,…` \
                (Standard Webhooks 1.0.0).",
        }),
    }
}

#[cfg(test)]
mod tests;
