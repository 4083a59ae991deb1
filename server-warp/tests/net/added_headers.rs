//! Tests of the headers that the server adds to each response, including those without a responder.

use std::time::Duration;

use knowledge_server::net::{AllowedOrigin, CorsConfig, InvalidConfig, NetConfig, RateLimitConfig};

use crate::support::{Running, SHORT, config, get, limit, post};

const APP: &str = "https://app.example.com";

fn origin(text: &str) -> AllowedOrigin {
    AllowedOrigin::Origin(text.to_owned())
}

fn cors() -> CorsConfig {
    CorsConfig::new([origin(APP)])
}

fn from_page(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: test\r\nOrigin: {APP}\r\n\r\n")
}

#[tokio::test]
async fn cors_headers_are_on_errors_of_the_server_itself() {
    let server = Running::start(NetConfig {
        cors: cors(),
        rate_limit: limit(100),
        request_timeout: SHORT,
        ..config()
    })
    .await;
    for (number, (path, status)) in [("/", 200), ("/panic", 500), ("/never", 503)]
        .into_iter()
        .enumerate()
    {
        let answer = server.ask(from_page(path)).await;
        assert_eq!(answer.status, status);
        assert_eq!(answer.header("access-control-allow-origin"), Some(APP));
        assert_eq!(answer.remaining(), (99 - number).to_string());
    }
    let answer = server.ask(from_page("/healthz")).await;
    assert_eq!(answer.header("access-control-allow-origin"), Some(APP));
    assert_eq!(answer.header("ratelimit"), None);
}

#[tokio::test]
async fn rejected_body_counts_against_the_rate_limit() {
    let server = Running::start(NetConfig {
        rate_limit: limit(100),
        body_bytes_max: 10,
        ..config()
    })
    .await;
    let answer = server.ask(post("/echo", "longer than that")).await;
    assert_eq!((answer.status, answer.remaining()), (413, "99"));
    let answer = server.ask(get("/")).await;
    assert_eq!((answer.status, answer.remaining()), (200, "98"));
}

#[tokio::test]
async fn connection_outlives_a_rate_limited_request() {
    let server = Running::start(NetConfig {
        rate_limit: limit(1),
        ..config()
    })
    .await;
    let mut client = server.connect().await;
    client.send(get("/")).await;
    assert_eq!(client.answer().await.status, 200);
    let body = "x".repeat(200 * 1_024);
    for _ in 0..2 {
        client.send(post("/never", &body)).await;
        let answer = client.answer().await;
        assert_eq!(answer.status, 429);
        assert_eq!(answer.header("connection"), None);
        let wait = answer.header("retry-after").expect("a time");
        assert_eq!(
            answer.body,
            format!("POST /never RateLimited {{ retry_after: {wait}s }}")
        );
    }
}

#[test]
fn config_rejects_invalid_cors_and_rate_limits() {
    let refusal = |net: NetConfig| net.validate().expect_err("refused").to_string();
    let with_cors = |origins, credentials| NetConfig {
        cors: CorsConfig {
            credentials,
            ..CorsConfig::new(origins)
        },
        ..config()
    };
    assert_eq!(
        refusal(with_cors(vec![AllowedOrigin::Any], true)),
        "cors.credentials must be false if every origin is allowed; list the origins"
    );
    let path = vec![origin(APP), origin(&format!("{APP}/"))];
    assert!(refusal(with_cors(path, false)).starts_with("cors.origins must be a list of origins"));
    let mixed = vec![AllowedOrigin::Any, origin(APP)];
    assert_eq!(
        refusal(with_cors(mixed, false)),
        "cors.origins must be either * or a list of other origins"
    );
    let with_window = |window| NetConfig {
        rate_limit: RateLimitConfig { window, ..limit(1) },
        ..config()
    };
    for window in [
        Duration::ZERO,
        Duration::from_millis(1_500),
        Duration::from_secs(24 * 60 * 60 + 1),
    ] {
        assert_eq!(
            refusal(with_window(window)),
            "rate_limit.window must be whole seconds, between 1 s and a day"
        );
    }
    let InvalidConfig { field, .. } = NetConfig {
        rate_limit: limit(1_000_001),
        ..config()
    }
    .validate()
    .expect_err("refused");
    assert_eq!(field, "rate_limit.requests");
}
