//! Examples, generated from the schemas so that they always match them.

use serde_json::{Map, Value, json};

/// Maximum depth of an example; no schema of this service comes near it.
const DEPTH_MAX: usize = 16;

/// Generates a valid value with every field of the schema.
pub(super) fn example(schema: &Value, components: &Map<String, Value>) -> Value {
    make(schema, components, DEPTH_MAX)
}

fn make(schema: &Value, components: &Map<String, Value>, depth: usize) -> Value {
    let Some(depth) = depth.checked_sub(1) else {
        return Value::Null;
    };
    let inner = |schema: &Value| make(schema, components, depth);
    if let Some(example) = schema["examples"].get(0).or_else(|| schema.get("default")) {
        return example.clone();
    }
    if let Some(value) = schema.get("const").or_else(|| schema["enum"].get(0)) {
        return value.clone();
    }
    if let Some(target) = schema["$ref"].as_str() {
        let name = target.rsplit('/').next().unwrap_or_default();
        return components.get(name).map_or(Value::Null, inner);
    }
    if let Some(fields) = schema["properties"].as_object() {
        let fields = fields
            .iter()
            .map(|(name, field)| (name.clone(), inner(field)));
        return Value::Object(fields.collect());
    }
    if let Some(choice) = schema["oneOf"].get(0).or_else(|| schema["anyOf"].get(0)) {
        return inner(choice);
    }
    match schema["type"]
        .as_str()
        .or_else(|| schema["type"][0].as_str())
    {
        Some("object") => json!({}),
        Some("array") => json!([inner(&schema["items"])]),
        Some("integer" | "number") => schema["minimum"]
            .as_u64()
            .map_or(1, |min| min.max(1))
            .into(),
        Some("boolean") => true.into(),
        Some("string") => "text".into(),
        _ => Value::Null,
    }
}
