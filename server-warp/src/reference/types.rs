//! Types of the interface: their fields and constraints.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::html::{Escaped, OPTIONAL, line, paragraphs, row, table};

/// Renders the section of named types.
pub(super) fn section(document: &Value) -> String {
    let mut html = String::from("<section class=group>\n<h2 id=types>Types</h2>\n");
    let schemas = document["components"]["schemas"].as_object();
    for (name, schema) in schemas.into_iter().flatten() {
        let _ = write!(
            html,
            "<article class=type id=\"type-{name}\">\n\
             <h3><a href=\"#type-{name}\">{name}</a></h3>\n{}{}</article>\n",
            paragraphs(schema["description"].as_str().unwrap_or_default()),
            content(schema),
        );
    }
    html.push_str("</section>\n");
    html
}

/// Renders a schema as a table of its fields or of its values.
pub(super) fn content(schema: &Value) -> String {
    if let Some(fields) = schema["properties"].as_object() {
        return fields_table(fields, &schema["required"]);
    }
    if let Some(meanings) = schema["x-enum-descriptions"].as_object() {
        return names_table(&schema["enum"], meanings);
    }
    format!("<p>{}</p>\n", type_of(schema))
}

fn fields_table(fields: &Map<String, Value>, required: &Value) -> String {
    let required = required.as_array().map_or(&[][..], Vec::as_slice);
    let place = |name: &str| required.iter().position(|other| other == name);
    let mut names: Vec<&String> = fields.keys().collect();
    // Required fields come first, in the order of the type.
    names.sort_by_key(|name| place(name).unwrap_or(usize::MAX));
    let rows = names.into_iter().map(|name| {
        let field = &fields[name];
        let mark = place(name).map_or(OPTIONAL, |_| "");
        let description = line(field["description"].as_str().unwrap_or_default());
        row(name, mark, &type_of(field), &(description + &inner(field)))
    });
    table(&rows.collect::<String>())
}

/// Renders the fields of a nested object that has no name of its own.
fn inner(field: &Value) -> String {
    match field["properties"].as_object() {
        Some(fields) => fields_table(fields, &field["required"]),
        None => String::new(),
    }
}

fn names_table(names: &Value, meanings: &Map<String, Value>) -> String {
    let names = names.as_array().into_iter().flatten();
    let rows = names.filter_map(Value::as_str).map(|name| {
        let meaning = meanings.get(name).and_then(Value::as_str);
        format!(
            "<tr><th scope=row><code>{}</code></th><td>{}</td></tr>\n",
            Escaped(name),
            line(meaning.unwrap_or_default())
        )
    });
    table(&rows.collect::<String>())
}

/// Describes a type briefly, with links to named types.
pub(super) fn type_of(schema: &Value) -> String {
    if let Some(target) = schema["$ref"].as_str() {
        let name = target.rsplit('/').next().unwrap_or_default();
        return format!("<a href=\"#type-{name}\">{name}</a>");
    }
    let choices = schema["oneOf"].as_array().or(schema["anyOf"].as_array());
    if let Some(choices) = choices.filter(|_| schema["type"].is_null()) {
        let choices: Vec<String> = choices.iter().map(type_of).collect();
        return choices.join(" or ");
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => {
            let kinds: Vec<&str> = kinds.iter().filter_map(Value::as_str).collect();
            kinds.join(" or ")
        }
        Value::String(kind) if kind == "array" => {
            return format!("list of {}{}", type_of(&schema["items"]), bounds(schema));
        }
        Value::String(kind) => kind.clone(),
        _ => "any value".to_owned(),
    };
    let kind = match schema["format"].as_str() {
        Some(format) if !format.starts_with("uint") && !format.starts_with("int") => {
            kind.replace("string", format)
        }
        _ => kind,
    };
    let value = match schema.get("const") {
        Some(value) => format!(" <code>{}</code>", Escaped(value)),
        None => String::new(),
    };
    format!("{}{value}{}", Escaped(kind), bounds(schema))
}

/// Describes the limits of a value.
fn bounds(schema: &Value) -> String {
    let number = |name: &str| schema[name].as_u64();
    let range = |min: Option<u64>, max: Option<u64>, unit: &str| match (min, max) {
        (Some(min), Some(max)) => Some(format!("{min} to {max}{unit}")),
        (None, Some(max)) => Some(format!("at most {max}{unit}")),
        (Some(min), None) if min > 0 => Some(format!("at least {min}{unit}")),
        _ => None,
    };
    let found = [
        range(number("minLength"), number("maxLength"), " characters"),
        range(number("minItems"), number("maxItems"), ""),
        range(number("minimum"), number("maximum"), ""),
    ];
    let found: Vec<String> = found.into_iter().flatten().collect();
    if found.is_empty() {
        String::new()
    } else {
        format!(" <span class=bounds>{}</span>", found.join(", "))
    }
}
