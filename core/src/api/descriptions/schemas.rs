//! Schemas of requests and responses, under their names in the document.

use std::collections::BTreeSet;

use schemars::generate::{Contract, SchemaSettings};
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::limits::Limits;

/// Location of the schemas in the document.
const DEFINITIONS: &str = "/components/schemas";
/// Keyword for the name of a configurable limit.
const LIMIT: &str = "x-limit";

/// Collector of the schemas that operations name.
///
/// A type has separate schemas as a request and as a response: a field that may be omitted from a
/// request is always present in a response, where it may be `null`.
pub(super) struct Schemas {
    requests: SchemaGenerator,
    answers: SchemaGenerator,
    added: Map<String, Value>,
}

impl Schemas {
    pub(super) fn new() -> Self {
        let generator = |contract| {
            let settings = SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = DEFINITIONS.into();
                settings.meta_schema = None;
                settings.contract = contract;
            });
            settings.into_generator()
        };
        Self {
            requests: generator(Contract::Deserialize),
            answers: generator(Contract::Serialize),
            added: Map::new(),
        }
    }

    /// Returns the schema of a request.
    pub(super) fn request<T: JsonSchema>(&mut self) -> Value {
        let mut schema = self.requests.subschema_for::<T>().to_value();
        reject_null(&mut schema);
        schema
    }

    /// Returns the schema of a response.
    pub(super) fn answer<T: JsonSchema>(&mut self) -> Value {
        self.answers.subschema_for::<T>().to_value()
    }

    /// Returns the schemas of the variants of a tagged enumeration in a response.
    pub(super) fn alternatives<T: JsonSchema>(&mut self) -> Vec<Value> {
        let mut schema = T::json_schema(&mut self.answers).to_value();
        match schema["oneOf"].take() {
            Value::Array(variants) => variants,
            other => panic!("not the variants of an enumeration: {other}"),
        }
    }

    /// Returns the fields of a request: name, true if it is required, schema.
    pub(super) fn request_fields<T: JsonSchema>(&mut self) -> Vec<(String, bool, Value)> {
        let mut schema = T::json_schema(&mut self.requests).to_value();
        reject_null(&mut schema);
        tidy(&mut schema);
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        let fields = schema["properties"]
            .as_object()
            .cloned()
            .unwrap_or_default();
        fields
            .into_iter()
            .map(|(name, schema)| {
                let is_required = required.contains(&json!(name));
                (name, is_required, schema)
            })
            .collect()
    }

    /// Adds a schema written by hand.
    pub(super) fn add(&mut self, name: &str, schema: Value) -> Value {
        self.added.insert(name.to_owned(), schema);
        reference(name)
    }

    /// Returns all schemas by name, with the limits in force, and the requests that were renamed.
    ///
    /// If a request and a response have the same name but different schemas, the name of the
    /// request gets the suffix `Request`.
    pub(super) fn finish(mut self, limits: &Limits) -> (Map<String, Value>, Renamed) {
        let mut all = self.answers.take_definitions(true);
        let mut requests = self.requests.take_definitions(true);
        let mut renamed = Renamed::default();
        for (name, schema) in &mut requests {
            reject_null(schema);
            close(schema);
            if all.get(name).is_some_and(|answer| answer != schema) {
                renamed.0.insert(name.clone());
            }
        }
        for (name, mut schema) in requests {
            renamed.apply(&mut schema);
            all.insert(renamed.name(name), schema);
        }
        all.append(&mut self.added);
        for schema in all.values_mut() {
            tidy(schema);
            apply_limits(schema, limits);
        }
        (all, renamed)
    }
}

/// Requests whose schemas have another name than their types.
#[derive(Default)]
pub(super) struct Renamed(BTreeSet<String>);

impl Renamed {
    fn name(&self, name: String) -> String {
        if self.0.contains(&name) {
            name + "Request"
        } else {
            name
        }
    }

    /// Replaces references to renamed requests.
    pub(super) fn apply(&self, schema: &mut Value) {
        walk(schema, &mut |fields| {
            if let Some(Value::String(target)) = fields.get_mut("$ref")
                && let Some((place, name)) = target.rsplit_once('/')
            {
                *target = format!("{place}/{}", self.name(name.to_owned()));
            }
        });
    }
}

/// Returns a reference to the schema with this name.
pub(super) fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#{DEFINITIONS}/{name}") })
}

/// Calls `visit` for each object in a schema, inner objects first.
fn walk(schema: &mut Value, visit: &mut impl FnMut(&mut Map<String, Value>)) {
    match schema {
        Value::Object(fields) => {
            fields.values_mut().for_each(|inner| walk(inner, visit));
            visit(fields);
        }
        Value::Array(items) => items.iter_mut().for_each(|inner| walk(inner, visit)),
        _ => {}
    }
}

/// Removes `null` from the schema of a request, where a field without a value is omitted, except
/// where it [takes a value away](crate::schema::NULLABLE).
fn reject_null(schema: &mut Value) {
    walk(schema, &mut |fields| {
        if fields.contains_key(crate::schema::NULLABLE) {
            return;
        }
        if let Some(Value::Array(types)) = fields.get_mut("type") {
            types.retain(|name| name != "null");
            if let [only] = types.as_slice() {
                let only = only.clone();
                fields.insert("type".to_owned(), only);
            }
        }
        let Some(Value::Array(choices)) = fields.get_mut("anyOf") else {
            return;
        };
        choices.retain(|choice| *choice != json!({ "type": "null" }));
        if let [Value::Object(only)] = choices.as_mut_slice() {
            let only = std::mem::take(only);
            fields.remove("anyOf");
            for (name, value) in only {
                // The description of the field takes precedence over that of its type.
                fields.entry(name).or_insert(value);
            }
        }
    });
}

/// Rejects unknown fields in the schema of a request.
fn close(schema: &mut Value) {
    walk(schema, &mut |fields| {
        if fields.get("type") == Some(&json!("object")) && fields.contains_key("properties") {
            fields.insert("additionalProperties".to_owned(), json!(false));
        }
    });
}

/// Simplifies schemas: enumerations become lists of names, and rustdoc markup is removed.
fn tidy(schema: &mut Value) {
    walk(schema, &mut |fields| {
        gather_names(fields);
        if let Some(Value::String(text)) = fields.get_mut("description") {
            *text = plain(text);
        }
    });
}

/// Merges choices that each are a constant into one list of names and their meanings.
fn gather_names(fields: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = fields.get("oneOf") else {
        return;
    };
    let Some(names) = choices
        .iter()
        .map(|choice| choice.get("const").cloned())
        .collect()
    else {
        return;
    };
    let mut meanings = Map::new();
    for choice in choices {
        let name = choice["const"].as_str().unwrap_or_default();
        let text = choice["description"].as_str().unwrap_or_default();
        let text = text.split("\n\n").next().unwrap_or_default();
        let text = text
            .trim_end_matches(&format!("Written `{name}`."))
            .trim_end();
        meanings.insert(name.to_owned(), plain(text).into());
    }
    fields.remove("oneOf");
    fields.insert("type".to_owned(), "string".into());
    fields.insert("enum".to_owned(), Value::Array(names));
    fields.insert("x-enum-descriptions".to_owned(), Value::Object(meanings));
}

/// Removes intra-doc links and line breaks within paragraphs.
fn plain(text: &str) -> String {
    let text = text.replace("[`", "`").replace("`]", "`");
    let paragraphs = text.split("\n\n").map(|lines| lines.replace('\n', " "));
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

/// Replaces the names of limits by the limits in force.
fn apply_limits(schema: &mut Value, limits: &Limits) {
    walk(schema, &mut |fields| {
        let Some(name) = fields.remove(LIMIT) else {
            return;
        };
        let name = name.as_str().unwrap_or_default();
        let max = limit(name, limits).unwrap_or_else(|| panic!("no limit is called {name}"));
        let keyword = match fields.get("type").and_then(Value::as_str) {
            Some("array") => "maxItems",
            Some("integer") => "maximum",
            _ => "maxLength",
        };
        fields.insert(keyword.to_owned(), max);
    });
}

fn limit(name: &str, limits: &Limits) -> Option<Value> {
    Some(match name {
        "bulk_memories_max" => limits.bulk_memories_max.into(),
        "content_bytes_max" => limits.content_bytes_max.into(),
        "name_chars_max" => limits.name_chars_max.into(),
        "token_lifetime_max" => limits.token_lifetime_max.as_secs().into(),
        "url_chars_max" => limits.url_chars_max.into(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_schema_excludes_null() {
        let mut schema = json!({
            "a": { "type": ["string", "null"], "maxLength": 1 },
            "b": {
                "description": "Of the field.",
                "anyOf": [{ "$ref": "#/x", "description": "Of the type." }, { "type": "null" }],
            },
            "c": { "type": ["string", "null"], "x-nullable": true },
        });
        reject_null(&mut schema);
        assert_eq!(
            schema,
            json!({
                "a": { "type": "string", "maxLength": 1 },
                "b": { "description": "Of the field.", "$ref": "#/x" },
                "c": { "type": ["string", "null"], "x-nullable": true },
            })
        );
    }

    #[test]
    fn enumeration_lists_values_with_their_descriptions() {
        let mut schema = json!({ "oneOf": [
            {
                "type": "string", "const": "a.b",
                "description": "The first of\n[`Things`].\nWritten `a.b`.",
            },
        ] });
        tidy(&mut schema);
        assert_eq!(
            schema,
            json!({
                "type": "string",
                "enum": ["a.b"],
                "x-enum-descriptions": { "a.b": "The first of `Things`." },
            })
        );
    }
}
