//! Tests of clients that stop half-way.

use knowledge_server::net::NetConfig;

use crate::support::{Client, Running, SHORT, config, get, guarded, start_chunked};

async fn server_with_short_headers() -> Running {
    let header_read_timeout = SHORT;
    Running::start(NetConfig {
        header_read_timeout,
        ..config()
    })
    .await
}

async fn assert_still_serving(server: &Running) {
    let answer = server.ask(get("/still-there")).await;
    assert_eq!(answer.body, "GET /still-there test= body=0");
}

#[tokio::test]
async fn partial_header_is_closed() {
    let server = server_with_short_headers().await;
    let mut client = server.connect().await;
    client.send("GET / HTTP/1.1\r\nHost: te").await;
    assert!(client.closed_silently().await);
    assert_still_serving(&server).await;
}

#[tokio::test]
async fn silent_connection_is_closed() {
    let server = server_with_short_headers().await;
    let mut client = server.connect().await;
    assert!(client.closed_silently().await);
    assert_still_serving(&server).await;
}

#[tokio::test]
async fn idle_connection_is_closed_after_its_response() {
    let server = Running::start(NetConfig {
        idle_timeout: SHORT,
        ..config()
    });
    let server = server.await;
    let mut client = server.connect().await;
    client.send(get("/first")).await;
    assert_eq!(client.answer().await.status, 200);
    assert!(client.closed_silently().await);
    assert_still_serving(&server).await;
}

#[tokio::test]
async fn connection_may_be_idle_for_longer_than_a_header_takes() {
    let server = server_with_short_headers().await;
    let mut client = server.connect().await;
    for path in ["/first", "/second", "/third"] {
        client.send(get(path)).await;
        let expected = format!("GET {path} test= body=0");
        assert_eq!(client.answer().await.body, expected);
        tokio::time::sleep(SHORT * 3).await;
    }
    // The next header has the time of the first one.
    client.send("GET / HTTP/1.1\r\nHost: te").await;
    assert!(client.closed_silently().await);
    assert_still_serving(&server).await;
}

#[tokio::test]
async fn dripping_header_is_closed() {
    let server = server_with_short_headers().await;
    let mut client = server.connect().await;
    client.send("GET / HTTP/1.1\r\n").await;
    // An occasional byte does not extend the time-out; writes fail once the server has closed.
    let dripping = async {
        while client.stream.try_write(b"x").is_ok() {
            tokio::time::sleep(SHORT / 10).await;
        }
    };
    guarded("the server to close", dripping).await;
}

#[tokio::test]
async fn handler_is_not_bound_by_header_timeout() {
    let server = server_with_short_headers().await;
    let mut client = server.connect().await;
    client.send(get("/wait")).await;
    server.stub.entered(1).await;
    tokio::time::sleep(SHORT * 3).await;
    server.stub.release(1);
    assert_eq!(client.answer().await.body, "GET /wait test= body=0");
}

async fn server_with_short_bodies() -> Running {
    Running::start(NetConfig {
        body_read_timeout: SHORT,
        linger_timeout: SHORT,
        ..config()
    })
    .await
}

async fn assert_stalled_body_is_refused(mut client: Client) {
    let answer = client.answer().await;
    assert_eq!(answer.status, 503);
    assert_eq!(answer.body, "POST /echo BodyTimedOut { retry_after: 1s }");
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(answer.header("connection"), Some("close"));
    assert!(client.closed_silently().await);
}

#[tokio::test]
async fn stalled_body_is_rejected_and_closed() {
    let server = server_with_short_bodies().await;
    let mut client = server.connect().await;
    client
        .send("POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\n\r\nhalf")
        .await;
    assert_stalled_body_is_refused(client).await;
    assert_still_serving(&server).await;
}

#[tokio::test]
async fn stalled_chunked_body_is_rejected_and_closed() {
    let server = server_with_short_bodies().await;
    let mut client = server.connect().await;
    client.send(start_chunked("/echo") + "4\r\nhalf\r\n").await;
    assert_stalled_body_is_refused(client).await;
}

#[tokio::test]
async fn slow_request_is_rejected_and_its_work_dropped() {
    let server = Running::start(NetConfig {
        request_timeout: SHORT,
        ..config()
    })
    .await;
    let mut client = server.connect().await;
    client.send(get("/never")).await;
    let answer = client.answer().await;
    assert_eq!(answer.status, 503);
    assert_eq!(answer.body, "GET /never TimedOut { retry_after: 1s }");
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(server.stub.dropped(), 1);

    // The body was complete, so that the connection can be reused.
    client.send(get("/again")).await;
    assert_eq!(client.answer().await.status, 200);
}

#[tokio::test]
async fn client_that_reads_nothing_is_closed() {
    let mut server = Running::start(NetConfig {
        write_stall_timeout: SHORT,
        ..config()
    })
    .await;
    let mut client = server.connect().await;
    client.send(get("/large")).await;
    guarded("the answer to begin", client.stream.readable())
        .await
        .expect("the answer begins");
    // The client keeps its end open and reads nothing, so that only the time-out can end this in
    // time.
    server.stop();
    assert_eq!(server.stopped().await.connections_killed, 0);
    drop(client);
}
