//! Webhooks of the document: the deliveries of events, generated from their declaration.

use serde_json::{Map, Value, json};

use super::example::example;
use super::schemas::{Schemas, reference};
use crate::model::{EventData, Timestamp};

/// An event with the name of the schema of its body.
pub(super) struct EventSchema {
    event_type: String,
    name: String,
}

/// Adds the schema of the body of each event.
pub(super) fn declare(schemas: &mut Schemas) -> Vec<EventSchema> {
    let mut timestamp = schemas.answer::<Timestamp>();
    timestamp["description"] = "Time of the event, not of the delivery.".into();
    let bodies = schemas.alternatives::<EventData>();
    bodies
        .into_iter()
        .map(|mut body| {
            body["properties"]["type"]["description"] = "Type of the event.".into();
            body["properties"]["timestamp"] = timestamp.clone();
            body["required"] = json!(["type", "timestamp", "data"]);
            let event_type = body["properties"]["type"]["const"].as_str();
            let event_type = event_type.expect("the tag is a constant").to_owned();
            let name = schema_name(&event_type);
            schemas.add(&name, body);
            EventSchema { event_type, name }
        })
        .collect()
}

/// Returns the name of the schema of an event: `ChunkCreatedEvent` for `chunk.created`.
fn schema_name(event_type: &str) -> String {
    let words = event_type.split(['.', '_']).map(|word| {
        let (first, rest) = word.split_at(1);
        first.to_ascii_uppercase() + rest
    });
    words.chain(["Event".to_owned()]).collect()
}

/// Describes the deliveries of all events, by event type.
pub(super) fn describe(events: &[EventSchema], schemas: &Map<String, Value>) -> Value {
    let parameters = ["webhook-id", "webhook-timestamp", "webhook-signature"]
        .map(|name| json!({ "$ref": format!("#/components/parameters/{name}") }));
    let webhooks = events.iter().map(|EventSchema { event_type, name }| {
        let text = schemas[name]["description"].as_str().unwrap_or_default();
        let (summary, description) = text.split_once("\n\n").unwrap_or((text, ""));
        let schema = reference(name);
        let example = example(&schema, schemas);
        let mut delivery = json!({
            "summary": summary.trim_end_matches('.'),
            "parameters": parameters,
            "requestBody": {
                "required": true,
                "content": { "application/json": { "schema": schema, "example": example } },
            },
            "responses": {
                "2XX": { "description": "The event is delivered." },
                "410": {
                    "description": "The endpoint wants no further deliveries; the service disables \
                                    it.",
                },
                "default": {
                    "description": "The attempt failed. It is retried with backoff, unless the \
                                    event is a test.",
                },
            },
        });
        if !description.is_empty() {
            delivery["description"] = description.into();
        }
        (event_type.clone(), json!({ "post": delivery }))
    });
    Value::Object(webhooks.collect())
}
