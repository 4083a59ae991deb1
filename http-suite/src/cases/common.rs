//! Behaviour common to all operations.
//!
//! Paths, methods, bodies that are too large or of another type, and request identifiers.

use std::collections::HashSet;

use http::{HeaderValue, Method};
use uuid::Uuid;

use crate::support::{Answer, Call, Operation, Show, error, list_roles, quiet_org};

suite![
    unknown_path_is_not_found,
    wrong_method_lists_allowed_methods,
    head_without_get_is_not_allowed,
    query_is_not_part_of_the_path,
    unknown_parameter_of_the_query_is_rejected,
    body_beyond_limit_is_rejected,
    get_with_chunks_beyond_limit_is_rejected,
    body_beyond_limit_ends_the_connection,
    body_of_limit_length_is_accepted,
    body_of_other_content_type_is_rejected,
    body_with_content_encoding_is_rejected,
    content_type_may_name_utf_8,
    response_has_unique_identifier,
];

/// Length of a body three times above the limit.
const LARGE_BODY_BYTES: usize = 3 * 1_024 * 1_024;

/// Returns an operation with errors in its body, and one with errors in headers.
fn one_of_each_style() -> [Operation; 2] {
    let operations = Operation::all(quiet_org());
    let of_style = |in_headers: bool| {
        let found = operations
            .iter()
            .find(|operation| operation.has_errors_in_headers == in_headers);
        found.expect("both styles").clone()
    };
    [of_style(false), of_style(true)]
}

async fn unknown_path_is_not_found() {
    let org = quiet_org();
    let unknown = Call::new(Method::GET, "/v1/nothing").await;
    insta::assert_snapshot!(error(&unknown), @r#"404 not_found: there is no such path {"kind":"path"}"#);
    let roles = format!("/v1/orgs/{}/custom-roles", org.slug);
    let paths = [
        "/v1".to_owned(),
        "/v2/memories/bulk".to_owned(),
        "/v1/memories/bulk/".to_owned(),
        "/v1/Memories/bulk".to_owned(),
        "//v1/memories/bulk".to_owned(),
        "/v1/workspaces//dashboard-summary".to_owned(),
        format!("{roles}/"),
        format!("{roles}/{}/holders", org.roles.unheld),
    ];
    for path in paths {
        for method in [Method::GET, Method::PATCH, Method::POST, Method::DELETE] {
            let call = Call::new(method, path.clone()).bearer(&org.members.owner.token);
            assert_eq!(call.await.show(), unknown.show(), "{path}");
        }
    }
}

async fn wrong_method_lists_allowed_methods() {
    let [in_body, in_headers] = one_of_each_style();
    insta::assert_snapshot!(error(&in_body.call.method(Method::POST).await), @"405 method_not_allowed: method not allowed; allowed: PATCH [allow: PATCH]");
    insta::assert_snapshot!(error(&in_headers.call.method(Method::DELETE).await), @"405 method_not_allowed in headers: method not allowed; allowed: GET, HEAD [allow: GET, HEAD]");
    for operation in Operation::every(quiet_org()) {
        for method in [Method::PUT, Method::OPTIONS, Method::TRACE] {
            if operation.allow.contains(method.as_str()) {
                continue;
            }
            let answer = operation.call.clone().method(method).await;
            assert_eq!(answer.status, 405, "{}", operation.name);
            let has_errors_in_headers = operation.has_method_errors_in_headers;
            let operation = Operation {
                has_errors_in_headers,
                ..operation.clone()
            };
            assert_eq!(operation.error_of(&answer).0, "method_not_allowed");
            assert_eq!(
                answer.header("allow"),
                operation.allow,
                "{}",
                operation.name
            );
        }
    }
}

async fn head_without_get_is_not_allowed() {
    for operation in Operation::every(quiet_org())
        .into_iter()
        .filter(|operation| !operation.allow.contains("HEAD"))
    {
        let answer = operation.call.method(Method::HEAD).body("").await;
        assert_eq!(
            (answer.status.as_u16(), answer.body.len()),
            (405, 0),
            "{}",
            operation.name
        );
    }
}

async fn query_is_not_part_of_the_path() {
    let org = quiet_org();
    let plain = list_roles(&org.members.viewer.session, &org.slug).await;
    let with_query = Call::new(
        Method::GET,
        format!("/v1/orgs/{}/custom-roles?page=2", org.slug),
    )
    .session(&org.members.viewer.session)
    .await;
    assert_eq!(
        (with_query.status, with_query.body),
        (plain.status, plain.body)
    );
}

/// A field of the body, sent as a parameter, would otherwise be ignored.
async fn unknown_parameter_of_the_query_is_rejected() {
    let org = quiet_org();
    let role = format!("/v1/orgs/{}/custom-roles/{}", org.slug, org.roles.unheld.0);
    let session = &org.members.owner.session;
    let call = Call::new(Method::DELETE, format!("{role}?reassign_to=member"));
    let answer = call.session(session).await;
    assert_eq!(answer.status, 400, "{answer:?}");
    let message = answer.json()["message"].to_string();
    assert!(message.contains("reassign_to is unknown"), "{message}");
}

fn too_large() -> String {
    "x".repeat(LARGE_BODY_BYTES)
}

/// Returns true if a response ends its connection.
fn closes(answer: &Answer) -> bool {
    answer.headers.get("connection") == Some(&HeaderValue::from_static("close"))
}

async fn body_beyond_limit_is_rejected() {
    // Another test covers the connection.
    let error_of = async |call: Call| {
        let mut answer = call.await;
        answer.headers.remove("connection");
        error(&answer)
    };
    let [in_body, in_headers] = one_of_each_style();
    insta::assert_snapshot!(error_of(in_body.call.body(too_large()).chunked()).await, @r#"413 payload_too_large: the body must be at most 1048576 bytes {"bytes_max":1048576}"#);
    insta::assert_snapshot!(error_of(in_headers.call.body(too_large())).await, @"413 payload_too_large in headers: the body must be at most 1048576 bytes");
    for operation in Operation::every(quiet_org()) {
        for chunked in [false, true] {
            // Another test covers chunks.
            if chunked && operation.call.is_safe() {
                continue;
            }
            let call = operation.call.clone().body(too_large());
            let answer = if chunked { call.chunked() } else { call }.await;
            assert_eq!(answer.status, 413, "{}", operation.name);
            assert_eq!(operation.error_of(&answer).0, "payload_too_large");
        }
    }
}

async fn get_with_chunks_beyond_limit_is_rejected() {
    for operation in Operation::every(quiet_org())
        .into_iter()
        .filter(|operation| operation.call.is_safe())
    {
        let answer = operation.call.clone().body(too_large()).chunked().await;
        assert_eq!(answer.status, 413, "{}", operation.name);
        assert_eq!(operation.error_of(&answer).0, "payload_too_large");
    }
}

async fn body_beyond_limit_ends_the_connection() {
    for operation in Operation::every(quiet_org()) {
        let call = operation.call.body(too_large());
        for call in [call.clone(), call.chunked()] {
            assert!(closes(&call.await), "{}", operation.name);
        }
    }
}

async fn body_of_limit_length_is_accepted() {
    let org = quiet_org();
    let [in_body, _] = one_of_each_style();
    // White space is counted, and otherwise ignored.
    let body = format!("{{{}}}", " ".repeat(1_024 * 1_024 - 2));
    let answer = in_body
        .by(&org.members.member.token)
        .body(body.clone())
        .await;
    assert_eq!(answer.status, 400, "it is read, and lacks its fields");
    let answer = in_body.by(&org.members.member.token).body(body + " ").await;
    assert_eq!(answer.status, 413);
}

async fn body_of_other_content_type_is_rejected() {
    let [in_body, in_headers] = one_of_each_style();
    let as_text = |operation: &Operation| {
        let call = operation.call.clone().without("content-type");
        call.header("content-type", "text/plain")
            .body("memoryIds=1")
    };
    insta::assert_snapshot!(error(&as_text(&in_body).await), @"415 unsupported_media_type: the body must be JSON with content type application/json and no content encoding");
    for operation in Operation::every(quiet_org()) {
        let answer = as_text(&operation).await;
        assert_eq!(answer.status, 415, "{}", operation.name);
        assert_eq!(operation.error_of(&answer).0, "unsupported_media_type");
    }
    let with = async |name: &str, value: &str| {
        let call = in_headers
            .anonymous()
            .bearer(&quiet_org().members.viewer.token);
        let call = call.without(name).header(name, value).body("{}");
        call.await.status.as_u16()
    };
    for content_type in [
        "",
        "application/xml",
        "application/jsonp",
        "application/x-www-form-urlencoded",
        "application/json; charset=utf-16",
        "application/json, application/json",
    ] {
        assert_eq!(
            with("content-type", content_type).await,
            415,
            "{content_type}"
        );
    }
    let without = in_headers
        .anonymous()
        .bearer(&quiet_org().members.viewer.token);
    assert_eq!(without.body("{}").await.status, 415);
}

async fn body_with_content_encoding_is_rejected() {
    for operation in Operation::every(quiet_org()) {
        for encoding in ["gzip", "br", "identity, gzip"] {
            let call = operation.call.clone().without("content-type");
            let call = call.header("content-type", "application/json").body("{}");
            let answer = call.header("content-encoding", encoding).await;
            assert_eq!(answer.status, 415, "{} {encoding}", operation.name);
        }
    }
}

async fn content_type_may_name_utf_8() {
    let org = quiet_org();
    let [operation, _] = one_of_each_style();
    for content_type in [
        "application/json; charset=utf-8",
        "Application/JSON;charset=\"UTF-8\"",
    ] {
        let call = operation
            .by(&org.members.viewer.token)
            .without("content-type");
        let answer = call.header("content-type", content_type).await;
        assert_eq!(answer.status, 403, "read, and then refused: {content_type}");
    }
}

async fn response_has_unique_identifier() {
    let mut seen = HashSet::new();
    for operation in Operation::every(quiet_org()) {
        for call in [
            operation.anonymous(),
            operation.call.clone().method(Method::PUT),
        ] {
            // An identifier from the client is ignored.
            let answer = call.header("request-id", "mine").await;
            let id = answer.header("request-id").to_owned();
            Uuid::parse_str(&id).expect("a UUID");
            assert!(seen.insert(id));
        }
    }
}
