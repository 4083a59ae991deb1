//! What the document says of an operation beside what the table of operations says.

use http::StatusCode;
use schemars::JsonSchema;
use serde_json::{Map, Value, json};

use super::schemas::Schemas;
use crate::access::{NEEDS, Need};
use crate::api::route::Operation;
use crate::api::status;
use crate::error::Error;
use crate::limits::{PAGE_ITEMS_DEFAULT, PAGE_ITEMS_MAX};
use crate::service::Page;

/// The descriptions of all operations, as they are written down.
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

    /// Describes an operation. `text` is what people should know beside its summary, in Markdown.
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

/// What is said of one operation.
#[derive(Default)]
pub(super) struct Parts {
    pub(super) text: String,
    pub(super) needs: Vec<Need>,
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

/// The description of one operation, part by part.
pub(super) struct Description<'d> {
    schemas: &'d mut Schemas,
    parts: &'d mut Parts,
}

impl Description<'_> {
    /// What it needs: the rows of [`NEEDS`] for this function of the service.
    ///
    /// # Panics
    /// Where there are none.
    pub(super) fn needs(self, function: &str) -> Self {
        let needs = NEEDS.iter().filter(|need| need.operation == function);
        self.parts.needs.extend(needs);
        assert!(!self.parts.needs.is_empty(), "{function} needs nothing");
        self
    }

    /// What it needs always, where the function of the service needs it in some cases.
    pub(super) fn always_needs(self, need: Need) -> Self {
        self.parts.needs.push(Need { when: "", ..need });
        self
    }

    /// Takes a body.
    pub(super) fn body<T: JsonSchema>(self) -> Self {
        self.parts.body = Some(RequestBody {
            schema: self.schemas.request::<T>(),
            is_required: true,
            example: None,
        });
        self
    }

    /// Takes a body, or none.
    pub(super) fn optional_body<T: JsonSchema>(self) -> Self {
        let description = self.body::<T>();
        if let Some(body) = &mut description.parts.body {
            body.is_required = false;
        }
        description
    }

    /// Takes no body, or an empty object.
    pub(super) fn empty_body(self) -> Self {
        self.parts.body = Some(RequestBody {
            schema: json!({ "type": "object", "maxProperties": 0 }),
            is_required: false,
            example: None,
        });
        self
    }

    /// An example of its body, where the one made of the schema would not do.
    pub(super) fn example(self, example: Value) -> Self {
        if let Some(body) = &mut self.parts.body {
            body.example = Some(example);
        }
        self
    }

    /// Takes the fields of a type as parameters behind the question mark.
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

    /// Takes a header or another parameter that stands among the components.
    fn parameter(self, name: &str) -> Self {
        let reference = json!({ "$ref": format!("#/components/parameters/{name}") });
        self.parts.parameters.push(reference);
        self
    }

    /// Takes the header `Idempotency-Key`, which has to be there, and says in the answer whether it is a replay.
    pub(super) fn idempotency_key(self) -> Self {
        self.parts.answer_headers.push("Idempotent-Replayed");
        self.parameter("Idempotency-Key")
            .refuses(&Error::IdempotencyKeyRequired)
    }

    /// Takes the header `If-Match`.
    pub(super) fn if_match(self) -> Self {
        self.parameter("If-Match")
    }

    /// Takes the headers of Standard Webhooks that its signature is over.
    pub(super) fn signed(self) -> Self {
        self.parameter("webhook-id").parameter("webhook-timestamp")
    }

    /// Takes the header `If-None-Match`, and is answered `304` where it names the present version.
    pub(super) fn if_none_match(self) -> Self {
        self.parts.has_not_modified = true;
        self.parameter("If-None-Match")
    }

    /// Answers with a record.
    pub(super) fn answers<T: JsonSchema>(self) -> Self {
        self.parts.answer = Some(self.schemas.answer::<T>());
        self
    }

    /// Answers with a record as the field `data` of an object.
    pub(super) fn answers_data<T: JsonSchema>(self) -> Self {
        self.parts.answer = Some(json!({
            "type": "object",
            "properties": { "data": self.schemas.answer::<T>() },
            "required": ["data"],
        }));
        self
    }

    /// Answers with one page of a list, and takes `limit` and `cursor`.
    pub(super) fn answers_page<T: JsonSchema>(self) -> Self {
        self.answers::<Page<T>>()
            .parameter("limit")
            .parameter("cursor")
    }

    /// Answers with an entity tag.
    pub(super) fn etag(self) -> Self {
        self.parts.answer_headers.push("ETag");
        self
    }

    /// Refuses with this error, beside the one that its status has everywhere.
    pub(super) fn refuses(self, error: &Error) -> Self {
        self.parts.refusals.push((status(error), error.code()));
        self
    }

    /// What it answers is what another operation takes: `parameters` from the answer, as runtime expressions.
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

/// The parameters that several operations take.
pub(super) fn shared_parameters() -> Value {
    let cursor =
        "The `next_cursor` of the page before, as it was given; without it the first page.";
    json!({
        "Idempotency-Key": {
            "name": "Idempotency-Key",
            "in": "header",
            "required": true,
            "description": "Chosen anew for each request and repeated with each retry: 1 to 255 visible ASCII \
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
            "description": "Answers `304` where the entity tag is still the present one (RFC 9110, 13.1.2).",
            "schema": { "type": "string" },
        },
        "webhook-id": {
            "name": "webhook-id",
            "in": "header",
            "required": true,
            "description": "What the message is called: the same for each repetition, and for no other message.",
            "schema": { "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$" },
            "example": "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W",
        },
        "webhook-timestamp": {
            "name": "webhook-timestamp",
            "in": "header",
            "required": true,
            "description": "When the message was sent, in seconds since the Unix epoch.",
            "schema": { "type": "string", "pattern": "^[0-9]+$" },
            "example": "1674087231",
        },
        "limit": {
            "name": "limit",
            "in": "query",
            "description": format!("How many items the page may have; without it {PAGE_ITEMS_DEFAULT}."),
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
