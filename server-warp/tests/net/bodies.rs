//! Tests of request bodies: complete, too large and broken.

use knowledge_server::net::{BODY_BYTES_UNCOUNTED, NetConfig};

use crate::support::{Answer, Client, Running, config, get, post, start_chunked};

const LIMIT_BYTES: usize = 32 * 1_024;

async fn server() -> Running {
    Running::start(NetConfig {
        body_bytes_max: LIMIT_BYTES,
        ..config()
    })
    .await
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

fn assert_too_large(answer: &Answer) {
    assert_eq!(answer.status, 413);
    assert_eq!(
        answer.body,
        "POST /echo BodyTooLarge { limit_bytes: 32768 }"
    );
    assert_eq!(answer.header("connection"), Some("close"));
    assert!(answer.header("request-id").is_some());
}

#[tokio::test]
async fn body_in_many_chunks_arrives_complete() {
    let server = server().await;
    let mut client = server.connect().await;
    client.send(start_chunked("/echo")).await;
    let mut whole = String::new();
    for number in 0..100 {
        let text = format!("chunk {number}, ");
        client.send(chunk(&text)).await;
        whole += &text;
    }
    client.send("0\r\n\r\n").await;
    let answer = client.answer().await;
    assert_eq!((answer.status, answer.body), (200, whole));

    client.send(get("/again")).await;
    assert_eq!(client.answer().await.status, 200);
}

#[tokio::test]
async fn body_of_limit_length_is_accepted() {
    let server = server().await;
    let body = "x".repeat(LIMIT_BYTES);
    let answer = server.ask(post("/echo", &body)).await;
    assert_eq!((answer.status, answer.body.len()), (200, LIMIT_BYTES));
    let chunked = start_chunked("/echo") + &chunk(&body) + "0\r\n\r\n";
    let answer = server.ask(chunked).await;
    assert_eq!((answer.status, answer.body.len()), (200, LIMIT_BYTES));
}

#[tokio::test]
async fn empty_body_is_accepted() {
    let server = server().await;
    let answer = server.ask(post("/echo", "")).await;
    answer.assert_is(200, "");
    let answer = server.ask(start_chunked("/echo") + "0\r\n\r\n").await;
    answer.assert_is(200, "");
}

#[tokio::test]
async fn chunked_body_beyond_limit_is_rejected_before_its_end() {
    let server = server().await;
    let mut client = server.connect().await;
    client.send(start_chunked("/echo")).await;
    client.send(chunk(&"x".repeat(LIMIT_BYTES))).await;
    client.send(chunk("x")).await;
    assert_too_large(&client.answer().await);
    // The server discards the rest, and does not parse what follows as a request.
    client.send(chunk(&"x".repeat(LIMIT_BYTES))).await;
    client
        .send("0\r\n\r\n".to_owned() + &get("/smuggled"))
        .await;
    assert!(client.closed_silently().await);
}

#[tokio::test]
async fn content_length_beyond_limit_is_rejected_before_the_body() {
    let server = server().await;
    let mut client = server.connect().await;
    client
        .send("POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 32769\r\n\r\n")
        .await;
    assert_too_large(&client.answer().await);
    client.send("x".repeat(LIMIT_BYTES + 1)).await;
    assert!(client.closed_silently().await);
}

#[tokio::test]
async fn client_that_sends_all_before_reading_gets_the_error() {
    let server = server().await;
    // Far more than the buffers of both ends hold.
    let body = "x".repeat(32 * 1_024 * 1_024);
    let mut client = server.connect().await;
    client.send(post("/echo", &body)).await;
    assert_too_large(&client.answer().await);

    let mut client = server.connect().await;
    client
        .send(start_chunked("/echo") + &chunk(&body) + "0\r\n\r\n")
        .await;
    assert_too_large(&client.answer().await);
    assert!(client.closed_silently().await);
}

#[tokio::test]
async fn client_that_expects_continue_gets_the_error() {
    let server = server().await;
    let expect = |length: usize| {
        format!(
            "POST /echo HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\nContent-Length: \
             {length}\r\n\r\n"
        )
    };
    let mut client = server.connect().await;
    client.send(expect(LIMIT_BYTES + 1)).await;
    assert_too_large(&client.answer().await);
    assert!(client.closed_silently().await);

    let mut client = server.connect().await;
    client.send(expect(4)).await;
    assert_eq!(client.answer().await.status, 100);
    client.send("body").await;
    assert_eq!(client.answer().await.body, "body");
}

#[tokio::test]
async fn malformed_chunk_is_rejected() {
    let server = server().await;
    let mut client = server.connect().await;
    client.send(start_chunked("/echo") + "no length\r\n").await;
    let answer = client.answer().await;
    answer.assert_is(400, "POST /echo BodyUnreadable");
    assert!(client.closed_silently().await);
}

/// No other coding is decoded: a proxy that decodes it would see another body.
#[tokio::test]
async fn transfer_coding_other_than_chunked_is_rejected() {
    let server = server().await;
    for coding in [
        "gzip, chunked",
        "identity, chunked",
        "chunked, chunked",
        "chunked\r\nTransfer-Encoding: chunked",
        "gzip\r\nTransfer-Encoding: chunked",
    ] {
        let mut client = server.connect().await;
        let start = format!("POST /echo HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: {coding}");
        client.send(start + "\r\n\r\n").await;
        let answer = client.answer().await;
        answer.assert_is(400, "POST /echo BodyUnreadable");
        assert!(client.closed_silently().await, "{coding}");
    }
    let upper = "POST /echo HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: Chunked\r\n\r\n";
    let answer = server.ask(format!("{upper}0\r\n\r\n")).await;
    assert_eq!(answer.status, 200);
}

/// The chunks decide, and nothing else is read from the connection (RFC 9112, 6.3).
#[tokio::test]
async fn length_beside_chunks_is_ignored_and_closes() {
    let server = server().await;
    let (length, chunked) = ("Content-Length: 3\r\n", "Transfer-Encoding: chunked\r\n");
    for headers in [[length, chunked], [chunked, length]] {
        let mut client = server.connect().await;
        let start = format!("POST /echo HTTP/1.1\r\nHost: test\r\n{}", headers.concat());
        client
            .send(start + "\r\n" + &chunk("body") + "0\r\n\r\n")
            .await;
        let answer = client.answer().await;
        answer.assert_is(200, "body");
        assert_eq!(answer.header("connection"), Some("close"));
        assert!(client.closed_silently().await);
    }
}

#[tokio::test]
async fn bodies_beyond_memory_budget_are_rejected_small_ones_served() {
    let server = Running::start(NetConfig {
        body_bytes_max: LIMIT_BYTES,
        body_bytes_held_max: LIMIT_BYTES,
        ..config()
    })
    .await;
    // It reserves the counted part of a nearly complete body, beside which its client gets no more.
    let mut held = server.connect().await;
    held.send(start_chunked("/echo")).await;
    held.send(chunk(&"x".repeat(LIMIT_BYTES))).await;
    let large =
        start_chunked("/echo") + &chunk(&"x".repeat(BODY_BYTES_UNCOUNTED * 3 / 2)) + "0\r\n\r\n";
    let refused = wait_for_status(&server, &large, 503).await;
    assert_eq!(
        refused.body,
        "POST /echo BodyMemoryFull { retry_after: 1s }"
    );
    assert_eq!(refused.header("retry-after"), Some("1"));
    let other = server.ask_from(2, &large).await;
    assert_eq!(other.status, 200, "the rest is left to other clients");
    let small = "x".repeat(BODY_BYTES_UNCOUNTED);
    assert_eq!(server.ask(post("/echo", &small)).await.body, small);

    // A complete body releases its reservation, and so does a client that goes.
    held.send("0\r\n\r\n").await;
    assert_eq!(held.answer().await.status, 200);
    wait_for_status(&server, &large, 200).await;
    held.send(start_chunked("/echo")).await;
    held.send(chunk(&"x".repeat(LIMIT_BYTES))).await;
    wait_for_status(&server, &large, 503).await;
    drop(held);
    wait_for_status(&server, &large, 200).await;
}

/// Repeats the request until it gets this status.
///
/// The server may not have read another client's data yet.
async fn wait_for_status(server: &Running, request: &str, status: u16) -> Answer {
    crate::support::guarded("the status", async {
        loop {
            let mut client = Client::connect(server.address).await;
            client.send(request).await;
            let answer = client.answer().await;
            if answer.status == status {
                return answer;
            }
        }
    })
    .await
}
