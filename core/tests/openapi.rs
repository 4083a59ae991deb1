//! Tests of the OpenAPI document against the code that it describes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jsonschema::Validator;
use knowledge_core::api::{
    OPERATIONS, OPERATOR_ERROR_STATUSES, OPERATOR_OPERATIONS, Operation, openapi,
};
use knowledge_core::limits::Limits;
use knowledge_core::model::{EventData, EventType};
use knowledge_testing::requests::with;
use serde_json::{Value, json};

/// Pages that describe the interface to its users.
const PAGES: [&str; 3] = [
    include_str!("../../README.md"),
    include_str!("../../docs/guide.md"),
    include_str!("../../docs/reference.md"),
];

fn document() -> Value {
    openapi::document(&Limits::default())
}

/// Returns the documents of both interfaces.
fn documents() -> [Value; 2] {
    [document(), openapi::operator_document(&Limits::default())]
}

/// Collects every value in the document, each with its JSON pointer.
fn places<'d>(value: &'d Value, at: &str, found: &mut Vec<(String, &'d Value)>) {
    found.push((at.to_owned(), value));
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, inner)| {
            let name = name.replace('~', "~0").replace('/', "~1");
            places(inner, &format!("{at}/{name}"), found);
        }),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .for_each(|(index, inner)| places(inner, &format!("{at}/{index}"), found)),
        _ => {}
    }
}

/// Compiles a validator for one schema of the document.
fn validator(document: &Value, schema: &Value) -> Validator {
    let mut root = schema.clone();
    root["components"] = document["components"].clone();
    jsonschema::draft202012::options()
        .should_validate_formats(true)
        .build(&root)
        .unwrap_or_else(|error| panic!("{schema} is no schema: {error}"))
}

/// Which operations a specification has, and which not, is the matter of a page of its own.
#[test]
fn reader_sees_one_interface() {
    let documents = documents().map(|document| document.to_string());
    let pages = PAGES.map(str::to_owned);
    for text in documents.iter().chain(&pages) {
        for name in [
            "**Addition",
            "x-addition",
            "all eight",
            "the eight",
            "interface specification",
        ] {
            let found = text.find(name).and_then(|at| text.get(at..at + 80));
            assert!(!text.contains(name), "{name}: {found:?}");
        }
    }
}

#[test]
fn openapi_references_resolve() {
    for document in documents() {
        let mut found = Vec::new();
        places(&document, "", &mut found);
        let references = found.iter().filter(|(at, _)| at.ends_with("/$ref"));
        for (at, target) in references {
            let pointer = target.as_str().and_then(|target| target.strip_prefix('#'));
            let pointer = pointer.unwrap_or_else(|| panic!("{at}: {target}"));
            assert!(document.pointer(pointer).is_some(), "{at}: {target}");
        }
    }
}

#[test]
fn openapi_components_are_valid_schemas_and_used() {
    for document in documents() {
        let text = document.to_string();
        for (kind, components) in document["components"].as_object().unwrap() {
            for (name, component) in components.as_object().unwrap() {
                if kind == "schemas" {
                    validator(&document, component);
                }
                let reference = format!("\"#/components/{kind}/{name}\"");
                assert!(
                    kind == "securitySchemes" || text.contains(&reference),
                    "nobody uses {name}"
                );
            }
        }
    }
}

#[test]
fn openapi_examples_match_their_schemas() {
    let [public, operator] = documents().map(|document| check_examples(&document));
    assert!(public > OPERATIONS.len(), "{public}");
    assert!(operator > OPERATOR_OPERATIONS.len(), "{operator}");
}

/// Checks the examples of a document and returns their number.
fn check_examples(document: &Value) -> usize {
    let mut found = Vec::new();
    places(document, "", &mut found);
    let mut checked = 0;
    for (at, holder) in found {
        let examples = holder["examples"].as_array().map_or(&[][..], Vec::as_slice);
        let (schema, examples): (&Value, Vec<&Value>) = match holder.get("example") {
            Some(example) => (&holder["schema"], vec![example]),
            None => (holder, examples.iter().collect()),
        };
        for example in examples {
            let problems: Vec<_> = validator(document, schema)
                .iter_errors(example)
                .map(|error| error.to_string())
                .collect();
            assert!(problems.is_empty(), "{at}: {example}: {problems:?}");
            checked += 1;
        }
    }
    checked
}

/// Operations that take an `Idempotency-Key`, besides those that a `201` answers.
const KEYED: [Operation; 4] = [
    Operation::BulkUpdateMemories,
    Operation::IngestMemories,
    Operation::PingWebhook,
    Operation::PingCitationSubscription,
];

fn is_idempotency_key(parameter: &Value) -> bool {
    let reference = parameter["$ref"].as_str().unwrap_or_default();
    reference.ends_with("IdempotencyKey") || reference.ends_with("Idempotency-Key")
}

#[test]
fn openapi_operations_match_route_table() {
    let document = document();
    let mut described = 0;
    for spec in OPERATIONS {
        let method = spec.method.as_str().to_ascii_lowercase();
        let operation = &document["paths"][spec.path][&method];
        assert_eq!(operation["operationId"], spec.operation.id());
        assert_eq!(operation["tags"], json!([spec.capability]));
        let responses = operation["responses"].as_object().unwrap();
        assert!(responses.contains_key(&spec.success.to_string()));
        for status in responses.keys().map(|status| status.parse().unwrap()) {
            let is_success = spec.succeeds_with(status) || status == 304;
            assert!(is_success || spec.documents(status), "{status}");
        }
        for status in spec.error_statuses {
            assert!(responses.contains_key(&status.to_string()), "{status}");
        }
        let parameters = operation["parameters"].as_array();
        let has_key = parameters.is_some_and(|all| all.iter().any(is_idempotency_key));
        let creates = spec.method == "POST" && spec.success == 201;
        assert_eq!(
            has_key,
            creates || KEYED.contains(&spec.operation),
            "{}",
            spec.path
        );
        let headers = &responses[&spec.success.to_string()]["headers"];
        assert_eq!(
            headers["Idempotent-Replayed"].is_object(),
            has_key,
            "{}",
            spec.path
        );
        let is_optional = spec.replay.is_some();
        assert_eq!(responses.contains_key("410"), is_optional, "{}", spec.path);
        assert!(responses.contains_key("422") || !has_key, "{}", spec.path);
        described += 1;
    }
    let all = document["paths"].as_object().unwrap().values();
    let all: usize = all.map(|methods| methods.as_object().unwrap().len()).sum();
    assert_eq!(all, described);
}

#[test]
fn openapi_operator_operations_match_route_table() {
    let [_, document] = documents();
    for spec in OPERATOR_OPERATIONS {
        let method = spec.method.as_str().to_ascii_lowercase();
        let operation = &document["paths"][spec.path][&method];
        assert_eq!(operation["operationId"], spec.operation.id());
        assert_eq!(spec.operation.spec().operation, spec.operation);
        let responses = operation["responses"].as_object().unwrap();
        let documented = responses.keys().map(|status| status.parse().unwrap());
        let documented: BTreeSet<u16> = documented.collect();
        let statuses = [
            spec.error_statuses,
            OPERATOR_ERROR_STATUSES,
            &[spec.success],
        ];
        assert_eq!(documented, statuses.concat().into_iter().collect());
    }
    let all = document["paths"].as_object().unwrap().values();
    let all: usize = all.map(|methods| methods.as_object().unwrap().len()).sum();
    assert_eq!(all, OPERATOR_OPERATIONS.len());
}

#[test]
fn openapi_webhooks_match_event_types() {
    let document = document();
    let webhooks = document["webhooks"].as_object().unwrap();
    assert_eq!(webhooks.len(), EventType::ALL.len());
    for event_type in EventType::ALL {
        let body = &webhooks[event_type.as_str()]["post"]["requestBody"];
        let example = body["content"]["application/json"]["example"].clone();
        let event: EventData = serde_json::from_value(example.clone()).unwrap();
        assert_eq!(event.event_type(), *event_type);
        let written = serde_json::to_value(&event).unwrap();
        assert_eq!(written["data"], example["data"]);
    }
}

#[test]
fn openapi_requests_are_closed_and_responses_complete() {
    let document = document();
    let schemas = &document["components"]["schemas"];
    let mut update = schemas["CustomRoleUpdate"].clone();
    assert_eq!(update["additionalProperties"], false);
    assert_eq!(update["required"], Value::Null);
    // Of its fields, only the limit to teams can be taken away.
    let fields = update["properties"].as_object_mut().unwrap();
    let teams = fields.remove("act_for_teams").unwrap();
    assert_eq!(teams["type"], json!(["array", "null"]));
    assert!(!update.to_string().contains("null"), "{update}");
    let role = &schemas["CustomRole"];
    assert_eq!(
        role["properties"]["workspace_id"]["type"],
        json!(["string", "null"])
    );
    let fields = role["properties"].as_object().unwrap().len();
    assert_eq!(role["required"].as_array().unwrap().len(), fields);
}

#[test]
fn openapi_requires_a_body_that_names_something() {
    let document = document();
    let is_required = |method: &str, path: &str| {
        let body = &document["paths"][path][method]["requestBody"];
        body["required"].as_bool().unwrap()
    };
    // Both have to be one of several.
    assert!(is_required("post", "/v1/memories/access-check"));
    assert!(is_required("post", "/v1/erasures"));
    assert!(!is_required("patch", "/v1/memories/{id}"));
}

#[test]
fn openapi_rejects_what_requests_reject() {
    let document = document();
    let is_valid = |name: &str, body: &Value| {
        let schema = &document["components"]["schemas"][name];
        assert!(schema.is_object(), "{name}");
        validator(&document, schema).is_valid(body)
    };
    let id = "01890a5d-ac96-774b-bcce-b302099a8057";
    for (name, accepted, rejected) in [
        (
            "AccessCheck",
            json!({ "memoryIds": [id], "sourceKeys": [] }),
            json!({ "memoryIds": [], "sourceKeys": [] }),
        ),
        (
            "NewRecall",
            json!({ "query": "Why?", "memory_ids": [id] }),
            json!({ "query": "Why?", "memory_ids": [] }),
        ),
        (
            "NewRecall",
            json!({ "query": "Why\u{1}", "memory_ids": [id] }),
            json!({ "query": "Why\0", "memory_ids": [id] }),
        ),
        (
            "NewErasure",
            json!({ "sourceId": id, "sourceKeyPrefix": "a", "anyPrefix": true }),
            json!({ "sourceId": id, "anyPrefix": true }),
        ),
        (
            "NewErasure",
            json!({ "sourceId": id, "sourceKeyPrefix": "a" }),
            json!({ "sourceId": id, "sourceKeyPrefix": "a\0" }),
        ),
        (
            "CreateMemory",
            json!({ "sourceId": id, "title": "A", "content": "a\nb" }),
            json!({ "sourceId": id, "title": "A", "content": "a\0b" }),
        ),
        (
            "NewMember",
            json!({ "handle": "ada", "name": "Ada", "role": "member", "login_link": true }),
            json!({
                "kind": "service_account",
                "handle": "ada",
                "name": "Ada",
                "role": "member",
                "login_link": true,
            }),
        ),
    ] {
        assert!(is_valid(name, &accepted), "{name} {accepted}");
        assert!(!is_valid(name, &rejected), "{name} {rejected}");
    }
}

/// Calls `visit` for a schema and those in it, each with its JSON pointer.
fn visit_schemas<'d>(schema: &'d Value, at: &str, visit: &mut impl FnMut(&'d Value, &str)) {
    visit(schema, at);
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        visit_schemas(field, &format!("{at}/properties/{name}"), visit);
    }
    if let Some(item) = schema.get("items") {
        visit_schemas(item, &format!("{at}/items"), visit);
    }
    for keyword in ["oneOf", "anyOf", "allOf"] {
        for (index, choice) in schema[keyword].as_array().into_iter().flatten().enumerate() {
            visit_schemas(choice, &format!("{at}/{keyword}/{index}"), visit);
        }
    }
}

#[test]
fn openapi_schemas_are_complete_types() {
    for document in documents() {
        let mut all = Vec::new();
        places(&document, "", &mut all);
        let is_schema = |at: &str| {
            let parent = at.rsplit_once('/').map_or("", |(parent, _)| parent);
            at.ends_with("/schema") || parent == "/components/schemas"
        };
        for (at, schema) in all.into_iter().filter(|(at, _)| is_schema(at)) {
            visit_schemas(schema, &at, &mut |schema, at| {
                let kinds = ["$ref", "type", "oneOf", "anyOf"];
                let kinds = kinds.iter().filter(|kind| schema.get(**kind).is_some());
                assert_eq!(kinds.count(), 1, "{at}: {schema}");
            });
        }
    }
}

/// Returns true if a field that all objects require has another constant in each of them.
fn has_discriminator(objects: &[&Value]) -> bool {
    let mut fields = objects[0]["properties"].as_object().into_iter().flatten();
    fields.any(|(name, _)| {
        let constants: BTreeSet<String> = objects
            .iter()
            .filter(|object| {
                object["required"]
                    .as_array()
                    .unwrap()
                    .contains(&json!(name))
            })
            .filter_map(|object| object["properties"][name].get("const"))
            .map(Value::to_string)
            .collect();
        constants.len() == objects.len()
    })
}

#[test]
fn openapi_variants_are_distinguished() {
    for document in documents() {
        let mut all = Vec::new();
        places(&document, "", &mut all);
        for (at, choice) in all.iter().filter(|(at, _)| at.ends_with("/oneOf")) {
            let variants = choice.as_array().unwrap().iter();
            let variants = variants.map(|variant| {
                let target = variant["$ref"].as_str().unwrap();
                document.pointer(target.trim_start_matches('#')).unwrap()
            });
            let variants: Vec<&Value> = variants.collect();
            // A closed object is also distinguished by the fields that it does not have.
            let are_closed = variants
                .iter()
                .all(|one| one["additionalProperties"] == false);
            assert!(are_closed || has_discriminator(&variants), "{at}: {choice}");
        }
    }
}

#[test]
fn openapi_limits_match_configuration() {
    let limits = with(Limits::default(), |limits| {
        limits.bulk_memories_max = 7;
        limits.name_chars_max = 9;
        limits.token_lifetime_max = Duration::from_secs(11);
    });
    let document = openapi::document(&limits);
    let ids = &document["components"]["schemas"]["BulkAudienceUpdate"]["properties"]["memoryIds"];
    assert_eq!(ids["maxItems"], 7);
    assert_eq!(ids["minItems"], 1);
    let name = |schema: &str| {
        document["components"]["schemas"][schema]["properties"]["name"]["maxLength"].clone()
    };
    assert_eq!(name("NewSource"), 9);
    // Sources that were created under another limit may be longer.
    assert_eq!(name("Source"), 128);
    let token = &document["components"]["schemas"]["NewApiToken"]["properties"];
    assert_eq!(token["expires_in_seconds"]["maximum"], 11);
    assert!(!document.to_string().contains("x-limit"));
}

#[test]
fn openapi_document_is_deterministic() {
    let texts = [documents(), documents()];
    let [first, second] = texts.map(|documents| documents.map(|document| document.to_string()));
    assert_eq!(first, second);
}

#[test]
fn openapi_operation_ids_are_unique() {
    let mut counts = BTreeMap::new();
    OPERATIONS
        .iter()
        .for_each(|spec| *counts.entry(spec.operation.id()).or_insert(0) += 1);
    assert!(counts.values().all(|count| *count == 1), "{counts:?}");
    let ids: BTreeSet<String> = OPERATOR_OPERATIONS
        .iter()
        .map(|spec| spec.operation.id())
        .collect();
    assert_eq!(ids.len(), OPERATOR_OPERATIONS.len());
}
