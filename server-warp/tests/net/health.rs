//! Tests of the health checks.

use crate::support::{Running, config, get, post};

#[tokio::test]
async fn health_check_is_handled_by_the_server_itself() {
    let server = Running::start(config()).await;
    server.stub.set_ready(false);
    let answer = server.ask(get("/healthz?from=probe")).await;
    answer.assert_is(200, r#"{"status":"ok"}"#);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
}

#[tokio::test]
async fn readiness_check_reports_the_responder() {
    let server = Running::start(config()).await;
    let answer = server.ask(get("/readyz")).await;
    answer.assert_is(200, r#"{"status":"ready"}"#);
    server.stub.set_ready(false);
    let answer = server.ask(get("/readyz")).await;
    answer.assert_is(503, r#"{"status":"not_ready"}"#);
    server.stub.set_ready(true);
    assert_eq!(server.ask(get("/readyz")).await.status, 200);
}

#[tokio::test]
async fn health_check_answers_head_like_get_without_body() {
    let server = Running::start(config()).await;
    let mut client = server.connect().await;
    client
        .send("HEAD /healthz HTTP/1.1\r\nHost: test\r\n\r\n")
        .await;
    let answer = client.answer_to_head().await;
    answer.assert_has(200, "content-length", "15");
    client
        .send("HEAD /readyz HTTP/1.1\r\nHost: test\r\n\r\n")
        .await;
    assert_eq!(client.answer_to_head().await.status, 200);
    client.send(get("/healthz")).await;
    assert_eq!(client.answer().await.body, r#"{"status":"ok"}"#);
}

#[tokio::test]
async fn health_check_requires_its_method_and_path() {
    let server = Running::start(config()).await;
    let answer = server.ask(post("/healthz", "{}")).await;
    answer.assert_has(405, "allow", "GET, HEAD");
    let answer = server.ask(get("/healthz/deeper")).await;
    assert_eq!(answer.body, "GET /healthz/deeper test= body=0");
}
