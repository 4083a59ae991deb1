//! The description of the interface as an OpenAPI 3.1 document.
//!
//! It is made of the table of operations, which says their paths and statuses, of the types that are sent and answered,
//! which say their fields, and of the limits in force. What neither says stands in `operations`, one file for each file
//! of `handlers`.

mod description;
mod example;
mod operations;
mod refusals;
mod schemas;

use serde_json::{Map, Value, json};

use self::description::{Descriptions, Parts, RequestBody, shared_parameters};
use self::refusals::{ALWAYS, Refusals};
use super::route::{Authentication, OPERATIONS, OperationSpec, Origin};
use crate::access::Place;
use crate::limits::Limits;

/// The version of OpenAPI: its schemas are JSON Schema 2020-12.
const OPENAPI: &str = "3.1.0";

const ABOUT: &str = "\
Governance for the memory of AI assistants: who may see it, how sensitive it is, what waits for review.

Operations marked **addition** are not of the interface specification: they are this service's own.

A field that has no value is `null` in an answer, and left out of a request: there `null` is refused, and so is a field \
that is not known. Lists come page by page: `next_cursor` is the `cursor` of the next page, and `null` at the end.";

/// What an operation says that it is not in the specification.
const ADDITION: &str = "**Addition**: not in the interface specification.";

/// The description of the interface of a service with these limits, the same for the same limits.
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
    let needs = parts.needs.iter().map(|need| {
        let place = match need.place {
            Place::Organization => "in the organisation",
            Place::Anywhere => "in the organisation or in any workspace",
            Place::Workspace => "in the workspace",
            Place::EachMemory => "in the workspace of each memory",
        };
        let when = if need.when.is_empty() {
            String::new()
        } else {
            format!(" ({})", need.when)
        };
        format!("`{}` {place}{when}", need.action)
    });
    let needs: Vec<String> = needs.collect();
    if !needs.is_empty() {
        paragraphs.push(format!("Needs {}.", needs.join("; ")));
    }
    if spec.origin == Origin::Addition {
        paragraphs.push(ADDITION.to_owned());
    }
    paragraphs.join("\n\n")
}

/// The parameters in the braces of a path, named by what stands before them. All are identifiers but the slug of the organisation.
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
                "description": "The slug of the organisation.",
                "schema": { "type": "string", "pattern": "^[a-z0-9._-]+$", "minLength": 1, "maxLength": 64 },
                "example": "acme",
            })
        } else {
            json!({
                "name": name,
                "in": "path",
                "required": true,
                "description": format!("The identifier of the {thing}."),
                "schema": { "type": "string", "format": "uuid" },
                "example": "01890a5d-ac96-774b-bcce-b302099a8057",
            })
        })
    });
    parameters.collect::<Vec<_>>().into_iter()
}

/// The name of one of these things.
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
        "description": "What was asked for is done.",
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
        "description": "The caller has the present version.",
        "headers": header_references([ALWAYS, &["ETag", "Cache-Control"]].concat()),
    })
}

/// The headers of answers, by name.
fn headers() -> Value {
    let header = |is_required: bool, description: &str, schema: Value| json!({ "required": is_required, "description": description, "schema": schema });
    let text = || json!({ "type": "string" });
    json!({
        "Request-Id": header(true, "What the request is called in the log.", json!({ "type": "string", "format": "uuid" })),
        "RateLimit": header(
            false,
            "What is left of the quota, where the server has one: `\"default\";r=50;t=30`, 50 requests, and all of it again \
             in 30 seconds (draft-ietf-httpapi-ratelimit-headers).",
            text()
        ),
        "RateLimit-Policy": header(
            false,
            "The quota of the caller, where the server has one: `\"default\";q=100;w=60`, 100 requests in 60 seconds.",
            text()
        ),
        "Cache-Control": header(true, "Whether and by whom the answer may be kept.", text()),
        "ETag": header(true, "The entity tag of this version, for `If-Match` and `If-None-Match`.",
            json!({ "type": "string", "pattern": "^(W/)?\"[!#-~]+\"$" })),
        "Idempotent-Replayed": header(false, "`true` where the answer is the stored one of an earlier identical request.",
            json!({ "type": "string", "const": "true" })),
        "WWW-Authenticate": header(true, "What the operation takes (RFC 9110, 11.6.1).", text()),
        "Retry-After": header(true, "When to try again, in seconds.", json!({ "type": "integer", "minimum": 1 })),
        "Error-Message": header(true, "What was wrong, for people.", text()),
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
            "description": "An access token, `wkt_…`. `knowledge token create` makes one.",
        }),
        Authentication::Session => json!({
            "type": "apiKey",
            "in": "cookie",
            "name": super::headers::SESSION_COOKIE,
            "description": "A session, `wks_…`. A write is refused where the browser says that a page of another site sent it.",
        }),
        Authentication::Signature => json!({
            "type": "apiKey",
            "in": "header",
            "name": "webhook-signature",
            "description": "The signature over `webhook-id`, `webhook-timestamp` and the body, `v1,…` (Standard Webhooks 1.0.0).",
        }),
    }
}

#[cfg(test)]
mod tests;
