//! Descriptions of operations, in addition to the table of operations.

use http::StatusCode;
use schemars::JsonSchema;
use serde_json::{Map, Value, json};

use super::schemas::Schemas;
use crate::access::{REQUIRED_PERMISSIONS, RequiredPermission};
use crate::api::route::Operation;
use crate::api::status;
use crate::error::Error;
use crate::limits::{PAGE_ITEMS_DEFAULT, PAGE_ITEMS_MAX};
use crate::service::Page;

/// Descriptions of all operations, in order of definition.
pub(super) struct Descriptions {
    pub(super) schemas: Schemas,
    pub(super) all: Vec<(Operation, Parts)>,
}

impl Descriptions {
    pub(super) fn new() -> Self {
        Self {
            schemas: Schemas::new(),
            all: Vec::new(),
        }
    }

    /// Describes an operation. `text` adds to its summary, in Markdown.
    pub(super) fn describe(&mut self, operation: Operation, text: &str) -> Description<'_> {
        let parts = Parts {
            text: text.to_owned(),
            ..Parts::default()
        };
        self.all.push((operation, parts));
        Description {
            schemas: &mut self.schemas,
            parts: self.all.last_mut().map(|(_, parts)| parts).expect("pushed"),
        }
    }
}

/// Parts of the description of one operation.
#[derive(Default)]
pub(super) struct Parts {
    pub(super) text: String,
    pub(super) permissions: Vec<RequiredPermission>,
    pub(super) body: Option<RequestBody>,
    pub(super) parameters: Vec<Value>,
    pub(super) answer: Option<Value>,
    pub(super) answer_headers: Vec<&'static str>,
    pub(super) has_not_modified: bool,
    pub(super) refusals: Vec<(StatusCode, &'static str)>,
    pub(super) links: Map<String, Value>,
}

pub(super) struct RequestBody {
    pub(super) schema: Value,
    pub(super) is_required: bool,
    pub(super) example: Option<Value>,
}

/// Builder of the description of one operation.
pub(super) struct Description<'d> {
    schemas: &'d mut Schemas,
    parts: &'d mut Parts,
}

impl Description<'_> {
    /// Adds the required permissions: the rows of [`REQUIRED_PERMISSIONS`] for this function of the service.
    ///
    /// # Panics
    /// Panics if there are none.
    pub(super) fn needs(self, function: &str) -> Self {
        let permissions = REQUIRED_PERMISSIONS
            .iter()
            .filter(|permission| permission.operation == function);
        self.parts.permissions.extend(permissions);
        assert!(
            !self.parts.permissions.is_empty(),
            "{function} requires no permission"
        );
        self
    }

    /// Adds a permission that this operation always requires, its function only in some cases.
    pub(super) fn always_needs(self, permission: RequiredPermission) -> Self {
        self.parts.permissions.push(RequiredPermission {
            when: "",
            ..permission
        });
        self
    }

    /// Adds a required body.
    pub(super) fn body<T: JsonSchema>(self) -> Self {
        self.parts.body = Some(RequestBody {
            schema: self.schemas.request::<T>(),
            is_required: true,
            example: None,
        });
        self
    }

    /// Adds an optional body.
    pub(super) fn optional_body<T: JsonSchema>(self) -> Self {
        let description = self.body::<T>();
        if let Some(body) = &mut description.parts.body {
            body.is_required = false;
        }
        description
    }

    /// Accepts an empty body or an empty object.
    pub(super) fn empty_body(self) -> Self {
        self.parts.body = Some(RequestBody {
            schema: json!({ "type": "object", "maxProperties": 0 }),
            is_required: false,
            example: None,
        });
        self
    }

    /// Sets an example of the body, in place of the one derived from the schema.
    pub(super) fn example(self, example: Value) -> Self {
        if let Some(body) = &mut self.parts.body {
            body.example = Some(example);
        }
        self
    }

    /// Adds the fields of a type as query parameters.
    pub(super) fn query<T: JsonSchema>(self) -> Self {
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
        self
    }

    /// Adds a parameter defined in the components.
    fn parameter(self, name: &str) -> Self {
        let reference = json!({ "$ref": format!("#/components/parameters/{name}") });
        self.parts.parameters.push(reference);
        self
    }

    /// Adds the required header `Idempotency-Key` and the header that marks a replay.
    pub(super) fn idempotency_key(self) -> Self {
        self.parts.answer_headers.push("Idempotent-Replayed");
        self.parameter("Idempotency-Key")
            .refuses(&Error::IdempotencyKeyRequired)
    }

    /// Adds the header `If-Match`.
    pub(super) fn if_match(self) -> Self {
        self.parameter("If-Match")
    }

    /// Adds the headers of Standard Webhooks that the signature covers.
    pub(super) fn signed(self) -> Self {
        self.parameter("webhook-id").parameter("webhook-timestamp")
    }

    /// Adds the header `If-None-Match` and the response `304`.
    pub(super) fn if_none_match(self) -> Self {
        self.parts.has_not_modified = true;
        self.parameter("If-None-Match")
    }

    /// Sets the record in the response.
    pub(super) fn answers<T: JsonSchema>(self) -> Self {
        self.parts.answer = Some(self.schemas.answer::<T>());
        self
    }

    /// Sets the record in the field `data` of the response.
    pub(super) fn answers_data<T: JsonSchema>(self) -> Self {
        self.parts.answer = Some(json!({
            "type": "object",
            "properties": { "data": self.schemas.answer::<T>() },
            "required": ["data"],
        }));
        self
    }

    /// Sets one page of a list as the response, and adds `limit` and `cursor`.
    pub(super) fn answers_page<T: JsonSchema>(self) -> Self {
        self.answers::<Page<T>>()
            .parameter("limit")
            .parameter("cursor")
    }

    /// Adds the entity tag to the response.
    pub(super) fn etag(self) -> Self {
        self.parts.answer_headers.push("ETag");
        self
    }

    /// Adds an error response, besides those that every operation with this status has.
    pub(super) fn refuses(self, error: &Error) -> Self {
        self.parts.refusals.push((status(error), error.code()));
        self
    }

    /// Links to an operation whose parameters come from the response, as runtime expressions.
    pub(super) fn leads_to(self, operation: Operation, parameters: &[(&str, &str)]) -> Self {
        let id = operation.id();
        let parameters: Map<_, _> = parameters
            .iter()
            .map(|(name, expression)| ((*name).to_owned(), (*expression).into()))
            .collect();
        let link = json!({ "operationId": id, "parameters": parameters });
        self.parts.links.insert(id, link);
        self
    }
}

/// Returns the parameters that several operations share.
pub(super) fn shared_parameters() -> Value {
    let cursor = "The `next_cursor` of the previous page, unchanged; the first page if omitted.";
    json!({
        "Idempotency-Key": {
            "name": "Idempotency-Key",
            "in": "header",
            "required": true,
            "description": "New for each request and repeated with each retry: 1 to 255 visible ASCII \
                            characters, bare or as a quoted string.",
            "schema": { "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!#-~][!-~]*$" },
            "example": "8e03978e-40d5-43e8-bc93-6894a57f9324",
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
        "webhook-id": {
            "name": "webhook-id",
            "in": "header",
            "required": true,
            "description": "Identifier of the message, unique to it and the same for each retry.",
            "schema": { "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$" },
            "example": "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W",
        },
        "webhook-timestamp": {
            "name": "webhook-timestamp",
            "in": "header",
            "required": true,
            "description": "Time of sending, in seconds since the Unix epoch.",
            "schema": { "type": "string", "pattern": "^[0-9]+$" },
            "example": "1674087231",
        },
        "limit": {
            "name": "limit",
            "in": "query",
            "description": format!("Maximum number of items on the page; {PAGE_ITEMS_DEFAULT} if omitted."),
            "schema": { "type": "integer", "minimum": 1, "maximum": PAGE_ITEMS_MAX, "default": PAGE_ITEMS_DEFAULT },
        },
        "cursor": {
            "name": "cursor",
            "in": "query",
            "description": cursor,
            "schema": { "type": "string", "pattern": "^[A-Za-z0-9_-]+$" },
        },
    })
}
