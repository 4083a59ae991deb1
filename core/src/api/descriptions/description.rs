//! Descriptions of operations, from their inputs and outputs.

use std::collections::BTreeSet;

use http::Method;
use schemars::JsonSchema;
use serde_json::{Map, Value, json};

use super::schemas::Schemas;
use super::variants;
use crate::limits::{PAGE_ITEMS_DEFAULT, PAGE_ITEMS_MAX};
use crate::operation::{Authentication, OPERATOR_ERROR_STATUSES, OperationSpec, OperatorSpec};

/// Descriptions of the operations of an interface, in the order of their table.
pub(in crate::api) struct Descriptions {
    pub(super) schemas: Schemas,
    pub(super) all: Vec<(Row, Parts)>,
}

impl Descriptions {
    /// Describes operations with this function.
    pub(in crate::api) fn of(describe: fn(&mut Self)) -> Self {
        let mut descriptions = Self {
            schemas: Schemas::new(),
            all: Vec::new(),
        };
        describe(&mut descriptions);
        descriptions
    }

    /// Describes an operation. The lines of `text`, in Markdown, add to its summary.
    pub(in crate::api) fn describe(
        &mut self,
        row: impl Into<Row>,
        text: &[&str],
    ) -> Description<'_> {
        let lines: Vec<&str> = text.iter().map(|line| line.trim()).collect();
        let paragraphs = lines.split(|line| line.is_empty());
        let paragraphs = paragraphs.filter(|lines| !lines.is_empty());
        let paragraphs: Vec<String> = paragraphs.map(|lines| lines.join(" ")).collect();
        let parts = Parts {
            text: paragraphs.join("\n\n"),
            ..Parts::default()
        };
        let row = row.into();
        let path = row.path;
        self.all.push((row, parts));
        Description {
            path,
            schemas: &mut self.schemas,
            parts: self.all.last_mut().map(|(_, parts)| parts).expect("pushed"),
        }
    }
}

/// Row of a table of operations, as the document shows it.
pub(in crate::api) struct Row {
    pub(super) id: String,
    pub(super) summary: &'static str,
    pub(super) capability: &'static str,
    pub(super) method: &'static Method,
    pub(super) path: &'static str,
    pub(super) success: u16,
    /// Statuses of all error responses.
    pub(super) error_statuses: BTreeSet<u16>,
    /// Row of the public interface; `None` for an operation of the operator.
    pub(super) public: Option<&'static OperationSpec>,
}

impl From<&'static OperationSpec> for Row {
    fn from(spec: &'static OperationSpec) -> Self {
        Self {
            id: spec.operation.id(),
            summary: spec.summary,
            capability: spec.capability,
            method: &spec.method,
            path: spec.path,
            success: spec.success,
            error_statuses: spec.all_error_statuses().collect(),
            public: Some(spec),
        }
    }
}

impl From<&'static OperatorSpec> for Row {
    fn from(spec: &'static OperatorSpec) -> Self {
        Self {
            id: spec.operation.id(),
            summary: spec.summary,
            capability: spec.capability,
            method: &spec.method,
            path: spec.path,
            success: spec.success,
            error_statuses: spec
                .error_statuses
                .iter()
                .chain(OPERATOR_ERROR_STATUSES)
                .copied()
                .collect(),
            public: None,
        }
    }
}

impl Row {
    /// Returns true if an access token authenticates the operation.
    fn is_bearer(&self) -> bool {
        let spec = self.public.as_ref();
        spec.is_some_and(|spec| spec.authentication == Authentication::Bearer)
    }

    /// Returns true if the operation takes an `Idempotency-Key` and does not require it.
    pub(super) fn takes_key(&self) -> bool {
        self.public.is_some_and(|spec| spec.replay.is_some())
    }
}

/// Parts of the description of one operation.
#[derive(Default)]
pub(super) struct Parts {
    pub(super) text: String,
    pub(super) body: Option<RequestBody>,
    pub(super) parameters: Vec<Value>,
    pub(super) answer: Option<Value>,
    /// Response to a dry run, with the status `200`; that of another request has another status.
    pub(super) dry_run: Option<Value>,
    pub(super) answer_headers: Vec<&'static str>,
    pub(super) has_not_modified: bool,
    /// Codes of errors that only some operations have.
    pub(super) error_codes: Vec<&'static str>,
    pub(super) links: Map<String, Value>,
    /// Place of the record in the response, or of the first one on a page.
    record: &'static str,
}

pub(super) struct RequestBody {
    pub(super) schema: Value,
    pub(super) is_required: bool,
    pub(super) example: Option<Value>,
}

/// Builder of the description of one operation.
pub(in crate::api) struct Description<'d> {
    path: &'static str,
    schemas: &'d mut Schemas,
    parts: &'d mut Parts,
}

impl Description<'_> {
    /// Adds a body. One that has to be one of several is required too.
    pub(in crate::api) fn body<T: JsonSchema>(&mut self, is_required: bool) {
        let inline = T::json_schema(&mut schemars::SchemaGenerator::default());
        let has_variants = variants::KEYWORDS
            .iter()
            .any(|name| inline.get(*name).is_some());
        self.parts.body = Some(RequestBody {
            schema: self.schemas.request::<T>(),
            is_required: is_required || has_variants,
            example: None,
        });
    }

    /// Accepts an empty body or an empty object.
    pub(in crate::api) fn empty_body(&mut self) {
        self.parts.body = Some(RequestBody {
            schema: json!({ "type": "object", "additionalProperties": false }),
            is_required: false,
            example: None,
        });
    }

    /// Sets an example of the body, in place of the one derived from the schema.
    pub(in crate::api) fn example(&mut self, example: Value) {
        if let Some(body) = &mut self.parts.body {
            body.example = Some(example);
        }
    }

    /// Adds an identifier of the path.
    pub(in crate::api) fn path_parameter(&mut self, name: &str) {
        let parameter = path_parameter(self.path, name);
        self.parts.parameters.push(parameter);
    }

    /// Adds a parameter of the path that is a slug or a handle, or has that form.
    pub(in crate::api) fn slug_parameter(&mut self, name: &str, description: &str, example: &str) {
        self.parts.parameters.push(json!({
            "name": name,
            "in": "path",
            "required": true,
            "description": description,
            "schema": {
                "type": "string", "pattern": "^[a-z0-9._-]+$", "minLength": 1, "maxLength": 64,
            },
            "example": example,
        }));
    }

    /// Adds the fields of a type as query parameters.
    pub(in crate::api) fn query<T: JsonSchema>(&mut self) {
        for (name, is_required, mut schema) in self.schemas.request_fields::<T>() {
            let description = schema
                .as_object_mut()
                .and_then(|schema| schema.remove("description"));
            let mut parameter = json!({
                "name": name,
                "in": "query",
                "required": is_required,
                "schema": schema,
            });
            if let Some(description) = description {
                parameter["description"] = description;
            }
            self.parts.parameters.push(parameter);
        }
    }

    /// Adds a parameter defined in the components.
    pub(in crate::api) fn shared_parameter(&mut self, name: &str) {
        self.parts.parameters.push(shared_parameter(name));
    }

    /// Adds the parameters of a page.
    pub(in crate::api) fn page(&mut self) {
        self.shared_parameter("limit");
        self.shared_parameter("cursor");
        self.parts.record = "/data/0";
    }

    /// Adds the header `If-None-Match` and the response `304`.
    pub(in crate::api) fn if_none_match(&mut self) {
        self.parts.has_not_modified = true;
        self.shared_parameter("If-None-Match");
    }

    /// Sets the record in the response.
    pub(in crate::api) fn answers<T: JsonSchema>(&mut self) {
        self.parts.answer = Some(self.schemas.answer::<T>());
    }

    /// Sets the response to a dry run.
    pub(in crate::api) fn answers_dry_run<T: JsonSchema>(&mut self) {
        self.parts.dry_run = Some(self.schemas.answer::<T>());
    }

    /// Sets the record in the field `data` of the response.
    pub(in crate::api) fn answers_data<T: JsonSchema>(&mut self) {
        self.parts.answer = Some(json!({
            "type": "object",
            "properties": { "data": self.schemas.answer::<T>() },
            "required": ["data"],
        }));
        self.parts.record = "/data";
    }

    /// Adds a header to the response.
    pub(in crate::api) fn header(&mut self, name: &'static str) {
        self.parts.answer_headers.push(name);
    }

    /// Adds an error response with this code, besides those that every operation with its status
    /// has.
    pub(in crate::api) fn fails_with(&mut self, code: &'static str) {
        self.parts.error_codes.push(code);
    }

    /// Links to an operation with these parameters, as runtime expressions.
    ///
    /// Without any, the last parameter of its path is the identifier in the response, and the
    /// others are those of the request.
    pub(in crate::api) fn links_to(&mut self, target: impl Into<Row>, parameters: &[(&str, &str)]) {
        let Row { id, path, .. } = target.into();
        let mut all: Map<String, Value> = parameters
            .iter()
            .map(|(name, expression)| ((*name).to_owned(), (*expression).into()))
            .collect();
        if parameters.is_empty() {
            let names: Vec<&str> = parameter_names(path).collect();
            for name in &names {
                all.insert((*name).to_owned(), format!("$request.path.{name}").into());
            }
            if let Some(last) = names.last() {
                let id = format!("$response.body#{}/id", self.parts.record);
                all.insert((*last).to_owned(), id.into());
            }
        }
        let link = json!({ "operationId": id, "parameters": all });
        self.parts.links.insert(id, link);
    }
}

/// Returns the names of the parameters of a path.
pub(super) fn parameter_names(path: &str) -> impl Iterator<Item = &str> {
    let segments = path.split('/');
    segments.filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
}

/// Describes an identifier in a path by the preceding segment.
fn path_parameter(path: &str, name: &str) -> Value {
    let before = path.split(&format!("/{{{name}}}")).next();
    let before = before.and_then(|before| before.rsplit('/').next());
    let thing = match (before.unwrap_or_default(), name) {
        (_, "org") => "organisation".to_owned(),
        (_, "workspaceId") => "workspace".to_owned(),
        ("{org}", _) => "inbound webhook".to_owned(),
        ("audit-log", _) => "audit log entry".to_owned(),
        ("mcp-keys", _) => "MCP key".to_owned(),
        (things, _) => singular(&things.replace('-', " ")),
    };
    json!({
        "name": name,
        "in": "path",
        "required": true,
        "description": format!("Identifier of the {thing}."),
        "schema": { "type": "string", "format": "uuid" },
        "example": "01890a5d-ac96-774b-bcce-b302099a8057",
    })
}

/// Returns the singular of a plural.
fn singular(things: &str) -> String {
    let stem = things.strip_suffix("ies");
    stem.map_or_else(
        || things.trim_end_matches('s').to_owned(),
        |stem| format!("{stem}y"),
    )
}

/// Name of the shared parameter of the operations that take an `Idempotency-Key` and do not require
/// it.
const OPTIONAL_KEY: &str = "OptionalIdempotencyKey";

/// Name of the shared parameter of the operations with an access token.
const ACT_FOR: &str = "Knowledge-Act-For";

/// Returns the reference to a parameter defined in the components.
fn shared_parameter(name: &str) -> Value {
    json!({ "$ref": format!("#/components/parameters/{name}") })
}

/// Returns the parameters of an operation.
pub(super) fn parameters(row: &Row, parts: &Parts) -> Vec<Value> {
    let key = row.takes_key().then(|| shared_parameter(OPTIONAL_KEY));
    let member = row.is_bearer().then(|| shared_parameter(ACT_FOR));
    let shared = key.into_iter().chain(member);
    parts.parameters.iter().cloned().chain(shared).collect()
}

/// Returns the parameters of a signed message: its identifier, the time of sending, the signatures.
fn message_parameters() -> [Value; 3] {
    let message_id = json!({
        "name": "webhook-id",
        "in": "header",
        "required": true,
        "description": "Identifier of the message, unique to it and the same for each retry, \
            without a full stop.",
        "schema": {
            "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-,/-~-]+$",
        },
        "example": "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W",
    });
    let timestamp = json!({
        "name": "webhook-timestamp",
        "in": "header",
        "required": true,
        "description": "Time of sending, in seconds since the Unix epoch.",
        "schema": { "type": "string", "pattern": "^[0-9]+$" },
        "example": "1674087231",
    });
    let signature = json!({
        "name": "webhook-signature",
        "in": "header",
        "required": true,
        "description": "Signatures over `webhook-id`, `webhook-timestamp` and the body, `v1,…` \
                        (Standard Webhooks 1.0.0): one for each valid secret, separated by \
                        spaces.",
        "schema": {
            "type": "string",
            "pattern": "^v1,[A-Za-z0-9+/]+={0,2}( v1,[A-Za-z0-9+/]+={0,2})*$",
        },
        "example": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    });
    [message_id, timestamp, signature]
}

/// Returns the parameters that several operations share.
pub(super) fn shared_parameters() -> Value {
    let key =
        json!({ "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!#-~][!-~]*$" });
    let example = "8e03978e-40d5-43e8-bc93-6894a57f9324";
    let [message_id, timestamp, signature] = message_parameters();
    let cursor = "The `next_cursor` of the previous page, unchanged; the first page if omitted.";
    json!({
        "Idempotency-Key": {
            "name": "Idempotency-Key",
            "in": "header",
            "required": true,
            "description": "New for each request and repeated with each retry: 1 to 255 visible \
                            ASCII characters, bare or as a quoted string.",
            "schema": key,
            "example": example,
        },
        OPTIONAL_KEY: {
            "name": "Idempotency-Key",
            "in": "header",
            "description": "New for each request and repeated with each retry, so that a retry \
                            creates nothing again: 1 to 255 visible ASCII characters, bare or as a \
                            quoted string.",
            "schema": key,
            "example": example,
        },
        ACT_FOR: {
            "name": ACT_FOR,
            "in": "header",
            "description": "Member that a service account acts for: `user:<handle>`, or the \
                            identifier of the member. Requires `member:act_for`.",
            "schema": {
                "type": "string",
                "pattern": "^(user:[a-z0-9._-]{1,64}|[0-9a-fA-F-]{32,36})$",
            },
            "examples": { "a member": { "value": "user:maya" } },
        },
        "If-Match": {
            "name": "If-Match",
            "in": "header",
            "description": "Changes only the version with this entity tag (RFC 9110, 13.1.1).",
            "schema": { "type": "string" },
        },
        "If-None-Match": {
            "name": "If-None-Match",
            "in": "header",
            "description": "Responds `304` if the entity tag is still current (RFC 9110, 13.1.2).",
            "schema": { "type": "string" },
        },
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": signature,
        "limit": {
            "name": "limit",
            "in": "query",
            "description": format!(
                "Maximum number of items on the page; {PAGE_ITEMS_DEFAULT} if omitted."
            ),
            "schema": {
                "type": "integer", "minimum": 1, "maximum": PAGE_ITEMS_MAX,
                "default": PAGE_ITEMS_DEFAULT,
            },
        },
        "cursor": {
            "name": "cursor",
            "in": "query",
            "description": cursor,
            "schema": { "type": "string", "pattern": "^[A-Za-z0-9_-]+$" },
        },
    })
}
