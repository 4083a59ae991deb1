//! Tests of properties that all requests and responses share.

use std::collections::HashSet;

use knowledge_http_suite::rows;

use crate::support::{Running, config, get, post};

#[tokio::test]
async fn request_is_passed_on_unchanged() {
    let server = Running::start(config()).await;
    let answer = server
        .ask(
            "PATCH /v1/a%20b/../c?x=%31&y HTTP/1.1\r\nHost: test\r\nTest: \
              value\r\nContent-Length: 3\r\n\r\nabc",
        )
        .await;
    assert_eq!(
        answer.body,
        "PATCH /v1/a%20b/../c?x=%31&y test=value body=3"
    );
    let answer = server.ask("OPTIONS * HTTP/1.1\r\nHost: test\r\n\r\n").await;
    assert_eq!(answer.body, "OPTIONS * test= body=0");
}

#[tokio::test]
async fn connection_is_reused() {
    let server = Running::start(config()).await;
    let mut client = server.connect().await;
    for number in 0..50 {
        let body = format!("request {number}");
        client.send(post("/echo", &body)).await;
        assert_eq!(client.answer().await.body, body);
    }
}

#[tokio::test]
async fn pipelined_requests_get_responses_in_order() {
    let server = Running::start(config()).await;
    let mut client = server.connect().await;
    let requests: String = (0..50)
        .map(|number| post("/echo", &number.to_string()))
        .collect();
    client.send(requests).await;
    for number in 0..50 {
        assert_eq!(client.answer().await.body, number.to_string());
    }
}

#[tokio::test]
async fn connection_is_closed_on_request() {
    let server = Running::start(config()).await;
    let mut client = server.connect().await;
    client
        .send("GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
        .await;
    assert_eq!(client.answer().await.status, 200);
    assert!(client.closed_silently().await);

    let mut client = server.connect().await;
    client.send("GET / HTTP/1.0\r\n\r\n").await;
    assert_eq!(client.answer().await.status, 200);
    assert!(client.closed_silently().await);
}

#[tokio::test]
async fn head_response_has_length_and_no_body() {
    let server = Running::start(config()).await;
    let mut client = server.connect().await;
    client
        .send("HEAD /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\nhello")
        .await;
    let answer = client.answer_to_head().await;
    answer.assert_has(200, "content-length", "5");
    client.send(get("/path")).await;
    assert_eq!(client.answer().await.body, "GET /path test= body=0");
}

#[tokio::test]
async fn panic_yields_a_response_and_keeps_the_connection() {
    let server = Running::start(config()).await;
    let mut client = server.connect().await;
    for _ in 0..3 {
        client.send(get("/panic")).await;
        let answer = client.answer().await;
        answer.assert_is(500, "GET /panic Panicked");
        client.send(get("/after")).await;
        assert_eq!(client.answer().await.body, "GET /after test= body=0");
    }
}

#[tokio::test]
async fn response_has_unique_identifier() {
    let server = Running::start(config()).await;
    let mut client = server.connect().await;
    let mut identifiers = HashSet::new();
    for path in ["/", "/panic", "/healthz", "/readyz", "/"] {
        client.send(get(path)).await;
        let answer = client.answer().await;
        let identifier = answer.header("request-id").expect("an identifier");
        uuid::Uuid::parse_str(identifier).expect("a UUID");
        identifiers.insert(identifier.to_owned());
    }
    assert_eq!(identifiers.len(), 5);
}

#[tokio::test]
async fn invalid_http_is_rejected_and_closed() {
    let server = Running::start(config()).await;
    let long = "x".repeat(33 * 1_024);
    let of_lines = |count: usize| {
        let others = "Line: x\r\n".repeat(count - 1);
        format!("GET /healthz HTTP/1.1\r\nHost: test\r\n{others}\r\n")
    };
    for (request, status) in rows! {
        ("no HTTP at all\r\n\r\n".to_owned(), 400),
        (get(&format!("/{long}")), 431),
        (format!("GET / HTTP/1.1\r\nLong: {long}\r\n\r\n"), 431),
        (of_lines(101), 431),
        ("POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n".to_owned(), 400),
        ("GET /healthz HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("GET /healthz HTTP/1.1\r\nHost: test\r\nHost: other\r\n\r\n".to_owned(), 400),
    } {
        let mut client = server.connect().await;
        client.send(request).await;
        assert_eq!(client.answer().await.status, status);
        assert!(client.closed_silently().await);
    }
    let mut client = server.connect().await;
    client.send(of_lines(100)).await;
    assert_eq!(client.answer().await.status, 200);
}
