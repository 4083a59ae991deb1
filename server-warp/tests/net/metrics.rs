//! Tests of the network's metrics: each changes with its cause, by the right amount.

use std::time::Duration;

use knowledge_http_suite::rows;
use knowledge_server::net::{BODY_BYTES_UNCOUNTED, NetConfig, RateLimitConfig, TlsConfig};
use knowledge_server::private_file;

use crate::support::exposition::Exposition;
use crate::support::{Running, SHORT, config, get, guarded, post, start_chunked};

const ANSWERED: &str = "knowledge_http_requests_total";
const REJECTED: &str = "knowledge_http_requests_rejected_total";
pub(crate) const CLOSED: &str = "knowledge_http_connections_closed_total";
const OPEN: &str = "knowledge_http_connections_open";
const IN_WORK: &str = "knowledge_http_requests_in_work";
const BODY_BYTES_MAX: usize = 64 * 1_024;

/// Returns a configuration with short time-outs.
fn hasty() -> NetConfig {
    NetConfig {
        header_read_timeout: SHORT,
        body_read_timeout: SHORT,
        request_timeout: 2 * SHORT,
        write_stall_timeout: SHORT,
        shutdown_timeout: SHORT,
        body_bytes_max: BODY_BYTES_MAX,
        ..config()
    }
}

impl Running {
    fn numbers(&self) -> Exposition {
        Exposition::parse(&self.metrics.render())
    }

    pub(crate) fn number(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.numbers().value(name, labels)
    }

    /// Waits until a metric has this value; the server notices some events later than its client.
    pub(crate) async fn number_becomes(&self, name: &str, labels: &[(&str, &str)], value: f64) {
        guarded(&format!("{name} {labels:?} to be {value}"), async {
            while self.number(name, labels) != value {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
    }

    /// Returns the number of rejected requests, by reason.
    fn rejected(&self, reason: &str) -> f64 {
        self.number(REJECTED, &[("reason", reason)])
    }
}

#[tokio::test]
async fn responses_are_counted_with_time_and_bytes() {
    let server = Running::start(config()).await;
    server.ask(post("/echo", "hello")).await;
    server.ask(get("/healthz")).await;
    server.ask(get("/healthz")).await;
    server.ask(post("/readyz", "no")).await;

    let numbers = server.numbers();
    let unmatched = [("route", "unmatched"), ("method", "POST")];
    let answered = |route, method, status| {
        let labels = [("route", route), ("method", method), ("status", status)];
        numbers.value(ANSWERED, &labels)
    };
    assert_eq!(answered("unmatched", "POST", "200"), 1.0);
    assert_eq!(answered("/healthz", "GET", "200"), 2.0);
    assert_eq!(answered("/readyz", "POST", "405"), 1.0);
    let duration = "knowledge_http_request_duration_seconds";
    assert_eq!(numbers.value(&format!("{duration}_count"), &unmatched), 1.0);
    assert!(numbers.value(&format!("{duration}_sum"), &unmatched) > 0.0);
    let bytes = numbers.value("knowledge_http_request_body_bytes_total", &[]);
    assert_eq!(bytes, 5.0, "probes read no body");
    let bytes = numbers.value("knowledge_http_response_body_bytes_total", &[]);
    assert_eq!(
        bytes,
        ("hello".len() + 2 * r#"{"status":"ok"}"#.len()) as f64
    );
}

#[tokio::test]
async fn invented_paths_and_methods_create_no_series() {
    let server = Running::start(config()).await;
    server.ask(get("/one")).await;
    server.ask("FLY /one HTTP/1.1\r\nHost: test\r\n\r\n").await;
    let before = server.numbers().series(ANSWERED);
    for number in 0..20 {
        server.ask(get(&format!("/v1/{number}?x={number}"))).await;
        let request = format!("FLY{number} /one HTTP/1.1\r\nHost: test\r\n\r\n");
        server.ask(request).await;
    }
    assert_eq!(server.numbers().series(ANSWERED), before);
    let labels = [
        ("route", "unmatched"),
        ("method", "_OTHER"),
        ("status", "200"),
    ];
    assert_eq!(server.number(ANSWERED, &labels), 21.0);
}

#[tokio::test]
async fn requests_in_flight_are_those_without_a_response() {
    let server = Running::start(NetConfig {
        requests_in_work_max: 2,
        ..config()
    })
    .await;
    let in_work = || server.number(IN_WORK, &[]);
    assert_eq!(in_work(), 0.0);
    assert_eq!(
        server.number("knowledge_http_requests_in_work_max", &[]),
        2.0
    );
    let mut clients = [server.connect().await, server.connect().await];
    for client in &mut clients {
        client.send(get("/wait")).await;
    }
    server.stub.entered(2).await;
    assert_eq!(in_work(), 2.0);
    assert_eq!(server.rejected("in_work_full"), 0.0);
    assert_eq!(server.ask(get("/one-more")).await.status, 503);
    assert_eq!(server.rejected("in_work_full"), 1.0);

    // One client goes, the other gets its response.
    let [mut answered, gone] = clients;
    drop(gone);
    server
        .number_becomes("knowledge_http_requests_dropped_total", &[], 1.0)
        .await;
    assert_eq!(in_work(), 1.0);
    server.stub.release(1);
    assert_eq!(answered.answer().await.status, 200);
    server.number_becomes(IN_WORK, &[], 0.0).await;
}

#[tokio::test]
async fn rejected_requests_are_counted_by_reason() {
    let server = Running::start(hasty()).await;
    let large = "x".repeat(BODY_BYTES_MAX + 1);
    let mut client = server.connect().await;
    let causes = rows! {
        ("host_invalid", "GET /echo HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("body_too_large", post("/echo", &large), 413),
        ("body_unreadable", start_chunked("/echo") + "no length\r\n", 400),
        ("body_timed_out", start_chunked("/echo"), 503),
        ("timed_out", get("/never"), 503),
        ("panicked", get("/panic"), 500),
    };
    for (reason, request, status) in causes {
        assert_eq!(server.rejected(reason), 0.0, "{reason}");
        client = server.connect().await;
        client.send(request).await;
        assert_eq!(client.answer().await.status, status, "{reason}");
        assert_eq!(server.rejected(reason), 1.0, "{reason}");
    }
    drop(client);
}

#[tokio::test]
async fn bodies_beyond_memory_budget_are_counted() {
    let room_bytes = 2 * BODY_BYTES_UNCOUNTED;
    let server = Running::start(NetConfig {
        body_bytes_max: room_bytes,
        body_bytes_held_max: room_bytes,
        ..config()
    })
    .await;
    let chunk = "x".repeat(room_bytes);
    let mut held = server.connect().await;
    let start = start_chunked("/echo") + &format!("{room_bytes:x}\r\n{chunk}");
    held.send(start).await;
    let length = BODY_BYTES_UNCOUNTED * 3 / 2;
    let more = post("/echo", &"x".repeat(length));
    guarded("a body without room", async {
        while server.ask(&more).await.status != 503 {}
    })
    .await;
    assert_eq!(server.rejected("body_memory_full"), 1.0);
}

#[tokio::test]
async fn open_connections_are_counted() {
    let server = Running::start(NetConfig {
        connections_max: 7,
        ..config()
    })
    .await;
    assert_eq!(server.number("knowledge_http_connections_max", &[]), 7.0);
    let client = server.connect().await;
    server.number_becomes(OPEN, &[], 1.0).await;
    let second = server.connect().await;
    server.number_becomes(OPEN, &[], 2.0).await;
    drop((client, second));
    server.number_becomes(OPEN, &[], 0.0).await;
    let accepted = server.number("knowledge_http_connections_accepted_total", &[]);
    assert_eq!(accepted, 2.0);
    assert_eq!(server.number(CLOSED, &[("reason", "finished")]), 2.0);
}

#[tokio::test]
async fn closed_connections_are_counted_by_reason() {
    let server = Running::start(hasty()).await;
    let finished = "GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
    let causes = rows! {
        ("finished", finished, false),
        ("header_timeout", "GET / HTTP/1.1\r\n", false),
        ("malformed", "this is no HTTP\r\n\r\n", false),
        ("write_stalled", "GET /large HTTP/1.1\r\nHost: test\r\n\r\n", false),
        ("broken", "GET / HT", true),
    };
    for (reason, sent, goes) in causes {
        let labels = [("reason", reason)];
        assert_eq!(server.number(CLOSED, &labels), 0.0, "{reason}");
        let mut client = server.connect().await;
        client.send(sent).await;
        // A client that stays waits for the server to close.
        let _stays = (!goes).then_some(client);
        server.number_becomes(CLOSED, &labels, 1.0).await;
    }
}

#[tokio::test]
async fn shutdown_closes_idle_connections_and_kills_unfinished_ones() {
    let mut server = Running::start(NetConfig {
        shutdown_timeout: SHORT,
        ..config()
    })
    .await;
    let metrics = server.metrics.clone();
    let _idle = server.connect().await;
    let mut busy = server.connect().await;
    busy.send(get("/never")).await;
    server.stub.entered(1).await;
    server.number_becomes(OPEN, &[], 2.0).await;
    server.stop();
    server.stopped().await;
    let numbers = Exposition::parse(&metrics.render());
    assert_eq!(numbers.value(CLOSED, &[("reason", "shutdown")]), 1.0);
    assert_eq!(numbers.value(CLOSED, &[("reason", "killed")]), 1.0);
    assert_eq!(numbers.value(OPEN, &[]), 0.0);
}

#[tokio::test]
async fn rate_limited_requests_are_counted() {
    let limit = RateLimitConfig {
        requests: 1,
        window: Duration::from_secs(3_600),
    };
    let server = Running::start(NetConfig {
        rate_limit: limit,
        ..config()
    })
    .await;
    for (status, expected) in [(200, 0.0), (429, 1.0), (429, 2.0)] {
        assert_eq!(server.ask(get("/")).await.status, status);
        let limited = "knowledge_http_requests_rate_limited_total";
        assert_eq!(server.number(limited, &[]), expected);
        assert_eq!(server.rejected("rate_limited"), expected);
    }
}

#[tokio::test]
async fn failed_handshakes_are_counted() {
    let directory = tempfile::tempdir().expect("a directory");
    let (certificate, key) = (
        directory.path().join("server.pem"),
        directory.path().join("server.key"),
    );
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    std::fs::write(&certificate, made.cert.pem()).expect("write the certificate");
    private_file::create(&key, &made.signing_key.serialize_pem()).expect("write the key");
    let server = Running::start(NetConfig {
        tls: TlsConfig {
            handshake_timeout: SHORT,
            ..TlsConfig::new(&certificate, &key)
        },
        ..config()
    })
    .await;
    let labels = [("reason", "handshake")];
    assert_eq!(server.number(CLOSED, &labels), 0.0);
    // One client sends something other than TLS, the other nothing.
    let mut noise = server.connect().await;
    noise.send([0x16, 0xff, 0xff, 0xff, 0xff, 0xff]).await;
    server.number_becomes(CLOSED, &labels, 1.0).await;
    let _silent = server.connect().await;
    server.number_becomes(CLOSED, &labels, 2.0).await;
}
