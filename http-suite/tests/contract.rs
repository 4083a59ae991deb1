//! Tests of the check of responses against the OpenAPI document.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use knowledge_core::api::openapi;
use knowledge_core::limits::Limits;
use knowledge_http_suite::client::Answer;
use knowledge_http_suite::contract::Contract;
use serde_json::{Value, json};

const ROLE: &str = "/v1/orgs/acme/custom-roles/01890a5d-ac96-774b-bcce-b302099a8057";
const ID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

fn contract() -> Contract {
    Contract::new(openapi::document(&Limits::default()))
}

/// Returns a response with these headers, and those that HTTP itself adds.
fn answer(status: u16, headers: &[(&'static str, &'static str)], body: &Value) -> Answer {
    let pairs = headers.iter().map(|(name, value)| {
        (
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        )
    });
    let mut headers: HeaderMap = pairs.collect();
    let body = match body {
        Value::Null => Bytes::new(),
        body => body.to_string().into(),
    };
    let date = HeaderValue::from_static("Tue, 14 Jul 2026 09:00:00 GMT");
    headers.insert("date", date);
    if status != 204 {
        headers.insert("content-length", body.len().into());
    }
    Answer {
        status: StatusCode::from_u16(status).expect("a status"),
        headers,
        body,
    }
}

/// Returns a source, as responses contain it.
fn source() -> Value {
    json!({ "id": ID, "name": "Handbook", "kind": "wiki", "created_at": "2026-01-31T09:30:00.000Z" })
}

const JSON: [(&str, &str); 3] = [
    ("content-type", "application/json"),
    ("cache-control", "no-store"),
    ("request-id", ID),
];

fn problem(method: Method, path: &str, answer: &Answer) -> String {
    contract()
        .check(&method, path, answer)
        .expect_err("something is wrong")
}

#[test]
fn contract_accepts_a_valid_response() {
    let contract = contract();
    let check = |method, path, answer| contract.check(&method, path, &answer);
    let created = answer(201, &JSON, &source());
    assert_eq!(check(Method::POST, "/v1/sources", created), Ok(()));
    let page = json!({ "data": [source()], "next_cursor": null });
    let page = answer(200, &JSON, &page);
    assert_eq!(check(Method::GET, "/v1/sources?limit=1", page), Ok(()));
    let deleted = answer(204, &[("request-id", ID)], &Value::Null);
    assert_eq!(check(Method::DELETE, ROLE, deleted), Ok(()));
}

#[test]
fn contract_detects_undescribed_status() {
    let found = problem(Method::POST, "/v1/sources", &answer(200, &JSON, &source()));
    assert_eq!(found, "200 OK is not among its statuses");
    let nowhere = answer(200, &JSON, &source());
    assert_eq!(
        problem(Method::GET, "/v1/nowhere", &nowhere),
        "no operation is there, and it is 200 OK"
    );
    assert_eq!(
        problem(Method::POST, ROLE, &answer(404, &JSON, &Value::Null)),
        "no operation is there, and it is 404 Not Found"
    );
}

#[test]
fn contract_detects_missing_wrong_and_undescribed_headers() {
    let of = |headers: &[(&'static str, &'static str)]| {
        problem(
            Method::POST,
            "/v1/sources",
            &answer(201, headers, &source()),
        )
    };
    assert_eq!(of(&JSON[..2]), "Request-Id is missing");
    let wrong = [JSON[0], JSON[1], ("request-id", "7")];
    assert!(
        of(&wrong).starts_with("Request-Id: \"7\": "),
        "{}",
        of(&wrong)
    );
    let more = [JSON[0], JSON[1], JSON[2], ("etag", "\"1\"")];
    assert_eq!(of(&more), "etag is not among its headers");
    let text = [("content-type", "text/plain"), JSON[1], JSON[2]];
    assert_eq!(of(&text), "the content type is not application/json");
}

#[test]
fn contract_detects_wrong_invariant_headers() {
    let of = |name: &'static str, value: Option<&'static str>| {
        let mut created = answer(201, &JSON, &source());
        created.headers.remove(name);
        if let Some(value) = value {
            let value = HeaderValue::from_static(value);
            created.headers.insert(name, value);
        }
        problem(Method::POST, "/v1/sources", &created)
    };
    let yesterday = r#"date is ["yesterday"]"#;
    assert_eq!(of("date", None), "date is []");
    assert_eq!(of("date", Some("yesterday")), yesterday);
    let wrong = [
        (
            "cache-control",
            "public",
            r#"cache-control is ["public"] instead of Some("no-store")"#,
        ),
        (
            "content-length",
            "7",
            r#"content-length is ["7"] instead of Some("117")"#,
        ),
    ];
    for (name, value, expected) in wrong {
        assert_eq!(of(name, Some(value)), expected);
    }
    let mut twice = answer(201, &JSON, &source());
    let tomorrow = HeaderValue::from_static("Wed, 15 Jul 2026 09:00:00 GMT");
    twice.headers.append("date", tomorrow);
    let found = problem(Method::POST, "/v1/sources", &twice);
    assert!(found.starts_with("date is ["), "{found}");
    // A response without content has neither length nor caching rule.
    let deleted = answer(204, &[("request-id", ID), JSON[1]], &Value::Null);
    let found = problem(Method::DELETE, ROLE, &deleted);
    assert_eq!(found, "cache-control is not among its headers");
    // Unknown paths have them as well.
    let nowhere = answer(404, &[JSON[0], JSON[1]], &source());
    let found = problem(Method::GET, "/v1/nowhere", &nowhere);
    assert_eq!(found, "request-id is []");
    // What the caller may store is revalidated.
    let memory = "/v1/memories/01890a5d-ac96-774b-bcce-b302099a8057";
    let etag = ("etag", "\"1\"");
    let stored = answer(304, &[JSON[1], JSON[2], etag], &Value::Null);
    let found = problem(Method::GET, memory, &stored);
    let expected = r#"cache-control is ["no-store"] instead of Some("private, no-cache")"#;
    assert_eq!(found, expected);
}

#[test]
fn contract_detects_bodies_that_violate_their_schema() {
    let changed = |field: &str, value: Option<Value>| {
        let mut body = source();
        match value {
            Some(value) => drop(
                body.as_object_mut()
                    .expect("an object")
                    .insert(field.to_owned(), value),
            ),
            None => drop(body.as_object_mut().expect("an object").remove(field)),
        }
        problem(Method::POST, "/v1/sources", &answer(201, &JSON, &body))
    };
    let wrong = [
        ("id", Some(json!("7")), "/id: \"7\" is not a \"uuid\""),
        (
            "name",
            Some(Value::Null),
            "/name: null is not of type \"string\"",
        ),
        ("name", None, "\"name\" is a required property"),
        (
            "created_at",
            Some(json!("2026-01-31T09:30:00Z")),
            "/created_at: ",
        ),
        ("colour", Some(json!("red")), "('colour' was unexpected)"),
    ];
    for (field, value, expected) in wrong {
        let found = changed(field, value);
        assert!(found.contains(expected), "{field}: {found}");
    }
    let body = answer(204, &[("request-id", ID)], &json!({}));
    assert_eq!(
        problem(Method::DELETE, ROLE, &body),
        "there should be no body"
    );
}

#[test]
fn contract_requires_error_code_of_the_status() {
    let refusal = |code: &str| {
        let details = json!({ "permission": null });
        json!({ "error": code, "message": "No.", "details": details })
    };
    let forbidden = answer(403, &JSON, &refusal("forbidden"));
    assert_eq!(contract().check(&Method::DELETE, ROLE, &forbidden), Ok(()));
    let wrong = problem(
        Method::DELETE,
        ROLE,
        &answer(403, &JSON, &refusal("not_found")),
    );
    assert!(wrong.contains("forbidden"), "{wrong}");
    let silent = answer(
        403,
        &[("request-id", ID), ("cache-control", "no-store")],
        &Value::Null,
    );
    assert_eq!(
        problem(Method::POST, "/v1/citation-subscriptions", &silent),
        "Error-Code is missing"
    );
}
