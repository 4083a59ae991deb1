//! Bodies that are not JSON, not objects, or hostile.

use serde_json::json;

use crate::support::{Call, Operation, error, problems, quiet_org};

suite![
    body_that_is_not_json_is_rejected,
    body_that_is_not_utf_8_is_rejected,
    body_that_is_not_an_object_is_rejected,
    body_nested_too_deeply_is_rejected,
    body_with_repeated_field_is_rejected,
    unknown_field_is_rejected_and_not_echoed_in_a_header,
    field_names_are_case_sensitive,
    body_of_get_is_ignored,
    response_lists_at_most_a_hundred_problems,
];

/// Returns the operations that read a body.
fn operations() -> Vec<Operation> {
    let mut operations = Operation::all(quiet_org());
    operations.retain(|operation| operation.call.has_body() || operation.name == "delete role");
    operations
}

fn with_body(operation: &Operation, body: impl Into<bytes::Bytes>) -> Call {
    let call = operation.call.clone().without("content-type");
    call.header("content-type", "application/json").body(body)
}

/// Returns the message of a body that each such operation rejects with 400.
async fn error_of_all(body: &[u8]) -> String {
    let mut messages = Vec::new();
    for operation in operations() {
        let answer = with_body(&operation, body.to_vec()).await;
        assert_eq!(answer.status, 400, "{}: {answer:?}", operation.name);
        let (code, message) = operation.error_of(&answer);
        assert_eq!(code, "invalid_request", "{}", operation.name);
        // Messages in headers lack the introduction.
        messages.push(
            message
                .trim_start_matches("the request is not valid: ")
                .to_owned(),
        );
    }
    messages.dedup();
    assert_eq!(messages.len(), 1, "{messages:?}");
    messages.remove(0)
}

async fn body_that_is_not_json_is_rejected() {
    insta::assert_snapshot!(error_of_all(b"memoryIds=1").await, @"body must be a JSON object, but has a syntax error at line 1, column 1");
    insta::assert_snapshot!(error_of_all(b"{\"memoryIds\": [\n 1,\n").await, @"body must be a JSON object, but has a syntax error at line 3, column 0");
    insta::assert_snapshot!(error_of_all(b"{} {}").await, @"body must be a JSON object, but has a syntax error at line 1, column 4");
    insta::assert_snapshot!(error_of_all(b"{'name': 'x'}").await, @"body must be a JSON object, but has a syntax error at line 1, column 2");
    insta::assert_snapshot!(error_of_all(b"{\"name\": NaN}").await, @"body must be a JSON object, but has a syntax error at line 1, column 10");
    insta::assert_snapshot!(error_of_all(b"{\"name\": 1e999}").await, @"body must be a JSON object, but has a syntax error at line 1, column 14");
    insta::assert_snapshot!(error_of_all(b"\xef\xbb\xbf{}").await, @"body must be a JSON object, but has a syntax error at line 1, column 1");
    insta::assert_snapshot!(error_of_all(b"\0").await, @"body must be a JSON object, but has a syntax error at line 1, column 1");
}

async fn body_that_is_not_utf_8_is_rejected() {
    insta::assert_snapshot!(error_of_all(b"{\"name\": \"\xff\"}").await, @"body must be a JSON object, but has a syntax error at line 1, column 11");
    insta::assert_snapshot!(error_of_all(b"{\"name\": \"\\ud800\"}").await, @"body must be a JSON object, but has a syntax error at line 1, column 17");
    // UTF-16.
    insta::assert_snapshot!(error_of_all(b"{\0}\0").await, @"body must be a JSON object, but has a syntax error at line 1, column 2");
}

async fn body_that_is_not_an_object_is_rejected() {
    insta::assert_snapshot!(error_of_all(b"null").await, @"body must be a JSON object, not null");
    insta::assert_snapshot!(error_of_all(b"[{}]").await, @"body must be a JSON object, not a list");
    insta::assert_snapshot!(error_of_all(b"\"name\"").await, @"body must be a JSON object, not a string");
    insta::assert_snapshot!(error_of_all(b"17").await, @"body must be a JSON object, not a number");
    insta::assert_snapshot!(error_of_all(b"true").await, @"body must be a JSON object, not a boolean");
}

async fn body_nested_too_deeply_is_rejected() {
    let lists = "[".repeat(500_000);
    insta::assert_snapshot!(error_of_all(lists.as_bytes()).await, @"body must be a JSON object, but has a syntax error at line 1, column 128");
    let objects = "{\"a\":".repeat(150_000);
    insta::assert_snapshot!(error_of_all(objects.as_bytes()).await, @"body must be a JSON object, but has a syntax error at line 1, column 636");
    let closed = format!("{{\"name\":{}{}}}", "[".repeat(10_000), "]".repeat(10_000));
    insta::assert_snapshot!(error_of_all(closed.as_bytes()).await, @"body must be a JSON object, but has a syntax error at line 1, column 135");
}

async fn body_with_repeated_field_is_rejected() {
    let org = quiet_org();
    let memory = org.main.memories.internal[0];
    let operations = operations();
    let named = |name: &str| {
        operations
            .iter()
            .find(|operation| operation.name == name)
            .expect("an operation")
    };
    let body = format!(
        r#"{{"memoryIds":["{memory}"],"audienceTag":"team:a","audienceTag":"team:b","x":1,"x":2}}"#
    );
    let answer = with_body(named("bulk update"), body).await;
    insta::assert_snapshot!(problems(&answer), @"
    duplicate: audienceTag must not be repeated
    duplicate: x must not be repeated
    unknown_field: x is unknown; known fields: memoryIds, audienceTag, sensitivityLabel, sourceId, reviewStatus, dryRun
    ");
    let body = r#"{"actions":{"allow":[],"deny":[],"allow":["memory:read"]}}"#;
    let answer = with_body(named("update role"), body).await;
    insta::assert_snapshot!(problems(&answer), @"duplicate: actions.allow must not be repeated");
    let body = r#"{"name":"Tickets","\u006eame":"Other"}"#;
    let answer = with_body(named("create inbound webhook"), body).await;
    insta::assert_snapshot!(error(&answer), @"400 invalid_request in headers: a field of the body must not be repeated");
}

async fn unknown_field_is_rejected_and_not_echoed_in_a_header() {
    for operation in operations() {
        let body = json!({ "evil\r\nset-cookie": 1 }).to_string();
        let answer = with_body(&operation, body).await;
        assert_eq!(answer.status, 400, "{}", operation.name);
        assert!(!answer.headers.contains_key("set-cookie"));
        if operation.has_errors_in_headers {
            assert!(
                !answer.header("error-message").contains("evil"),
                "{}",
                operation.name
            );
        }
    }
}

async fn field_names_are_case_sensitive() {
    let org = quiet_org();
    let memory = org.main.memories.internal[0];
    let operation = &operations()[0];
    for body in [
        json!({ "memory_ids": [memory], "audience_tag": "team:a" }),
        json!({ "MemoryIds": [memory], "AudienceTag": "team:a" }),
        json!({ "memoryIds": { "0": memory }, "audienceTag": "team:a" }),
        json!({ "memoryIds": [memory], "audienceTag": { "scope": "team", "name": "a" } }),
        json!({ "memoryIds": [[memory]], "audienceTag": "team:a" }),
        json!({ "memoryIds": [memory], "audienceTag": "Team:a" }),
        json!({ "memoryIds": [memory], "sensitivityLabel": "Public" }),
        json!({ "memoryIds": [memory], "sensitivityLabel": 0 }),
        json!({ "memoryIds": [format!(" {memory}")], "audienceTag": "team:a" }),
    ] {
        let answer = with_body(operation, body.to_string()).await;
        assert_eq!(answer.status, 400, "{body}");
    }
}

async fn body_of_get_is_ignored() {
    let org = quiet_org();
    // The body of a GET is not read, except that invalid JSON is rejected.
    for operation in Operation::all(org)
        .into_iter()
        .filter(|operation| matches!(operation.name, "dashboard" | "list roles"))
    {
        let answer = with_body(&operation, "{}").await;
        assert_eq!(answer.status, 200, "{}", operation.name);
    }
}

async fn response_lists_at_most_a_hundred_problems() {
    let ids: Vec<_> = (0..900).collect();
    let body = json!({ "memoryIds": ids, "audienceTag": "team:a" }).to_string();
    let answer = with_body(&operations()[0], body).await;
    assert_eq!(answer.status, 400);
    let fields = answer.json()["details"]["fields"]
        .as_array()
        .expect("a list")
        .clone();
    assert_eq!(fields.len(), 100);
    assert_eq!(fields[99]["path"], "memoryIds[99]");
    insta::assert_snapshot!(answer.json()["message"], @r#""the request is not valid: memoryIds[0] must be a string, not a number (and 99 more)""#);
}
