//! Complete variants of objects whose fields depend on each other.
//!
//! A type declares them as partial schemas, in `oneOf` or `anyOf`: fields that a variant requires,
//! values that it has, and `false` for a field that it does not have. Generators of clients ignore
//! partial schemas and reject `false`, so the document has a complete schema for each variant.

use serde_json::{Map, Value, json};

use super::schemas::reference;

/// Keywords of the partial schemas of a type.
pub(super) const KEYWORDS: [&str; 2] = ["oneOf", "anyOf"];

/// Replaces each object that has partial schemas by a choice of complete ones.
///
/// The `title` of a partial schema becomes the name of the complete one.
pub(super) fn complete(schemas: &mut Map<String, Value>) {
    let mut added = Vec::new();
    for schema in schemas.values_mut() {
        if schema.get("properties").is_none() {
            continue;
        }
        for keyword in KEYWORDS {
            let Some(Value::Array(parts)) = schema.get(keyword).cloned() else {
                continue;
            };
            let is_exclusive = keyword == "oneOf";
            let variants = parts.iter().map(|part| {
                let others = parts.iter().filter(|other| is_exclusive && *other != part);
                let excluded: Vec<&Value> = others.flat_map(required).collect();
                variant(schema, keyword, part, &excluded)
            });
            let variants: Vec<(String, Value)> = variants.collect();
            let references = variants.iter().map(|(name, _)| reference(name));
            let references: Vec<Value> = references.collect();
            *schema = json!({ "description": schema["description"], keyword: references });
            added.extend(variants);
        }
    }
    for (name, variant) in added {
        assert!(
            !schemas.contains_key(&name),
            "two schemas are called {name}"
        );
        schemas.insert(name, variant);
    }
}

/// Returns the names of the required fields of a schema.
fn required(schema: &Value) -> impl Iterator<Item = &Value> {
    schema["required"].as_array().into_iter().flatten()
}

/// Returns the name and the schema of the variant of `object` with this part, without the
/// `excluded` fields that it does not require.
fn variant(object: &Value, keyword: &str, part: &Value, excluded: &[&Value]) -> (String, Value) {
    let mut variant = object.clone();
    let required: Vec<&Value> = required(object).chain(required(part)).collect();
    variant["required"] = json!(required);
    variant["description"] = part["description"].clone();
    let keywords = variant.as_object_mut().expect("an object");
    keywords.remove(keyword);
    let fields = keywords["properties"].as_object_mut().expect("an object");
    fields.retain(|name, _| {
        let name = &json!(name);
        required.contains(&name) || !excluded.contains(&name)
    });
    for (name, value) in part["properties"].as_object().into_iter().flatten() {
        match value.as_object() {
            Some(constraints) => {
                let field = fields[name].as_object_mut().expect("a schema");
                field.extend(constraints.clone());
            }
            None => drop(fields.remove(name)),
        }
    }
    let name = part["title"].as_str().expect("a variant has a title");
    (name.to_owned(), variant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_are_complete() {
        let object = json!({
            "description": "A report.",
            "type": "object",
            "properties": {
                "ok": { "type": "boolean", "description": "Outcome." },
                "error": { "type": "string" },
                "count": { "type": "integer" },
                "note": { "type": "string" },
            },
            "required": ["ok"],
            "oneOf": [
                {
                    "title": "Success",
                    "description": "A success.",
                    "properties": { "ok": { "const": true } },
                    "required": ["count"],
                },
                {
                    "title": "Failure",
                    "description": "A failure.",
                    "properties": { "ok": { "const": false }, "note": false },
                    "required": ["error"],
                },
            ],
        });
        let mut schemas = Map::from_iter([("Report".to_owned(), object)]);
        complete(&mut schemas);
        let expected = json!({
            "Report": {
                "description": "A report.",
                "oneOf": [
                    { "$ref": "#/components/schemas/Success" },
                    { "$ref": "#/components/schemas/Failure" },
                ],
            },
            "Success": {
                "description": "A success.",
                "type": "object",
                "properties": {
                    "ok": { "type": "boolean", "description": "Outcome.", "const": true },
                    "count": { "type": "integer" },
                    "note": { "type": "string" },
                },
                "required": ["ok", "count"],
            },
            "Failure": {
                "description": "A failure.",
                "type": "object",
                "properties": {
                    "ok": { "type": "boolean", "description": "Outcome.", "const": false },
                    "error": { "type": "string" },
                },
                "required": ["ok", "error"],
            },
        });
        assert_eq!(Value::Object(schemas), expected);
    }

    #[test]
    fn variants_of_any_keep_the_fields_of_the_others() {
        let object = json!({
            "properties": { "a": {}, "b": {} },
            "anyOf": [{ "title": "A", "required": ["a"] }, { "title": "B", "required": ["b"] }],
        });
        let mut schemas = Map::from_iter([("Either".to_owned(), object)]);
        complete(&mut schemas);
        for (name, field) in [("A", "a"), ("B", "b")] {
            let fields = schemas[name]["properties"].as_object().map(Map::len);
            assert_eq!(fields, Some(2));
            assert_eq!(schemas[name]["required"], json!([field]));
        }
    }
}
