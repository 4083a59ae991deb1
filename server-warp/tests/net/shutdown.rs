//! Tests of the shutdown, with connections in any state.

use std::sync::Arc;
use std::time::Duration;

use knowledge_server::net::{BindError, NetConfig, Server};
use tokio::net::TcpStream;

use crate::support::{GUARD, Running, SHORT, Stub, config, get, guarded};

/// Starts a server with this shutdown time-out.
async fn server(shutdown_timeout: Duration) -> Running {
    Running::start(NetConfig {
        shutdown_timeout,
        ..config()
    })
    .await
}

/// Waits until the server accepts no more connections, the first step of a shutdown.
async fn refuses_connections(server: &Running) {
    guarded("connections to be refused", async {
        while TcpStream::connect(server.address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn request_in_flight_completes_on_shutdown() {
    let mut server = server(GUARD).await;
    let mut client = server.connect().await;
    client.send(get("/wait")).await;
    server.stub.entered(1).await;
    server.stop();
    refuses_connections(&server).await;
    server.stub.release(1);
    let answer = client.answer().await;
    assert_eq!(answer.body, "GET /wait test= body=0");
    assert_eq!(answer.header("connection"), Some("close"));
    assert!(client.closed_silently().await);
    let report = server.stopped().await;
    assert_eq!(report.connections_killed, 0);
}

#[tokio::test]
async fn shutdown_closes_idle_and_silent_connections_at_once() {
    // Both time-outs exceed the guard, so that waiting for one would fail the test.
    let mut server = Running::start(NetConfig {
        header_read_timeout: GUARD * 10,
        shutdown_timeout: GUARD * 10,
        ..config()
    })
    .await;
    let mut idle = server.connect().await;
    idle.send(get("/")).await;
    assert_eq!(idle.answer().await.status, 200);
    let mut silent = server.connect().await;
    server.stop();
    assert!(idle.closed_silently().await);
    assert!(silent.closed_silently().await);
    assert_eq!(server.stopped().await.connections_killed, 0);
}

#[tokio::test]
async fn shutdown_kills_partial_header_at_the_deadline() {
    let mut server = server(SHORT).await;
    let mut half = server.connect().await;
    half.send("GET / HTTP/1.1\r\nHo").await;
    half_is_read(&server).await;
    server.stop();
    assert!(half.closed_silently().await);
    let report = server.stopped().await;
    assert_eq!(
        (report.connections_accepted, report.connections_killed),
        (2, 1)
    );
}

#[tokio::test]
async fn shutdown_kills_stalled_body_at_the_deadline() {
    let mut server = server(SHORT).await;
    let mut client = server.connect().await;
    client
        .send(
            "POST /echo HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\nContent-Length: \
               10\r\n\r\n",
        )
        .await;
    assert_eq!(client.answer().await.status, 100);
    client.send("half").await;
    server.stop();
    assert!(client.closed_silently().await);
    assert_eq!(server.stopped().await.connections_killed, 1);
}

#[tokio::test]
async fn shutdown_kills_endless_handler_at_the_deadline() {
    let mut server = server(SHORT).await;
    let mut client = server.connect().await;
    client.send(get("/never")).await;
    server.stub.entered(1).await;
    server.stop();
    let stub = Arc::clone(&server.stub);
    assert_eq!(server.stopped().await.connections_killed, 1);
    assert_eq!(stub.dropped(), 1);
    assert!(client.closed_silently().await);
}

#[tokio::test]
async fn server_is_not_ready_during_shutdown() {
    let mut server = server(GUARD).await;
    let mut client = server.connect().await;
    client.send(get("/wait")).await;
    server.stub.entered(1).await;
    let mut half = server.connect().await;
    half.send("GET /readyz HTTP/1.1\r\n").await;
    half_is_read(&server).await;
    server.stop();
    refuses_connections(&server).await;
    half.send("Host: test\r\n\r\n").await;
    let answer = half.answer().await;
    answer.assert_is(503, r#"{"status":"shutting_down"}"#);
    server.stub.release(1);
    assert_eq!(client.answer().await.status, 200);
    assert_eq!(server.stopped().await.connections_killed, 0);
}

#[tokio::test]
async fn server_serves_and_is_not_ready_during_the_delay() {
    let mut server = Running::start(NetConfig {
        shutdown_delay: GUARD * 10,
        ..config()
    })
    .await;
    server.stop();
    // New connections are accepted meanwhile.
    guarded("the server not to be ready", async {
        while server.ask(get("/readyz")).await.status == 200 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let answer = server.ask(get("/readyz")).await;
    answer.assert_is(503, r#"{"status":"shutting_down"}"#);
    let answer = server.ask(get("/")).await;
    assert_eq!((answer.status, answer.header("connection")), (200, None));
}

#[tokio::test]
async fn shutdown_follows_the_delay() {
    let mut server = Running::start(NetConfig {
        shutdown_delay: SHORT,
        ..config()
    })
    .await;
    server.stop();
    refuses_connections(&server).await;
    assert_eq!(server.stopped().await.connections_killed, 0);
}

/// Waits until the server has read all data sent before.
///
/// It accepts and polls connections in order, so that an exchange on a later connection ends later.
async fn half_is_read(server: &Running) {
    assert_eq!(server.ask(get("/")).await.status, 200);
}

#[tokio::test]
async fn dropped_server_closes_everything() {
    let server = server(GUARD * 10).await;
    let mut client = server.connect().await;
    client.send(get("/never")).await;
    server.stub.entered(1).await;
    drop(server);
    assert!(client.closed_silently().await);
}

#[tokio::test]
async fn address_in_use_is_an_error() {
    let server = server(GUARD).await;
    let taken = NetConfig {
        address: server.address,
        ..config()
    };
    let error = Server::bind(taken, Stub::default())
        .await
        .err()
        .expect("the address is taken");
    assert!(
        matches!(error, BindError::Address { address, .. } if address == server.address),
        "{error}"
    );

    let useless = NetConfig {
        requests_in_work_max: 0,
        ..config()
    };
    let error = Server::bind(useless, Stub::default())
        .await
        .err()
        .expect("nothing can be served");
    assert_eq!(
        error.to_string(),
        "requests_in_work_max must be between 1 and 2,147,483,647"
    );
}
